"""Read a table: as rows, and by many times at once."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from kafkats.kernels import cells as k
from kafkats.plans.rows import grouped
from kafkats.search.answers import REASONS
from kafkats.tables.schema import (
    OTHER_LOG,
    Ints,
    closed,
    ints,
    normal,
    order,
    taken,
    together,
    word_codes,
)
from kafkats.tables.spans import Span
from kafkats.tables.store import read_parts

NOT_COVERED: Final = "not-covered"
FOUND_WORDS: Final = (*sorted(REASONS), NOT_COVERED, OTHER_LOG)
"""Reasons by their number in `Found.reason`.

These are the reasons of a search, `other-log`, and `not-covered` for a missing cell. `coarse` here
means the answer of the cell before: no later record is missed from its offset on.
"""
_NUMBER: Final = {word: number for number, word in enumerate(FOUND_WORDS)}
_WORDS: Final = np.array(
    [_NUMBER[word] for word in ("exact", "first-after", "coarse", NOT_COVERED)], np.int64
)


class Found(NamedTuple):
    """The results of a lookup, one row per time, shape (n,).

    `offset` -1: none. `timestamp` (ms) and `leader_epoch` are those of the record at `offset`.
    """

    offset: Ints
    timestamp: Ints
    leader_epoch: NDArray[np.int32]
    segment: Ints
    reason: NDArray[np.int8]

    def words(self) -> list[str]:
        """Return the reasons as words of FOUND_WORDS."""
        return [FOUND_WORDS[number] for number in self.reason]


class Steps(NamedTuple):
    """The closed cells of a partition, one step as long as cells adjoin and have one offset.

    Begins and ends (ms, exclusive) and offsets, shape (n,), in the order of the rows.
    """

    begins: Ints
    ends: Ints
    offsets: Ints


@dataclass(frozen=True)
class View:
    """Rows of TABLE by topic, partition and timestamp, with the step and the built ranges."""

    rows: pa.Table
    step_ms: int
    covered: tuple[Span, ...]

    @cached_property
    def partitions(self) -> list[tuple[str, int]]:
        """Topic and partition, sorted. A partition's number is its index in this list."""
        codes, topics = word_codes(self.rows)
        numbers = ints(self.rows, "partition")
        return [(topics[codes[at]], int(numbers[at])) for at in self._begins.tolist()]

    def number(self, topic: str, partition: int) -> int:
        """Return a partition's number, -1 if the table does not have it."""
        return self._numbers.get((topic, partition), -1)

    def steps(self, topic: str, partition: int) -> Steps:
        """Return the steps of a partition, none if it has no closed cell. Rows need no order."""
        codes, topics = word_codes(self.rows)
        known = np.array([name == topic for name in topics] or [False])
        mine = known[codes] & (ints(self.rows, "partition") == partition) & closed(self.rows)
        times, offsets = ints(self.rows, "timestamp")[mine], ints(self.rows, "offset")[mine]
        breaks = (np.diff(offsets) != 0) | (np.diff(times) != self.step_ms)
        first = np.flatnonzero(np.append(True, breaks)[: len(times)])
        last = np.flatnonzero(np.append(breaks, True)[: len(times)])
        return Steps(times[first], times[last] + self.step_ms, offsets[first])

    @cached_property
    def slices(self) -> dict[tuple[str, int], slice]:
        """The rows of each partition."""
        ends = [*self._begins.tolist(), self.rows.num_rows][1:]
        return dict(zip(self.partitions, map(slice, self._begins.tolist(), ends), strict=True))

    @cached_property
    def _numbers(self) -> dict[tuple[str, int], int]:
        return {key: number for number, key in enumerate(self.partitions)}

    @cached_property
    def _begins(self) -> NDArray[np.int64]:
        """The first row of each partition."""
        if not self.rows.num_rows:
            return np.empty(0, np.int64)
        codes, _ = word_codes(self.rows)
        numbers = ints(self.rows, "partition")
        return np.flatnonzero(
            np.concatenate(([True], (np.diff(codes) != 0) | (np.diff(numbers) != 0)))
        )

    @cached_property
    def _first_cell(self) -> int:
        return int(ints(self.rows, "timestamp").min()) // self.step_ms if self.rows.num_rows else 0

    @cached_property
    def _cells(self) -> int:
        return (
            int(ints(self.rows, "timestamp").max()) // self.step_ms - self._first_cell + 1
            if self.rows.num_rows
            else 0
        )

    @cached_property
    def _slots(self) -> Ints:
        """Partition and cell of each row as one number, ascending."""
        lengths = np.diff(np.append(self._begins, self.rows.num_rows))
        partition = np.repeat(np.arange(len(lengths)), lengths)
        return (
            partition * self._cells
            + ints(self.rows, "timestamp") // self.step_ms
            - self._first_cell
        )

    @cached_property
    def _by_slot(self) -> NDArray[np.int32] | None:
        """The row of each slot, -1 for none. None where there are far more slots than rows."""
        slots = len(self._begins) * self._cells
        if slots > 8 * self.rows.num_rows + (1 << 20):
            return None
        numbers = np.full(slots + 1, -1, np.int32)  # the last slot stands for all times outside
        numbers[self._slots] = np.arange(self.rows.num_rows, dtype=np.int32)
        return numbers

    @cached_property
    def _packed(self) -> Ints:
        """The rows in the layout of `kernels.cells`."""
        rows = self.rows
        words = pc.index_in(rows["reason"].cast(pa.string()), pa.array(FOUND_WORDS))
        cells = np.empty((rows.num_rows, k.COLUMNS), np.int64)
        cells[:, k.OFFSET] = ints(rows, "offset")
        cells[:, k.TIMESTAMP] = ints(rows, "record_timestamp")
        cells[:, k.SEGMENT] = ints(rows, "segment")
        cells[:, k.PACKED] = ints(rows, "leader_epoch") * 256 + np.asarray(
            words.to_numpy(), np.int64
        )
        return cells


def read(
    folder: str | os.PathLike[str],
    *,
    from_ms: int | None = None,
    to_ms: int | None = None,
    topics: Collection[str] | None = None,
) -> View:
    """Read a table, or its rows of [from_ms, to_ms) or of these topics.

    Raises UsageError (no table), BadInput (another version), CorruptFile (missing, changed or
    overlapping files), StorageFailed.
    """
    begin = -(2**63) if from_ms is None else from_ms
    end = 2**63 - 1 if to_ms is None else to_ms
    manifest, tables = read_parts(
        folder, (begin, end), lambda rows: _narrowed(rows, begin, end, topics)
    )
    rows = together(tables)
    if len(tables) > 1:
        rows = taken(rows, order(rows)[0])
    return View(normal(rows), manifest.step_ms, manifest.covered)


def _narrowed(rows: pa.Table, begin: int, end: int, topics: Collection[str] | None) -> pa.Table:
    times = ints(rows, "timestamp")
    if len(times) and (int(times.min()) < begin or int(times.max()) >= end):
        rows = rows.filter(pa.array((times >= begin) & (times < end)))
    if topics is not None:
        rows = rows.filter(
            pc.is_in(rows["topic"].cast(pa.string()), pa.array(sorted(topics), pa.string()))
        )
    return rows


def lookup(
    view: View,
    partitions: ArrayLike,
    times: ArrayLike,
    *,
    log_start: Mapping[tuple[str, int], int] | None = None,
) -> Found:
    """Return the offset from which to read, for each time (ms) and partition.

    `partitions` are numbers in `view.partitions` (-1: none), one for all times or one per time. The
    cell at or before the time answers. Its record is the exact answer if it is of that time or
    later. If it is earlier, the reason is `coarse`: no record of that time or later lies before it.
    `log_start` holds current log start offsets: answers below them are `deleted`.
    """
    times = np.atleast_1d(np.asarray(times, np.int64))
    partitions = np.broadcast_to(np.asarray(partitions, np.int64), times.shape)
    cell = times // view.step_ms - view._first_cell
    inside = (
        (cell >= 0) & (cell < view._cells) & (partitions >= 0) & (partitions < len(view._begins))
    )
    slot = partitions * view._cells + cell
    numbers = np.empty((3, times.size), np.int64)
    epochs, reasons = np.empty(times.size, np.int32), np.empty(times.size, np.int8)
    k.pick(view._packed, _rows_of(view, slot, inside), times, _WORDS, numbers, epochs, reasons)
    if log_start:
        starts = np.array([log_start.get(key, 0) for key in view.partitions] or [0], np.int64)
        gone = (numbers[0] >= 0) & (numbers[0] < starts[np.where(inside, partitions, 0)])
        reasons[gone] = _NUMBER["deleted"]
    return Found(numbers[0], numbers[1], epochs, numbers[2], reasons)


def _rows_of(view: View, slot: Ints, inside: NDArray[np.bool_]) -> Ints:
    """Return the row of each slot, -1 for none."""
    if len(view._begins) * view._cells == view.rows.num_rows:  # every slot has a row
        return np.where(inside, slot, -1)
    table = view._by_slot
    if table is not None:
        return np.asarray(table[np.where(inside, slot, len(table) - 1)], np.int64)
    at = np.minimum(np.searchsorted(view._slots, slot), len(view._slots) - 1)
    return np.where(inside & (view._slots[at] == slot), at, -1)


class Busiest:
    """Counts the distinct answers of each partition, in rows of TABLE that come in pieces."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, int]] = Counter()

    def add(self, rows: pa.Table) -> None:
        plain = pa.table({
            "topic": rows["topic"].cast(pa.string()),
            "partition": rows["partition"],
            "offset": rows["offset"],
        })
        for row in grouped(
            plain, ["topic", "partition"], [("offset", "count_distinct")]
        ).to_pylist():
            self.counts[row["topic"], row["partition"]] += row["offset_count_distinct"]

    def most(self, most: int = 12) -> list[tuple[str, int]]:
        """Return the partitions with the most answers, in descending order."""
        return sorted(self.counts, key=lambda key: (-self.counts[key], key))[:most]


def busiest(rows: pa.Table, most: int = 12) -> list[tuple[str, int]]:
    """Return the partitions with the most distinct answers in rows of TABLE, descending."""
    counts = Busiest()
    counts.add(rows)
    return counts.most(most)
