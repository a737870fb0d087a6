"""The lag of consumer groups in time (KIP-33's use case 4), by logs or by a lookup table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from kafkats import paths, search
from kafkats.errors import KafkatsError
from kafkats.logdir.steady import steady
from kafkats.lookup.consumer_groups import Committed

if TYPE_CHECKING:
    from kafkats.tables import View
    from kafkats.tables.cells import PartitionFacts

LAG: Final = pa.schema([
    ("group", pa.string()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),            # the next one it reads; -1: none committed
    ("log_start_offset", pa.int64()),  # -1: unknown; likewise below
    ("log_end_offset", pa.int64()),
    ("lag", pa.int64()),               # offsets left to read
    ("next_timestamp", pa.int64()),    # ms, of the next record it reads
    ("newest_timestamp", pa.int64()),  # ms, the largest in the partition
    ("lag_ms", pa.int64()),            # newest - next; 0 when it has read everything
    ("age_ms", pa.int64()),            # now - next
    ("reason", pa.string()),
    ("evidence", pa.string()),
])  # fmt: skip
"""One row per group and partition, in the given order."""

REASONS: Final = {
    "behind": "records are left to read",
    "caught-up": "it has read all there is",
    "beyond-end": "it has committed more than there is: another cluster's offsets, or the log was cut",
    "deleted": "what it would read next is gone; the rest is counted from the log start",
    "no-commit": "it has committed nothing here",
    "no-timestamps": "records are left to read, and the next one has no timestamp",
    "no-partition": "the partition is not in what was looked at",
    "not-covered": "the table begins later than what it reads next",
    "unreadable": "the partition cannot be read; the evidence says why",
}


def lag(
    committed: Iterable[Committed], partitions: Iterable[PartitionFacts], *, now_ms: int
) -> pa.Table:
    """Return rows of LAG from the partitions' own records.

    An unreadable partition becomes a row, not an error.
    """
    committed = list(committed)
    wanted = {(one.topic, one.partition) for one in committed}
    units: dict[tuple[str, int], PartitionFacts] = {}
    for unit in partitions:
        name = paths.parse_partition(unit.partition_dir)
        if name is not None and (key := (name.topic, name.partition)) in wanted:
            units.setdefault(key, unit)
    rows: list[dict[str, Any] | None] = [None] * len(committed)
    by_partition: dict[tuple[str, int], list[int]] = {}
    for number, one in enumerate(committed):
        by_partition.setdefault((one.topic, one.partition), []).append(number)
    for key, numbers in by_partition.items():
        found = _of_partition([committed[number] for number in numbers], units.get(key))
        for number, row in zip(numbers, found, strict=True):
            rows[number] = _row(committed[number], row, now_ms)
    return pa.Table.from_pylist([row for row in rows if row is not None], LAG)


def _of_partition(
    committed: Sequence[Committed], unit: PartitionFacts | None
) -> list[dict[str, Any]]:
    if unit is None:
        return [{"reason": "no-partition"} for _ in committed]
    if unit.hidden:
        return [{"reason": "unreadable", "evidence": unit.hidden} for _ in committed]
    found = steady(unit.path, lambda: _searched(committed, unit), _failed, live=unit.live)
    return [{"reason": "no-partition"} for _ in committed] if found is None else found


def _failed(rows: list[dict[str, Any]]) -> bool:
    return any(row["reason"] == "unreadable" for row in rows)


def _searched(committed: Sequence[Committed], unit: PartitionFacts) -> list[dict[str, Any]]:
    try:
        with search.open_partition(
            unit.path,
            log_start_offset=unit.log_start_offset,
            high_watermark=unit.high_watermark,
            clean=unit.clean,
            live=unit.live,
        ) as partition:
            newest = search.find_exact(partition, search.MAX_TIMESTAMP, depth="tail").timestamp
            return [_asked(partition, one.offset, newest) for one in committed]
    except KafkatsError as e:
        return [{"reason": "unreadable", "evidence": str(e)} for _ in committed]


def _asked(partition: search.Partition, offset: int, newest: int) -> dict[str, Any]:
    start, end = partition.log_start_offset, partition.log_end_offset
    known: dict[str, Any] = {
        "log_start_offset": start,
        "log_end_offset": end,
        "newest_timestamp": newest,
    }
    if offset < 0:
        return known | {"reason": "no-commit"}
    if offset >= end:
        return known | {"reason": "caught-up" if offset == end else "beyond-end"}
    hit = partition.record_from(offset)
    if hit is None:  # only offsets without records remain, after compaction
        return known | {"reason": "caught-up", "evidence": "no record behind it"}
    known |= {"next_timestamp": hit.timestamp, "evidence": f"record {hit.offset}"}
    if offset < start:
        return known | {"reason": "deleted"}
    return known | {"reason": "behind" if hit.timestamp != -1 else "no-timestamps"}


def _row(one: Committed, found: dict[str, Any], now_ms: int) -> dict[str, Any]:
    row = dict.fromkeys(LAG.names, -1) | {"evidence": ""} | one._asdict() | found
    row.pop("log_end", None)
    if row["log_end_offset"] < 0:
        row["log_end_offset"] = one.log_end
    first = max(one.offset, row["log_start_offset"])
    if one.offset >= 0 and row["log_end_offset"] >= 0:
        row["lag"] = max(row["log_end_offset"] - first, 0)
    if row["reason"] == "caught-up":
        row["lag_ms"] = row["age_ms"] = 0
    elif row["next_timestamp"] != -1:
        row["lag_ms"] = (
            max(row["newest_timestamp"] - row["next_timestamp"], 0)
            if row["newest_timestamp"] != -1
            else -1
        )
        row["age_ms"] = max(now_ms - row["next_timestamp"], 0)
    return row


# ---------------------------------------------------------------- by a table


def lag_by_table(committed: Iterable[Committed], view: View, *, now_ms: int) -> pa.Table:
    """Return rows of LAG from a lookup table, even for deleted data or an unreachable cluster.

    The last cell at or before the committed offset shows that the next record has the cell's time
    or a later one, unless records came out of order. If the cell's record is the next one, its own
    timestamp counts. So `lag_ms` and `age_ms` are upper bounds.
    """
    return pa.Table.from_pylist(
        [_row(one, row, now_ms) for one, row in _by_cells(committed, view)], LAG
    )


def _by_cells(
    committed: Iterable[Committed], view: View
) -> Iterator[tuple[Committed, dict[str, Any]]]:
    columns = ("timestamp", "offset", "record_timestamp", "log_start_offset", "log_end_offset")
    cells = {name: np.asarray(view.rows[name].to_numpy(), np.int64) for name in columns}
    slices = _slices(view)
    for one in committed:
        rows = slices.get((one.topic, one.partition))
        if rows is None:
            yield one, {"reason": "no-partition"}
            continue
        yield one, _by_cell(one.offset, {name: column[rows] for name, column in cells.items()})


def _slices(view: View) -> dict[tuple[str, int], slice]:
    """Return the slice of each partition's rows. The rows are sorted by partition."""
    numbers = view.rows["partition"].to_numpy()
    topics = view.rows["topic"].combine_chunks()
    codes = (topics.chunk(0) if isinstance(topics, pa.ChunkedArray) else topics).indices.to_numpy()
    changes = np.flatnonzero((np.diff(codes) != 0) | (np.diff(numbers) != 0)) + 1
    bounds = [0, *changes.tolist(), len(numbers)]
    return {
        key: slice(begin, end)
        for key, begin, end in zip(view.partitions, bounds, bounds[1:], strict=False)
    }


def _by_cell(offset: int, cells: dict[str, Any]) -> dict[str, Any]:
    start, end = (int(cells[name].max()) for name in ("log_start_offset", "log_end_offset"))
    timed = cells["record_timestamp"][cells["record_timestamp"] != -1]
    newest = int(timed.max()) if len(timed) else -1
    known: dict[str, Any] = {
        "log_start_offset": start,
        "log_end_offset": end,
        "newest_timestamp": newest,
    }
    if offset < 0:
        return known | {"reason": "no-commit"}
    if 0 <= end <= offset:
        return known | {"reason": "caught-up" if offset == end else "beyond-end"}
    before = np.flatnonzero((cells["offset"] >= 0) & (cells["offset"] <= offset))
    if not len(before):
        return known | {"reason": "not-covered"}
    last = before[-1]
    itself = int(cells["offset"][last]) == offset
    time = int(cells["record_timestamp" if itself else "timestamp"][last])
    evidence = "its own timestamp" if itself else "that time or later, by the last cell before it"
    return known | {
        "next_timestamp": time,
        "reason": "deleted" if offset < start else "behind",
        "evidence": evidence,
    }
