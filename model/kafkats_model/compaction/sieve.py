"""Read the segments of a group, and append the records that are kept to the cleaned segment.

The kernels take plain batches, `batch_filter.keep` all others. Both give the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np

from kafkats.formats import dispatch
from kafkats.formats.model import NO_TIMESTAMP, Batch
from kafkats.rolling import rules as rolling
from kafkats.segment.reader import Bytes
from kafkats_model.broker.active import Unit
from kafkats_model.broker.settings import Topic
from kafkats_model.broker.validate import Largest
from kafkats_model.compaction.batch_filter import Cleaning, Kept
from kafkats_model.compaction.cleaned_segment import CleanedSegment
from kafkats_model.compaction.offset_map import OffsetMap, check_read_whole, point_at
from kafkats_model.compaction.splice import merged
from kafkats_model.kernels import compaction as k

IO_BYTES: Final = 262_144
"""The read buffer: log.cleaner.io.buffer.size / 2 for one thread, Kafka's default."""
MESSAGE_BYTES: Final = 1_048_588
"""Kafka's default of max.message.bytes, up to which the buffers grow by doubling."""
_OUT_BYTES: Final = 8 * 1024 * 1024
_ROWS: Final = 65_536

Keep: TypeAlias = Callable[[Batch], Kept | None]
Row: TypeAlias = Sequence[int]
"""kernels.compaction.ROW_*: one batch that stays."""


class Appends:
    """The batches that each read of the cleaner keeps: one append, before 3.9.1 one unit."""

    def __init__(self, cleaned: CleanedSegment, topic: Topic, now_ms: int) -> None:
        """`now_ms` is the broker's clock."""
        self._cleaned, self._topic, self._now = cleaned, topic, now_ms
        self._rows: list[Row] = []
        self._data: list[bytes] = []

    def add(self, rows: list[Row], data: bytes) -> None:
        """Add batches, with their bytes. Raises StorageFailed."""
        if self._rows and rows and rows[0][k.ROW_READ] != self._rows[-1][k.ROW_READ]:
            self.end()
        if not self._cleaned.generation.roll.batches:
            done = at = 0
            for n in range(1, len(rows)):
                at += rows[n - 1][k.ROW_SIZE]
                if rows[n][k.ROW_READ] != rows[n - 1][k.ROW_READ]:
                    self._rows += rows[done:n]
                    self._data.append(data[:at])
                    self.end()
                    data, done, at = data[at:], n, 0
            rows = rows[done:]
        self._rows += rows
        self._data.append(data)
        if self._cleaned.generation.roll.batches:
            self.end()

    def end(self) -> None:
        """Append the records that are left. Raises StorageFailed."""
        rows, data = self._rows, self._data
        self._rows, self._data = [], []
        if not rows:
            return
        whole = b"".join(data)
        if self._cleaned.generation.cleaning.merges:
            whole = b"".join(merged(_frames(whole), MESSAGE_BYTES))
        units = _by_batch(rows) if self._cleaned.generation.roll.batches else [_as_one(rows)]
        if units[-1].bytes != len(whole) and len(units) == 1:
            units = [units[0]._replace(bytes=len(whole))]
        facts = (rolling.Batch(*units[0][:3], units[0].largest.timestamp),)
        append = rolling.Append(facts, self._now)
        self._cleaned.write(whole, append, units, self._topic.rolling)


def _frames(data: bytes) -> list[bytes]:
    return [data[b.position : b.end] for b in dispatch.batches(data, verify=False)]


def _by_batch(rows: Sequence[Row]) -> list[Unit]:
    return [Unit(first, last, size, Largest(time, last)) for _, first, last, _, size, time in rows]


def _as_one(rows: Sequence[Row]) -> Unit:
    largest, last, size = Largest(NO_TIMESTAMP, -1), -1, 0
    for _, _, row_last, kept, row_size, time in rows:
        last, size = max(last, kept), size + row_size
        if time > largest.timestamp:
            largest = Largest(time, row_last)
    return Unit(rows[0][1], last, size, largest)


class Sieve:
    """Goes over segments with one offset map."""

    def __init__(self, offsets: OffsetMap, cleaning: Cleaning) -> None:
        """The map is complete."""
        self._offsets, self._cleaning, s = offsets, cleaning, offsets.state
        self._out = np.empty(_OUT_BYTES, np.uint8)
        self._rows = np.empty((_ROWS, k.COLUMNS), np.int64)
        s[k.HORIZONS], s[k.NOW] = cleaning.rule.delete_horizon, cleaning.now_ms
        s[k.NEW_HORIZON] = cleaning.new_delete_horizon_ms
        s[k.SECTION_END] = cleaning.end_offset if cleaning.rule.keeps_last_batch else -1
        s[k.OUT], s[k.OUT_SIZE] = self._out.ctypes.data, len(self._out)
        s[k.READ_MOST] = MESSAGE_BYTES

    def go_over(self, log: Bytes, keeps_deletes: bool, keep: Keep, appends: Appends) -> None:
        """Add the kept records of one segment to `appends`.

        `keep` gets the batches that the kernels decline. Raises CorruptBatch, StorageFailed, and
        what `keep` raises.
        """
        s = self._offsets.state
        point_at(s, log)
        s[k.KEEPS_DELETES], s[k.READ_BEGIN], s[k.READ_ROOM] = keeps_deletes, -1, IO_BYTES
        s[k.ROWS] = s[k.OUT_USED] = s[k.READ_WRITTEN] = 0
        while True:
            why = k.sift(s, self._offsets.table, self._offsets.seen, self._rows)
            rows = self._rows[: s[k.ROWS]].tolist()
            appends.add(rows, self._out[: s[k.OUT_USED]].tobytes())
            s[k.ROWS] = s[k.OUT_USED] = 0
            if why == k.FULL:
                continue
            position = int(s[k.POSITION])
            batch = next(dispatch.batches(log, position), None) if why == k.OTHER else None
            if batch is None:
                break
            kept = keep(batch)
            k.read(s, position, batch.size)
            if kept is not None:
                row = self._row(kept, int(s[k.READ]))
                appends.add([row], kept.data)
                s[k.READ_WRITTEN] += len(kept.data)
            s[k.POSITION] = batch.end
        check_read_whole(s)
        appends.end()

    def _row(self, kept: Kept, number: int) -> Row:
        (made,) = dispatch.batches(kept.data, verify=False)
        first = dispatch.first_offset(kept.data, made)
        return (
            number,
            first,
            kept.largest.offset,
            kept.last_offset,
            len(kept.data),
            kept.largest.timestamp,
        )
