"""One segment as a broker sees it: indexes, largest timestamp and log, each read on first use.

A broker has state in memory that the files lack. It is reconstructed here. If the directory was not
stopped cleanly, zeros at the end of the active segment's indexes are unused slots, and its largest
timestamp is looked up in the log behind the last entry. For a segment without an .index both
indexes are built, as a broker start builds them.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Callable
from functools import cached_property
from struct import Struct
from typing import Final, NamedTuple, Protocol, TypeVar

from kafkats import paths
from kafkats.errors import CorruptBatch, CorruptIndex, Vanished, storage
from kafkats.generations import DEFAULT_RULE, SEGMENT_INDEX_BYTES
from kafkats.index import offset_index, structure, time_index
from kafkats.index.build import build_from
from kafkats.index.entries import read_index_bytes
from kafkats.index.slots import Slot, Slots
from kafkats.segment.facts import SegmentFacts
from kafkats.segment.search import LOWEST, Hit, OpenLog, Searcher
from kafkats.segment.walk import walk

_Read = TypeVar("_Read")
_MAPPED_FROM: Final = 128 * 1024
"""Smaller index files are read: that is faster than the first accesses to a new mapping."""


class Largest(NamedTuple):
    """A segment's largest timestamp as a broker knows it, and the offset with it.

    `by_mtime`: the segment has no timestamp, and this is its file's mtime.
    """

    timestamp: int
    offset: int
    by_mtime: bool


class Found(NamedTuple):
    """The position in the log to which a time index leads.

    `in_order`: all entries used were in order.
    """

    position: int
    in_order: bool


class Home(Protocol):
    """The directory of a segment. `search.Partition` is one."""

    clean: bool
    live: bool
    index_interval_bytes: int

    @property
    def path(self) -> str: ...
    @property
    def names(self) -> frozenset[str]: ...
    @property
    def log_start_offset(self) -> int: ...
    def keep(self, segment: Segment) -> None: ...


class Segment:
    """One segment of a partition. Everything is read on first use."""

    def __init__(self, partition: Home, base_offset: int, next_base_offset: int) -> None:
        self.partition = partition
        self.base_offset = base_offset
        self.next_base_offset = next_base_offset
        """-1: the active segment."""
        self.stem: Final = f"{partition.path}/{base_offset:020d}"

    def close(self) -> None:
        """Close its files. Results of earlier reads are kept."""
        log = self.__dict__.pop("log", None)
        if log is not None:
            log.close()
        for name in ("times", "offsets"):
            self.__dict__.pop(name, None)

    @property
    def moving(self) -> bool:
        """Return whether a broker writes to it, or was killed while it did."""
        return self.next_base_offset < 0 and not self.partition.clean

    @cached_property
    def log(self) -> OpenLog:
        self.partition.keep(self)
        return OpenLog(self.stem + paths.LOG, mapped=not self.partition.live)

    @cached_property
    def times(self) -> tuple[Slots, int]:
        """The time index, and the number of entries that a broker sees in it."""
        if self.rebuilt is not None:
            return self.rebuilt[1], len(self.rebuilt[1]) // time_index.STRUCT.size
        return self._slots(paths.TIME_INDEX, time_index.STRUCT)

    @cached_property
    def offsets(self) -> tuple[Slots, int]:
        """The offset index, and the number of entries that a broker sees in it."""
        if self.rebuilt is not None:
            return self.rebuilt[0], len(self.rebuilt[0]) // offset_index.STRUCT.size
        return self._slots(paths.OFFSET_INDEX, offset_index.STRUCT)

    @cached_property
    def rebuilt(self) -> tuple[bytes, bytes] | None:
        """Both indexes as a broker start builds them for a missing .index, None if it exists."""
        if paths.segment_file(self.base_offset, paths.OFFSET_INDEX) in self.partition.names:
            return None
        if not self.log.size:
            return b"", b""
        interval = self.partition.index_interval_bytes
        built = build_from(
            self.log.source, self.base_offset, DEFAULT_RULE, interval, SEGMENT_INDEX_BYTES
        )
        return built.offset_index, built.time_index

    @cached_property
    def largest(self) -> Largest:
        timestamp, offset = self.last_time
        if self.moving:
            facts = self.walked_from(offset)
            if facts.max_timestamp > timestamp:
                timestamp, offset = facts.max_timestamp, facts.offset_of_max_timestamp
        if timestamp >= 0:
            return Largest(timestamp, offset, by_mtime=False)
        return Largest(self.mtime_ms, offset, by_mtime=True)

    @cached_property
    def last_time(self) -> tuple[int, int]:
        """The time index's last entry with its absolute offset, (-1, base offset) without one."""
        if "times" in self.__dict__ or self.moving or self.rebuilt is not None:
            data, count = self.times
            last = (
                time_index.STRUCT.unpack_from(data, (count - 1) * time_index.STRUCT.size)
                if count
                else (-1, 0)
            )
        else:
            last = _last_entry(self.stem + paths.TIME_INDEX)
        return last[0], self.base_offset + last[1]

    @cached_property
    def mtime_ms(self) -> int:
        if "log" in self.__dict__:
            return self.log.mtime_ms
        with storage(self.stem + paths.LOG, "look"):
            return os.stat(self.stem + paths.LOG).st_mtime_ns // 1_000_000  # noqa: PTH116 - fast

    @cached_property
    def empty(self) -> bool:
        return not self.log.size

    @cached_property
    def could_have_timestamps(self) -> bool:
        """Return whether its first batch is not of magic 0."""
        header = self.log.source.read(0, 17)
        return len(header) == 17 and header[16] > 0

    @cached_property
    def unsound(self) -> str:
        """The first structural defect of its index files, "" for none.

        Each entry must exceed the last.
        """
        if self.rebuilt is not None:
            return ""
        for look, kind in (
            (structure.examine_time_index, paths.TIME_INDEX),
            (structure.examine_offset_index, paths.OFFSET_INDEX),
        ):
            index = look(self.stem + kind)
            for finding in index.findings if index else ():
                return f"{finding.file}: {finding.kind}"
            if index and index.zeros and not self.moving:
                return f"{index.name}: zero-entries"
        return ""

    def lookup(self, target_ms: int, start_offset: int, *, warm: bool) -> Found:
        """Return where a broker begins to search for `target_ms` at or above `start_offset`.

        Raises CorruptIndex for a negative position.
        """
        data, count = self.times
        time = time_index.lookup(data, count, target_ms, warm=warm)
        offset = self.base_offset + time.value if time.number >= 0 else self.base_offset
        entry = self._lookup_offset(max(offset, start_offset), warm=warm)
        return Found(self._position(entry), time.in_order and entry.in_order and time.value >= 0)

    def position_of(self, offset: int) -> int:
        """Return the position of the batch with `offset` or an earlier one, by the index."""
        return self._position(self._lookup_offset(offset, warm=True))

    def sound_position(self, offset: int) -> int:
        """Return the position as `position_of` does, but 0 if the index is wrong.

        It is wrong if its entry leads out of the log, or to a batch that begins above `offset`.
        """
        try:
            position = self.position_of(offset)
        except CorruptIndex:
            return 0
        header = self.log.source.read(position, 8)
        return (
            position
            if len(header) == 8 and int.from_bytes(header, "big", signed=True) <= offset
            else 0
        )

    def walked_from(self, offset: int) -> SegmentFacts:
        """Return facts of the batches from the offset index's position for `offset` on.

        If no batch begins there, they are of the whole log.
        """
        position = self.sound_position(offset)
        facts = walk(self.log.source, self.base_offset, start=position).facts
        broken = position and facts.stop is not None and facts.stop_position == position
        return walk(self.log.source, self.base_offset).facts if broken else facts

    def first_record(
        self,
        position: int,
        target: int,
        *,
        start_offset: int = LOWEST,
        equal: bool = False,
        strict: bool = False,
    ) -> Hit | None:
        """As Searcher.first_record. Raises CorruptIndex where an index entry leads to no batch."""
        try:
            return _searcher().first_record(
                self.log, position, target, start_offset=start_offset, equal=equal, strict=strict
            )
        except CorruptBatch as e:
            if e.position != position or not position:
                raise
            reason = (
                f"leads to byte {position} of the log, where no sound batch begins ({e.reason})"
            )
            raise CorruptIndex(reason, path=self.stem + paths.OFFSET_INDEX) from e

    def _lookup_offset(self, offset: int, *, warm: bool) -> Slot:
        data, count = self.offsets
        return offset_index.lookup(data, count, offset - self.base_offset, warm=warm)

    def _position(self, slot: Slot) -> int:
        if slot.number < 0:
            return 0
        if slot.value < 0:
            reason = f"entry {slot.number} says position {slot.value}"
            raise CorruptIndex(
                reason,
                path=self.stem + paths.OFFSET_INDEX,
                position=slot.number * offset_index.STRUCT.size,
            )
        return slot.value

    def _slots(self, kind: str, entry: Struct) -> tuple[Slots, int]:
        self.partition.keep(self)
        path = self.stem + kind
        try:
            if self.moving:
                data = read_index_bytes(path, entry.size).data
                return data, len(data) // entry.size
            return _whole(path, entry.size, mapped=not self.partition.live)
        except Vanished:
            return b"", 0


_of_thread = threading.local()


def _searcher() -> Searcher:
    """Return this thread's searcher.

    One search after another uses its buffers, in any partition.
    """
    searcher: Searcher | None = getattr(_of_thread, "searcher", None)
    if searcher is None:
        searcher = _of_thread.searcher = Searcher()
    return searcher


def _last_entry(path: str) -> tuple[int, int]:
    """Return the last whole entry of a time index file, (-1, 0) without one."""

    entry = time_index.STRUCT

    def read(fd: int) -> bytes:
        size = os.fstat(fd).st_size
        whole = size - size % entry.size
        return os.pread(fd, entry.size, whole - entry.size) if whole else b""

    try:
        data = _reading(path, read)
    except Vanished:
        return -1, 0
    timestamp, relative = entry.unpack(data) if len(data) == entry.size else (-1, 0)
    return timestamp, relative


def _whole(path: str, entry_size: int, *, mapped: bool) -> tuple[Slots, int]:
    def read(fd: int) -> Slots:
        size = os.fstat(fd).st_size
        if mapped and size > _MAPPED_FROM:
            return mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ)
        return os.pread(fd, size, 0)

    data = _reading(path, read)
    return data, len(data) // entry_size


def _reading(path: str, read: Callable[[int], _Read]) -> _Read:
    with storage(path, "read"):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # do not wait on a FIFO
        try:
            return read(fd)
        finally:
            os.close(fd)
