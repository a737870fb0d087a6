"""Let one recovery of a log directory wait for another one."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager, suppress
from typing import Final

from kafkats.errors import Locked, storage
from kafkats.logdir.disk import DISK
from kafkats.logdir.workarea import WorkArea, make_area

NAME: Final = "recover.lock"
_POLL_SECONDS: Final = 0.1


@contextmanager
def alone(areas: Iterable[WorkArea], until: float) -> Generator[None]:
    """Keep other recoveries of these log directories waiting while the body runs.

    Waits for another one up to `until` (time.monotonic). Raises Locked then, NotPermitted,
    StorageFailed.
    """
    with ExitStack() as held:
        for area in sorted(areas, key=lambda one: str(one.path)):
            held.callback(os.close, _taken(area, until))
        yield


def _taken(area: WorkArea, until: float) -> int:
    """Return a descriptor that holds the lock of a work area, until it is closed."""
    path = area.path / NAME
    with storage(path, "waiting for another recovery"):
        make_area(area, DISK)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with suppress(PermissionError):
            os.fchown(fd, area.uid, area.gid)
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() < until:
                    time.sleep(_POLL_SECONDS)
                    continue
                os.close(fd)
                raise Locked("another recovery of it takes longer", path=area.root) from None
            return fd
