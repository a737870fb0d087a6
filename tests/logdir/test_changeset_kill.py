"""kill -9 at every point, on a real file system. The list of points is docs/crash-points.md; -s prints it as they pass."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkats.logdir.changeset import purge, resume, undo
from kafkats.logdir.workarea import WorkArea
from tests.crash import memory
from tests.crash.killed import killed_at
from tests.crash.real import make_area
from tests.crash.scene import (
    PARTITION,
    RUN,
    SCENES,
    Seen,
    change,
    check_never_stale,
    check_nothing_lost,
    folder,
    look,
    new_bytes,
)
from tests.crash.watched import WatchedDisk

pytestmark = pytest.mark.forks

scenes = pytest.mark.parametrize("scene", SCENES)
DISK = WatchedDisk()


def killed(n: int, act: Callable[..., object], *words: object) -> None:
    assert killed_at(n, act, *words) == -signal.SIGKILL, f"was not killed at {n}"


def points(scene: str, act: str, after: tuple[str, ...] = ()) -> list[str]:
    disk, area = memory.make(scene)
    acts = memory.acts(scene, area)
    for name in after:
        acts[name](disk)
    return memory.effects(disk, acts[act])


@scenes
def test_the_real_disk_is_used_as_the_one_in_memory(tmp_path: Path, scene: str) -> None:
    found: list[str] = []
    area = make_area(tmp_path, scene)
    disk = WatchedDisk(lambda verb, *paths: found.append(memory.in_words(tmp_path, verb, *paths)))
    change(scene, area, disk)
    assert found == points(scene, "commit")
    found.clear()
    undo(area, PARTITION, RUN, disk=disk)
    assert found == points(scene, "undo", after=("commit",))
    found.clear()
    purge(area, PARTITION, RUN, disk=disk)
    assert found == points(scene, "purge", after=("commit", "undo"))


@pytest.mark.examples(2)
@scenes
def test_commit(tmp_path: Path, scene: str) -> None:
    for n, point in enumerate(points(scene, "commit")):
        area, before, inodes = fresh(tmp_path / str(n), scene)
        killed(n, change, scene, area)
        print(f"{scene}: commit killed before {point}")
        check_never_stale(scene, area, DISK)
        check_nothing_lost(scene, area, DISK)
        if n % 2:  # the rerun finishes it; every other time undo takes it back at once
            if resume(area, PARTITION, RUN, disk=DISK).state == "nothing":
                change(scene, area, DISK)
            assert {name: seen.data for name, seen in look(area, DISK).items()} == new_bytes(scene)
        undo(area, PARTITION, RUN, disk=DISK)
        check_as_before(area, before, inodes)


@pytest.mark.slow(1)
@scenes
def test_undo(tmp_path: Path, scene: str) -> None:
    for n, point in enumerate(points(scene, "undo", after=("commit",))):
        area, before, inodes = fresh(tmp_path / str(n), scene)
        change(scene, area, DISK)
        killed(n, undo, area, PARTITION, RUN)
        print(f"{scene}: undo killed before {point}")
        check_never_stale(scene, area, DISK)
        check_nothing_lost(scene, area, DISK)
        resume(area, PARTITION, RUN, disk=DISK)
        undo(area, PARTITION, RUN, disk=DISK)
        check_as_before(area, before, inodes)


@pytest.mark.slow(1)
@scenes
def test_purge(tmp_path: Path, scene: str) -> None:
    for n, point in enumerate(points(scene, "purge", after=("commit",))):
        area, _, _ = fresh(tmp_path / str(n), scene)
        change(scene, area, DISK)
        after = look(area, DISK)
        killed(n, purge, area, PARTITION, RUN)
        print(f"{scene}: purge killed before {point}")
        assert look(area, DISK) == after
        purge(area, PARTITION, RUN, disk=DISK)
        assert look(area, DISK) == after
        assert os.listdir(area.path / PARTITION / "runs" / RUN) == ["journal.purged"]


@pytest.mark.slow(1)
@scenes
def test_the_rerun_is_killed_too(tmp_path: Path, scene: str) -> None:
    first = len(points(scene, "commit")) * 3 // 4  # among the swaps
    n = 0
    while True:
        area, before, inodes = fresh(tmp_path / str(n), scene)
        killed(first, change, scene, area)
        try:
            killed(n, resume, area, PARTITION, RUN)
        except AssertionError:
            break
        check_never_stale(scene, area, DISK)
        check_nothing_lost(scene, area, DISK)
        resume(area, PARTITION, RUN, disk=DISK)
        assert {name: seen.data for name, seen in look(area, DISK).items()} == new_bytes(scene)
        undo(area, PARTITION, RUN, disk=DISK)
        check_as_before(area, before, inodes)
        n += 1
    assert n > 5


def fresh(base: Path, scene: str) -> tuple[WorkArea, dict[str, Seen], dict[str, int]]:
    area = make_area(base, scene)
    before = look(area, DISK)
    return area, before, {name: (folder(area) / name).stat().st_ino for name in before}


def check_as_before(area: WorkArea, before: dict[str, Seen], inodes: dict[str, int]) -> None:
    assert look(area, DISK) == before
    assert sorted(os.listdir(folder(area))) == sorted(before)
    assert {name: (folder(area) / name).stat().st_ino for name in before} == inodes
