"""A check that cannot say no is a defect: one wrong byte, or one lost word, must be reported by each of them."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from conformance import recovery, repair
from conformance.dump_log import dump_log
from conformance.judge import Judge
from conformance.recovery import VERSIONS, Recovered, Subject, rebuilt
from conformance.tally import Tally
from kafkats.index.build import Built

CHECK = "self-test: one tampered byte is reported"


def _tampered_index(one: Subject, rule: str) -> Built:
    built = rebuilt(one, rule)
    return replace(built, offset_index=_flipped(built.offset_index))


def _tampered_time_index(one: Subject, rule: str) -> Built:
    built = rebuilt(one, rule)
    return replace(built, time_index=_flipped(built.time_index))


def _flipped(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


def test_recovery(asked: list[Subject], tally: Tally, work: Path) -> None:
    """Of each version: both files of one subject, tampered, must be called different."""
    for version in VERSIONS:
        chosen = next(s for s in asked if _fits(s, version))
        for builder in (_tampered_index, _tampered_time_index):
            quiet = Tally(Console(file=io.StringIO()))
            recovery.compare([chosen], version, quiet, work, builder=builder)
            tally.same(
                CHECK, version.kafka, "recover", builder.__name__, bool(quiet.differences), True
            )


def _fits(one: Subject, version: recovery.Version) -> bool:
    built = rebuilt(one, version.rule)
    readable = version.magic == 2 or not built.facts.magics[2]
    return readable and len(built.offset_index) > 8 and len(built.time_index) > 12


def test_repaired(one: repair.Repair, recovered: Recovered, judge: Judge, tally: Tally) -> None:
    """In a repaired root: each written file with a tampered byte, and an answer that was never given."""
    copy = _copied(one)
    for check, tamper, ask in (
        ("written", ".index", lambda quiet: repair.compare_written(copy, recovered, quiet)),
        ("written", ".timeindex", lambda quiet: repair.compare_written(copy, recovered, quiet)),
        ("times", ".timeindex", lambda quiet: repair.ask_times(copy, judge, quiet)),
    ):
        shutil.rmtree(copy.root)
        shutil.copytree(one.root, copy.root, symlinks=True)
        for path in _written(copy, tamper):
            # Searches by time are led astray by the first entry, hash comparisons by any byte.
            path.write_bytes(
                _misleading(path.read_bytes()) if check == "times" else _flipped(path.read_bytes())
            )
        quiet = Tally(Console(file=io.StringIO()))
        ask(quiet)
        tally.same(CHECK, "-", check, f"{tamper} of {one}", bool(quiet.differences), True)


def test_dump_log(one: repair.Repair, tally: Tally) -> None:
    copy = _copied(one)
    for kind in (".index", ".timeindex"):
        path = next(path for path in _written(copy, kind) if path.stat().st_size > 12)
        intact = path.read_bytes()
        path.write_bytes(_flipped(intact))
        said = dump_log([path], copy.work)
        path.write_bytes(intact)
        tally.same(
            CHECK, "4.3.1", "kafka-dump-log", f"{kind} of {one}", bool(said.complaints), True
        )


def _copied(one: repair.Repair) -> repair.Repair:
    root = one.work / "tampered"
    if not root.exists():
        shutil.copytree(one.root, root, symlinks=True)
    items = [
        item | {"log_dir": item["log_dir"].replace(str(one.root), str(root))} for item in one.items
    ]
    return repair.Repair(one.case, one.state, root, one.rule, one.work, items, [])


def _written(one: repair.Repair, kind: str) -> Iterator[Path]:
    return (path for _, path in one.written() if path.suffix == kind and path.stat().st_size)


def _misleading(timeindex: bytes) -> bytes:
    """Every entry's offset is the last one's: a search for an early time begins too late."""
    last = timeindex[-4:]
    return b"".join(timeindex[at : at + 8] + last for at in range(0, len(timeindex), 12))
