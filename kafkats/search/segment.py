"""One segment as a broker sees it, looked at piece by piece when it is first asked for: its indexes, its largest timestamp, its log.

What a broker has in memory and a file has not is made up for: where the directory was not stopped cleanly, the zeros at the end of
the active segment's indexes are slots not used yet, and its largest timestamp is looked up in the log behind the last entry. A
segment without an .index is given both, as a start would build them.
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
from kafkats.index import structure
from kafkats.index.build import build_from
from kafkats.index.entries import read_index_bytes
from kafkats.index.slots import OFFSET, TIME, Slot, Slots, lower_bound
from kafkats.segment.facts import SegmentFacts
from kafkats.segment.search import LOWEST, Hit, OpenLog, Searcher
from kafkats.segment.walk import walk

_Read = TypeVar("_Read")
_MAPPED_FROM: Final = 128 * 1024
"""Index files up to this size are read: that is quicker than the first looks at a fresh map."""


class Largest(NamedTuple):
    """A segment's largest timestamp as a broker has it, and the offset beside it. Without one the time of its file: `by_mtime`."""

    timestamp: int
    offset: int
    by_mtime: bool


class Found(NamedTuple):
    """Where a time index leads: a position in the log, and whether everything on the way was in order."""

    position: int
    in_order: bool


class Home(Protocol):
    """What a segment wants to know of its directory: `search.Partition` is one."""

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
    """One segment of a partition; everything is looked at when it is first asked for."""

    def __init__(self, partition: Home, base_offset: int, next_base_offset: int) -> None:
        self.partition = partition
        self.base_offset = base_offset
        self.next_base_offset = next_base_offset
        """-1: the active segment."""
        self.stem: Final = f"{partition.path}/{base_offset:020d}"

    def close(self) -> None:
        """Let go of its files; what was learnt of it stays."""
        log = self.__dict__.pop("log", None)
        if log is not None:
            log.close()
        for name in ("times", "offsets"):
            self.__dict__.pop(name, None)

    @property
    def moving(self) -> bool:
        """A broker writes to it, or was killed while it did."""
        return self.next_base_offset < 0 and not self.partition.clean

    @cached_property
    def log(self) -> OpenLog:
        self.partition.keep(self)
        return OpenLog(self.stem + paths.LOG, mapped=not self.partition.live)

    @cached_property
    def times(self) -> tuple[Slots, int]:
        """The time index and how many entries a broker sees in it."""
        if self.rebuilt is not None:
            return self.rebuilt[1], len(self.rebuilt[1]) // TIME.size
        return self._slots(paths.TIME_INDEX, TIME)

    @cached_property
    def offsets(self) -> tuple[Slots, int]:
        """The offset index likewise."""
        if self.rebuilt is not None:
            return self.rebuilt[0], len(self.rebuilt[0]) // OFFSET.size
        return self._slots(paths.OFFSET_INDEX, OFFSET)

    @cached_property
    def rebuilt(self) -> tuple[bytes, bytes] | None:
        """Both indexes as a start builds them where the .index is missing; None where it is there."""
        if paths.segment_file(self.base_offset, paths.OFFSET_INDEX) in self.partition.names or not self.log.size:
            return None
        interval = self.partition.index_interval_bytes
        built = build_from(self.log.source, self.base_offset, DEFAULT_RULE, interval, SEGMENT_INDEX_BYTES)
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
            last = TIME.unpack_from(data, (count - 1) * TIME.size) if count else (-1, 0)
        else:
            last = _last_entry(self.stem + paths.TIME_INDEX)
        return last[0], self.base_offset + last[1]

    @cached_property
    def mtime_ms(self) -> int:
        if "log" in self.__dict__:
            return self.log.mtime_ms
        with storage(self.stem + paths.LOG, "look"):
            return os.stat(self.stem + paths.LOG).st_mtime_ns // 1_000_000  # noqa: PTH116 - a Path costs as much as the call

    @cached_property
    def empty(self) -> bool:
        return not self.log.size

    @cached_property
    def could_have_timestamps(self) -> bool:
        """Its first batch is not of magic 0."""
        header = self.log.source.read(0, 17)
        return len(header) == 17 and header[16] > 0

    @cached_property
    def unsound(self) -> str:
        """What is wrong with its index files as such, "" when nothing is: each entry must lie above the one before."""
        if self.rebuilt is not None:
            return ""
        for look, kind in (
            (structure.examine_time_index, paths.TIME_INDEX),
            (structure.examine_offset_index, paths.OFFSET_INDEX),
        ):
            found = look(self.stem + kind)
            for finding in found.findings if found else ():
                return f"{finding.file}: {finding.kind}"
            if found and found.zeros and not self.moving:
                return f"{found.name}: zero-entries"
        return ""

    def lookup(self, target_ms: int, start_offset: int, *, warm: bool) -> Found:
        """Where a broker begins to look for `target_ms`, if not below `start_offset`. Raises CorruptIndex for a position below 0."""
        data, count = self.times
        time = lower_bound(data, count, TIME, target_ms, warm=warm)
        offset = self.base_offset + time.value if time.number >= 0 else self.base_offset
        found = self._lookup_offset(max(offset, start_offset), warm=warm)
        return Found(self._position(found), time.in_order and found.in_order and time.value >= 0)

    def position_of(self, offset: int) -> int:
        """Where the batch with `offset`, or one before it, begins by the offset index."""
        return self._position(self._lookup_offset(offset, warm=True))

    def sound_position(self, offset: int) -> int:
        """The same, but 0 where the index cannot be right: its entry leads out of the log or to what begins above `offset`."""
        try:
            position = self.position_of(offset)
        except CorruptIndex:
            return 0
        header = self.log.source.read(position, 8)
        return position if len(header) == 8 and int.from_bytes(header, "big", signed=True) <= offset else 0

    def walked_from(self, offset: int) -> SegmentFacts:
        """Facts of the batches from the one that the offset index gives for `offset` on; of the whole log if none begins there."""
        position = self.sound_position(offset)
        facts = walk(self.log.source, self.base_offset, start=position).facts
        broken = position and facts.stop is not None and facts.stop_position == position
        return walk(self.log.source, self.base_offset).facts if broken else facts

    def first_record(
        self, position: int, target: int, *, start_offset: int = LOWEST, equal: bool = False, strict: bool = False
    ) -> Hit | None:
        """As Searcher.first_record; CorruptIndex where an index entry led to what is no batch."""
        try:
            return _searcher().first_record(
                self.log, position, target, start_offset=start_offset, equal=equal, strict=strict
            )
        except CorruptBatch as e:
            if e.position != position or not position:
                raise
            reason = f"leads to byte {position} of the log, where no sound batch begins ({e.reason})"
            raise CorruptIndex(reason, path=self.stem + paths.OFFSET_INDEX) from e

    def _lookup_offset(self, offset: int, *, warm: bool) -> Slot:
        data, count = self.offsets
        return lower_bound(data, count, OFFSET, offset - self.base_offset, warm=warm)

    def _position(self, slot: Slot) -> int:
        if slot.number < 0:
            return 0
        if slot.value < 0:
            reason = f"entry {slot.number} says position {slot.value}"
            raise CorruptIndex(reason, path=self.stem + paths.OFFSET_INDEX, position=slot.number * OFFSET.size)
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
    """This thread's: its buffers are used by one search after the other, whatever the partition."""
    found: Searcher | None = getattr(_of_thread, "searcher", None)
    if found is None:
        found = _of_thread.searcher = Searcher()
    return found


def _last_entry(path: str) -> tuple[int, int]:
    """The last whole entry of a time index as it stands there, (-1, 0) without one."""

    def read(fd: int) -> bytes:
        size = os.fstat(fd).st_size
        whole = size - size % TIME.size
        return os.pread(fd, TIME.size, whole - TIME.size) if whole else b""

    try:
        data = _reading(path, read)
    except Vanished:
        return -1, 0
    timestamp, relative = TIME.unpack(data) if len(data) == TIME.size else (-1, 0)
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
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a FIFO must not make us wait
        try:
            return read(fd)
        finally:
            os.close(fd)
