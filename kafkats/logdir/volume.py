"""The identity of the volume behind a log directory's path: one path can be another disk elsewhere.

It is cluster, node (before KRaft the broker) and directory id of meta.properties. Directory ids
came with 3.7; without one the path counts, too. An id that appears is no other volume: a broker
adds it at its first start with 3.7. A log directory without a readable meta.properties has no
identity, and goes by its path. The host is no part of it: volumes are shared, and pods move. Nor
are device and inode: they differ from mount to mount.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from kafkats import paths
from kafkats.errors import BadInput, OtherVolume, Refused, StorageFailed
from kafkats.logdir.location import is_empty_root
from kafkats.logdir.properties import read_meta_properties


class Volume(NamedTuple):
    """An identity; None for what meta.properties does not say."""

    cluster_id: str | None
    node_id: int | None
    directory_id: str | None

    def is_other(self, found: Volume) -> bool:
        """Return whether `found`, at the same path, is certainly another volume."""
        pairs = zip(self, found, strict=True)
        return any(None not in (mine, theirs) and mine != theirs for mine, theirs in pairs)

    def __str__(self) -> str:
        names = ("cluster", "node", "directory")
        return ", ".join(f"{name} {value}" for name, value in zip(names, self, strict=True))


def volume_at(log_dir: str | os.PathLike[str]) -> Volume | None:
    """Return the identity of the log directory at a path, None where there is none to be read."""
    if "\0" in os.fspath(log_dir):
        return None  # no file has such a path, and opening one raises ValueError
    try:
        meta = read_meta_properties(Path(log_dir, paths.META_PROPERTIES))
    except (BadInput, StorageFailed):
        return None
    return Volume(meta.cluster_id, meta.node_id, meta.directory_id)


def volumes_at(log_dirs: Iterable[str]) -> dict[str, Volume]:
    """Return the identities of log directories by path, of those that have one."""
    found = {log_dir: volume_at(log_dir) for log_dir in dict.fromkeys(log_dirs)}
    return {log_dir: volume for log_dir, volume in found.items() if volume is not None}


def refuse_copies(log_dirs: Iterable[str], named: Collection[str] = ()) -> None:
    """Raise Refused if two of these log directories have one identity: one copies the other.

    Without a directory id the path counts, too: before 3.7 all log directories of a broker have the
    same cluster and node. The real paths in `named` have a name in the policy, which is their
    identity.
    """
    seen: dict[str, list[tuple[str, Volume]]] = {}
    for real in sorted({os.path.realpath(log_dir) for log_dir in log_dirs}):
        volume = volume_at(real)
        if volume is None or volume.directory_id is None:
            continue
        alike = seen.setdefault(volume.directory_id, [])
        for other, theirs in alike:
            if not volume.is_other(theirs) and not {real, other} <= set(named):
                raise Refused(
                    f"is the same volume as {other}, or one is a copy of the other: {volume}; leave"
                    " one out, or give both a name among the policy's volumes",
                    path=real,
                )
        alike.append((real, volume))


def check_mounted(log_dir: str) -> None:
    """Raise Refused if nothing is where a log directory was: its disk is not mounted.

    This is all that tells a missing mount where no identity is known. Raises StorageFailed.
    """
    if os.path.lexists(log_dir) and not is_empty_root(log_dir):
        return
    raise Refused(
        f"is empty or missing on host {socket.gethostname()}, and had partitions before: is its"
        " disk mounted?",
        path=log_dir,
    )


def check_volume(log_dir: str, listed: Mapping[str, Volume]) -> None:
    """Raise OtherVolume unless the log directory is the one that was `listed` at this path.

    Nothing is written. A path without meta.properties where there was one is a missing mount.
    """
    known = listed.get(log_dir)
    if known is None:
        return
    found = volume_at(log_dir)
    if found is not None and not known.is_other(found):
        return
    here = f"on host {socket.gethostname()}"
    if found is None:
        raise OtherVolume(
            f"is not mounted {here}, or has no readable {paths.META_PROPERTIES} there; listed was"
            f" {known}",
            path=log_dir,
        )
    raise OtherVolume(
        f"is another volume {here}: {found}; listed was {known}",
        path=log_dir,
    )
