"""Ends all that a submit has started on this machine, also what has left its process group or lost
its parent.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

import psutil

PATIENCE_SECONDS = 10.0


def end_session(session: int) -> None:
    """Kill every process of the session, until there is none.

    SIGKILL: what they write is made to be interrupted at any moment. A process that waits for a
    disk that does not answer dies when the disk does; it is not waited for any longer than
    PATIENCE_SECONDS.
    """
    if session in {0, os.getsid(0)}:
        raise ValueError(f"session {session} is our own")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (alive := members(session)) and time.monotonic() < deadline:
        for pid in alive:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def members(session: int) -> list[int]:
    """The processes of a session that run; those that have ended and are not yet waited for do not
    count.
    """
    return [pid for pid in psutil.pids() if _session_of(pid) == session and _runs(pid)]


def _session_of(pid: int) -> int:
    with suppress(ProcessLookupError, PermissionError):
        return os.getsid(pid)
    return -1


def _runs(pid: int) -> bool:
    with suppress(psutil.Error):
        alive: bool = psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        return alive
    return False


def leaders() -> set[int]:
    """Return the children of this process that lead a session."""
    children = (one.pid for one in psutil.Process().children())
    return {pid for pid in children if _session_of(pid) == pid}
