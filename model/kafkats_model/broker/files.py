"""The accesses to a partition's files: read, append, cut, replace, delete.

Every write sets the file's mtime to the broker's clock, so the same requests leave the same files.
"""

from __future__ import annotations

import os
import shutil
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


def read_head(path: Path, size: int) -> bytes:
    """Return the first `size` bytes, fewer from a smaller file. Raises StorageFailed."""
    with storage(path, "reading"), path.open("rb") as file:
        return file.read(size)


def append(path: Path, data: bytes | memoryview, now_ms: int) -> None:
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


def rename(path: Path, to: Path, mtime_ms: int) -> None:
    """Rename the file, replace one of that name, and set its mtime. Raises StorageFailed."""
    with storage(path, "renaming"):
        path.replace(to)
        _stamp(to, mtime_ms)


def size_of(path: Path) -> int:
    """Return the size of the file, 0 if it is missing. Raises StorageFailed."""
    with storage(path, "looking"):
        return path.stat().st_size if path.exists() else 0


def mtime_of(path: Path) -> int:
    """Return the time of the last write in epoch ms. Raises StorageFailed."""
    with storage(path, "looking"):
        return path.stat().st_mtime_ns // 1_000_000


def delete_segment(directory: Path, base_offset: int) -> None:
    """Delete the files of a segment, but not its producer snapshot. Raises StorageFailed."""
    for kind in paths.SEGMENT_KINDS:
        if kind != paths.SNAPSHOT:
            delete(directory / paths.segment_file(base_offset, kind))


def listed(directory: Path) -> list[str]:
    """Return the names in a directory, sorted. Raises StorageFailed."""
    with storage(directory, "listing"):
        return sorted(path.name for path in directory.iterdir())


def copy(path: Path, to: Path) -> None:
    """Copy the file with its mtime. Raises StorageFailed."""
    with storage(path, "copying"):
        shutil.copy2(path, to)


def _stamp(path: Path, now_ms: int) -> None:
    os.utime(path, ns=(now_ms * 1_000_000, now_ms * 1_000_000))
