"""A segment of a partition: its files, and what a broker knows of it in memory.

An index entry is tried before a unit is written: if more than index.interval.bytes were written
since the last entry, the unit gets one. A unit is an append call, and from 3.9.1 on a batch. The
offset in the entry is the unit's last one, before 2.0 its first. The time index gets an entry with
each, and one more when the segment closes, if the largest timestamp so far exceeds that of the last
entry. Source: LogSegment.append, onBecomeInactiveSegment, truncateTo of Kafka 0.8 to 4.3; KIP-33.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkats import paths
from kafkats.formats import v2
from kafkats.formats.model import NO_TIMESTAMP, Batch
from kafkats.generations import MAX_RELATIVE_OFFSET
from kafkats.index import offset_index, time_index, txn_index
from kafkats.primitives import wrap_int64
from kafkats.retention.rules import Segment
from kafkats.rolling.rules import Active, Append, Settings
from kafkats.rolling.rules import Batch as Part
from kafkats.segment.reader import open_source
from kafkats_model.broker import files
from kafkats_model.broker.error_names import UNKNOWN_ERROR
from kafkats_model.broker.generation import Generation
from kafkats_model.broker.places import places
from kafkats_model.broker.validate import Largest, largest_of_batches
from kafkats_model.errors import Rejected

_END_BYTES: Final = 8192
"""The end of an index that brokers from 2.1 on search first."""


class Unit(NamedTuple):
    """The part of an append that can get an index entry."""

    first_offset: int
    last_offset: int
    bytes: int
    largest: Largest


def append_of(units: Sequence[Unit], first_offset: int, now_ms: int) -> Append:
    """Return the append of the units, as rolling sees it. The first begins at `first_offset`."""
    parts = (
        Part(
            first_offset if n == 0 else unit.first_offset,
            unit.last_offset,
            unit.bytes,
            unit.largest.timestamp,
        )
        for n, unit in enumerate(units)
    )
    return Append((*parts,), now_ms)


class Appended(NamedTuple):
    """The result of an append."""

    first_offset: int
    last_offset: int
    bytes: int
    largest: Largest
    rolled: str
    """Why a new segment was begun before it; "" for no new segment."""


@dataclass
class ActiveSegment:
    """A segment that a broker has open. It appends to the last one of a log."""

    directory: Path
    base_offset: int
    generation: Generation
    created_ms: int
    """When the broker opened it."""
    largest: Largest = field(init=False)
    first_timestamp: int | None = None
    """The timestamp that segment.ms counts from; None: not read yet, or the segment is empty."""
    size: int = 0
    """Bytes of its log."""
    offset_entries: int = 0
    time_entries: int = 0
    last_time: int = field(init=False)
    """The timestamp of the last time index entry."""
    last_time_offset: int = field(init=False)
    """Its offset. A later one can be lower after a start that the index has misled."""
    unindexed_bytes: int = 0
    indexed: int = -1
    """The offset of the last index entry when the index was read; -1: none.

    The log end can be lower after a start that the index has misled.
    """
    closed: bool = False
    """Its indexes are cut to their entries: they have no room for another one."""

    def __post_init__(self) -> None:
        """Begin without timestamps."""
        self.forget_largest()
        self.last_time, self.last_time_offset = self.largest

    def path(self, kind: str) -> Path:
        """Return the path of one of its files."""
        return self.directory / paths.segment_file(self.base_offset, kind)

    def forget_largest(self) -> None:
        """Count from here on as a segment without timestamps."""
        self.largest = Largest(self.generation.reader.no_timestamp, self.base_offset)

    def facts(self) -> Active:
        """Return the facts that rolling is decided by. There is no jitter.

        Raises CorruptBatch, StorageFailed.
        """
        return Active(
            self.base_offset,
            self.size,
            self._first_timestamp(),
            self.largest.timestamp,
            self.created_ms,
            MAX_RELATIVE_OFFSET if self.closed else self.offset_entries,
            self.time_entries,
            0,
        )

    def _first_timestamp(self) -> int:
        """Return what a broker reads of a segment that it has opened: that of the first batch.

        By the earliest timestamp it reads all messages.
        """
        known = self.generation.reader
        if self.first_timestamp is None and self.size and self.generation.earliest:
            self.first_timestamp = self._earliest(files.read(self.path(paths.LOG)))
        elif self.first_timestamp is None and self.size and self.generation.dialect:
            data = files.read(self.path(paths.LOG))
            self.first_timestamp = next(known.batches(data, verify=False)).max_timestamp
        elif self.first_timestamp is None and self.size:
            with open_source(self.path(paths.LOG)) as source:
                self.first_timestamp = next(places(source, 0)).max_timestamp
        return known.no_timestamp if self.first_timestamp is None else self.first_timestamp

    def _earliest(self, data: bytes) -> int:
        """Return the earliest timestamp of the messages in `data`. Raises CorruptBatch."""
        known = self.generation.reader
        times = (
            record.timestamp
            for batch in known.batches(data, verify=False)
            for record in known.records(data, batch)
        )
        return min((t for t in times if t > known.no_timestamp), default=known.no_timestamp)

    def write(self, data: bytes, append: Append, units: list[Unit], settings: Settings) -> None:
        """Append `data`, which has the batches of `units`.

        Raises Rejected, after the log was written, for an index entry that is not above the last
        one; StorageFailed.
        """
        if self.generation.earliest:
            none = self.generation.reader.no_timestamp
            times = {self._first_timestamp(), self._earliest(data)} - {none}
            self.first_timestamp = min(times, default=none)
        elif self.size == 0:
            by_batch = self.generation.roll.since == "first-batch"
            self.first_timestamp = (append.batches[0] if by_batch else append).max_timestamp
        files.append(self.path(paths.LOG), data, append.now_ms)
        self._index(units, settings, append.now_ms)

    def _index(self, units: list[Unit], settings: Settings, now_ms: int) -> None:
        """Add the units behind the end of the log, with their index entries."""
        offsets, times = bytearray(), bytearray()
        for unit in units:
            if unit.largest.timestamp > self.largest.timestamp:
                self.largest = unit.largest
            if self.unindexed_bytes > settings.index_interval_bytes:
                first = self.generation.entries.first_offset
                offset = unit.first_offset if first else unit.last_offset
                try:
                    if offset <= self.indexed:
                        raise self._lower(offset, self.indexed)
                    offsets += offset_index.STRUCT.pack(self._relative(offset), self.size)
                    self.offset_entries += 1
                    times += self._time_entry(unit.last_offset + 1)
                except Rejected:
                    self.add(offsets, times, now_ms)
                    self.size = files.size_of(self.path(paths.LOG))
                    raise
                self.unindexed_bytes = 0
            self.unindexed_bytes += unit.bytes
            self.size += unit.bytes
        self.add(offsets, times, now_ms)

    def rebuild(self, batches: Iterable[Batch], settings: Settings, now_ms: int) -> None:
        """Build both indexes from the batches of the log, as a recovery does.

        Raises StorageFailed.
        """
        for kind in (paths.OFFSET_INDEX, paths.TIME_INDEX):
            files.write(self.path(kind), b"", now_ms)
        none, end = self.generation.reader.no_timestamp, self.base_offset
        units = []
        for batch in batches:
            first = batch.base_offset if batch.magic == v2.MAGIC else batch.last_offset
            largest = largest_of_batches(iter((batch,)), none)
            units.append(Unit(first, batch.last_offset, batch.size, largest))
            end = batch.last_offset + 1
        self._index(units, settings, now_ms)
        self.close(end, now_ms)

    def _relative(self, offset: int) -> int:
        """Return the offset of an entry: the low 32 bits, as brokers up to 0.10.0 wrote them.

        Later ones begin a segment before an offset that does not fit.
        """
        return wrap_int64(offset - self.base_offset << 32) >> 32

    def _lower(self, offset: int, last: int) -> Rejected:
        reason = f"an index entry of {offset} after {last}"
        return Rejected(f"{UNKNOWN_ERROR}: {reason}", path=self.path(paths.LOG))

    def _time_entry(self, next_offset: int) -> bytes:
        """Return the entry of the largest timestamp so far, b"" if the last entry has it.

        Raises Rejected for an offset below that of the last entry.
        """
        if not self.generation.roll.relative or self.largest.timestamp <= self.last_time:
            return b""
        rule = self.generation.entries
        offset = next_offset if rule.next_offset else self.largest.offset
        if self.time_entries and offset < self.last_time_offset:
            raise self._lower(offset, self.last_time_offset)
        self.last_time, self.last_time_offset = self.largest.timestamp, offset
        self.time_entries += 1
        return time_index.STRUCT.pack(self.last_time, self._relative(offset))

    def add(self, offsets: bytes | bytearray, times: bytes | bytearray, now_ms: int) -> None:
        """Append entries to both indexes. Raises StorageFailed."""
        if offsets:
            files.append(self.path(paths.OFFSET_INDEX), bytes(offsets), now_ms)
        if times:
            files.append(self.path(paths.TIME_INDEX), bytes(times), now_ms)

    def close(self, end_offset: int, now_ms: int) -> None:
        """Write the closing time index entry.

        `end_offset` is the next segment's base offset, or the log end offset. Raises Rejected if
        the entry's offset is below that of the last one; StorageFailed.
        """
        self.add(b"", self._time_entry(end_offset), now_ms)
        self.closed = True


def create_active(
    directory: Path, base_offset: int, generation: Generation, now_ms: int
) -> ActiveSegment:
    """Create the empty files of a new last segment, and return it. Raises StorageFailed."""
    active = ActiveSegment(directory, base_offset, generation, now_ms)
    kinds = (paths.LOG, paths.OFFSET_INDEX, paths.TIME_INDEX)
    for kind in kinds if generation.roll.relative else kinds[:2]:
        files.append(active.path(kind), b"", now_ms)
    return active


def emptied(old: ActiveSegment, now_ms: int) -> ActiveSegment:
    """Return the empty segment that brokers up to 2.1.0 leave in the place of a last one.

    They delete its files, and then cut its indexes: that makes files of zeros, without room.
    Raises CorruptIndex, StorageFailed.
    """
    for kind, index, entries in (
        (paths.OFFSET_INDEX, offset_index, old.offset_entries),
        (paths.TIME_INDEX, time_index, old.time_entries),
    ):
        if entries:
            files.write(old.path(kind), bytes(entries * index.ENTRY_SIZE), now_ms)
    return open_active(old.directory, old.base_offset, old.generation, now_ms)


def open_active(
    directory: Path, base_offset: int, generation: Generation, now_ms: int
) -> ActiveSegment:
    """Return a closed segment as a broker opens it, from its files.

    Its largest timestamp is that of the last time index entry. Raises CorruptIndex, StorageFailed.
    """
    active = ActiveSegment(directory, base_offset, generation, now_ms, closed=True)
    active.size = files.size_of(active.path(paths.LOG))
    _read_entries(active)
    return active


def cut(active: ActiveSegment, offset: int, position: int, now_ms: int) -> None:
    """Cut the log at `position`, and the entries of `offset` and above of all indexes.

    The largest timestamp is then that of the last time index entry: a broker reads on from there.
    Raises CorruptIndex, StorageFailed.
    """
    end = _END_BYTES if active.generation.log.searches_end_first else 0
    for kind, index in ((paths.OFFSET_INDEX, offset_index), (paths.TIME_INDEX, time_index)):
        path = active.path(kind)
        if files.size_of(path):
            offsets = index.read(path)["relative_offset"]
            kept = entries_below(offsets, offset - active.base_offset, end // index.ENTRY_SIZE)
            files.cut(path, kept * index.ENTRY_SIZE, now_ms)
    aborted = active.path(paths.TXN_INDEX)
    if files.size_of(aborted):
        above = txn_index.read(aborted)["last_offset"] >= offset
        if above.any():
            files.cut(aborted, int(above.argmax()) * txn_index.ENTRY_SIZE, now_ms)
    files.cut(active.path(paths.LOG), position, now_ms)
    active.size, active.closed = position, False
    if position == 0:
        active.created_ms = now_ms
    if position == 0 or active.generation.earliest:
        active.first_timestamp = None
    _read_entries(active)


def entries_below(offsets: NDArray[np.signedinteger], offset: int, end: int) -> int:
    """Return how many entries of an index a truncation to `offset` keeps.

    `offsets` are those of the entries, shape (n,). They rise, but several entries can have one
    offset: then those before the one that the search hits stay. The last `end` entries are searched
    first; 0: all at once. Source: AbstractIndex.indexSlotRangeFor and truncateTo.
    """
    if not len(offsets):
        return 0
    low, high = 0, len(offsets) - 1
    if end:
        middle = max(0, high - end)
        low, high = (middle, high) if offsets[middle] < offset else (0, middle)
    if offsets[low] > offset:
        return 0
    while low < high:
        at = (low + high + 1) // 2
        if offsets[at] == offset:
            return at
        low, high = (at, high) if offsets[at] < offset else (low, at - 1)
    return low if offsets[low] == offset else low + 1


def _read_entries(active: ActiveSegment) -> None:
    """Count the index entries, and take the largest timestamp from the last one."""
    size = files.size_of(active.path(paths.OFFSET_INDEX))
    active.offset_entries, active.unindexed_bytes = size // offset_index.ENTRY_SIZE, 0
    active.indexed = -1
    if size:
        offsets = offset_index.read(active.path(paths.OFFSET_INDEX))["relative_offset"]
        last = int(offsets[-1]) if len(offsets) else -1
        active.indexed = active.base_offset + last if last >= 0 else -1
    times = active.path(paths.TIME_INDEX)
    active.time_entries = files.size_of(times) // time_index.ENTRY_SIZE
    active.forget_largest()
    if active.time_entries:
        read = time_index.read(times)
        timestamp, offset = read[-1].tolist() if len(read) else (0, 0)  # of zeros, after `emptied`
        active.largest = Largest(timestamp, active.base_offset + offset)
    active.last_time, active.last_time_offset = active.largest


def retention_facts(
    segments: Sequence[ActiveSegment], log_end_offset: int, *, timed: bool
) -> list[Segment]:
    """Return the facts of segments for retention. Without `timed` none has a timestamp.

    Raises StorageFailed.
    """
    ends = [*(one.base_offset for one in segments[1:]), log_end_offset]
    return [
        Segment(
            one.base_offset,
            end,
            one.size,
            one.largest.timestamp if timed else NO_TIMESTAMP,
            files.mtime_of(one.path(paths.LOG)),
        )
        for one, end in zip(segments, ends, strict=True)
    ]
