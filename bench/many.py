"""Many segments: an inventory of 100 000 small ones, warm, CPU of its only thread, and whether the
cost grows linearly; a plan rebuild of them by the ends of their files, from listing to digest,
beside opening and reading their three files in Python; plans over a million rows of facts.

`python -m bench.many COUNT` measures the plan rebuild of so many segments, with logs of 4 kB.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.harness import Figure, Figures, cpu_seconds, scratch, take_turns, tell, wall_seconds
from bench.segments import V2_100, Shape, make_log
from kafkats.config.policy import Policy
from kafkats.execution.garbage import collect_rarely
from kafkats.execution.local import LocalExecutor
from kafkats.findings import Finding
from kafkats.flow.looking import LogStages
from kafkats.inspect.inventory import inventory_units
from kafkats.logdir.checkpoints import EpochStart, encode_epochs
from kafkats.paths import (
    LEADER_EPOCH,
    LOG,
    OFFSET_INDEX,
    PARTITION_METADATA,
    TIME_INDEX,
    segment_file,
)
from kafkats.plans.dialects import units_in
from kafkats.plans.facts import SEGMENTS, finding_rows
from kafkats.plans.units import list_units
from kafkats.rebuild.plan import RebuildOptions, plan_rebuild

COUNT = 100_000
PER_PARTITION = 100
FEW = 3
ROWS = 1_000_000
ROUNDS = 4
AT_ONCE = 1000
READ = 64 * 1024
TOPIC_ID = "A" * 22
SMALL = Shape("v2 of 2 kB batches", 2, 100, per_batch=16)


def figures(*, small: bool = False) -> Figures:
    collect_rarely()  # as the processes of commands and tasks
    count, rows = (COUNT // 50, ROWS // 50) if small else (COUNT, ROWS)
    with scratch() as folder:
        tell(f"writing {count:,} segments")
        root = folder / "data"
        write_root(root, count)
        yield from _inventory(root, count)
        yield from _plan_rebuild(root, count)
        few = folder / "few"
        write_root(few, FEW * (count // 15), SMALL, FEW)
        yield _few(few, FEW * (count // 15))
        tell("removing them")
    for percent in (1, 100):
        facts = synthetic_facts(rows, percent)
        seconds = wall_seconds(partial(plan_rebuild, facts, RebuildOptions()))
        limit = 10 if percent == 1 else None
        yield Figure(
            f"plan over {rows:,} segments, {percent} % defective",
            seconds,
            "s",
            limit,
            at_least=False,
            detail="from facts to digest",
        )


def _inventory(root: Path, count: int) -> Figures:
    seen: dict[str, int] = {}

    def look(topics: str) -> float:
        began = time.perf_counter()
        cpu = cpu_seconds(lambda: seen.update({topics: take(root, topics).num_rows}))
        walls.append(time.perf_counter() - began)
        return cpu

    walls: list[float] = []
    costs = take_turns({"quarter": partial(look, "fourth"), "whole": partial(look, "*")}, ROUNDS)
    if seen != {"fourth": count // 4, "*": count}:
        raise RuntimeError(f"not every segment was counted: {seen}")
    seconds = statistics.median(costs["whole"])
    told = f"{seconds / count * 1e6:.0f} µs per segment of three files; wall {statistics.median(walls[3::2]):.1f} s"
    yield Figure(
        f"inventory of {count:,} segments, CPU", seconds, "s", 15, at_least=False, detail=told
    )
    growth = statistics.median(
        w / q / 4 for w, q in zip(costs["whole"], costs["quarter"], strict=True)
    )
    told = f"{statistics.median(costs['quarter']):.2f} s for {count // 4:,}"
    yield Figure(
        "the same / four times that of a quarter of them",
        growth,
        "x",
        1.2,
        at_least=False,
        detail=told,
    )


def _plan_rebuild(root: Path, count: int) -> Figures:
    def plan(topics: str) -> float:
        return cpu_seconds(lambda: decided.append(plan_by_ends(root, topics)))

    decided: list[int] = []
    contestants = {
        "read": partial(cpu_seconds, partial(_read_all, root)),
        "quarter": partial(plan, "fourth"),
        "plan": partial(plan, "*"),
    }
    costs = take_turns(contestants, ROUNDS)
    if set(decided) != {count // 4, count}:
        raise RuntimeError(f"not every segment was looked at: {decided}")
    name = (
        f"plan rebuild of {count:,} segments by their ends / opening and reading their files, CPU"
    )
    yield _beside_reading(name, costs, count)
    yield Figure(
        "the same / four times that of a quarter of them",
        statistics.median(p / q / 4 for p, q in zip(costs["plan"], costs["quarter"], strict=True)),
        "x",
        1.1,
        at_least=False,
        detail=f"{statistics.median(costs['quarter']):.2f} s for {count // 4:,}",
    )


def _few(root: Path, count: int) -> Figure:
    """Measure partitions of few segments: what a partition costs counts there."""
    contestants = {
        "read": partial(cpu_seconds, partial(_read_all, root)),
        "plan": partial(cpu_seconds, partial(plan_by_ends, root)),
    }
    costs = take_turns(contestants, ROUNDS)
    return _beside_reading(f"the same of {count:,} segments, {FEW} in a partition", costs, count)


def _beside_reading(name: str, costs: Mapping[str, Sequence[float]], count: int) -> Figure:
    """Return the cost of a plan beside that of opening and reading the files of the segments."""
    ours, theirs = (statistics.median(costs[one]) / count * 1e6 for one in ("plan", "read"))
    return Figure(
        name,
        statistics.median(p / r for p, r in zip(costs["plan"], costs["read"], strict=True)),
        "x",
        7,
        at_least=False,
        detail=f"{ours:.0f} µs per segment from listing to digest; reading {theirs:.1f} µs",
    )


def plan_by_ends(root: Path, topics: str = "*") -> int:
    """List, look and decide in this thread. Return how many segments were seen by their ends."""
    policy = Policy.model_construct()
    units = units_in([root], topics, policy=policy)
    stages = LogStages(LocalExecutor(1))
    looked = stages.look(units, rule="last-offset", policy=policy, depth="tail")
    plan = plan_rebuild(looked.segments, RebuildOptions())
    tails: int = plan.header["totals"]["depths"]["tail"]
    return tails


def _read_all(root: Path) -> None:
    """Open, read and close every file of every partition directory."""
    for partition in os.listdir(root):
        folder = f"{root}/{partition}"
        if not os.path.isdir(folder):
            continue
        for name in os.listdir(folder):
            fd = os.open(f"{folder}/{name}", os.O_RDONLY)
            os.read(fd, READ)
            os.close(fd)


def take(root: Path, topics: str = "*") -> pa.Table:
    """List as `kafkats inventory` does before it prints."""
    units = list(list_units([root], topics=topics))
    return pa.Table.from_batches([
        inventory_units(units[i : i + AT_ONCE]) for i in range(0, len(units), AT_ONCE)
    ])


def write_root(
    root: Path, count: int, shape: Shape = V2_100, per_partition: int = PER_PARTITION
) -> None:
    """Write partitions of segments with two batches each, as a stopped broker leaves them."""
    root.mkdir()
    (root / ".kafka_cleanshutdown").touch()
    (root / ".lock").touch()
    log = bytearray(make_log(shape, 1).data)
    sizes = []
    while len(sizes) < 2:
        sizes.append(12 + int.from_bytes(log[sum(sizes) + 8 : sum(sizes) + 12], "big"))
    records = shape.records
    log = log[: sum(sizes)]
    for n in range(count // per_partition):
        partition = root / f"{'rest' if n % 4 else 'fourth'}-{n}"
        partition.mkdir()
        (partition / LEADER_EPOCH).write_bytes(encode_epochs([EpochStart(0, 0)]))
        (partition / PARTITION_METADATA).write_text(f"version: 0\ntopic_id: {TOPIC_ID}")
        for s in range(per_partition):
            base = s * 2 * records
            log[:8] = base.to_bytes(8, "big")
            log[sizes[0] : sizes[0] + 8] = (base + records).to_bytes(8, "big")
            (partition / segment_file(base, LOG)).write_bytes(log)
            (partition / segment_file(base, OFFSET_INDEX)).write_bytes(
                (2 * records - 1).to_bytes(4, "big") + sizes[0].to_bytes(4, "big")
            )
            maximum = int.from_bytes(log[sizes[0] + 35 : sizes[0] + 43], "big")
            (partition / segment_file(base, TIME_INDEX)).write_bytes(
                maximum.to_bytes(8, "big") + (2 * records - 1).to_bytes(4, "big")
            )


def synthetic_facts(rows: int, percent: int, *, after: int = 0) -> pa.Table:
    """Return a sorted table of report.SEGMENTS.

    `percent` of a hundred segments lack their time index, and one in ten of these has a corrupt
    log. `after` is the number of partitions of 1000 segments that come before.
    """
    numbers = np.arange(rows)
    bad = numbers % 100 < percent
    corrupt = bad & (numbers // 100 % 10 == 0)
    names = range(after, after + -(-rows // 1000))
    partitions = pa.array([f"topic-{n // 100:04}-{n % 100:02}" for n in names])
    file_type = SEGMENTS.field("log").type
    columns = {
        "log_dir": _among(["/var/lib/kafka/data"], np.zeros(rows, np.int64)),
        "partition_dir": partitions.take(pa.array(numbers // 1000)),
        "topic": partitions.take(pa.array(numbers // 1000)),
        "base_offset": pa.array(numbers % 1000 * 1000),
        "next_base_offset": pa.array(numbers % 1000 * 1000 + 1000),
        "log": pa.StructArray.from_arrays([pa.array(numbers + 1)] * 4, fields=list(file_type)),
        "index": pa.StructArray.from_arrays([pa.array(numbers + 1)] * 4, fields=list(file_type)),
        "timeindex": pa.StructArray.from_arrays(
            [pa.array(numbers + 1)] * 4, fields=list(file_type), mask=pa.array(bad)
        ),
        "stop": _among(["", "bad-crc"], corrupt),
        "offset_index": _among(["equal"], np.zeros(rows, np.int64)),
        "time_index": _among(["equal", "missing"], bad),
        "worst": _among(["", "damage"], bad),
        "findings": pa.array(
            [[_finding(n % 1000 * 1000)] if bad[n] else [] for n in range(rows)],
            SEGMENTS.field("findings").type,
        ),
        "rebuilt_timeindex_sha256": _among(["0" * 64], np.zeros(rows, np.int64)),
    }
    for field in SEGMENTS:
        columns.setdefault(field.name, _plain(field, rows))
    return pa.table({field.name: columns[field.name] for field in SEGMENTS}, schema=SEGMENTS)


def _finding(base_offset: int) -> dict[str, Any]:
    return finding_rows([
        Finding("missing-index", segment_file(base_offset, TIME_INDEX), "the file does not exist")
    ])[0]


def _among(words: list[str], which: NDArray[Any]) -> pa.Array:
    return pa.array(words).take(pa.array(which.astype(np.int64)))


def _plain(field: pa.Field, rows: int) -> pa.Array:
    """Return a column of falses, zeros, empty strings or nulls."""
    zero: dict[pa.DataType, Any] = {pa.bool_(): False, pa.int64(): 0, pa.string(): ""}
    value = zero.get(field.type)
    return (
        pa.nulls(rows, field.type)
        if value is None
        else pa.array([value], field.type).take(pa.array(np.zeros(rows, np.int64)))
    )


def main(count: int) -> None:
    with scratch() as folder:
        tell(f"writing {count:,} segments")
        write_root(folder / "data", count, SMALL)
        for figure in _plan_rebuild(folder / "data", count):
            assert isinstance(figure, Figure)
            print(f"{figure.value_text:>10}  {figure.name}  ({figure.detail})", flush=True)
        tell("removing them")


if __name__ == "__main__":
    main(int(sys.argv[1]))
