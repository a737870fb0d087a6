"""Copy a range of a .log to a new file with copy_file_range, which may share blocks."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kafkats.errors import storage
from kafkats.segment.reader import open_file

_PIECE: Final = 1 << 30
_NOT_HERE: Final = (
    errno.EXDEV,
    errno.ENOSYS,
    errno.EINVAL,
    errno.EOPNOTSUPP,
    errno.EPERM,
    errno.ETXTBSY,
)
"""Errors of copy_file_range where the file systems or the kernel do not support it."""


def copy_range(log: Path, start: int, end: int, target: Path) -> None:
    """Create the file `target` from bytes `start` to `end` of `log`; share blocks if possible.

    Raises StorageFailed (also for a file that is too short), BadInput (not a regular file).
    """
    with open_file(log) as source, storage(target, "copying a part of a log"):
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            position = start
            for copied in _copied(source, fd, start, end):
                position += copied
            if position != end:
                raise OSError(errno.EIO, f"{log} ends at byte {position}, {end} were wanted")
        finally:
            os.close(fd)


def _copied(source: int, target: int, start: int, end: int) -> Iterator[int]:
    """Yield the number of bytes copied by each call."""
    position, in_kernel = start, True
    while position < end:
        size = min(end - position, _PIECE if in_kernel else 1 << 20)
        try:
            if in_kernel:
                done = os.copy_file_range(source, target, size, position)
            else:
                done = os.write(target, os.pread(source, size, position))
        except OSError as e:
            if not in_kernel or e.errno not in _NOT_HERE:
                raise
            in_kernel = False
            continue
        if done == 0:
            return
        position += done
        yield done
