"""The common part of the offset index and the time index: a file of fixed-size entries."""

from __future__ import annotations

import errno
import os
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkats.errors import CorruptIndex, storage
from kafkats.segment.reader import count_read, open_regular

Entries = NDArray[np.void]

_MOST: Final = 2**31 - 1
"""Kafka maps a whole index file, which limits it to 2^31-1 bytes."""
_CHUNK: Final = 1 << 20


class IndexBytes(NamedTuple):
    """An index file without the zeros at its end.

    `data` ends with the last nonzero byte, rounded up to an entry; `size` is that of the whole
    file.
    """

    data: bytes
    size: int


def read_index_bytes(path: str | os.PathLike[str], entry_size: int) -> IndexBytes:
    """Return the file without the zeros at its end.

    Holes are not read, so a preallocated file costs little. Raises Vanished, StorageFailed,
    BadInput, and CorruptIndex for a file larger than any index.
    """
    fd, facts = open_regular(path)
    try:
        size = facts.st_size
        if size > _MOST:
            raise CorruptIndex(f"{size} bytes are more than an index file can have", path=path)
        with storage(path, "read"):
            data = os.pread(fd, size, 0) if size <= _CHUNK else _read_extents(fd, size)
    finally:
        os.close(fd)
    count_read(len(data))
    used = -(-len(data.rstrip(b"\0")) // entry_size) * entry_size
    return IndexBytes(data[:used], size)


def read_entries(path: str | os.PathLike[str], dtype: np.dtype[np.void]) -> tuple[Entries, int]:
    """Return the entries before the zeros of a preallocated file, and the size of the file.

    Raises as `read_index_bytes`, and CorruptIndex for a size that is not a whole number of entries.
    """
    data, size = read_index_bytes(path, dtype.itemsize)
    if size % dtype.itemsize:
        raise CorruptIndex(
            f"{size} bytes are not a whole number of entries of {dtype.itemsize}",
            path=path,
            position=size,
        )
    return whole_entries(data, dtype.itemsize, dtype), size


def _read_extents(fd: int, size: int) -> bytes:
    """Return the bytes up to the end of the last extent with data."""
    parts, at = [], 0
    while at < size:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
        except OSError as e:
            if e.errno != errno.ENXIO:  # the rest is a hole
                raise
            break
        part = os.pread(fd, _CHUNK, start)
        if not part:
            break
        parts += [bytes(start - at), part]
        at = start + len(part)
    return b"".join(parts)


def whole_entries(data: bytes, entry_size: int, dtype: np.dtype[np.void]) -> Entries:
    """Return the complete entries in `data`."""
    return np.frombuffer(data, dtype, len(data) // entry_size)
