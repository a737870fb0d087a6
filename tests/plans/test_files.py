"""kafkats.plans.files: files that are written whole, and those that are written as they are."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from kafkats.errors import DiskFull, UsageError
from kafkats.plans.files import make_folder, write_text


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="is a file: name a folder for the plan"):
        make_folder(tmp_path / "file", "the plan")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_pipe_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="a pipe that nobody reads"):
        write_text(pipe, "text")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_text(pipe, "text")
        assert os.read(reader, 10) == b"text"
    finally:
        os.close(reader)
    assert (list(tmp_path.iterdir()), pipe.is_fifo()) == ([pipe], True)


def test_a_device_stays_a_device(tmp_path: Path) -> None:
    """As root a new file took the place of /dev/null, for all programs of the machine."""
    null, full = tmp_path / "null", tmp_path / "full"
    try:
        os.mknod(null, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        os.mknod(full, stat.S_IFCHR | 0o666, os.makedev(1, 7))
        null.open("wb").close()
    except PermissionError:
        pytest.skip("only root makes devices")
    write_text(null, "text")
    with pytest.raises(DiskFull):
        write_text(full, "text")
    link = tmp_path / "link"
    link.symlink_to(null)
    write_text(link, "text")
    assert (null.is_char_device(), full.is_char_device(), link.is_symlink()) == (True, True, True)


def test_any_other_file_is_replaced_whole(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    with file.open() as old:
        write_text(file, "new")
        assert (old.read(), file.read_text()) == ("old", "new")


def test_a_link_at_the_name_of_the_new_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("other's")
    (tmp_path / f"plan.json.{os.getpid()}.tmp").symlink_to(tmp_path / "other")
    write_text(tmp_path / "plan.json", "text")
    assert (tmp_path / "plan.json").read_text() == "text"
    assert (tmp_path / "other").read_text() == "other's"


def test_names_of_new_files_and_folders_are_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A journal is durable at once: a run whose name a power loss takes back could not end it."""
    synced: set[int] = set()
    monkeypatch.setattr(os, "fsync", lambda fd: synced.add(os.fstat(fd).st_ino))
    make_folder(tmp_path / "plan" / "run", "the run")
    write_text(tmp_path / "plan" / "run" / "file", "text")
    folders = [tmp_path, tmp_path / "plan", tmp_path / "plan" / "run"]
    assert {folder.stat().st_ino for folder in folders} <= synced
