"""Effects on the file system that others can disturb."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from kafkats.errors import NotPermitted
from kafkats.logdir.disk import DISK


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["symbolic", "hard"])
def test_another_file_in_place_of_ours_stays_as_it_is(tmp_path: Path, link: object) -> None:
    """Its mode was changed through a link."""
    assert callable(link)
    (tmp_path / "other").touch(0o600)
    link(tmp_path / "other", tmp_path / "ours")
    with pytest.raises((NotPermitted, OSError)):
        DISK.own(tmp_path / "ours", 0o644, os.geteuid(), os.getegid())
    assert mode_of(tmp_path / "other") == 0o600


def test_files_and_directories_get_their_mode(tmp_path: Path) -> None:
    (tmp_path / "file").touch(0o600)
    (tmp_path / "folder").mkdir(0o700)
    for name, mode in (("file", 0o640), ("folder", 0o750)):
        DISK.own(tmp_path / name, mode, os.geteuid(), os.getegid())
        assert mode_of(tmp_path / name) == mode
