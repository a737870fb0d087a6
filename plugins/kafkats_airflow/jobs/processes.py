"""Ends all that a submit has started on this machine, also what has left its process group or lost
its parent.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Final

import psutil

from kafkats.detached.jobs import kill

PATIENCE_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.05


def end_session(session: int) -> None:
    """Kill every process of the session, until there is none.

    SIGKILL: what they write is made to be interrupted at any moment. A process that waits for a
    disk that does not answer dies when the disk does; it is not waited for any longer than
    PATIENCE_SECONDS.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while kill(session) and time.monotonic() < deadline:
        time.sleep(_PAUSE_SECONDS)


def leaders() -> set[int]:
    """Return the children of this process that lead a session."""
    return {one.pid for one in psutil.Process().children() if _leads(one.pid)}


def _leads(pid: int) -> bool:
    with suppress(ProcessLookupError, PermissionError):
        return os.getsid(pid) == pid
    return False
