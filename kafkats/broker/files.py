"""The accesses to a partition's files: read, append, cut, replace, delete.

Every write sets the file's mtime to the broker's clock, so the same requests leave the same files.
"""

from __future__ import annotations

import os
from pathlib import Path

from kafkats import paths
from kafkats.errors import storage


def make_directory(path: Path) -> None:
    """Create a directory and those above it. Raises StorageFailed."""
    with storage(path, "creating"):
        path.mkdir(parents=True)


def read(path: Path) -> bytes:
    """Return the content of the file. Raises StorageFailed."""
    with storage(path, "reading"):
        return path.read_bytes()


def append(path: Path, data: bytes, now_ms: int) -> None:
    """Append `data`; the file is created if it is missing. Raises StorageFailed."""
    with storage(path, "appending"):
        with path.open("ab") as file:
            file.write(data)
        _stamp(path, now_ms)


def write(path: Path, data: bytes, now_ms: int) -> None:
    """Replace the content of the file. Raises StorageFailed."""
    with storage(path, "writing"):
        path.write_bytes(data)
        _stamp(path, now_ms)


def cut(path: Path, size: int, now_ms: int) -> None:
    """Cut the file to `size` bytes, unless it is smaller. Raises StorageFailed."""
    with storage(path, "truncating"):
        if path.stat().st_size > size:
            os.truncate(path, size)
            _stamp(path, now_ms)


def delete(path: Path) -> None:
    """Delete the file, if it is there. Raises StorageFailed."""
    with storage(path, "deleting"):
        path.unlink(missing_ok=True)


def size_of(path: Path) -> int:
    """Return the size of the file, 0 if it is missing. Raises StorageFailed."""
    with storage(path, "looking"):
        return path.stat().st_size if path.exists() else 0


def delete_segment(directory: Path, base_offset: int) -> None:
    """Delete the files of a segment. Raises StorageFailed."""
    for kind in paths.SEGMENT_KINDS:
        delete(directory / paths.segment_file(base_offset, kind))


def _stamp(path: Path, now_ms: int) -> None:
    os.utime(path, ns=(now_ms * 1_000_000, now_ms * 1_000_000))
