"""The scenes on a real file system."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from pathlib import Path

from kafkats.logdir.workarea import WorkArea, work_area
from tests.crash.scene import APART, LIVE, PARTITION, XATTRS


def make_area(base: Path, scene: str, xattrs: bool = True) -> WorkArea:
    """A log dir under `base` with one partition, odd modes and old times."""
    root = base / "kafka-logs"
    partition = root / PARTITION
    partition.mkdir(parents=True)
    (root / ".lock").touch()
    for i, (name, data) in enumerate(LIVE.items()):
        path = partition / name
        path.write_bytes(data)
        path.chmod(0o640 if i % 2 else 0o604)
        if xattrs:
            give_xattrs(path)
        os.utime(path, ns=(10**18, 1_234_567_890_123_456_789 + i))
    return work_area(root)._replace(linked=scene not in APART)


def give_xattrs(path: Path) -> None:
    """Where the file system has them."""
    try:
        for name, value in XATTRS:
            os.setxattr(path, name, value)
    except OSError:
        pass


def fork(act: Callable[[], object]) -> int:
    """Do `act` in a child that never comes back from it; its process id. It exits with 1 when `act` raises."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            act()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return child


def become(uid: int) -> Callable[[], None]:
    def change() -> None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)

    return change
