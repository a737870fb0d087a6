"""Read the bytes of one .log, as one read-only view or window by window.

A view is a memory map. Reading a map after the end of a file that was truncated meanwhile kills the
process (SIGBUS), and a broker does truncate files. So only files of directories that no broker
holds are mapped; others are read in windows. A page that the disk cannot read would kill it, too:
what is mapped here is loaded before it is read, which fails with an error instead.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import stat
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkats import paths
from kafkats.errors import BadInput, StorageFailed, UsageError, storage

Bytes = NDArray[np.uint8]

WINDOW: Final = 64 * 1024 * 1024
"""Bytes of a map processed between two chances to handle a signal (Ctrl-C)."""
BUFFER: Final = 2 * 1024 * 1024
"""Bytes per read of a file that is not mapped; small enough for the processor's cache."""


class _Count(threading.local):
    read = 0


_count: Final = _Count()
_POPULATE_READ: Final = 22
"""MADV_POPULATE_READ (Linux 5.14): load pages now, and return an error where a read would kill."""
_madvise: Final = ctypes.CDLL(None, use_errno=True).madvise  # mmap's keeps the interpreter's lock
_madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_LARGEST: Final = 32 * 1024 * 1024
"""Larger batches are always mapped. The default of message.max.bytes is 1 MiB."""


def read_so_far() -> int:
    """Return how many bytes of logs and indexes this thread has read from files or maps."""
    return _count.read


def count_read(size: int) -> None:
    """Add `size` bytes to `read_so_far`."""
    _count.read += size


class Window(NamedTuple):
    """File positions `origin` to `loaded` lie at `address`.

    Batches that begin at `limit` or later need the next window.
    """

    address: int
    origin: int
    loaded: int
    limit: int
    file_end: int


class Source(NamedTuple):
    """A .log to read.

    `window(position, needed)` loads `needed` bytes from `position` on. `read(position, size)`
    copies bytes. `only_zeros(position)` returns whether bytes follow and all of them are zeros; it
    does not read holes.
    """

    size: int
    mtime_ms: int
    window: Callable[[int, int], Window]
    read: Callable[[int, int], bytes]
    only_zeros: Callable[[int], bool]
    inode: int = -1
    """-1 for bytes in memory."""


@contextmanager
def open_segment(path: str | os.PathLike[str]) -> Generator[Bytes, None, None]:
    """Open the whole file as a read-only uint8 view of shape (size,), valid inside the `with`.

    Raises Vanished, StorageFailed, BadInput (not a regular file).
    """
    fd, facts = open_regular(path)
    try:
        with _mapped(fd, facts.st_size, path) as region:
            view = _view(region)
            _load(view, 0, 0, facts.st_size, fd, path)
            yield view
    finally:
        os.close(fd)


def log_base_offset(path: str | os.PathLike[str]) -> int:
    """Return the base offset of a segment by the path of its .log. Raises UsageError."""
    name = paths.parse_segment_file(os.fspath(path).rpartition("/")[2])
    if name is None or name.kind != paths.LOG:
        raise UsageError("not the name of a segment's .log", path=path)
    return name.base_offset


@contextmanager
def open_source(
    path: str | os.PathLike[str], *, mapped: bool = False
) -> Generator[Source, None, None]:
    """Open the file for one pass: read into one reused buffer, or mapped.

    Set `mapped` only if no broker can truncate the file meanwhile. Raises Vanished, StorageFailed,
    BadInput (not a regular file).
    """
    fd, facts = open_regular(path)
    try:
        if not mapped or facts.st_size < BUFFER:
            yield _read_source(fd, facts, path)
            return
        with _mapped(fd, facts.st_size, path) as region:
            yield _mapped_source(fd, facts, region, path)
    finally:
        os.close(fd)


@contextmanager
def open_file(path: str | os.PathLike[str]) -> Generator[int, None, None]:
    """Open a regular file and yield its descriptor. Raises Vanished, StorageFailed, BadInput."""
    fd, _ = open_regular(path)
    try:
        yield fd
    finally:
        os.close(fd)


def open_regular(path: str | os.PathLike[str]) -> tuple[int, os.stat_result]:
    """Open a regular file: a descriptor, which the caller closes, and its facts.

    Raises Vanished, StorageFailed, BadInput.
    """
    with storage(path, "open"):
        # Do not block on a FIFO at this path.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        with storage(path, "looking at the file"):
            facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            raise BadInput("not a regular file", path=path)
    except BaseException:
        os.close(fd)
        raise
    return fd, facts


def _copied(view: Bytes, position: int, length: int) -> bytes:
    return view[position : position + length].tobytes()


def _only_zeros(fd: int, path: str | os.PathLike[str], position: int) -> bool:
    with storage(path, "read"):
        size = os.fstat(fd).st_size
        at = position
        while at < size:
            try:
                at = os.lseek(fd, at, os.SEEK_DATA)
            except OSError:  # ENXIO: only a hole is left
                break
            data = os.pread(fd, BUFFER, at)
            count_read(len(data))
            if data.count(0) != len(data):
                return False
            at += max(len(data), 1)
    return position < size


@contextmanager
def _mapped(
    fd: int, size: int, path: str | os.PathLike[str]
) -> Generator[mmap.mmap | None, None, None]:
    if size == 0:
        yield None
        return
    with storage(path, "map"):
        region = mmap.mmap(fd, size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
    try:
        yield region
    finally:
        with suppress(BufferError):  # a view still exists; the last one unmaps
            region.close()


def _view(region: mmap.mmap | None) -> Bytes:
    return np.empty(0, np.uint8) if region is None else np.frombuffer(region, np.uint8)


def _load(
    view: Bytes, first: int, start: int, end: int, fd: int, path: str | os.PathLike[str]
) -> None:
    """Load the pages of bytes `start` to `end` of a map that begins at byte `first` of the file.

    Other threads go on meanwhile. Raises StorageFailed if a page cannot be read.
    """
    start = start // mmap.PAGESIZE * mmap.PAGESIZE
    for at in range(start, end, WINDOW):
        size = min(WINDOW, end - at)
        failed = _madvise(view.ctypes.data + at - first, size, _POPULATE_READ)
        # an older kernel does not know it, and loads each page when it is read
        if failed and ctypes.get_errno() != errno.EINVAL:
            _refuse_unreadable(fd, at, at + size, path)


def _refuse_unreadable(fd: int, start: int, end: int, path: str | os.PathLike[str]) -> None:
    """Raise StorageFailed with what a plain read of these bytes says."""
    while start < end:
        with storage(path, f"reading byte {start} and what follows"):
            got = len(os.pread(fd, min(BUFFER, end - start), start))
        if not got:
            raise StorageFailed("the file became shorter while it was read", path=path)
        start += got


def _mapped_source(
    fd: int, facts: os.stat_result, region: mmap.mmap | None, path: str | os.PathLike[str]
) -> Source:
    size = facts.st_size
    view = _view(region)
    address = view.ctypes.data
    step = BUFFER

    def window(position: int, needed: int) -> Window:
        nonlocal step
        limit = min(size, position + step)
        step = min(step * 2, WINDOW)  # a reader may want a few batches only
        loaded = min(size, max(position + needed, limit + BUFFER))
        _load(view, 0, position, loaded, fd, path)
        count_read(max(limit - position, 0))
        return Window(address, 0, loaded, limit, size)

    return _source_of(fd, facts, path, window, partial(_copied, view))


def _read_source(fd: int, facts: os.stat_result, path: str | os.PathLike[str]) -> Source:
    size = facts.st_size
    kept: list[NDArray[np.uint8]] = [np.empty(0, np.uint8)]

    def window(position: int, needed: int) -> Window:
        if needed > _LARGEST:
            # Most likely a corrupt size field in a sparse file: do not allocate that much memory.
            start = position // mmap.PAGESIZE * mmap.PAGESIZE
            now = os.fstat(fd).st_size
            # truncated meanwhile: reading a map after the end would kill the process
            if now < position + needed:
                return Window(kept[0].ctypes.data, position, position, position, min(now, position))
            with storage(path, "map"):
                region = mmap.mmap(
                    fd, position + needed - start, mmap.MAP_SHARED, mmap.PROT_READ, offset=start
                )
            kept[0] = np.frombuffer(region, np.uint8)
            _load(kept[0], start, start, position + needed, fd, path)
            count_read(needed)
            return Window(kept[0].ctypes.data, start, position + needed, position + needed, size)
        if len(kept[0]) > _LARGEST:
            kept[0] = np.empty(0, np.uint8)
        wanted = min(max(needed, BUFFER), size - position)
        if len(kept[0]) < wanted:
            kept[0] = np.empty(wanted, np.uint8)
        buffer = kept[0]
        with storage(path, "read"):
            got = _read_into(fd, buffer[:wanted], position)
        count_read(got)
        loaded = position + got
        file_end = size if got == wanted else loaded  # truncated meanwhile
        return Window(buffer.ctypes.data, position, loaded, loaded, file_end)

    def read(position: int, length: int) -> bytes:
        count_read(length)
        with storage(path, "read"):
            return os.pread(fd, length, position)

    return _source_of(fd, facts, path, window, read)


def _source_of(
    fd: int,
    facts: os.stat_result,
    path: str | os.PathLike[str],
    window: Callable[[int, int], Window],
    read: Callable[[int, int], bytes],
) -> Source:
    only_zeros = partial(_only_zeros, fd, path)
    mtime_ms = facts.st_mtime_ns // 1_000_000
    return Source(facts.st_size, mtime_ms, window, read, only_zeros, facts.st_ino)


def _read_into(fd: int, buffer: Bytes, position: int) -> int:
    got = 0
    while got < len(buffer):
        n = os.preadv(fd, [buffer[got:].data], position + got)
        if n == 0:
            break
        got += n
    return got
