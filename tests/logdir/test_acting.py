"""Root acts as the owner of log directories. Only root can try it."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkats.errors import Refused
from kafkats.logdir.acting import acting_as, as_owner, as_owner_of
from kafkats.logdir.disk import DISK
from kafkats.logdir.reservation import reservation_area
from kafkats.logdir.workarea import make_area, work_area
from tests.privileges import refuse_without

USER = 65534


@pytest.fixture
def disk() -> Iterator[Path]:
    """A folder into which each user may look, with log directories of another user."""
    if os.geteuid() != 0:
        refuse_without("acts as another user")
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    for name in ("a", "b"):
        (folder / name).mkdir()
        os.chown(folder / name, USER, USER)
    yield folder
    shutil.rmtree(folder)


def in_a_process(work: Callable[[], object]) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if work() else 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_root_writes_as_the_owner_and_is_root_again(disk: Path) -> None:
    secret = disk / "secret"
    secret.write_bytes(b"x")
    secret.chmod(0o600)
    before = (os.geteuid(), os.getegid(), os.getgroups())
    with as_owner([str(disk / "a"), str(disk / "b")], None):
        (disk / "a" / "new").touch()
        with pytest.raises(PermissionError):
            secret.open("ab")
        assert secret.read_bytes() == b"x"  # as the tool's own files may be
    assert ((disk / "a" / "new").stat().st_uid, (disk / "a" / "new").stat().st_gid) == (USER, USER)
    assert (os.geteuid(), os.getegid(), os.getgroups()) == before


@pytest.mark.parametrize("placed", [False, True])
def test_work_areas_are_made_where_only_root_may(disk: Path, placed: bool) -> None:
    (disk / "place").mkdir()
    place = disk / "place" if placed else None
    with as_owner([str(disk / "a")], place):
        areas = [work_area(disk / "a", place), reservation_area(disk / "a", place)]
        for area in areas:
            make_area(area, DISK)
            (area.path / "new").touch()
    assert [area.path.stat().st_uid for area in areas] == [USER, USER]
    assert areas[1].beside


def test_a_folder_that_its_owner_laid_leads_root_nowhere(disk: Path) -> None:
    os.chown(disk, USER, USER)
    (disk / "root").mkdir()
    (disk / ".kafkats").symlink_to(disk / "root")
    os.chown(disk / ".kafkats", USER, USER, follow_symlinks=False)
    with as_owner([str(disk / "a")], None), pytest.raises(PermissionError):
        (disk / ".kafkats" / "a").mkdir()
    with as_owner_of(disk / ".kafkats", work_area(disk / "b")), pytest.raises(PermissionError):
        (disk / ".kafkats" / "b").mkdir()
    assert os.listdir(disk / "root") == []


def test_log_directories_of_several_users_are_refused(disk: Path) -> None:
    os.chown(disk / "b", USER - 1, USER)
    with (
        pytest.raises(Refused, match="another user"),
        as_owner([str(disk / "a"), str(disk / "b")], None),
    ):
        pass


def test_a_log_directory_of_root_is_worked_on_as_root(disk: Path) -> None:
    os.chown(disk / "a", 0, 0)
    with as_owner([str(disk / "a")], None):
        assert os.geteuid() == 0


def test_another_user_stays_who_he_is(disk: Path) -> None:
    def work() -> bool:
        os.setuid(USER)
        with as_owner([str(disk / "a")], None), acting_as(USER - 1, USER):
            return os.geteuid() == USER

    assert in_a_process(work) == 0


def test_the_process_still_ends_with_its_parent(disk: Path) -> None:
    def work() -> bool:
        libc, number = ctypes.CDLL(None), ctypes.c_int()
        libc.prctl(1, signal.SIGKILL, 0, 0, 0)
        found = []
        with acting_as(USER, USER):
            libc.prctl(2, ctypes.byref(number), 0, 0, 0)
            found.append(number.value)
        libc.prctl(2, ctypes.byref(number), 0, 0, 0)
        return [*found, number.value] == [signal.SIGKILL] * 2

    assert in_a_process(work) == 0
