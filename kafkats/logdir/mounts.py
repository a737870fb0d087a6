"""The file system that a path lies on, from `/proc/self/mountinfo` (proc(5), Linux)."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from kafkats.errors import ReadOnly, storage

_MOUNTINFO: Final = Path("/proc/self/mountinfo")
_BY_UUID: Final = Path("/dev/disk/by-uuid")
_OWN_ID: Final = frozenset({"bcachefs", "btrfs", "ext2", "ext3", "ext4", "tmpfs", "zfs"})
_NETWORK: Final = frozenset({
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "drvfs", "fuse", "fuseblk", "glusterfs", "gpfs",
    "lustre", "ncpfs", "nfs", "nfs4", "orangefs", "prl_fs", "pvfs2", "smb2", "smb3", "smbfs",
    "vboxsf", "virtiofs", "vmhgfs",
})  # fmt: skip
READ_ONLY: Final = "its file system is read-only (remounted after an I/O error? see dmesg)"
_READ_ONLY: Final = frozenset({"ro", "emergency_ro"})
"""Options of a file system that is read-only. The second is ext4's after an I/O error (Linux 6.15).
"""


class Mount(NamedTuple):
    """A mounted file system: its mount point and its type (`ext4`, `nfs4`, `fuse.sshfs`).

    `root` is the directory of the file system that is mounted there. It is `/`, or that of a bind
    mount: containers get a folder of the host's so. `read_only`: all of the file system is, not
    only this mount of it.
    """

    point: str
    kind: str
    root: str = "/"
    read_only: bool = False

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


def refuse_read_only(path: str | os.PathLike[str]) -> None:
    """Check that the file system of `path` can be written to, whatever rights this user has.

    Raises ReadOnly, StorageFailed.
    """
    with storage(path, "looking at its file system"):
        writable = not os.statvfs(path).f_flag & os.ST_RDONLY
    if is_read_only(path):
        offline = "nothing can be changed, and a broker takes this log directory offline"
        raise ReadOnly(f"{READ_ONLY}: {offline}", path=path)
    if not writable:
        raise ReadOnly("is mounted read-only here: nothing can be changed", path=path)


def is_read_only(path: str | os.PathLike[str]) -> bool:
    """Return whether all of the file system of `path` is read-only, for a broker, too.

    A container's own read-only mount of a writable file system is none.
    """
    mount = mount_of(path)
    return mount is not None and mount.read_only


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
    read_only = not _READ_ONLY.isdisjoint(right.split(" ")[-1].split(","))
    return Mount(point, right.split(" ")[0], root, read_only)


def _lies_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
