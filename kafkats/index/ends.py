"""Check the ends of many segments at once, as `tail_check` checks one.

Each file is opened by its name in the directory and read once: the indexes whole, the log from the
last entry on, and the header of its first batch. Two kernels then judge all segments
(`kernels.ends`). A segment in which nothing is wrong gets its facts. Any other is left to
`tail_check.check_tail`, which says what is wrong.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkats import paths
from kafkats.index import offset_index, time_index
from kafkats.kernels import ends_state as e
from kafkats.kernels import walk_state as k
from kafkats.kernels.crc import crc_addresses
from kafkats.kernels.ends import judge_ends, judge_indexes, judge_last
from kafkats.segment.facts import SegmentFacts
from kafkats.segment.reader import count_read

Ints = NDArray[np.int64]
Rows = NDArray[np.int64]
"""Shape (segments, ends_state.COLUMNS)."""

_MOST: Final = 1024 * 1024
"""Bytes of an index, or of the end of a log, from which on a segment is left to `check_tail`."""
_ROOM: Final = 2 * _MOST
_ENTRIES: Final = np.array((offset_index.ENTRY_SIZE, time_index.ENTRY_SIZE))
_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # do not block on a FIFO
_HANDLES: Final = 64
"""Directories that are open at a time in a thread."""
_HANDLE: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC  # a right to pass through is enough


class Place(NamedTuple):
    """A partition directory, and how many of the segments are in it: they follow one another."""

    directory: str | Path
    segments: int


def sound_ends(places: Sequence[Place], bases: Sequence[int], sizes: Ints) -> Rows:
    """Look at the segments of partition directories with these base offsets.

    `sizes`: the listed bytes of .log, .index and .timeindex, shape (segments, 3); -1 where there is
    no such regular file. Return a row of ends_state per segment. It is not SOUND where anything is
    wrong, where a file cannot be read, and where one has not its listed size any more.
    """
    rows = _rows(bases, sizes)
    fit = np.flatnonzero((sizes >= 0).all(1) & (sizes[:, 1:] < _MOST).all(1))
    return _look(places, rows, fit, _Way(judge_indexes, np.zeros_like(sizes), crc_addresses()))


def sound_tails(places: Sequence[Place], bases: Sequence[int], sizes: Ints) -> Rows:
    """Look as `sound_ends`, at the last entries of the indexes alone and without checksums.

    The reference is `tail.read_tail`.
    """
    rows = _rows(bases, sizes)
    rows[:, (e.OFFSET_BYTES, e.TIME_BYTES)] = np.minimum(sizes[:, 1:], _ENTRIES)
    fit = np.flatnonzero((sizes >= 0).all(1) & (sizes[:, 1:] % _ENTRIES == 0).all(1))
    skipped = sizes.copy()
    skipped[:, 1:] -= rows[:, (e.OFFSET_BYTES, e.TIME_BYTES)]
    rows = _look(places, rows, fit, _Way(judge_last, skipped, (0, 0)))
    told = (rows[:, e.START] > 0) & (rows[:, e.TIME_BYTES] > 0)
    maximum = rows[:, e.BASE_OFFSET] + rows[:, e.LAST_RELATIVE]
    rows[told, e.MAX_TIMESTAMP_OFFSET] = maximum[told]
    return rows


class _Way(NamedTuple):
    """The parts of segments that are read.

    `skipped`: bytes at the begin of .index and .timeindex that are not read, shape (segments, 3);
    `checksums`: addresses of functions, 0: none is verified.
    """

    judge: Callable[[Rows], None]
    skipped: Ints
    checksums: tuple[int, int]


def _rows(bases: Sequence[int], sizes: Ints) -> Rows:
    rows = np.zeros((len(bases), e.COLUMNS), np.int64)
    rows[:, e.BASE_OFFSET] = bases
    rows[:, (e.LOG_BYTES, e.OFFSET_BYTES, e.TIME_BYTES)] = sizes
    return rows


def _look(places: Sequence[Place], rows: Rows, fit: NDArray[np.intp], way: _Way) -> Rows:
    """Look at the segments of these numbers: they have the three files."""
    ends = np.cumsum([place.segments for place in places])
    begin = 0
    for number in range(0, len(places), _HANDLES):
        some, end = places[number : number + _HANDLES], int(ends[number : number + _HANDLES][-1])
        with _opened([place.directory for place in some]) as handles:
            of = np.repeat(handles, [place.segments for place in some])
            chosen = fit[(fit >= begin) & (fit < end)]
            chosen = chosen[of[chosen - begin] >= 0]
            if chosen.size:
                rows[chosen] = _looked(
                    of[chosen - begin].tolist(),
                    rows[chosen],
                    way._replace(skipped=way.skipped[chosen]),
                )
        begin = end
    count_read(int(read_bytes(rows)[rows[:, e.SOUND] == 1].sum()))
    return rows


@contextmanager
def _opened(directories: Sequence[str | Path]) -> Generator[list[int]]:
    """Yield a handle per directory, -1 where it cannot be opened: the reference says why."""
    handles: list[int] = []
    try:
        for directory in directories:
            try:
                handles.append(os.open(directory, _HANDLE))
            except OSError:
                handles.append(-1)
        yield handles
    finally:
        for handle in handles:
            if handle >= 0:
                os.close(handle)


def read_bytes(rows: Rows) -> Ints:
    """Return how many bytes of logs and indexes were read for each row that is SOUND."""
    indexes = rows[:, e.OFFSET_BYTES] + rows[:, e.TIME_BYTES]
    head = np.where(rows[:, e.START] > 0, e.HEAD_BYTES, 0)
    read: Ints = indexes + head + rows[:, e.LOG_BYTES] - rows[:, e.START]
    return read


def facts_of(row: Sequence[int]) -> SegmentFacts:
    """Return the facts of a row that is SOUND."""
    return SegmentFacts(
        base_offset=row[e.BASE_OFFSET],
        depth="tail",
        log_bytes=row[e.LOG_BYTES],
        valid_bytes=row[e.LOG_BYTES],
        stop_position=row[e.LOG_BYTES],
        batches=row[e.BATCHES],
        records=row[e.RECORDS],
        first_offset=row[e.FIRST_OFFSET],
        last_offset=row[e.LAST_OFFSET],
        next_offset=row[e.NEXT_OFFSET],
        first_timestamp=row[e.FIRST_TIMESTAMP],
        max_timestamp=row[e.MAX_TIMESTAMP],
        offset_of_max_timestamp=row[e.MAX_TIMESTAMP_OFFSET],
        magics=tuple(row[e.MAGICS : e.CODECS]),  # type: ignore[arg-type]
        codecs=tuple(row[e.CODECS : e.CONTROL]),  # type: ignore[arg-type]
        control_batches=row[e.CONTROL],
        transactional_batches=row[e.TRANSACTIONAL],
        delete_horizon_batches=row[e.DELETE_HORIZON],
        highest_leader_epoch=row[e.HIGHEST_EPOCH],
    )


class _Room:
    """A buffer for the bytes of many files."""

    def __init__(self) -> None:
        self._bytes = np.empty(_ROOM, np.uint8)
        self._view = self._bytes.data
        self._address = int(self._bytes.ctypes.data)
        self.left = _ROOM

    def clear(self) -> None:
        """Forget all bytes."""
        self.left = _ROOM

    def ends(self, fd: int, position: int, size: int) -> int:
        """Read the last `size` bytes of a file, from `position` on.

        Return their address, 0 if the file does not end behind them. Raises OSError.
        """
        at = _ROOM - self.left
        if os.preadv(fd, [self._view[at : at + size + 1]], position) != size:
            return 0
        self.left -= size
        return self._address + at

    def begins(self, fd: int) -> int:
        """Read the header of a log's first batch. Return its address. Raises OSError."""
        at = _ROOM - self.left
        if os.preadv(fd, [self._view[at : at + e.HEAD_BYTES]], 0) != e.HEAD_BYTES:
            return 0
        self.left -= e.HEAD_BYTES
        return self._address + at


class _Rooms(threading.local):
    """The buffers of a thread: new memory costs more than reading the files into it."""

    def __init__(self) -> None:
        self.indexes, self.logs = _Room(), _Room()


_rooms: Final = _Rooms()


def _looked(handles: Sequence[int], rows: Rows, way: _Way) -> Rows:
    """Return the rows after the look. Each of these segments has the three files; `handles` are
    those of their directories.
    """
    stems = [f"{base:020d}" for base in rows[:, e.BASE_OFFSET].tolist()]
    indexes, logs = _rooms.indexes, _rooms.logs
    state, table = k.new_state(), k.new_table()
    points = np.empty((1, k.POINT_COLUMNS), np.int64)
    state[k.CRC32], state[k.CRC32C] = way.checksums
    skipped = way.skipped[:, 1:].tolist()
    begin = 0
    while begin < len(rows):
        some = slice(begin, None)
        end = begin + _read_indexes(handles[some], stems[some], rows[some], skipped[some], indexes)
        # The indexes are read first: every batch that they index is then already in the log.
        way.judge(rows[begin:end])
        while begin < end:
            upto = _read_logs(handles, stems, rows, range(begin, end), logs)
            judge_ends(rows[begin:upto], state, table, points)
            begin = upto
    return rows


def _read_indexes(
    handles: Sequence[int],
    stems: Sequence[str],
    rows: Rows,
    skipped: Sequence[Sequence[int]],
    room: _Room,
) -> int:
    """Read the indexes of the first rows while there is room. Return how many rows that are."""
    room.clear()
    found = []
    sizes = rows[:, (e.OFFSET_BYTES, e.TIME_BYTES)].tolist()
    each = zip(handles, stems, sizes, skipped, strict=True)
    for handle, stem, (offsets, times), (before, other) in each:
        if offsets + times + 1 > room.left:
            break
        first = _index(handle, stem + paths.OFFSET_INDEX, before, offsets, room)
        second = first and _index(handle, stem + paths.TIME_INDEX, other, times, room)
        found.append((first, second, int(second > 0)))
    rows[: len(found), (e.OFFSETS, e.TIMES, e.SOUND)] = found
    return len(found)


def _read_logs(
    handles: Sequence[int], stems: Sequence[str], rows: Rows, numbers: range, room: _Room
) -> int:
    """Read the ends of the logs of these rows while there is room, as `_read_indexes`."""
    room.clear()
    asked = rows[numbers.start : numbers.stop, (e.SOUND, e.START, e.LOG_BYTES)].tolist()
    found = []
    some = slice(numbers.start, numbers.stop)
    for handle, stem, (sound, start, size) in zip(handles[some], stems[some], asked, strict=True):
        fits = sound and size - start < _MOST
        if fits and size - start + e.HEAD_BYTES + 1 > room.left:
            break
        head, tail = _end(handle, stem + paths.LOG, start, size, room) if fits else (0, 0)
        found.append((head, tail, int(tail > 0)))
    upto = numbers.start + len(found)
    rows[numbers.start : upto, (e.HEAD, e.TAIL, e.SOUND)] = found
    return upto


def _index(handle: int, name: str, skipped: int, size: int, room: _Room) -> int:
    """Read the last `size` bytes of a file, behind the skipped ones.

    Return their address, 0 if it cannot be read.
    """
    try:
        fd = os.open(name, _FLAGS, dir_fd=handle)
    except OSError:
        return 0
    try:
        return room.ends(fd, skipped, size)
    except OSError:
        return 0
    finally:
        os.close(fd)


def _end(handle: int, name: str, start: int, size: int, room: _Room) -> tuple[int, int]:
    """Read a log from `start` on. Return the addresses of its first batch's header and of its end.

    The second is 0 if it cannot be read. There is no header if `start` is 0: all of it is read.
    """
    try:
        fd = os.open(name, _FLAGS, dir_fd=handle)
    except OSError:
        return 0, 0
    try:
        head = room.begins(fd) if start else 1
        return head, head and room.ends(fd, start, size - start)
    except OSError:
        return 0, 0
    finally:
        os.close(fd)
