"""Have the kernel read files before they are looked at: their disk is not idle meanwhile."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from kafkats.execution.processors import free_bytes

_STEP: Final = 2 * 1024**2
_PART: Final = 4
"""A part of the free memory holds what is read ahead: more could push out what was not used yet."""
_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class ReadAhead:
    """The files, in their order, and how many bytes may still be read ahead."""

    def __init__(self, files: Iterable[Path], room: int) -> None:
        self._files, self._room = files, room
        self._changed = threading.Condition()
        self._ended = False

    def used(self, size: int) -> None:
        """Say that so many bytes were looked at. As many more are read."""
        with self._changed:
            self._room += size
            self._changed.notify()

    def end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify()

    def run(self) -> None:
        for path in self._files:
            with suppress(OSError):  # whoever looks at it tells
                self._read(path)
            if self._ended:
                return

    def _read(self, path: Path) -> None:
        fd = os.open(path, _FLAGS)
        try:
            size = os.fstat(fd).st_size
            for at in range(0, size, _STEP):
                with self._changed:
                    self._changed.wait_for(lambda: self._ended or self._room > 0)
                    self._room -= _STEP
                if self._ended:
                    return
                last = min(at + _STEP, size) - 1
                if not _is_cached(fd, last):
                    os.posix_fadvise(fd, at, _STEP, os.POSIX_FADV_WILLNEED)
                    os.pread(fd, 1, last)  # waits: others need the disk, too
        finally:
            os.close(fd)


@contextmanager
def reading_ahead(files: Iterable[Path], room: int | None = None) -> Generator[ReadAhead]:
    """Read files while the body runs, up to `room` bytes more than `used` says.

    The default is a part of the free memory. Files that cannot be read are passed.
    """
    ahead = ReadAhead(files, free_bytes() // _PART if room is None else room)
    thread = threading.Thread(target=ahead.run, daemon=True)
    thread.start()
    try:
        yield ahead
    finally:
        ahead.end()  # a disk that does not answer holds the thread only


def _is_cached(fd: int, at: int) -> bool:
    """Return whether the kernel has the byte at `at` in memory, or cannot tell without reading."""
    try:
        os.preadv(fd, [bytearray(1)], at, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
