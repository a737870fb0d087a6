"""The active segment of a partition: its files, and what a broker knows of it in memory.

An index entry is tried before a unit is written: if more than index.interval.bytes were written
since the last entry, the unit gets one. A unit is an append call, and from 3.9.1 on a batch. The
offset in the entry is the unit's last one, before 2.0 its first. The time index gets an entry with
each, and one more when the segment closes, if the largest timestamp so far exceeds that of the last
entry. Source: LogSegment.append, onBecomeInactiveSegment of Kafka 0.8 to 4.3; KIP-33.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from kafkats import paths
from kafkats.broker import files
from kafkats.broker.generation import Generation
from kafkats.broker.validate import Largest
from kafkats.errors import CorruptBatch
from kafkats.formats import dispatch
from kafkats.formats.model import NO_TIMESTAMP
from kafkats.index import offset_index, time_index
from kafkats.rolling.rules import Active, Append, Settings

_UNTIMED: Final = Largest(NO_TIMESTAMP, -1)


class Unit(NamedTuple):
    """The part of an append that can get an index entry."""

    first_offset: int
    last_offset: int
    bytes: int
    largest: Largest


@dataclass
class ActiveSegment:
    """The segment that a broker appends to."""

    directory: Path
    base_offset: int
    generation: Generation
    created_ms: int
    """When the broker opened it."""
    largest: Largest = _UNTIMED
    first_timestamp: int = NO_TIMESTAMP
    size: int = 0
    """Bytes of its log."""
    offset_entries: int = 0
    time_entries: int = 0
    last_time: int = NO_TIMESTAMP
    """The timestamp of the last time index entry."""
    unindexed_bytes: int = 0

    def path(self, kind: str) -> Path:
        """Return the path of one of its files."""
        return self.directory / paths.segment_file(self.base_offset, kind)

    def facts(self) -> Active:
        """Return the facts that rolling is decided by. There is no jitter."""
        return Active(
            self.base_offset,
            self.size,
            self.first_timestamp,
            self.largest.timestamp,
            self.created_ms,
            self.offset_entries,
            self.time_entries,
            0,
        )

    def write(self, data: bytes, append: Append, units: list[Unit], settings: Settings) -> None:
        """Append `data`, which has the batches of `units`. Raises StorageFailed."""
        if self.size == 0:
            by_batch = self.generation.roll.since == "first-batch"
            self.first_timestamp = (append.batches[0] if by_batch else append).max_timestamp
        offsets, times = bytearray(), bytearray()
        for unit in units:
            if unit.largest.timestamp > self.largest.timestamp:
                self.largest = unit.largest
            if self.unindexed_bytes > settings.index_interval_bytes:
                first = self.generation.entries.first_offset
                offset = unit.first_offset if first else unit.last_offset
                offsets += offset_index.STRUCT.pack(offset - self.base_offset, self.size)
                self.offset_entries += 1
                self.unindexed_bytes = 0
                times += self._time_entry(unit.last_offset + 1)
            self.unindexed_bytes += unit.bytes
            self.size += unit.bytes
        files.append(self.path(paths.LOG), data, append.now_ms)
        self._add(offsets, times, append.now_ms)

    def _time_entry(self, next_offset: int) -> bytes:
        """Return the entry of the largest timestamp so far, b"" if the last entry has it."""
        if not self.generation.roll.relative or self.largest.timestamp <= self.last_time:
            return b""
        rule = self.generation.entries
        offset = next_offset if rule.next_offset else self.largest.offset
        self.last_time = self.largest.timestamp
        self.time_entries += 1
        return time_index.STRUCT.pack(self.last_time, offset - self.base_offset)

    def _add(self, offsets: bytes | bytearray, times: bytes | bytearray, now_ms: int) -> None:
        if offsets:
            files.append(self.path(paths.OFFSET_INDEX), bytes(offsets), now_ms)
        if times:
            files.append(self.path(paths.TIME_INDEX), bytes(times), now_ms)

    def close(self, end_offset: int, now_ms: int) -> None:
        """Write the closing time index entry. Raises StorageFailed.

        `end_offset` is the next segment's base offset, or the log end offset.
        """
        self._add(b"", self._time_entry(end_offset), now_ms)


def create_active(
    directory: Path, base_offset: int, generation: Generation, now_ms: int
) -> ActiveSegment:
    """Create the empty files of a new last segment, and return it. Raises StorageFailed."""
    active = ActiveSegment(
        directory, base_offset, generation, now_ms, Largest(NO_TIMESTAMP, base_offset)
    )
    kinds = (paths.LOG, paths.OFFSET_INDEX, paths.TIME_INDEX)
    for kind in kinds if generation.roll.relative else kinds[:2]:
        files.append(active.path(kind), b"", now_ms)
    return active


def open_active(
    directory: Path, base_offset: int, generation: Generation, now_ms: int
) -> ActiveSegment:
    """Return the last segment of a log as a broker opens it, from its files.

    Its largest timestamp is that of the last time index entry and of the batches behind it. Raises
    CorruptBatch, CorruptIndex, StorageFailed.
    """
    active = ActiveSegment(directory, base_offset, generation, now_ms)
    active.size = files.size_of(active.path(paths.LOG))
    scan(active)
    return active


def scan(active: ActiveSegment) -> None:
    """Read again what a broker knows of the segment's timestamps: after a start, a truncation.

    Raises CorruptBatch, CorruptIndex, StorageFailed.
    """
    log, times = active.path(paths.LOG), active.path(paths.TIME_INDEX)
    entries = time_index.read(times) if files.size_of(times) else np.empty(0, time_index.ENTRY)
    offsets = files.size_of(active.path(paths.OFFSET_INDEX))
    active.offset_entries = offsets // offset_index.ENTRY_SIZE
    active.time_entries, active.unindexed_bytes = len(entries), 0
    active.last_time, active.first_timestamp = NO_TIMESTAMP, NO_TIMESTAMP
    active.largest = Largest(NO_TIMESTAMP, active.base_offset)
    if len(entries):
        last = entries[-1]
        active.last_time = int(last["timestamp"])
        offset = active.base_offset + int(last["relative_offset"])
        active.largest = Largest(active.last_time, offset)
    data = files.read(log)
    start = _indexed_position(active, active.largest.offset)
    try:
        for batch in dispatch.batches(data, verify=False):
            active.first_timestamp = batch.max_timestamp
            break
        for batch in dispatch.batches(data, start, verify=False):
            if batch.max_timestamp > active.largest.timestamp:
                active.largest = Largest(batch.max_timestamp, batch.last_offset)
    except CorruptBatch as e:
        raise CorruptBatch(e.reason, path=log, position=e.position) from e


def locate(active: ActiveSegment, offset: int, log: bytes) -> tuple[int, int]:
    """Return the position in `log` of the first batch that ends at `offset` or above.

    Beside it, the offset after the batch before it: the log end if the log is cut there. Found as a
    broker does: from the offset index on. Raises CorruptBatch, CorruptIndex, StorageFailed.
    """
    position, end = _indexed_position(active, offset), -1
    for batch in dispatch.batches(log, verify=False):
        if batch.position >= position and batch.last_offset >= offset:
            return batch.position, max(end, active.base_offset)
        end = batch.last_offset + 1
    return len(log), max(end, active.base_offset)


def cut_indexes(active: ActiveSegment, offset: int, now_ms: int) -> None:
    """Cut the entries of `offset` and above. Raises CorruptIndex, StorageFailed."""
    for kind, index in ((paths.OFFSET_INDEX, offset_index), (paths.TIME_INDEX, time_index)):
        path = active.path(kind)
        if files.size_of(path):
            kept = int((index.read(path)["relative_offset"] < offset - active.base_offset).sum())
            files.cut(path, kept * index.ENTRY_SIZE, now_ms)


def _indexed_position(active: ActiveSegment, offset: int) -> int:
    """Return the position that the offset index gives for an offset. Raises CorruptIndex."""
    index = active.path(paths.OFFSET_INDEX)
    found = 0
    for entry in offset_index.read(index) if files.size_of(index) else ():
        if int(entry["relative_offset"]) + active.base_offset > offset:
            break
        found = int(entry["position"])
    return found
