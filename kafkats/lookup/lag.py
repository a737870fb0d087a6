"""The lag of consumer groups in time (KIP-33's use case 4), by logs or by a lookup table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkats import paths, search
from kafkats.errors import KafkatsError
from kafkats.logdir.steady import steady
from kafkats.lookup.consumer_groups import Committed

if TYPE_CHECKING:
    from kafkats.tables import View

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
Row = dict[str, int | str]
"""A row of LAG."""

REASONS: Final = {
    "behind": "records are left to read",
    "caught-up": "it has read all there is",
    "beyond-end": "it has committed more than there is: offsets of another cluster, or a cut log",
    "deleted": "what it would read next is gone; the rest is counted from the log start",
    "no-commit": "it has committed nothing here",
    "no-timestamps": "records are left to read, and the next one has no timestamp",
    "no-partition": "the partition is not in what was looked at",
    "not-covered": "the table begins later than what it reads next",
    "unreadable": "the partition cannot be read; the evidence says why",
}


class _Position(NamedTuple):
    """The columns of LAG that the partition's records or a table's cells give. -1: unknown."""

    reason: str
    evidence: str = ""
    log_start_offset: int = -1
    log_end_offset: int = -1
    newest_timestamp: int = -1
    next_timestamp: int = -1


def lag(
    committed: Iterable[Committed], partitions: Iterable[search.PartitionUnit], *, now_ms: int
) -> pa.Table:
    """Return rows of LAG from the partitions' own records.

    An unreadable partition becomes a row, not an error.
    """
    committed = list(committed)
    wanted = {(one.topic, one.partition) for one in committed}
    units: dict[tuple[str, int], search.PartitionUnit] = {}
    for unit in partitions:
        name = paths.parse_partition(unit.partition_dir)
        if name is not None and (key := (name.topic, name.partition)) in wanted:
            units.setdefault(key, unit)
    by_partition: dict[tuple[str, int], list[int]] = {}
    for number, one in enumerate(committed):
        by_partition.setdefault((one.topic, one.partition), []).append(number)
    rows: dict[int, Row] = {}
    for key, numbers in by_partition.items():
        positions = _of_partition([committed[number] for number in numbers], units.get(key))
        for number, position in zip(numbers, positions, strict=True):
            rows[number] = _row(committed[number], position, now_ms)
    return pa.Table.from_pylist([rows[number] for number in sorted(rows)], LAG)


def _of_partition(
    committed: Sequence[Committed], unit: search.PartitionUnit | None
) -> list[_Position]:
    gone = [_Position("no-partition")] * len(committed)
    if unit is None:
        return gone
    if unit.hidden:
        return [_Position("unreadable", unit.hidden)] * len(committed)
    positions = steady(unit.path, lambda: _searched(committed, unit), _failed, live=unit.live)
    return gone if positions is None else positions


def _failed(positions: list[_Position]) -> bool:
    return any(position.reason == "unreadable" for position in positions)


def _searched(committed: Sequence[Committed], unit: search.PartitionUnit) -> list[_Position]:
    try:
        with search.open_unit(unit) as partition:
            newest = search.find_exact(partition, search.Word.MAX_TIMESTAMP, depth="tail").timestamp
            return [_position(partition, one.offset, newest) for one in committed]
    except KafkatsError as e:
        return [_Position("unreadable", str(e))] * len(committed)


def _position(partition: search.Partition, offset: int, newest: int) -> _Position:
    start, end = partition.log_start_offset, partition.log_end_offset
    known = _Position("no-commit", "", start, end, newest)
    if offset < 0:
        return known
    if offset >= end:
        return known._replace(reason="caught-up" if offset == end else "beyond-end")
    hit = partition.record_from(offset)
    if hit is None:  # only offsets without records remain, after compaction
        return known._replace(reason="caught-up", evidence="no record behind it")
    left = "behind" if hit.timestamp != -1 else "no-timestamps"
    return known._replace(
        reason="deleted" if offset < start else left,
        evidence=f"record {hit.offset}",
        next_timestamp=hit.timestamp,
    )


def _row(one: Committed, position: _Position, now_ms: int) -> Row:
    start, end = position.log_start_offset, position.log_end_offset
    end = one.log_end if end < 0 else end
    upcoming, newest = position.next_timestamp, position.newest_timestamp
    lag_ms = age_ms = -1
    if position.reason == "caught-up":
        lag_ms = age_ms = 0
    elif upcoming != -1:
        lag_ms = max(newest - upcoming, 0) if newest != -1 else -1
        age_ms = max(now_ms - upcoming, 0)
    return {
        "group": one.group,
        "topic": one.topic,
        "partition": one.partition,
        "offset": one.offset,
        **position._asdict(),
        "log_end_offset": end,
        "lag": max(end - max(one.offset, start), 0) if one.offset >= 0 and end >= 0 else -1,
        "lag_ms": lag_ms,
        "age_ms": age_ms,
    }


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


def _by_cells(committed: Iterable[Committed], view: View) -> Iterator[tuple[Committed, _Position]]:
    columns = ("timestamp", "offset", "record_timestamp", "log_start_offset", "log_end_offset")
    cells = {name: np.asarray(view.rows[name].to_numpy(), np.int64) for name in columns}
    for one in committed:
        rows = view.slices.get((one.topic, one.partition))
        if rows is None:
            yield one, _Position("no-partition")
            continue
        yield one, _by_cell(one.offset, {name: column[rows] for name, column in cells.items()})


def _by_cell(offset: int, cells: dict[str, NDArray[np.int64]]) -> _Position:
    start, end = (int(cells[name].max()) for name in ("log_start_offset", "log_end_offset"))
    timed = cells["record_timestamp"][cells["record_timestamp"] != -1]
    newest = int(timed.max()) if len(timed) else -1
    known = _Position("no-commit", "", start, end, newest)
    if offset < 0:
        return known
    if 0 <= end <= offset:
        return known._replace(reason="caught-up" if offset == end else "beyond-end")
    before = np.flatnonzero((cells["offset"] >= 0) & (cells["offset"] <= offset))
    if not len(before):
        return known._replace(reason="not-covered")
    last = before[-1]
    itself = int(cells["offset"][last]) == offset
    return known._replace(
        reason="deleted" if offset < start else "behind",
        evidence="its own timestamp"
        if itself
        else "that time or later, by the last cell before it",
        next_timestamp=int(cells["record_timestamp" if itself else "timestamp"][last]),
    )
