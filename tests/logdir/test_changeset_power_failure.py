"""A power failure at any moment, with every legal loss of what was not synced."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kafkats.errors import KafkatsError
from kafkats.logdir.changeset import purge, resume, undo
from kafkats.logdir.disk import Disk
from kafkats.logdir.swap import Source
from tests.crash.forgetful import ForgetfulDisk
from tests.crash.memory import finishes, make, moments
from tests.crash.scene import (
    PARTITION,
    RUN,
    SCENES,
    change,
    check_never_stale,
    check_nothing_lost,
    folder,
    look,
)

scenes = pytest.mark.parametrize("scene", SCENES)


@pytest.mark.slow(3)
@pytest.mark.examples(1)
@scenes
def test_while_committing(scene: str) -> None:
    disk, area = make(scene)
    before, chance, states = look(area, disk), random.Random(1), 0
    identities = {name: disk.identify(folder(area) / name) for name in before}
    run = area.path / PARTITION / "runs" / RUN

    def act(disk: ForgetfulDisk) -> object:
        return change(scene, area, disk)

    seen: set[object] = set()
    for killed in moments(disk, act):
        check_never_stale(scene, area, killed)
        finishes(scene, area, killed.snapshot(), before)
        for crashed in killed.after_crash(chance, seen):
            states += 1
            check_never_stale(scene, area, crashed)
            check_nothing_lost(scene, area, crashed)
            if not {"journal", "journal.done"} & set(
                crashed.names(run)
            ):  # nothing may have been touched, and the plan still holds
                assert {
                    name: crashed.identify(folder(area) / name) for name in before
                } == identities
                if states % 10:
                    continue
            finishes(scene, area, crashed, before)
    print(f"{scene}: {states} states")
    assert states > 100


@pytest.mark.examples(2)
@scenes
def test_while_undoing(scene: str) -> None:
    disk, area = make(scene)
    before, chance, states = look(area, disk), random.Random(2), 0
    change(scene, area, disk)
    disk.sync_all()

    def act(disk: ForgetfulDisk) -> object:
        return undo(area, PARTITION, RUN, disk=disk)

    seen: set[object] = set()
    for killed in moments(disk, act):
        for crashed in [killed, *killed.after_crash(chance, seen)]:
            states += 1
            check_never_stale(scene, area, crashed)
            check_nothing_lost(scene, area, crashed)
            resumed = crashed.snapshot()
            if resume(area, PARTITION, RUN, disk=resumed).state == "finished":
                assert look(area, resumed) == before
            undo(area, PARTITION, RUN, disk=crashed)
            assert look(area, crashed) == before
    print(f"{scene}: {states} states")
    assert states > 50


@scenes
def test_while_purging(scene: str) -> None:
    disk, area = make(scene)
    change(scene, area, disk)
    disk.sync_all()
    after, chance = look(area, disk), random.Random(3)

    def act(disk: ForgetfulDisk) -> object:
        return purge(area, PARTITION, RUN, disk=disk)

    seen: set[object] = set()
    for killed in moments(disk, act):
        for crashed in [killed, *killed.after_crash(chance, seen)]:
            assert look(area, crashed) == after
            purge(area, PARTITION, RUN, disk=crashed)
            assert look(area, crashed) == after
            assert crashed.names(area.path / PARTITION / "runs" / RUN) == ["journal.purged"]


@pytest.mark.slow(2)
@pytest.mark.examples(1)
@scenes
def test_killed_resumed_and_then_a_power_failure(scene: str) -> None:
    """What the killed process had not synced is still not synced when the next one goes on."""
    disk, area = make(scene)
    before, chance, states = look(area, disk), random.Random(4), 0

    def again(disk: ForgetfulDisk) -> object:
        if resume(area, PARTITION, RUN, disk=disk).state == "nothing":
            return change(scene, area, disk)
        return None

    def back(disk: ForgetfulDisk) -> object:
        return undo(area, PARTITION, RUN, disk=disk)

    for killed in moments(disk, again):
        for act in (again, back):
            for twice in chance.choices(moments(killed, act), k=3):
                for _ in range(3):
                    crashed = twice.after_a_crash(chance)
                    states += 1
                    check_never_stale(scene, area, crashed)
                    check_nothing_lost(scene, area, crashed)
                    undo(area, PARTITION, RUN, disk=crashed)
                    assert look(area, crashed) == before
    print(f"{scene}: {states} states")
    assert states > 500


# The model itself can fail what it should fail


@pytest.mark.parametrize("forgotten", ["sync_file", "sync_dir"])
@pytest.mark.parametrize("scene", ["indexes", "logs"])
def test_a_missing_sync_is_noticed(
    scene: str, forgotten: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        ForgetfulDisk, forgotten, lambda self, path: self.before_effect("nothing", path)
    )
    with pytest.raises((AssertionError, KafkatsError, OSError)):
        test_while_committing(scene)


def test_a_forgotten_wave_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkats.logdir.swap._GUARDED", ())
    with pytest.raises(AssertionError, match="stale"):
        test_while_undoing("logs")


@pytest.mark.slow(1)
@pytest.mark.examples(2)
@pytest.mark.parametrize("scene", ["split", "head"])
@pytest.mark.parametrize("test", ["test_while_committing", "test_while_undoing"])
def test_a_gap_between_logs_is_noticed(
    test: str, scene: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkats.logdir.swap._log_steps", lambda steps, without, having: [])
    with pytest.raises(AssertionError, match="records are gone"):
        globals()[test](scene)


def test_a_source_that_is_used_up_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def put(source: Source, live: Path, disk: Disk) -> None:
        disk.rename(source.path, live)

    monkeypatch.setattr("kafkats.logdir.swap._put", put)
    with pytest.raises((AssertionError, KafkatsError, OSError)):
        test_while_undoing("indexes")
