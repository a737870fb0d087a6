"""Retention inside segments: golden directories without their expired heads, loaded by Kafka's own log as after a clean stop."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import Final

import pyarrow as pa

from conformance.repair import circumstances
from conformance.tally import Tally
from conformance.workers import Ask
from kafkats import paths
from kafkats.config.policy import Policy
from kafkats.flow.apply import apply_partition, partition_works, rounds, summarize
from kafkats.formats import dispatch
from kafkats.inspect.inventory import inventory_units
from kafkats.inspect.verify import VerifyOptions, verify_unit
from kafkats.plans.facts import ACTIONS, SEGMENTS
from kafkats.plans.run import run_of
from kafkats.plans.units import list_units
from kafkats.retention.expired_heads import look_at, plan_inside
from kafkats.retention.plan import RetainOptions
from kafkats.split.parts import PARTS
from tests.golden import case

LOADED: Final = "retention inside segments: the log starts with the rest, no file is changed"
CASES: Final = {
    name: name.rpartition("-")[2]
    for kind in ("retention", "rolling", "transactions")
    for name in (f"{kind}-2.8.2", f"{kind}-4.3.1")
}
"""Directories whose broker is one that can be asked."""
_GIVEN: Final = {"cleanup.policy": "delete", "retention.ms": 1}
_POLICY: Final = Policy.model_validate({"topics": {"*": _GIVEN, "__*": _GIVEN}})
_BUILT: Final = (paths.LOG, paths.OFFSET_INDEX, paths.TIME_INDEX, paths.TXN_INDEX)


def compare(name: str, ask: Ask, tally: Tally) -> None:
    """Half of what lies there expires, batch by batch; the high watermarks are at the log ends."""
    one, work = case(name), Path.cwd() / f"heads-{name}-{os.getpid()}"
    root = work / "data"
    root.mkdir(parents=True)
    one.unpack(one.states[0] if one.kind == "retention" else one.states[-1], root)
    for partition in cut(root):
        logs = sorted(int(log.stem) for log in partition.glob("*.log"))
        answer = ask(CASES[name])(
            "load", partition, "--out", work / "loaded", *circumstances(one, partition)
        )
        shutil.rmtree(work / "loaded", ignore_errors=True)
        ours = {
            path.name: _sha256(path) for path in partition.iterdir() if path.name.endswith(_BUILT)
        }
        theirs = {
            path: facts["sha256"]
            for path, facts in answer.get("files", {}).items()
            if path.endswith(_BUILT)
        }
        said = answer.get("log_start_offset", answer), theirs
        tally.same(LOADED, CASES[name], name, partition.name, (logs[0], ours), said)
    shutil.rmtree(work)


def cut(root: Path) -> list[Path]:
    """The partitions whose log begins inside of what was a segment."""
    largest, ends = {}, {}
    for name in sorted({
        unit.partition_dir for unit in list_units([root]) if unit.base_offset >= 0
    }):
        datas = [log.read_bytes() for log in sorted((root / name).glob("*.log"))]
        found = [batch.max_timestamp for data in datas for batch in dispatch.batches(data)]
        ends[name] = max(
            (batch.last_offset + 1 for data in datas for batch in dispatch.batches(data)), default=0
        )
        largest[name] = sorted(timestamp for timestamp in found if timestamp > 0)
    marks = [
        f"{name.rpartition('-')[0]} {name.rpartition('-')[2]} {ends[name]}" for name in largest
    ]
    (root / "replication-offset-checkpoint").write_text(
        "\n".join(["0", str(len(marks)), *marks, ""])
    )
    cuts = []
    for name, timestamps in largest.items():
        if timestamps and _applied(root / name, timestamps[len(timestamps) // 2]):
            cuts.append(root / name)
    return cuts


def _applied(partition: Path, limit_ms: int) -> bool:
    """Delete what is older; whether a head was among it."""
    units = [unit for unit in list_units([partition]) if unit.base_offset >= 0]
    made, _ = plan_inside(
        units, pa.Table.from_batches([inventory_units(units)], SEGMENTS), _POLICY, RetainOptions(limit_ms, before_ms=limit_ms),
        look=lambda targets: pa.Table.from_batches(map(look_at, targets), PARTS),
        verify=lambda chosen: pa.Table.from_batches((verify_unit(unit, VerifyOptions()) for unit in chosen), SEGMENTS),
    )  # fmt: skip
    works = [work for together in rounds(partition_works(made, run_of(made))) for work in together]
    done = summarize(pa.Table.from_batches([apply_partition(work) for work in works], ACTIONS))
    if done["exit_code"]:
        raise RuntimeError(f"{partition}: {done['errors']}")
    return bool(made.header["totals"]["heads"])


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
