"""A second recovery of a log directory waits for the first one."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from kafkats.errors import Locked
from kafkats.flow.waiting import alone

SECONDS = 60


@pytest.fixture
def log_dirs(tmp_path: Path) -> list[str]:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    return [str(tmp_path / name) for name in ("a", "b")]


def test_the_second_one_begins_when_the_first_has_ended(log_dirs: list[str]) -> None:
    order: list[str] = []
    entered = threading.Event()

    def second() -> None:
        entered.set()
        with alone(reversed(log_dirs), time.monotonic() + SECONDS):
            order.append("second")

    thread = threading.Thread(target=second)
    with alone(log_dirs, time.monotonic() + SECONDS):
        thread.start()
        assert entered.wait(SECONDS)
        order.append("first")
    thread.join(SECONDS)
    assert order == ["first", "second"]


def test_it_waits_no_longer_than_it_may(log_dirs: list[str]) -> None:
    with (
        alone(log_dirs, time.monotonic() + SECONDS),
        pytest.raises(Locked, match="another recovery") as raised,
        alone(log_dirs[1:], time.monotonic()),
    ):
        pass
    assert raised.value.path == log_dirs[1]
    with alone(log_dirs, time.monotonic()):
        pass


def test_a_killed_one_keeps_nobody_waiting(log_dirs: list[str]) -> None:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        with alone(log_dirs, time.monotonic() + SECONDS):
            os.write(writing, b"x")
            time.sleep(SECONDS)
        os._exit(0)
    assert os.read(reading, 1) == b"x"
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    with alone(log_dirs, time.monotonic() + SECONDS):
        pass


def test_two_names_of_a_log_directory_are_one(log_dirs: list[str], tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(log_dirs[0])
    with alone([*log_dirs, str(tmp_path / "link")], time.monotonic()):
        pass
