"""Records of what log directories had, and the folders of recoveries."""

from __future__ import annotations

import importlib
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from kafkats.clock import DAY_MS
from kafkats.errors import StorageFailed
from kafkats.logdir.lock import lock_state
from kafkats.logdir.mounts import Mount, uuid_of
from kafkats.logdir.workarea import work_area
from kafkats.recovery.before import look_before
from kafkats.recovery.holding import Disk, Owner
from kafkats.recovery.kept_runs import KEEP_DAYS, KeptRun, keep, kept_runs, new_run
from kafkats.recovery.noted import NAME, disk_of, note, read_noted, records
from tests.golden import Unpacked
from tests.recovery.crashed import some_of


@pytest.fixture
def root(golden: Unpacked, tmp_path: Path) -> Path:
    return some_of(golden, "crash-4.3.1", ["few-bytes-0"], tmp_path / "disk" / "data")


def test_a_record_is_beside_each_log_directory_and_in_the_named_folder(
    root: Path, tmp_path: Path
) -> None:
    before = look_before([root, tmp_path / "none"], "4.3", Owner())
    assert note(before.roots, before.noted, None, tmp_path / "state" / "deep") != []
    assert note(before.roots, before.noted, None, tmp_path / "state") == []
    files = records([str(root), str(tmp_path / "none")], None, tmp_path / "state")
    assert [file.exists() for file in files] == [True, False, True]
    noted = read_noted(files)
    assert [one.partitions for one in noted[str(root)]] == [1, 1]
    assert [one.partitions for one in noted[str(tmp_path / "none")]] == [0, 0]
    assert noted[str(root)][0].disk == disk_of(root) != None  # noqa: E711
    assert stat.S_IMODE(files[0].stat().st_mode) == stat.S_IMODE(root.stat().st_mode) & 0o666


def test_a_record_that_has_not_changed_is_not_written_again(root: Path) -> None:
    before = look_before([root], "4.3", Owner())
    note(before.roots, before.noted, None, None)
    [file] = records([str(root)], None, None)
    inode = file.stat().st_ino
    again = look_before([root], "4.3", Owner())
    note(again.roots, again.noted, None, None)
    assert file.stat().st_ino == inode


def test_an_emptied_directory_keeps_its_entry(root: Path, tmp_path: Path) -> None:
    before = look_before([root], "4.3", Owner())
    note(before.roots, before.noted, None, tmp_path)
    for path in [*root.rglob("*")][::-1]:
        path.rmdir() if path.is_dir() else path.unlink()
    for _ in range(2):
        after = look_before([root], "4.3", Owner(), record=tmp_path)
        assert [one.kind for one in after.held] == ["emptied"]
        note(after.roots, after.noted, None, tmp_path)


def test_brokers_of_a_machine_share_a_folder_of_records(
    root: Path, golden: Unpacked, tmp_path: Path
) -> None:
    other = some_of(golden, "crash-4.3.1", ["few-bytes-0"], tmp_path / "other" / "data")
    meta = other / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=", "node.id=7"))
    (folder := tmp_path / "records").mkdir()
    for log_dir in (root, other, root):
        before = look_before([log_dir], "4.3", Owner(), record=folder)
        assert note(before.roots, before.noted, None, folder) == []
    assert {*read_noted([folder / NAME])} == {str(root), str(other)}


def test_a_log_directory_without_a_work_area_is_told(root: Path, tmp_path: Path) -> None:
    before = look_before([root], "4.3", Owner())
    [failure] = note(before.roots, before.noted, tmp_path / "none", None)
    assert str(tmp_path / "none") in failure


@pytest.mark.parametrize("kind", ["link", "file", "loop"])
def test_a_directory_that_cannot_be_read_keeps_no_other_from_being_looked_at(
    root: Path, tmp_path: Path, kind: str
) -> None:
    bad = tmp_path / "bad"
    if kind == "file":
        bad.touch()
    else:
        bad.symlink_to(tmp_path / "none" if kind == "link" else bad)
    found = look_before([bad, root], "4.3", Owner(node=99))
    assert [one.state for one in found.roots] == ["unread", "there"]
    assert [one.log_dir for one in found.held] == [str(root)]
    assert (len(found.failures), found.unclean) == (1, [str(root)])


@pytest.mark.parametrize("look", ["before.disk_of", "root.is_stale", "root.lock_state"])
def test_a_disk_that_fails_in_the_middle_of_a_look_keeps_no_other_from_being_looked_at(
    root: Path, golden: Unpacked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, look: str
) -> None:
    failing = some_of(golden, "crash-4.3.1", ["untouched-0"], tmp_path / "failing" / "data")
    module, name = look.split(".")
    place = importlib.import_module(f"kafkats.recovery.{module}")
    real = getattr(place, name)

    def asked(path: Path, *more: Any) -> Any:
        if path == failing:
            raise StorageFailed("the disk has just failed", path=path)
        return real(path, *more)

    monkeypatch.setattr(place, name, asked)
    found = look_before([failing, root], "4.3", Owner(node=99))
    assert [one.state for one in found.roots] == ["unread", "there"]
    assert [one.log_dir for one in found.held] == [str(root)]
    assert (len(found.failures), found.unclean) == (1, [str(root)])


@pytest.mark.parametrize(
    ("state", "busy", "live"), [("shared", 1, 0), ("held", 0, 1), ("free", 0, 0)]
)
def test_the_lock_is_asked_once(
    root: Path, monkeypatch: pytest.MonkeyPatch, state: str, busy: int, live: int
) -> None:
    """Its holder may let go meanwhile: the directory would be neither busy nor to be recovered."""
    states = [lock_state(root)._replace(state=state)]  # type: ignore[arg-type]
    monkeypatch.setattr("kafkats.recovery.root.lock_state", lambda _path: states.pop())
    found = look_before([root], "4.3", Owner())
    assert (len(found.busy), len(found.live), len(found.unclean)) == (busy, live, not busy)


def test_two_paths_of_a_directory_count_once(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    found = look_before([root, tmp_path / "link", root.parent / "." / root.name], "4.3", Owner())
    assert [one.log_dir for one in found.roots] == [str(root)]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"log_dirs": 1}', '{"log_dirs": {"/d": {"partitions": "x"}}}']
)
def test_an_unreadable_record_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_text(text)
    assert read_noted([tmp_path / NAME, tmp_path / "none"]) == {}


def test_a_later_version_s_record_is_read(tmp_path: Path) -> None:
    entry = {"partitions": 3, "disk": ["/d", 7], "later": 1}
    (tmp_path / NAME).write_text(json.dumps({"format": 1, "log_dirs": {"/d": entry}, "more": []}))
    [one] = read_noted([tmp_path / NAME])["/d"]
    assert (one.partitions, one.disk, one.record) == (3, Disk("/d", 7), str(tmp_path / NAME))


@pytest.mark.parametrize(
    ("noted", "disk"),
    [
        (["/d", 7], Disk("/d", 7)),
        (["/d", 0, "7a-1", "/sub"], Disk("/d", 0, "7a-1", "/sub")),
        (["/d", 7, "7a-1", "/", "later"], Disk("/d", 7, "7a-1")),
    ],
)
def test_the_disks_of_records(tmp_path: Path, noted: list[object], disk: Disk) -> None:
    entry = {"partitions": 3, "disk": noted}
    (tmp_path / NAME).write_text(json.dumps({"format": 1, "log_dirs": {"/d": entry}}))
    assert read_noted([tmp_path / NAME])["/d"][0].disk == disk


def test_the_number_of_a_device_is_not_noted_as_a_file_system_s_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkats.recovery.noted.uuid_of", lambda _path: "7a-1")
    for kind, own in (("ext4", True), ("xfs", False)):
        mount = Mount("/data", kind, "/sub")
        monkeypatch.setattr("kafkats.recovery.noted.mount_of", lambda _path, mount=mount: mount)
        fsid = os.statvfs(tmp_path).f_fsid if own else 0
        assert disk_of(tmp_path / "none") == Disk("/data", fsid, "7a-1", "/sub")


def test_the_uuid_of_a_file_system(tmp_path: Path) -> None:
    (links := tmp_path / "by-uuid").mkdir()
    device = os.stat(tmp_path).st_dev
    try:
        os.mknod(tmp_path / "other", stat.S_IFBLK | 0o600, device + 1)
        os.mknod(tmp_path / "own", stat.S_IFBLK | 0o600, device)
    except PermissionError:
        pytest.skip("makes device files")
    for name, to in (("1-0", "gone"), ("2-0", "other"), ("3-0", "own")):
        (links / name).symlink_to(tmp_path / to)
    assert uuid_of(tmp_path, links) == "3-0"
    (links / "3-0").unlink()
    assert uuid_of(tmp_path, links) == uuid_of(tmp_path, tmp_path / "none") == ""


def test_each_recovery_has_a_folder_of_its_own(root: Path) -> None:
    area = work_area(root)
    runs = [new_run(area, 1_800_000_000_000, 0) for _ in range(2)]
    assert runs[0].folder != runs[1].folder
    kept = keep(runs[0], "why", area)
    found = {one.folder: one.keep for one in kept_runs([str(root)], None)}
    assert found == {kept.folder: "why", runs[1].folder: ""}
    assert kept.folder.stat().st_uid == os.stat(root).st_uid


@pytest.mark.parametrize(
    ("why", "days", "clean", "due"),
    [
        ("", 0, True, True),
        ("", 1, False, False),
        ("", KEEP_DAYS + 1, False, True),
        ("cut", 99, True, False),
    ],
)
def test_what_is_purged(tmp_path: Path, why: str, days: int, clean: bool, due: bool) -> None:
    run = KeptRun(tmp_path, why, 1_800_000_000_000)
    assert run.is_due(run.at_ms + days * DAY_MS, clean=clean) is due
