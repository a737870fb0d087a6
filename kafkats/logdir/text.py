"""Read small text files, of a log directory or given by a person: whole, or line by line."""

from __future__ import annotations

import errno
import os
import stat
from typing import Final, NamedTuple

from kafkats.errors import CorruptFile, UsageError, exists, storage

_MAX_BYTES: Final = 256 * 1024 * 1024
"""A larger file is not a checkpoint: one million partitions take 70 MB."""
_AT_ONCE: Final = 4096
_IRREGULAR: Final = "not a regular file"


class Line(NamedTuple):
    """One line without its line ending.

    `number` counts from 1. `position` is the line's first byte in the file at `path`.
    """

    path: str
    number: int
    position: int
    text: str

    def corrupt(self, reason: str) -> CorruptFile:
        return CorruptFile(f"line {self.number}: {reason}", path=self.path, position=self.position)


def read_small(path: str | os.PathLike[str]) -> bytes:
    """Return all bytes of a file.

    Raises CorruptFile above 256 MiB and for anything but a regular file, Vanished or another
    StorageFailed.
    """
    with storage(path, "reading"):
        # Without O_NONBLOCK, opening a FIFO waits for a writer.
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as e:
            if e.errno != errno.ENXIO:
                raise
            raise CorruptFile(_IRREGULAR, path=path) from None  # a socket
        try:
            facts = os.fstat(fd)
            if not stat.S_ISREG(facts.st_mode):
                raise CorruptFile(_IRREGULAR, path=path)
            if facts.st_size > _MAX_BYTES:
                raise CorruptFile(f"larger than {_MAX_BYTES} bytes", path=path)
            data = os.read(fd, _AT_ONCE)
            if len(data) == facts.st_size < _AT_ONCE:
                return data
            with os.fdopen(fd, "rb", closefd=False) as f:
                return data + f.read()  # with a number it takes that much memory first
        finally:
            os.close(fd)


def read_given(path: str | os.PathLike[str], what: str) -> bytes:
    """Return all bytes of a file that a person names; `what` says which. It may be a pipe.

    Raises UsageError if it does not exist, is above 256 MiB, or is a pipe into which nobody writes;
    StorageFailed.
    """
    if not exists(path, f"reading the {what}"):
        raise UsageError(f"there is no such {what}", path=path)
    with storage(path, f"reading the {what}"), open(path, "rb", opener=_at_once) as file:
        data = _first_of_pipe(file.fileno(), path)
        os.set_blocking(file.fileno(), True)
        data += file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise UsageError(f"larger than {_MAX_BYTES} bytes", path=path)
    return data


def _at_once(path: str, flags: int) -> int:
    """Open without waiting for the writer of a FIFO."""
    return os.open(path, flags | os.O_NONBLOCK)


def _first_of_pipe(fd: int, path: str | os.PathLike[str]) -> bytes:
    """Return what a pipe holds now, up to one byte; nothing of any other file."""
    if not stat.S_ISFIFO(os.fstat(fd).st_mode):
        return b""
    try:
        data = os.read(fd, 1)
    except BlockingIOError:
        return b""  # its writer has not begun yet
    if not data:
        raise UsageError("a pipe that is empty and into which nobody writes", path=path)
    return data


def read_lines(path: str | os.PathLike[str]) -> list[Line]:
    """Return the UTF-8 lines of a file. LF or CR LF ends a line.

    The last line may lack its ending, as Java's readers allow. Raises CorruptFile for bytes that
    are not UTF-8, Vanished or another StorageFailed.
    """
    lines = []
    position = 0
    for number, raw in enumerate(read_small(path).splitlines(keepends=True), 1):
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as e:
            raise CorruptFile(
                f"line {number}: not UTF-8", path=path, position=position + e.start
            ) from None
        lines.append(Line(os.fspath(path), number, position, text.rstrip("\r\n")))
        position += len(raw)
    return lines
