"""The records of some partitions, kept in a report of lookup for pictures.

clouds.parquet    record_scatter.CLOUDS: records of a time as points, and how late they came
cells.parquet     tables.TABLE: a small table of that time
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from kafkats.execution.executor import Executor
from kafkats.flow.searching import partition_bytes
from kafkats.lookup.record_scatter import CLOUDS, MOST_BYTES, cloud_unit
from kafkats.paths import parse_partition
from kafkats.plans.facts import write_table
from kafkats.plans.rows import grouped
from kafkats.search import PartitionUnit
from kafkats.tables import TABLE, grid
from kafkats.tables.cells import build_unit

PARTITIONS: Final = 12
CELLS: Final = 600
SECOND_MS: Final = 1000
MOST_MS: Final = 2**61

Key = tuple[str, int]


def keep_clouds(
    executor: Executor,
    folder: Path,
    units: Sequence[PartitionUnit],
    wanted: Sequence[Key],
    begin: int,
    end: int,
) -> None:
    """Write the records of that time (ms, `end` not included) of the `wanted` partitions."""
    make = partial(cloud_unit, from_ms=begin, to_ms=end)
    rows = executor.map("clouds", named(units, wanted), make, CLOUDS, size=read_of)
    write_table(folder / "clouds.parquet", rows)


def keep_around(
    executor: Executor,
    folder: Path,
    units: Sequence[PartitionUnit],
    found: pa.Table,
    around_ms: int,
) -> int:
    """Write records and a table of the time around the answers `found` (LOOKUP), of the partitions
    where these lie furthest apart.

    Returns the table's step in ms; 0 where there is no such time, and nothing is written.
    """
    times = pc.unique(found.filter(pc.equal(found["word"], ""))["target_ms"]).to_pylist()
    begin = max(min(min(times, default=0) - around_ms, MOST_MS), -MOST_MS)
    end = min(max(times, default=0) + around_ms + 1, MOST_MS)
    if not times or begin >= end:
        return 0
    answers = found.filter(pc.greater_equal(found["offset"], 0))
    ends = [("offset", "min"), ("offset", "max")]
    rows = grouped(answers, ["topic", "partition"], ends).to_pylist()
    rows.sort(
        key=lambda row: (row["offset_min"] - row["offset_max"], row["topic"], row["partition"])
    )
    wanted = [(row["topic"], row["partition"]) for row in rows[:PARTITIONS]]
    step_ms = max((end - begin) // CELLS // SECOND_MS, 1) * SECOND_MS
    make = partial(build_unit, cells=grid(begin // step_ms * step_ms, end, step_ms))
    cells = executor.map(
        "cells",
        named(units, wanted),
        make,
        TABLE,
        size=lambda unit: partition_bytes(unit, ".timeindex"),
    )
    write_table(folder / "cells.parquet", cells)
    keep_clouds(executor, folder, units, wanted, begin, end)
    return step_ms


def read_of(unit: PartitionUnit) -> int:
    return min(partition_bytes(unit, ".log"), MOST_BYTES)


def named(units: Sequence[PartitionUnit], wanted: Sequence[Key]) -> list[PartitionUnit]:
    """The units of these partitions; the first of those that have the same."""
    found: dict[Key, PartitionUnit] = {}
    for unit in units:
        name = parse_partition(unit.partition_dir)
        if name is not None:
            found.setdefault((name.topic, name.partition), unit)
    return [found[key] for key in wanted if key in found]
