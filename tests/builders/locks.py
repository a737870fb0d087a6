"""Locks that another process holds."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

HOLDER = """
import fcntl, sys
f = open(sys.argv[1], sys.argv[2])
fcntl.lockf(f, int(sys.argv[3]))
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def other_process(path: Path, how: int) -> Generator[int]:
    """Another process that holds the lock: exclusively, as Java's FileChannel.tryLock does, or shared. Its pid."""
    mode = "r" if how == fcntl.LOCK_SH else "r+"
    command = [sys.executable, "-c", HOLDER, str(path), mode, str(how)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"locked\n"
        try:
            yield process.pid
        finally:
            process.communicate()


@contextmanager
def broker(root: Path) -> Generator[int]:
    """Hold the lock of a log directory as a running broker does, without its mark of a clean stop. Yields the process id."""
    (root / ".kafka_cleanshutdown").unlink(missing_ok=True)
    (root / ".lock").touch()
    with other_process(root / ".lock", fcntl.LOCK_EX) as pid:
        yield pid
