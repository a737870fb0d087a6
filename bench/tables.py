"""Lookup tables: their size beside the proposed index of 12 bytes per partition and step, the time
to build them, and the speed of lookups.

arrivals    Poisson, 3 500 partitions (70 topics of 50), rates log-uniform from 0.01 to 100 records
            a second, CreateTime in milliseconds, seed 1
57 MB       the size in the proposal for these partitions and a day of minutes, taken here as
            57 000 000 bytes
build       a partition with one record a second and a day of minutes, built from its log and
            indexes, warm; beside a search for each cell
lookup      random partitions and times in one table, into offset, timestamp, epoch, segment and
            reason
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bench.harness import (
    MB,
    Figure,
    Figures,
    Table,
    cpu_seconds,
    scratch,
    take_turns,
    tell,
    times_cheaper,
    wall_seconds,
)
from bench.segments import write_indexes
from kafkats import search, tables
from kafkats.formats import v2
from kafkats.formats.model import Record, TimestampType
from kafkats.paths import LOG, segment_file
from kafkats.tables.cells import build_cells
from kafkats_model.index import minute_index

PARTITIONS = 3500
PER_TOPIC = 50
DAY_MS = 86_400_000
MINUTE_MS = 60_000
BEGIN_MS = 1_600_000_000_000 // DAY_MS * DAY_MS
RATES = (0.01, 100.0)
TOLD_MB = 57
LOOKUPS = 1_000_000
ROUNDS = 5
FIVE = ("topic", "partition", "timestamp", "offset", "reason")


def figures(*, small: bool = False) -> Figures:
    partitions = PARTITIONS // 50 if small else PARTITIONS
    told = TOLD_MB * MB * partitions / PARTITIONS
    for step, word in ((MINUTE_MS, "minutes"), (1000, "seconds")):
        size = minute_index.size_bytes(PARTITIONS, 24, step_ms=step)
        yield Figure(
            f"the proposed index, 3 500 partitions, a day at {word}",
            size / MB,
            "MB",
            detail=f"{size / 2**20:,.1f} MiB",
        )
    with scratch() as folder:
        tell(f"a table of {partitions} partitions at minutes")
        rows = [poisson(n, MINUTE_MS) for n in range(partitions)]
        seconds = wall_seconds(
            lambda: tables.write(
                folder / "day", rows, BEGIN_MS, BEGIN_MS + DAY_MS, step_ms=MINUTE_MS
            )
        )
        yield Figure(
            "its rows sorted, packed and written",
            seconds,
            "s",
            detail=f"{partitions * 1440:,} rows",
        )
        view = tables.read(folder / "day")
        weights = column_bytes(folder / "day")
        size, five = sum(tables_bytes(folder / "day")), sum(weights[name] for name in FIVE)
        yield Figure(
            "table, all columns / 57 MB",
            size / told,
            "x",
            1 / 3,
            at_least=False,
            detail=f"{size / MB:.1f} MB",
        )
        yield Figure(
            "topic, partition, timestamp, offset, reason / 57 MB",
            five / told,
            "x",
            1 / 10,
            at_least=False,
            detail=f"{five / MB:.2f} MB",
        )
        some = max(partitions // 60, 1)
        rows = [poisson(n * 60, 1000) for n in range(some)]
        tables.write(folder / "seconds", rows, BEGIN_MS, BEGIN_MS + DAY_MS, step_ms=1000)
        size, ours = (
            sum(tables_bytes(folder / "seconds")),
            minute_index.size_bytes(some, 24, step_ms=1000),
        )
        yield Figure(
            "table at seconds, every 60th partition / the proposed index",
            size / ours,
            "x",
            detail=f"{size / MB:.1f} / {ours / MB:.1f} MB",
        )
        yield _lookups(view)
        yield from _build(folder, 50 if small else 1)
    share = [
        (name, f"{weight:,}", f"{8 * weight / view.rows.num_rows:.2f}")
        for name, weight in weights.items()
    ]
    yield Table(
        "Columns of the table at minutes", ("column", "bytes", "bits per row"), tuple(share)
    )


def _lookups(view: tables.View) -> Figure:
    chance = np.random.default_rng(2)
    partitions = chance.integers(0, len(view.partitions), LOOKUPS)
    times = chance.integers(BEGIN_MS, BEGIN_MS + DAY_MS, LOOKUPS)
    tables.lookup(view, partitions[:10], times[:10])
    seconds = sorted(
        wall_seconds(partial(tables.lookup, view, partitions, times)) for _ in range(ROUNDS)
    )[ROUNDS // 2]
    return Figure(
        "lookups in one table",
        LOOKUPS / seconds / 1e6,
        "M/s",
        5,
        detail=f"{LOOKUPS:,} in {seconds * 1000:.0f} ms",
    )


def _build(folder: Path, less: int) -> Figures:
    tell("a partition with a record a second")
    path = folder / "events-0"
    path.mkdir()
    write_day(path, 86_400 // less)
    cells = tables.grid(BEGIN_MS, BEGIN_MS + DAY_MS // less, MINUTE_MS)

    def at_once(exact: bool) -> None:
        with search.Partition(path, clean=True) as partition:
            build_cells(partition, "events", 0, cells, exact=exact)

    def one_by_one() -> None:
        with search.Partition(path, clean=True) as partition:
            for cell in cells.tolist():
                search.find_exact(partition, cell, depth="tail")

    costs = take_turns({
        "tail": lambda: cpu_seconds(partial(at_once, False)),
        "exact": lambda: cpu_seconds(partial(at_once, True)),
        "search": lambda: cpu_seconds(one_by_one),
    }, ROUNDS)  # fmt: skip
    for name, told in (("tail", "by its time index"), ("exact", "by all batch headers")):
        cost = sorted(costs[name])[ROUNDS // 2]
        detail = f"{cost * PARTITIONS:,.0f} s of CPU for 3 500"
        yield Figure(
            f"build of a partition's {len(cells)} cells {told}", cost * 1000, "ms", detail=detail
        )
    yield Figure(
        "build by its time index / a search for each cell",
        times_cheaper(costs, "tail", "search"),
        "x",
    )


def poisson(number: int, step_ms: int) -> pa.RecordBatch:
    """Return a day of cells of one partition, as a build would find them."""
    chance = np.random.default_rng([1, number])
    rate = float(np.exp(chance.uniform(*np.log(RATES))))
    count = DAY_MS // step_ms
    # one more step, whose records close the last cells
    arrivals = chance.poisson(rate * step_ms / 1000, count + 1)
    first_offset = int(chance.integers(0, 10**9))
    before = first_offset + np.concatenate(([0], np.cumsum(arrivals)[:-1]))
    cells = BEGIN_MS + step_ms * np.arange(count + 1, dtype=np.int64)
    # the least of so many uniform ones
    earliest = 1 - (1 - chance.random(count + 1)) ** (1 / np.maximum(arrivals, 1))
    record = np.where(arrivals > 0, cells + (earliest * step_ms).astype(np.int64), 2**62)
    record = np.minimum.accumulate(record[::-1])[::-1][:count]
    return rows_of(
        number, cells[:count], before[:count], record, first_offset, int(before[-1] + arrivals[-1])
    )


def rows_of(
    number: int,
    cells: NDArray[np.int64],
    offset: NDArray[np.int64],
    record: NDArray[np.int64],
    start: int,
    end: int,
) -> pa.RecordBatch:
    """Return rows of TABLE. A record at 2^62 is none."""
    count, none = len(cells), record == 2**62
    words = ["exact", "first-after", "past-end"]
    reasons = np.where(none, 2, np.where(record == cells, 0, 1)).astype(np.int32)
    segment = np.maximum(offset // 1_000_000 * 1_000_000, start)

    def same(value: int, kind: pa.DataType) -> pa.Array:
        return pa.array(np.full(count, value), kind)

    columns = [
        pa.DictionaryArray.from_arrays(same(0, pa.int32()), [f"topic-{number // PER_TOPIC:03d}"]),
        same(number % PER_TOPIC, pa.int32()),
        pa.array(cells),
        pa.array(np.where(none, -1, offset)),
        pa.DictionaryArray.from_arrays(pa.array(reasons), words),
        pa.array(np.where(none, -1, record)),
        pa.array(np.where(none, -1, segment)),
        pa.array(np.where(none, -1, 3), pa.int32()),
        same(start, pa.int64()),
        same(end, pa.int64()),
        same(tables.TABLE_VERSION, pa.int32()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=tables.TABLE)


def write_day(path: Path, count: int) -> None:
    """Write a segment with its indexes: `count` records of 100 bytes, one per batch.

    Their times are random, one second apart on average.
    """
    chance = np.random.default_rng(3)
    times = BEGIN_MS + np.sort(chance.integers(0, count * 1000, count))
    value = bytes(100)
    batches = (
        v2.encode_batch([Record(n, at, TimestampType.CREATE_TIME, b"key", value)], leader_epoch=3)
        for n, at in enumerate(times.tolist())
    )
    log = path / segment_file(0, LOG)
    log.write_bytes(b"".join(batches))
    write_indexes(log)


def tables_bytes(folder: Path) -> list[int]:
    """Return the sizes of a table's files, including the manifest."""
    return [file.stat().st_size for file in folder.iterdir()]


def column_bytes(folder: Path) -> dict[str, int]:
    """Return the compressed bytes by column, over all files."""
    found: dict[str, int] = dict.fromkeys(tables.TABLE.names, 0)
    for file in folder.glob("*.parquet"):
        facts = pq.read_metadata(file)
        for group in range(facts.num_row_groups):
            for column in range(facts.num_columns):
                one = facts.row_group(group).column(column)
                found[one.path_in_schema] += one.total_compressed_size
    return found
