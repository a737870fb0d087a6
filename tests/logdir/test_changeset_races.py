"""Several processes at once on one partition."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from kafkats.errors import Fenced, KafkatsError, Locked
from kafkats.logdir.changeset import commit, undo
from kafkats.logdir.lease import claim
from kafkats.logdir.workarea import WorkArea
from tests.crash.real import fork, make_area
from tests.crash.scene import LIVE, PARTITION, RUN, begin, change, folder, look, new_bytes
from tests.crash.watched import WatchedDisk

pytestmark = pytest.mark.forks

DISK = WatchedDisk()


@pytest.mark.slow(2)
def test_of_many_processes_one_commits(tmp_path: Path) -> None:
    results: Counter[str] = Counter()
    for turn in range(12):
        area = make_area(tmp_path / str(turn), "indexes")
        gate, opener = os.pipe()
        answers, answer = os.pipe()

        def run(
            area: WorkArea = area, gate: int = gate, opener: int = opener, answer: int = answer
        ) -> None:
            os.close(opener)
            os.read(gate, 1)  # all start when the parent closes its end
            os.write(answer, (outcome(area) + "\n").encode())

        children = [fork(run) for _ in range(4)]
        os.close(opener)
        assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
        os.close(answer)
        states = os.read(answers, 1000).decode().split()
        # Vanished: what it was building was swept away by the one that had fenced it and committed
        assert set(states) <= {"committed", "already", "Locked", "Fenced", "Changed", "Vanished"}, (
            states
        )
        assert len(states) == 4 and states.count("committed") <= 1
        wanted = (
            new_bytes("indexes") if "committed" in states else LIVE
        )  # else each fenced the one before
        assert {name: seen.data for name, seen in look(area, DISK).items()} == wanted
        results.update(states)
    assert results["committed"] > 0
    assert results["Locked"] + results["Fenced"] > 0


def outcome(area: WorkArea) -> str:
    try:
        return change("indexes", area, DISK).state
    except KafkatsError as e:
        return type(e).__name__


def test_a_stalled_process_in_the_middle_of_a_commit_keeps_others_out(tmp_path: Path) -> None:
    area = make_area(tmp_path, "indexes")

    def stall(verb: str, *paths: Path) -> None:
        if verb == "rename" and paths[-1].parent == folder(area):
            os.kill(os.getpid(), signal.SIGSTOP)

    child = fork(lambda: change("indexes", area, WatchedDisk(stall)))
    os.waitpid(child, os.WUNTRACED)
    with pytest.raises(Locked):
        claim(area, PARTITION, RUN)
    for _ in range(3):  # one stop for each file
        os.kill(child, signal.SIGCONT)
        os.waitpid(child, os.WUNTRACED)
    assert {name: seen.data for name, seen in look(area, DISK).items()} == new_bytes("indexes")
    assert change("indexes", area, DISK).state == "already"


def test_a_zombie_that_wakes_up_is_fenced(tmp_path: Path) -> None:
    area = make_area(tmp_path, "indexes")
    before = look(area, DISK)
    told, tell = os.pipe()

    def stall() -> None:
        changes, unchanged, lease = begin("indexes", area, DISK)
        os.kill(os.getpid(), signal.SIGSTOP)
        try:
            commit(folder(area), changes, unchanged, lease, disk=DISK)
        except Fenced:
            os.write(tell, b"fenced")

    zombie = fork(stall)
    os.waitpid(zombie, os.WUNTRACED)
    assert change("indexes", area, DISK).state == "committed"
    after = look(area, DISK)
    os.kill(zombie, signal.SIGCONT)
    os.waitpid(zombie, 0)
    os.close(tell)
    assert os.read(told, 100) == b"fenced"
    assert look(area, DISK) == after
    assert undo(area, PARTITION, RUN, disk=DISK).state == "undone"
    assert look(area, DISK) == before


def test_threads_of_one_process_exclude_each_other(tmp_path: Path) -> None:
    area = make_area(tmp_path, "indexes")
    claim(area, PARTITION, RUN)
    path = area.path / PARTITION / "lock"
    refused = []

    def other() -> None:
        try:
            with DISK.lock(path):
                pass
        except Locked as e:
            refused.append(e)

    with DISK.lock(path):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert len(refused) == 1
    with DISK.lock(path):
        pass


def test_the_lock_goes_with_its_process(tmp_path: Path) -> None:
    area = make_area(tmp_path, "indexes")
    claim(area, PARTITION, RUN)
    path = area.path / PARTITION / "lock"
    told, tell = os.pipe()

    def hold() -> None:
        with DISK.lock(path):
            os.write(tell, b"!")
            time.sleep(60)

    child = fork(hold)
    os.read(told, 1)
    with pytest.raises(Locked), DISK.lock(path):
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with DISK.lock(path):
        pass
