"""Where the work area is, and where there is none."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from kafkats.errors import NotPermitted, Refused, StorageFailed, UsageError
from kafkats.logdir import workarea
from kafkats.logdir.changeset import purge, undo
from kafkats.logdir.disk import DISK
from kafkats.logdir.workarea import site, work_area
from tests.crash.real import fork, make_area
from tests.crash.scene import PARTITION, RUN, change, folder, look, new_bytes


def test_beside_the_log_dir(tmp_path: Path) -> None:
    area = make_area(tmp_path, "indexes")
    assert area.path == tmp_path.resolve() / ".kafkats" / "kafka-logs"
    assert area.linked
    assert not area.path.exists()


def test_by_the_real_directory_of_a_link(tmp_path: Path) -> None:
    area = make_area(tmp_path / "disk1", "indexes")
    (tmp_path / "logs").symlink_to(area.root)
    assert work_area(tmp_path / "logs") == area


def test_a_log_dir_that_is_a_mount_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    area = make_area(tmp_path, "indexes")
    monkeypatch.setattr(
        workarea, "_mount", lambda path: "inner" if path.is_relative_to(area.root) else "outer"
    )
    assert work_area(area.root) == area._replace(linked=False)
    place = tmp_path / "place"
    place.mkdir()
    assert not work_area(area.root, place).linked


def test_a_place_on_another_file_system(tmp_path: Path) -> None:
    with TemporaryDirectory(dir="/dev/shm") as place:
        area = make_area(tmp_path, "indexes", xattrs=False)
        if os.stat(place).st_dev == os.stat(tmp_path).st_dev:
            pytest.skip("one file system only")
        area = work_area(area.root, place)
        assert not area.linked
        before = look(area, DISK)
        assert change("indexes", area, DISK).state == "committed"
        assert {name: seen.data for name, seen in look(area, DISK).items()} == new_bytes("indexes")
        assert undo(area, PARTITION, RUN).state == "undone"
        assert look(area, DISK) == before
        assert sorted(os.listdir(folder(area))) == sorted(before)


def test_log_dirs_of_one_name_in_one_place(tmp_path: Path) -> None:
    one, two = make_area(tmp_path / "1", "indexes"), make_area(tmp_path / "2", "indexes")
    place = tmp_path / "place"
    place.mkdir()
    assert work_area(one.root, place).path != work_area(two.root, place).path
    assert work_area(one.root, place).linked
    assert change("indexes", work_area(one.root, place), DISK).state == "committed"


def test_never_inside_a_log_dir(tmp_path: Path) -> None:
    area = make_area(tmp_path, "indexes")
    (tmp_path / "meta.properties").touch()
    with pytest.raises(Refused, match="stops the broker"):
        work_area(area.root)
    with pytest.raises(UsageError, match="outside"):
        work_area(area.root, tmp_path)
    with pytest.raises(UsageError, match="outside"):
        work_area(area.root, folder(area))


def test_unfit_arguments(tmp_path: Path) -> None:
    area = make_area(tmp_path, "indexes")
    with pytest.raises(UsageError, match="there is no such log directory"):
        work_area(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="not a directory"):
        work_area(folder(area) / "leader-epoch-checkpoint")
    with pytest.raises(UsageError, match="work area does not exist"):
        work_area(area.root, tmp_path / "nowhere")


@pytest.mark.root("becomes another user")
def test_where_this_user_may_not_write() -> None:
    with TemporaryDirectory() as base:
        os.chmod(base, 0o755)
        area = make_area(Path(base), "indexes")

        def as_another() -> None:
            os.setresuid(1234, 1234, 1234)
            with pytest.raises(NotPermitted, match="name a place"):
                work_area(area.root)

        assert os.waitpid(fork(as_another), 0)[1] == 0


def test_a_link_planted_in_the_work_areas_place(tmp_path: Path) -> None:
    area = make_area(tmp_path, "indexes")
    target = tmp_path / "target"
    target.mkdir(mode=0o700)
    (tmp_path / ".kafkats").symlink_to(target)
    with pytest.raises(StorageFailed, match="exists"):
        change("indexes", area, DISK)
    assert os.listdir(target) == []


def test_a_link_in_the_place_of_the_old_files(tmp_path: Path) -> None:
    """A purge removes nothing behind it."""
    area = make_area(tmp_path, "indexes")
    change("indexes", area, DISK)
    old = site(area, PARTITION, RUN).undo
    target = old.rename(tmp_path / "target")
    there = os.listdir(target)
    old.symlink_to(target)
    with pytest.raises(StorageFailed, match="Not a directory"):
        purge(area, PARTITION, RUN)
    assert there and os.listdir(target) == there
