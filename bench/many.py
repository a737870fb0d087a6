"""Many segments: an inventory of 100 000 small ones, warm, CPU of its only thread, and whether the
cost grows linearly; plans over a million rows of facts.
"""

from __future__ import annotations

import statistics
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.harness import Figure, Figures, cpu_seconds, scratch, take_turns, tell, wall_seconds
from bench.segments import V2_100, make_log
from kafkats.findings import Finding
from kafkats.inspect.inventory import inventory_units
from kafkats.paths import LOG, OFFSET_INDEX, TIME_INDEX, segment_file
from kafkats.plans.facts import SEGMENTS, finding_rows
from kafkats.plans.units import list_units
from kafkats.rebuild.plan import RebuildOptions, plan_rebuild

COUNT = 100_000
PER_PARTITION = 100
ROWS = 1_000_000
ROUNDS = 2
AT_ONCE = 1000


def figures(*, small: bool = False) -> Figures:
    count, rows = (COUNT // 50, ROWS // 50) if small else (COUNT, ROWS)
    yield from _inventory(count)
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


def _inventory(count: int) -> Figures:
    with scratch() as folder:
        tell(f"writing {count:,} segments")
        root = folder / "data"
        write_root(root, count)
        seen: dict[str, int] = {}

        def look(topics: str) -> float:
            began = time.perf_counter()
            cpu = cpu_seconds(lambda: seen.update({topics: take(root, topics).num_rows}))
            walls.append(time.perf_counter() - began)
            return cpu

        walls: list[float] = []
        costs = take_turns(
            {"quarter": partial(look, "fourth"), "whole": partial(look, "*")}, ROUNDS
        )
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
        tell("removing them")


def take(root: Path, topics: str = "*") -> pa.Table:
    """List as `kafkats inventory` does before it prints."""
    units = list(list_units([root], topics=topics))
    return pa.Table.from_batches([
        inventory_units(units[i : i + AT_ONCE]) for i in range(0, len(units), AT_ONCE)
    ])


def write_root(root: Path, count: int) -> None:
    """Write partitions of 100 segments with two batches each, as a stopped broker leaves them."""
    root.mkdir()
    (root / ".kafka_cleanshutdown").touch()
    (root / ".lock").touch()
    log = bytearray(make_log(V2_100, 1)[: 2 * 16_200].data)
    sizes = []
    while len(sizes) < 2:
        sizes.append(12 + int.from_bytes(log[sum(sizes) + 8 : sum(sizes) + 12], "big"))
    records = V2_100.records
    log = log[: sum(sizes)]
    for n in range(count // PER_PARTITION):
        partition = root / f"{'rest' if n % 4 else 'fourth'}-{n}"
        partition.mkdir()
        for s in range(PER_PARTITION):
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
