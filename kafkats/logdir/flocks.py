"""Ask whether another process holds a flock(2) on a file of ours.

A broker's own lock is another kind (`logdir.lock`).
"""

from __future__ import annotations

import fcntl
import os


def is_flocked(path: str | os.PathLike[str], kind: int) -> bool:
    """Return whether a lock of this kind (fcntl.LOCK_SH, LOCK_EX) cannot be had. Raises OSError.

    A file that is not there is not locked. Two that ask with LOCK_SH do not take each other for
    the holder.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
