"""Do work in a child process, continue however it ends, then become the broker's process.

The work before a broker's start must not keep the broker down: a crash of the child, a kill for its
memory or the end of its time are noted, and the start goes on. The child dies with its parent.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final, NamedTuple, NoReturn

_PR_SET_PDEATHSIG: Final = 1
_ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_IGNORED_BY_PYTHON: Final = (signal.SIGPIPE, signal.SIGXFSZ)
_REAP_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.005
_MOST_SECONDS: Final = 3600.0
"""The system counts milliseconds in 32 bits, which are 24 days."""
NOT_FOUND: Final = 127
NOT_RUN: Final = 126
"""Exit codes of a command that is not there or cannot be run, as a shell has them."""


class Child(NamedTuple):
    """The end of a child: what it wrote, and how it ended ("" for well)."""

    output: bytes
    failure: str


def in_a_child(work: Callable[[], bytes], seconds: float) -> Child:
    """Do `work` in a child process of its own session, and return what it returned.

    After `seconds` it is killed, with the processes that it started. A signal that ends this
    process ends the child first. One that this process ignores, as behind nohup, ends neither.
    """
    reading, writing = os.pipe()
    parent = os.getpid()
    with _told_of_children():
        pid = os.fork()
        if pid == 0:
            _be_the_child(work, writing, parent)
        os.close(writing)
        return _waited_for(pid, reading, seconds)


def _waited_for(pid: int, reading: int, seconds: float) -> Child:
    with _ending_first(pid):
        try:
            output, ended = _read_until(reading, time.monotonic() + seconds)
        except BaseException:  # this process may become the broker, and the child works on its logs
            _kill(pid)
            _reaped(pid)
            raise
        finally:
            os.close(reading)
        if not ended:
            _kill(pid)
        status = _reaped(pid)
    return Child(output, "" if ended and status == 0 else _failure(status, ended=ended))


@contextmanager
def _told_of_children() -> Generator[None]:
    """Have the kernel keep the status of a child: behind `trap '' CHLD` it keeps none."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL if before is None else before)


@contextmanager
def _ending_first(pid: int) -> Generator[None]:
    """End a child before this process, if a signal ends that while the body runs."""

    def end(number: int, _frame: FrameType | None) -> None:
        _kill(pid)
        os._exit(128 + number)

    before = {number: signal.signal(number, end) for number in _not_ignored()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _not_ignored() -> list[signal.Signals]:
    """Return the signals that end this process. Behind nohup it ignores some."""
    return [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]


def _reaped(pid: int) -> int | None:
    """Return the status of an ended child, after the end of all that it started.

    None if it does not end: a disk that does not answer holds it in the kernel.
    """
    until = time.monotonic() + _REAP_SECONDS
    while time.monotonic() < until:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None:
            _kill(pid)
            return os.waitpid(pid, 0)[1]
        time.sleep(_POLL_SECONDS)
    return None


def _be_the_child(work: Callable[[], bytes], writing: int, parent: int) -> NoReturn:
    code = 1
    try:
        os.setsid()
        _die_with(parent)
        for number in _not_ignored():
            signal.signal(number, signal.SIG_DFL)
        data = work()
        while data:
            data = data[os.write(writing, data) :]
        code = 0
    except BaseException as e:  # its parent notes the exit code; nobody else is there
        with suppress(Exception):
            sys.excepthook(type(e), e, e.__traceback__)
    finally:
        with suppress(Exception):
            sys.stderr.flush()
        os._exit(code)


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends. Other systems lack that."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _read_until(reading: int, until: float) -> tuple[bytes, bool]:
    """Return what is written into a pipe up to a moment, and whether its writer has ended."""
    parts: list[bytes] = []
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    while (left := until - time.monotonic()) > 0:
        if not poll.poll(min(left, _MOST_SECONDS) * 1000):
            continue
        part = os.read(reading, 65536)
        if not part:
            return b"".join(parts), True
        parts.append(part)
    return b"".join(parts), False


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _failure(status: int | None, *, ended: bool) -> str:
    if not ended or status is None:
        return "the time was up"
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return f"its process was ended by signal {-code}"
    return f"its process ended with {code}"


def become(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Replace this process by a command. Returns the exit code of a shell if that fails.

    Python ignores SIGPIPE and SIGXFSZ, and a command would inherit that.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    for number in _IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(command[0], list(command), dict(environment))  # noqa: S606
    except FileNotFoundError:
        return NOT_FOUND
    except OSError:
        return NOT_RUN
