"""Whole commands in processes of their own, as any user, and small file systems for them to fill."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest

from kafkats.cli import main
from tests.crash.migration import unsynced
from tests.crash.real import fork
from tests.privileges import refuse_without


class Ended(NamedTuple):
    code: int
    said: str


def start(out: Path, *words: object, first: Callable[[], object] = lambda: None) -> int:
    """`kafkats ...` in a process of its own that does `first` and says everything into the file `out`; its id."""

    def run() -> None:
        fd = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(fd, 1)
        os.dup2(fd, 2)
        with (
            open(1, "w", closefd=False) as stream,
            pytest.MonkeyPatch.context() as patch,
            unsynced(),
        ):
            patch.setattr("sys.stdout", stream)
            patch.setattr("sys.stderr", stream)
            first()
            try:
                main([*map(str, words)])
            except SystemExit as e:
                stream.flush()
                os._exit(e.code if isinstance(e.code, int) else 99)

    return fork(run)


def wait(child: int, out: Path) -> Ended:
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    said = out.read_text(errors="replace")
    assert "Traceback" not in said, said
    assert code in (0, 1, 2, 3), (code, said)
    return Ended(code, said)


def kafkats(*words: object, first: Callable[[], object] = lambda: None) -> Ended:
    with TemporaryDirectory() as folder:
        out = Path(folder, "out")
        return wait(start(out, *words, first=first), out)


@contextmanager
def small_disk(folder: Path, size: str, inodes: int = 0, uid: int = 0) -> Generator[Path]:
    """A file system of so many bytes and inodes (0: any number), of user `uid`, mounted at the new directory `folder`."""
    folder.mkdir()
    options = f"size={size},nr_inodes={inodes},uid={uid},gid={uid},mode=755"
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True
    )
    if made.returncode:
        refuse_without("mounts a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill(disk: Path) -> None:
    """Leave no block and no inode free."""
    with (disk / "filler").open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError as e:
                assert e.errno == errno.ENOSPC
    try:
        for n in range(1 << 20):
            (disk / f"filler-{n}").touch()
    except OSError as e:
        assert e.errno == errno.ENOSPC
    assert room(disk) == (0, 0)


def room(disk: Path) -> tuple[int, int]:
    """Free blocks and free inodes."""
    found = os.statvfs(disk)
    return found.f_bfree, found.f_ffree
