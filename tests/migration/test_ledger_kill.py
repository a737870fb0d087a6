"""kill -9 and power failures while the ledger is written: what was reported stays, and the next append mends the rest."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkats.migration import ledger
from kafkats.migration.ledger import Entry, append, read
from tests.crash.real import fork

pytestmark = pytest.mark.forks

STARTS = (
    "no folder",
    "no file",
    "an empty file",
    "entries",
    "entries and a torn line",
    "no line end",
)
CUT = 11
"""A write that was stopped in the middle has put so many bytes."""
EFFECTS = ("fsync", "ftruncate", "write")


def begin(base: Path, start: str) -> tuple[Path, tuple[Entry, ...]]:
    path = base / "runs" / "ledger.jsonl"
    if start != "no folder":
        path.parent.mkdir(parents=True)
    if start == "an empty file":
        path.touch()
    if start in {"entries", "entries and a torn line", "no line end"}:
        note(path, 1)
        note(path, 2)
    if start == "entries and a torn line":
        with path.open("ab") as file:
            file.write(b'{"number": 3, "at": "19')
    if start == "no line end":
        path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    return path, read(path).entries if path.exists() else ()


def note(path: Path, n: int) -> Entry:
    return append(path, "note", by="me", now_ms=n, details={"n": n, "fill": "x" * 200})


def watched(before: Callable[[str, int, tuple[Any, ...]], None]) -> None:
    """Call `before` with each effect that the ledger has on the disk, in this process, for good."""
    for name in EFFECTS:
        real = getattr(os, name)

        def call(fd: int, *rest: Any, name: str = name, real: Callable[..., Any] = real) -> Any:
            before(name, fd, rest)
            return real(fd, *rest)

        setattr(os, name, call)


def killed_at(point: int, path: Path, cut: bool) -> bool:
    """Append in a process that kills itself before its effect of this number (in the middle of it, where it is a
    write and `cut`); False when the append came to its end."""
    left = [point]
    real_write = os.write

    def count_down(name: str, fd: int, rest: tuple[Any, ...]) -> None:
        if left[0] == 0:
            if cut and name == "write":
                real_write(fd, rest[0][:CUT])
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1

    def act() -> None:
        watched(count_down)
        note(path, 99)

    _, status = os.waitpid(fork(act), 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def check_mended(path: Path, reported: tuple[Entry, ...]) -> None:
    """Everything reported is there; what was not may be, whole; and the ledger goes on."""
    found = read(path) if path.exists() else ledger.Ledger((), 0)
    assert found.entries[: len(reported)] == reported
    assert [e.details["n"] for e in found.entries[len(reported) :]] in ([], [99])
    more = note(path, 100)
    assert read(path) == ((*found.entries, more), 0)


@pytest.mark.examples(3)
@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("start", STARTS)
def test_killed_before_every_effect(tmp_path: Path, start: str, cut: bool) -> None:
    killed = 0
    for point in range(20):
        path, reported = begin(tmp_path / str(point), start)
        if not killed_at(point, path, cut):
            break
        killed += 1
        check_mended(path, reported)
    assert 2 <= killed < 20, "write and fsync at least"


def states(synced: bytes, now: bytes) -> Iterator[bytes]:
    """What a power failure may leave of a file: every length of what was not synced, and pages of zeros in it."""
    common = next(
        (i for i, (a, b) in enumerate(zip(synced, now, strict=False)) if a != b),
        min(len(synced), len(now)),
    )
    yield synced
    yield now
    for end in range(common, len(now), 13):
        yield now[:end]
        yield now[:end] + bytes(len(now) - end)
        yield now[:common] + bytes(end - common) + now[end:]
    yield now[:common]


@pytest.mark.parametrize(
    "start", ["an empty file", "entries", "entries and a torn line", "no line end"]
)
def test_power_fails_before_every_effect(
    tmp_path: Path, start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in EFFECTS:
        monkeypatch.setattr(os, name, getattr(os, name))  # taken back by itself
    path, reported = begin(tmp_path / "live", start)
    synced = path.read_bytes()
    left: list[bytes] = []

    def remember(name: str, fd: int, rest: tuple[Any, ...]) -> None:
        nonlocal synced
        now = path.read_bytes()
        left.extend(states(synced, now))
        if name == "fsync" and os.readlink(f"/proc/self/fd/{fd}").endswith(".jsonl"):
            synced = now

    watched(remember)
    done = note(path, 99)
    monkeypatch.undo()
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # thousands of them would show nothing more
    for n, data in enumerate(dict.fromkeys(left)):
        after = tmp_path / "after" / str(n) / "ledger.jsonl"
        after.parent.mkdir(parents=True)
        after.write_bytes(data)
        check_mended(after, reported)
    assert len(set(left)) > 20
    for data in set(states(synced, path.read_bytes())):
        (tmp_path / "reported").write_bytes(data)
        assert read(tmp_path / "reported") == ((*reported, done), 0)


@pytest.mark.slow(2)
def test_killed_at_any_moment_beside_one_that_lives(tmp_path: Path) -> None:
    path, dice = tmp_path / "ledger.jsonl", random.Random(7)
    note(path, 0)
    reported: set[str] = set()
    for _ in range(15):
        reading, writing = os.pipe()

        def act(writing: int = writing) -> None:
            for n in range(10**6):
                os.write(writing, note(path, n).digest.encode())

        child = fork(act)
        os.close(writing)
        said = os.read(reading, 64) + os.read(reading, 64)  # it is in the middle of its work
        until = time.monotonic() + dice.uniform(0.01, 0.15)
        while time.monotonic() < until:
            reported.add(note(path, -1).digest)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(reading, "rb") as file:
            told = (said + file.read()).decode()
        reported |= {told[at : at + 64] for at in range(0, len(told) - 63, 64)}
    entries, _ = read(path)
    assert reported <= {e.digest for e in entries}
    assert any(e.details["n"] > 0 for e in entries)
