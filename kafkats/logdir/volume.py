"""The identity of the volume behind a log directory's path: one path can be another disk elsewhere.

It is cluster, node (before KRaft the broker) and directory id of meta.properties. Directory ids
came with 3.7; without one the path counts, too. An id that appears is no other volume: a broker
adds it at its first start with 3.7. A log directory without a readable meta.properties has no
identity, and goes by its path. The host is no part of it: volumes are shared, and pods move.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from kafkats import paths
from kafkats.errors import BadInput, Refused, StorageFailed
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
    try:
        meta = read_meta_properties(Path(log_dir, paths.META_PROPERTIES))
    except (BadInput, StorageFailed):
        return None
    return Volume(meta.cluster_id, meta.node_id, meta.directory_id)


def volumes_at(log_dirs: Iterable[str]) -> dict[str, Volume]:
    """Return the identities of log directories by path, of those that have one."""
    found = {log_dir: volume_at(log_dir) for log_dir in dict.fromkeys(log_dirs)}
    return {log_dir: volume for log_dir, volume in found.items() if volume is not None}


def check_volume(log_dir: str, listed: Mapping[str, Volume]) -> None:
    """Raise Refused unless the log directory is the one that was `listed` at this path.

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
        raise Refused(
            f"is not mounted {here}, or has no readable {paths.META_PROPERTIES} there; listed was"
            f" {known}",
            path=log_dir,
        )
    raise Refused(
        f"is another volume {here}: {found}; listed was {known}: the workers of this connection do"
        " not all see the same disk",
        path=log_dir,
    )
