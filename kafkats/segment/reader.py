"""The bytes of one .log: as one read-only view, or window by window.

A view is a memory map. Reading a map behind the end of a file that was cut meanwhile kills the process (SIGBUS), and a
broker does cut: so a map is for directories that no broker holds, and windows that are read (not mapped) for the others.
"""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkats.errors import BadInput, storage

Bytes = NDArray[np.uint8]

WINDOW: Final = 64 * 1024 * 1024
"""Bytes of a map between two looks at what else there is to do (Ctrl-C)."""
BUFFER: Final = 2 * 1024 * 1024
"""Bytes that are read at once where a file is not mapped; small enough for the processor's cache."""


_LARGEST: Final = 32 * 1024 * 1024
"""Batches above this are mapped in any case; message.max.bytes is 1 MiB unless somebody raised it."""


class Window(NamedTuple):
    """File positions `origin` to `loaded` lie at `address`. Batches that begin at `limit` or later want the next window."""

    address: int
    origin: int
    loaded: int
    limit: int
    file_end: int


class Source(NamedTuple):
    """A .log to go through. `window(position, needed)` brings `needed` bytes from `position` on, `read(position, size)` copies
    them; `only_zeros(position)` says whether there is a rest and all of it is zeros (holes are not read)."""

    size: int
    mtime_ms: int
    window: Callable[[int, int], Window]
    read: Callable[[int, int], bytes]
    only_zeros: Callable[[int], bool]


@contextmanager
def open_segment(path: str | os.PathLike[str]) -> Generator[Bytes, None, None]:
    """The whole file as a read-only uint8 view of shape (size,), valid inside the `with`.

    Raises Vanished, StorageFailed, BadInput (not a regular file).
    """
    with open_file(path) as fd, _mapped(fd, _facts(fd, path).st_size, path) as view:
        yield view


@contextmanager
def open_source(path: str | os.PathLike[str], *, mapped: bool = False) -> Generator[Source, None, None]:
    """The file for one pass: read into one reused buffer or, where nobody can cut it meanwhile, mapped.

    Raises Vanished, StorageFailed, BadInput (not a regular file).
    """
    with open_file(path) as fd:
        facts = _facts(fd, path)
        if not mapped or facts.st_size < BUFFER:
            yield _read_source(fd, facts, path)
            return
        with _mapped(fd, facts.st_size, path) as view:
            yield _mapped_source(fd, facts, view, path)


@contextmanager
def open_file(path: str | os.PathLike[str]) -> Generator[int, None, None]:
    """A descriptor of a regular file, closed afterwards."""
    with storage(path, "open"):
        # A FIFO in a file's place must not make us wait for a writer.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(_facts(fd, path).st_mode):
            raise BadInput("not a regular file", path=path)
        yield fd
    finally:
        os.close(fd)


def _facts(fd: int, path: str | os.PathLike[str]) -> os.stat_result:
    with storage(path, "looking at the file"):
        return os.fstat(fd)


def array_source(view: Bytes, mtime_ms: int = -1) -> Source:
    """Bytes in memory as a source; `view` must stay alive and be contiguous."""
    size, address = len(view), view.ctypes.data if len(view) else 0
    whole = Window(address, 0, size, size, size)

    def read(position: int, length: int) -> bytes:
        return view[position : position + length].tobytes()

    def only_zeros(position: int) -> bool:
        return position < size and not view[position:].any()

    return Source(size, mtime_ms, lambda position, needed: whole, read, only_zeros)


def _only_zeros(fd: int, position: int, path: str | os.PathLike[str]) -> bool:
    with storage(path, "read"):
        size = os.fstat(fd).st_size
        at = position
        while at < size:
            try:
                at = os.lseek(fd, at, os.SEEK_DATA)
            except OSError:  # ENXIO: only a hole is left
                break
            data = os.pread(fd, BUFFER, at)
            if data.count(0) != len(data):
                return False
            at += max(len(data), 1)
    return position < size


@contextmanager
def _mapped(fd: int, size: int, path: str | os.PathLike[str]) -> Generator[Bytes, None, None]:
    if size == 0:
        yield np.empty(0, np.uint8)
        return
    with storage(path, "map"):
        region = mmap.mmap(fd, size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
    try:
        yield np.frombuffer(region, np.uint8)
    finally:
        with suppress(BufferError):  # a view of it lives on; the last one unmaps
            region.close()


def _mapped_source(fd: int, facts: os.stat_result, view: Bytes, path: str | os.PathLike[str]) -> Source:
    size = facts.st_size
    address = view.ctypes.data

    def window(position: int, needed: int) -> Window:
        return Window(address, 0, size, min(size, position + WINDOW), size)

    def read(position: int, length: int) -> bytes:
        return view[position : position + length].tobytes()

    return Source(size, facts.st_mtime_ns // 1_000_000, window, read, lambda position: _only_zeros(fd, position, path))


def _read_source(fd: int, facts: os.stat_result, path: str | os.PathLike[str]) -> Source:
    size = facts.st_size
    kept: list[Any] = [np.empty(0, np.uint8)]

    def window(position: int, needed: int) -> Window:
        if needed > _LARGEST:
            # A size field gone wild in a sparse file, most likely: that much memory is not worth it.
            start = position // mmap.PAGESIZE * mmap.PAGESIZE
            now = os.fstat(fd).st_size
            if now < position + needed:  # cut meanwhile: a map behind the end would kill the process
                return Window(kept[0].ctypes.data, position, position, position, min(now, position))
            with storage(path, "map"):
                region = mmap.mmap(fd, position + needed - start, mmap.MAP_SHARED, mmap.PROT_READ, offset=start)
            kept[0] = np.frombuffer(region, np.uint8)
            return Window(kept[0].ctypes.data, start, position + needed, position + needed, size)
        if len(kept[0]) > _LARGEST:
            kept[0] = np.empty(0, np.uint8)
        wanted = min(max(needed, BUFFER), size - position)
        if len(kept[0]) < wanted:
            kept[0] = np.empty(wanted, np.uint8)
        buffer = kept[0]
        with storage(path, "read"):
            got = _read_into(fd, buffer[:wanted], position)
        loaded = position + got
        file_end = size if got == wanted else loaded  # cut meanwhile
        return Window(buffer.ctypes.data, position, loaded, loaded, file_end)

    def read(position: int, length: int) -> bytes:
        with storage(path, "read"):
            return os.pread(fd, length, position)

    return Source(size, facts.st_mtime_ns // 1_000_000, window, read, lambda position: _only_zeros(fd, position, path))


def _read_into(fd: int, buffer: Bytes, position: int) -> int:
    got = 0
    while got < len(buffer):
        n = os.preadv(fd, [buffer[got:].data], position + got)
        if n == 0:
            break
        got += n
    return got
