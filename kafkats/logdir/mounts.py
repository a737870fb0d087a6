"""The file system that a path lies on, from `/proc/self/mountinfo` (proc(5), Linux)."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

_MOUNTINFO: Final = Path("/proc/self/mountinfo")
_BY_UUID: Final = Path("/dev/disk/by-uuid")
_OWN_ID: Final = frozenset({"bcachefs", "btrfs", "ext2", "ext3", "ext4", "tmpfs", "zfs"})
_NETWORK: Final = frozenset({
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "drvfs", "fuse", "fuseblk", "glusterfs", "gpfs",
    "lustre", "ncpfs", "nfs", "nfs4", "orangefs", "prl_fs", "pvfs2", "smb2", "smb3", "smbfs",
    "vboxsf", "virtiofs", "vmhgfs",
})  # fmt: skip


class Mount(NamedTuple):
    """A mounted file system: its mount point and its type (`ext4`, `nfs4`, `fuse.sshfs`).

    `root` is the directory of the file system that is mounted there. It is `/`, or that of a bind
    mount: containers get a folder of the host's so.
    """

    point: str
    kind: str
    root: str = "/"

    @property
    def is_network(self) -> bool:
        """Return whether locks may exist there that this process cannot see.

        Another machine, or the process behind a FUSE mount, may hold them.
        """
        return self.kind in _NETWORK or self.kind.startswith("fuse.")

    @property
    def has_own_id(self) -> bool:
        """Return whether `f_fsid` of statvfs(3) belongs to the file system itself.

        XFS and others give the number of the device: another disk in the same slot has it, too.
        """
        return self.kind in _OWN_ID


def mount_of(path: str | os.PathLike[str], mountinfo: Path = _MOUNTINFO) -> Mount | None:
    """Return the mount that `path` lies on, or None when `/proc` does not tell."""
    real = os.path.realpath(path)
    found = None
    try:
        mounts = _mounts(mountinfo.read_bytes())
    except OSError:
        return None
    for mount in mounts:
        # A later mount at the same point hides an earlier one.
        if _lies_in(real, mount.point) and (found is None or len(mount.point) >= len(found.point)):
            found = mount
    return found


def uuid_of(path: str | os.PathLike[str], by_uuid: Path = _BY_UUID) -> str:
    """Return the UUID of the file system that `path` lies on, "" where udev does not tell it.

    Containers have no such links. Raises OSError if the path cannot be looked at.
    """
    device = Path(path).stat().st_dev
    links: list[Path] = []
    with suppress(OSError):
        links = sorted(by_uuid.iterdir())
    for link in links:
        with suppress(OSError):  # its disk has just gone
            if link.stat().st_rdev == device:
                return link.name
    return ""


@lru_cache(maxsize=4)
def _mounts(mountinfo: bytes) -> tuple[Mount, ...]:
    lines = os.fsdecode(mountinfo).splitlines()
    return tuple(mount for mount in map(_parse, lines) if mount)


def _parse(line: str) -> Mount | None:
    left, dash, right = line.partition(" - ")
    fields = left.split(" ")
    if not dash or len(fields) < 5:
        return None
    root, point = (re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), f) for f in fields[3:5])
    return Mount(point, right.split(" ")[0], root)


def _lies_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
