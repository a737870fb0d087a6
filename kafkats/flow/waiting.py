"""Let one recovery of a log directory wait for another one."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager
from typing import Final

from kafkats.errors import Locked, storage

_POLL_SECONDS: Final = 0.1


@contextmanager
def alone(log_dirs: Iterable[str], until: float) -> Generator[None]:
    """Keep other recoveries of these log directories waiting while the body runs.

    Waits for another one up to `until` (time.monotonic). The lock is on the directory itself:
    recoveries may have different work areas. Raises Locked then, StorageFailed.
    """
    with ExitStack() as held:
        for log_dir in sorted({os.path.realpath(one) for one in log_dirs}):
            held.callback(os.close, _taken(log_dir, until))
        yield


def _taken(log_dir: str, until: float) -> int:
    """Return a descriptor that holds the lock of a log directory, until it is closed."""
    with storage(log_dir, "waiting for another recovery"):
        fd = os.open(log_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() < until:
                    time.sleep(_POLL_SECONDS)
                    continue
                os.close(fd)
                raise Locked("another recovery of it takes longer", path=log_dir) from None
            return fd
