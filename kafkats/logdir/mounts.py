"""On which file system a path lies, from `/proc/self/mountinfo` (proc(5), Linux)."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final, NamedTuple

_MOUNTINFO: Final = Path("/proc/self/mountinfo")
_NETWORK: Final = frozenset({
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "drvfs", "fuse", "fuseblk", "glusterfs", "gpfs", "lustre", "ncpfs",
    "nfs", "nfs4", "orangefs", "prl_fs", "pvfs2", "smb2", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs",
})  # fmt: skip


class Mount(NamedTuple):
    """A mounted file system: where, and of which type (`ext4`, `nfs4`, `fuse.sshfs`)."""

    point: str
    kind: str

    @property
    def is_network(self) -> bool:
        """Whether another machine, or a process we cannot see, may hold locks there that are not seen here."""
        return self.kind in _NETWORK or self.kind.startswith("fuse.")


def mount_of(path: str | os.PathLike[str], mountinfo: Path = _MOUNTINFO) -> Mount | None:
    """The mount that `path` lies on, or None when the system does not say."""
    real = os.path.realpath(path)
    found = None
    try:
        lines = os.fsdecode(mountinfo.read_bytes()).splitlines()
    except OSError:
        return None
    for line in lines:
        mount = _parse(line)
        # A later line covers an earlier one of the same place.
        if mount and _lies_in(real, mount.point) and (found is None or len(mount.point) >= len(found.point)):
            found = mount
    return found


def _parse(line: str) -> Mount | None:
    left, dash, right = line.partition(" - ")
    fields = left.split(" ")
    if not dash or len(fields) < 5:
        return None
    point = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), fields[4])
    return Mount(point, right.split(" ")[0])


def _lies_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
