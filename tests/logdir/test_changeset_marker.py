"""A power failure while a run removes a clean-shutdown marker and cuts a log, or takes both back."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from kafkats.errors import KafkatsError
from kafkats.logdir.changeset import commit, resume, undo
from kafkats.logdir.identity import Attributes
from kafkats.logdir.lease import claim
from kafkats.logdir.staging import Remove
from kafkats.logdir.workarea import ROOT_FIRST, WorkArea
from kafkats.paths import CLEAN_SHUTDOWN
from tests.crash.forgetful import Content, ForgetfulDisk, Inode
from tests.crash.memory import make, moments
from tests.crash.scene import PARTITION, RUN, change, look

MARKER = Content(b'{"version":0,"brokerEpoch":8}', 10**17, Attributes(0o640, 7, 8, ()))
Step = Callable[[WorkArea, ForgetfulDisk], object]


def marked() -> tuple[ForgetfulDisk, WorkArea]:
    disk, area = make("cut")
    disk._name(area.root / CLEAN_SHUTDOWN, disk._new(Inode(MARKER)))
    disk.sync_all()
    return disk, area


def is_marked(area: WorkArea, disk: ForgetfulDisk) -> bool:
    return CLEAN_SHUTDOWN in disk.names(area.root)


def remove_marker(area: WorkArea, disk: ForgetfulDisk) -> None:
    if resume(area, ROOT_FIRST, RUN, disk=disk).state != "nothing":
        return
    lease = claim(area, ROOT_FIRST, RUN, disk=disk)
    before = disk.identify(area.root / CLEAN_SHUTDOWN)
    assert before is not None
    commit(area.root, [Remove(CLEAN_SHUTDOWN, before)], {}, lease, disk=disk)


def cut(area: WorkArea, disk: ForgetfulDisk) -> None:
    if resume(area, PARTITION, RUN, disk=disk).state == "nothing":
        change("cut", area, disk)


def restore_log(area: WorkArea, disk: ForgetfulDisk) -> None:
    undo(area, PARTITION, RUN, disk=disk)


def restore_marker(area: WorkArea, disk: ForgetfulDisk) -> None:
    undo(area, ROOT_FIRST, RUN, disk=disk)


def in_turn(area: WorkArea, steps: tuple[Step, ...]) -> Callable[[ForgetfulDisk], object]:
    return lambda disk: [step(area, disk) for step in steps]


def check_each_moment(forward: tuple[Step, ...], back: tuple[Step, ...]) -> None:
    """At every moment a marker stands beside the old log only, and an undo brings all of it back."""
    disk, area = marked()
    before, chance, states = look(area, disk), random.Random(5), 0
    attributes = disk.attributes(area.root / CLEAN_SHUTDOWN)
    for steps in (forward, back):
        seen: set[object] = set()
        for killed in moments(disk, in_turn(area, steps)):
            for crashed in [killed, *killed.after_crash(chance, seen)]:
                states += 1
                if is_marked(area, crashed):
                    assert look(area, crashed) == before, "a marker beside another log"
                if states % 8:
                    continue
                in_turn(area, back)(crashed)
                assert is_marked(area, crashed) and look(area, crashed) == before
                assert crashed.read(area.root / CLEAN_SHUTDOWN) == MARKER.data
                assert crashed.attributes(area.root / CLEAN_SHUTDOWN) == attributes
        in_turn(area, steps)(disk)
        disk.sync_all()
    print(f"{states} states")
    assert states > 200


@pytest.mark.slow(3)
@pytest.mark.examples(1)
def test_a_marker_is_removed_before_a_log_is_cut_and_test_a_marker_is_removed_before_a_log_is_cut_and_restored_after_it() -> (
    None
):
    check_each_moment((remove_marker, cut), (restore_log, restore_marker))


@pytest.mark.slow(1)
@pytest.mark.parametrize(
    ("forward", "back"),
    [
        ((cut, remove_marker), (restore_log, restore_marker)),
        ((remove_marker, cut), (restore_marker, restore_log)),
    ],
)
def test_the_other_order_is_noticed(forward: tuple[Step, ...], back: tuple[Step, ...]) -> None:
    with pytest.raises(AssertionError, match="beside another log"):
        check_each_moment(forward, back)


def test_a_removal_that_is_not_synced_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    sync_dir = ForgetfulDisk.sync_dir

    def forgotten(disk: ForgetfulDisk, path: object) -> None:
        if str(path) != "/data/kafka-logs":
            sync_dir(disk, path)  # type: ignore[arg-type]

    monkeypatch.setattr(ForgetfulDisk, "sync_dir", forgotten)
    with pytest.raises((AssertionError, KafkatsError)):
        check_each_moment((remove_marker, cut), (restore_log, restore_marker))
