"""A second recovery of a log directory waits for the first one."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from kafkats.errors import Locked
from kafkats.flow.waiting import alone
from kafkats.logdir.workarea import WorkArea, work_area

SECONDS = 60


@pytest.fixture
def areas(tmp_path: Path) -> list[WorkArea]:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    return [work_area(tmp_path / name) for name in ("a", "b")]


def test_the_second_one_begins_when_the_first_has_ended(areas: list[WorkArea]) -> None:
    order: list[str] = []
    entered = threading.Event()

    def second() -> None:
        entered.set()
        with alone(reversed(areas), time.monotonic() + SECONDS):
            order.append("second")

    thread = threading.Thread(target=second)
    with alone(areas, time.monotonic() + SECONDS):
        thread.start()
        assert entered.wait(SECONDS)
        order.append("first")
    thread.join(SECONDS)
    assert order == ["first", "second"]


def test_it_waits_no_longer_than_it_may(areas: list[WorkArea]) -> None:
    with (
        alone(areas, time.monotonic() + SECONDS),
        pytest.raises(Locked, match="another recovery") as raised,
        alone(areas[1:], time.monotonic()),
    ):
        pass
    assert raised.value.path == str(areas[1].root)
    with alone(areas, time.monotonic()):
        pass


def test_a_killed_one_keeps_nobody_waiting(areas: list[WorkArea]) -> None:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        with alone(areas, time.monotonic() + SECONDS):
            os.write(writing, b"x")
            time.sleep(SECONDS)
        os._exit(0)
    assert os.read(reading, 1) == b"x"
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    with alone(areas, time.monotonic() + SECONDS):
        pass
