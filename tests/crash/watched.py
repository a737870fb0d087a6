"""The real disk with a hook before every effect, and without the waiting that kill -9 cannot tell from its absence."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from kafkats.logdir.disk import Disk


class WatchedDisk(Disk):
    """`before_effect` is called with the name and the paths of each effect before it happens. Nothing is synced."""

    def __init__(self, before_effect: Callable[..., object] = lambda *_: None) -> None:
        self.before_effect = before_effect

    def make_dir(self, path: Path) -> None:
        self.before_effect("make_dir", path)
        super().make_dir(path)

    def write(self, path: Path, data: bytes) -> None:
        self.before_effect("write", path)
        half = len(data) // 2
        super().write(path, data[:half])
        self.before_effect("write the rest of", path)
        with open(path, "ab", buffering=0) as file:
            file.write(data[half:])

    def own(self, path: Path, mode: int, uid: int, gid: int) -> None:
        self.before_effect("own", path)
        super().own(path, mode, uid, gid)

    def set_xattrs(self, path: Path, xattrs: tuple[tuple[str, bytes], ...]) -> None:
        self.before_effect("set_xattrs", path)
        super().set_xattrs(path, xattrs)

    def set_mtime(self, path: Path, mtime_ns: int) -> None:
        self.before_effect("set_mtime", path)
        super().set_mtime(path, mtime_ns)

    def copy_tail(self, path: Path, start: int, end: int, target: Path) -> str:
        self.before_effect("write", target)
        self.before_effect("write the rest of", target)
        return super().copy_tail(path, start, end, target)

    def truncate(self, path: Path, size: int) -> None:
        self.before_effect("truncate", path)
        super().truncate(path, size)

    def restore_tail(self, path: Path, start: int, tail: Path, size: int) -> None:
        self.before_effect("restore the tail of", path)
        whole = tail.read_bytes()
        with open(path, "r+b", buffering=0) as file:
            file.seek(start)
            file.write(whole[: len(whole) // 2])
        self.before_effect("restore the rest of", path)
        super().restore_tail(path, start, tail, size)

    def renew(self, path: Path) -> None:
        self.before_effect("renew", path)
        super().renew(path)

    def link(self, source: Path, name: Path) -> None:
        self.before_effect("link", source, name)
        super().link(source, name)

    def rename(self, source: Path, name: Path) -> None:
        self.before_effect("rename", source, name)
        super().rename(source, name)

    def unlink(self, path: Path) -> None:
        self.before_effect("unlink", path)
        super().unlink(path)

    def remove_dir(self, path: Path) -> None:
        self.before_effect("remove_dir", path)
        super().remove_dir(path)

    def sync_file(self, path: Path) -> None:
        self.before_effect("sync_file", path)
        assert path.exists()

    def sync_dir(self, path: Path) -> None:
        self.before_effect("sync_dir", path)
        assert os.path.isdir(path)
