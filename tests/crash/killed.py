"""Changes that kill their process before an effect: copies of a small process, 2 ms each, where one of the tests' own takes 50.

`python -m tests.crash.killed` makes them: it reads pickled tuples of n, uid, act and words, and writes pickled exit codes.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

from tests.crash.real import become, fork
from tests.crash.watched import WatchedDisk

ROOT: Final = Path(__file__).parents[2]


def killed_at(n: int, act: Callable[..., object], *words: object, uid: int | None = None) -> int:
    """Do `act` of a module's own with these words, and a disk that kills the process before its n-th effect.

    `uid` is whose process it is; None is this user. Returns its exit code, or minus the signal that ended it.
    """
    server = _server()
    assert server.stdin and server.stdout
    pickle.dump((n, uid, act, words), server.stdin)
    server.stdin.flush()
    return int(pickle.load(server.stdout))


@cache
def _server() -> subprocess.Popen[bytes]:
    """It ends with this process, whose end of the pipe it reads."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.crash.killed"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def _do(n: int, uid: int | None, act: Callable[..., object], words: tuple[object, ...]) -> None:
    left = [n]

    def count_down(*_: object) -> None:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    if uid is not None:
        become(uid)()
    act(*words, disk=WatchedDisk(count_down))


def _serve() -> None:
    while True:
        try:
            asked = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        _, status = os.waitpid(fork(lambda asked=asked: _do(*asked)), 0)  # type: ignore[misc]
        pickle.dump(os.waitstatus_to_exitcode(status), sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    _serve()
