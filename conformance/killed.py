"""After kill -9: every finding of verify is held against what the broker makes of the directory at its next start."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from conformance.soaked import Broker
from conformance.tally import Tally
from kafkats import paths
from kafkats.inspect.verify import VerifyOptions, verify_unit
from kafkats.plans.facts import all_findings
from kafkats.plans.units import list_units

SO: Final = (
    "after kill -9 a finding is so: the next start mends it, and cuts or rewrites nothing else"
)
HEALTHY: Final = "after the recovery and a clean stop verify --deep finds nothing"
_INDEXES: Final = (paths.OFFSET_INDEX, paths.TIME_INDEX, paths.TXN_INDEX)
_INTERNAL: Final = ("__consumer_offsets", "__transaction_state")
_ALARMS: Final = ("damage", "danger")
_LEAST: Final = 200
"""Bytes of a log worth cutting."""


def compare_recovered(broker: Broker, tally: Tally) -> None:
    """Verify what was left, keep a copy, let the broker recover, stop it cleanly, and compare."""
    torn = _tear(broker.root)
    segments = _verified(broker.root)
    found = [f for f in all_findings(segments) if f["severity"] in _ALARMS]
    states = [f for f in all_findings(segments) if f["severity"] not in _ALARMS]
    told = [(f["partition_dir"], f["file"]) for f in found if f["kind"] == "torn-tail"]
    tally.same(
        SO,
        broker.version,
        "log",
        "a batch that is cut is found",
        (torn.parent.name, torn.name) in told,
        True,
    )
    before = broker.work / "killed"
    shutil.copytree(broker.root, before)
    broker.start(at_rest=True)
    broker.stop()
    tally.console.print(
        f"  after kill -9: {len(found)} findings of damage or danger, {len(states)} others; {segments.num_rows} segments"
    )
    for finding in found:
        tally.console.print(
            f"    {finding['kind']} {finding['partition_dir']}/{finding['file']}: {finding['reason']}"
        )
    _compare(before, broker, segments, found, tally)
    left = [f for f in all_findings(_verified(broker.root)) if f["severity"] in _ALARMS]
    tally.same(HEALTHY, broker.version, "soak", "findings", left[:3], [])


def _tear(root: Path) -> Path:
    """Cut the last batch of an active segment, which kill -9 alone does not do; returns its .log."""
    for directory in sorted(root.glob("[ip]*-[01]")):  # idempotent, plain, preallocated
        log = max(directory.glob(f"*{paths.LOG}"))
        if log.stat().st_size > _LEAST and not directory.name.startswith("preallocated"):
            os.truncate(log, log.stat().st_size - 10)
            return log
    raise AssertionError("no active segment has a batch")


def _verified(root: Path) -> pa.Table:
    options = VerifyOptions(deep=True)
    return pa.Table.from_batches([verify_unit(unit, options) for unit in list_units([root])])


def _compare(
    before: Path, broker: Broker, segments: pa.Table, found: list[dict[str, Any]], tally: Tally
) -> None:
    blamed: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for finding in found:
        blamed[finding["partition_dir"], finding["file"]].append(finding)
    rows = [row for row in segments.to_pylist() if row["base_offset"] >= 0]
    for row in rows:
        directory, log = row["partition_dir"], paths.segment_file(row["base_offset"], paths.LOG)
        if not (broker.root / directory).exists():  # its topic was being deleted
            continue
        blamed.pop((directory, log), None)
        valid = row["valid_bytes"]
        ours = _bytes(before / directory / log)[:valid]
        theirs = _bytes(broker.root / directory / log)
        what = f"{directory}/{log}"
        tally.same(
            SO,
            broker.version,
            "log",
            f"{what}: its first {valid} bytes",
            theirs[:valid] == ours,
            True,
        )
        appends = directory.rpartition("-")[0] in _INTERNAL  # coordinators write at a start
        if not appends and row["active"]:
            tally.same(
                SO,
                broker.version,
                "log",
                f"{what}: cut after its last whole batch",
                len(theirs),
                valid,
            )
        for kind in _INDEXES:
            _compare_index(
                before,
                broker,
                directory,
                paths.segment_file(row["base_offset"], kind),
                blamed,
                tally,
            )
    for (directory, file), findings in blamed.items():  # orphans, other small files
        there, was = broker.root / directory / file, before / directory / file
        mended = not there.exists() or _bytes(there) != _bytes(was)
        kinds = ", ".join(f["kind"] for f in findings)
        tally.same(
            SO,
            broker.version,
            "other",
            f"{directory}/{file}: {kinds}: the broker mends it",
            mended,
            True,
        )


def _compare_index(
    before: Path,
    broker: Broker,
    directory: str,
    file: str,
    blamed: dict[tuple[str, str], Any],
    tally: Tally,
) -> None:
    findings = blamed.pop((directory, file), None)
    if findings is None:
        return
    kinds = ", ".join(f["kind"] for f in findings)
    rewritten = _bytes(before / directory / file) != _bytes(broker.root / directory / file)
    tally.same(
        SO,
        broker.version,
        "index",
        f"{directory}/{file}: {kinds}: the broker rewrites it",
        rewritten,
        True,
    )


def _bytes(path: Path) -> bytes:
    with contextlib.suppress(FileNotFoundError):
        return path.read_bytes()
    return b""
