"""The file system says no at every point: a clear error, nothing lost, and a later call finishes or takes back."""

from __future__ import annotations

import errno
import os

import pytest

from kafkats.errors import DiskFull, NotPermitted, ReadOnly, StorageFailed
from kafkats.logdir.changeset import undo
from tests.crash.memory import acts, effects, finishes, make
from tests.crash.scene import (
    PARTITION,
    RUN,
    SCENES,
    change,
    check_never_stale,
    check_nothing_lost,
    look,
)

NO = {
    errno.ENOSPC: DiskFull,
    errno.EDQUOT: DiskFull,
    errno.EROFS: ReadOnly,
    errno.EIO: StorageFailed,
}


@pytest.mark.slow(1)
@pytest.mark.examples(5)
@pytest.mark.parametrize("number", NO, ids=lambda n: errno.errorcode[n])
@pytest.mark.parametrize("scene", SCENES)
def test_while_committing(scene: str, number: int) -> None:
    disk, area = make(scene)
    before = look(area, disk)
    for n in range(len(effects(disk, acts(scene, area)["commit"]))):
        failing, left = disk.snapshot(), [n]

        def fail(_: str, *paths: object, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:  # this one and all that follow
                raise OSError(number, os.strerror(number), str(paths[-1]))

        failing.before_effect = fail
        with pytest.raises(NO[number]) as caught:
            change(scene, area, failing)
        assert caught.value.path and caught.value.path.startswith("/data")
        assert os.strerror(number) in caught.value.reason
        failing.before_effect = lambda *_: None
        check_never_stale(scene, area, failing)
        check_nothing_lost(scene, area, failing)
        finishes(scene, area, failing, before)


@pytest.mark.slow(1)
@pytest.mark.parametrize("number", NO, ids=lambda n: errno.errorcode[n])
@pytest.mark.parametrize("scene", SCENES)
def test_while_undoing(scene: str, number: int) -> None:
    disk, area = make(scene)
    before = look(area, disk)
    change(scene, area, disk)
    for n in range(len(effects(disk, acts(scene, area)["undo"]))):
        failing, left = disk.snapshot(), [n]

        def fail(_: str, *paths: object, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise OSError(number, os.strerror(number), str(paths[-1]))

        failing.before_effect = fail
        with pytest.raises(NO[number]):
            undo(area, PARTITION, RUN, disk=failing)
        failing.before_effect = lambda *_: None
        check_never_stale(scene, area, failing)
        check_nothing_lost(scene, area, failing)
        undo(area, PARTITION, RUN, disk=failing)
        assert look(area, failing) == before


def test_attributes_that_cannot_be_given_leave_everything_as_it_was() -> None:
    disk, area = make("logs")
    before = look(area, disk)

    def refuse(verb: str, *paths: object) -> None:
        if verb == "set_xattrs":
            raise NotPermitted("no", path=str(paths[0]))

    disk.before_effect = refuse
    with pytest.raises(NotPermitted):
        change("logs", area, disk)
    disk.before_effect = lambda *_: None
    assert look(area, disk) == before
    finishes("logs", area, disk, before)
