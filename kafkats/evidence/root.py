"""Partitions that a root's checkpoints name and whose directory is missing.

A broker that deletes or moves a partition renames its directory and rewrites the recovery points at
once. The high watermarks follow within replica.high.watermark.checkpoint.interval.ms. So after a
clean stop the recovery points name existing partitions only. When the last partition of a root was
deleted, no broker rewrites its checkpoints, and the loss of a directory cannot be told from its
deletion.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from kafkats import paths
from kafkats.errors import storage
from kafkats.findings import Finding
from kafkats.logdir.root import LogDir, RootNames
from kafkats.paths import PartitionName

_SAME_STOP_SECONDS: Final = 60
_NAMING: Final = (paths.RECOVERY_POINT, paths.HIGH_WATERMARK, paths.LOG_START)


def gone_findings(
    root: LogDir, present: Collection[PartitionName], *, stale: bool, live: bool
) -> Iterator[Finding]:
    """Yield one finding for each partition that the checkpoints name and that is not `present`.

    `present` are the plain names in all roots of the broker. `stale` is the result of `is_stale`.
    """
    if live:
        return
    named = {name for file in _NAMING for name in root.checkpoints.get(file, {})}
    for name in sorted(named.difference(present)):
        offsets = {
            file: root.checkpoints[file][name]
            for file in _NAMING
            if name in root.checkpoints.get(file, {})
        }
        text = ", ".join(f"{file} says {offset}" for file, offset in offsets.items())
        if max(offsets.values()) and _must_be_there(root, offsets) and not stale:
            reason = f"the directory is gone, and its records with it: {text}"
            yield Finding(
                "missing-partition", str(name), reason, expected=str(max(offsets.values()))
            )
        else:
            yield Finding(
                "cannot-be-told",
                str(name),
                f"the directory is gone: deleted by its broker, or lost; {text}",
            )


def is_stale(path: Path, names: RootNames) -> bool:
    """Return whether the recovery points of a root without partitions predate its last clean stop.

    Raises StorageFailed.
    """
    if names.loaded:
        return False
    written = {}
    for name in (paths.RECOVERY_POINT, paths.CLEAN_SHUTDOWN):
        if name not in names.files:
            return name == paths.CLEAN_SHUTDOWN
        with storage(path / name, "looking at the file"):
            written[name] = (path / name).stat().st_mtime
    return written[paths.RECOVERY_POINT] < written[paths.CLEAN_SHUTDOWN] - _SAME_STOP_SECONDS


def _must_be_there(root: LogDir, offsets: Collection[str]) -> bool:
    """Return whether the checkpoints prove that the partition existed at the last stop.

    After an unclean stop recovery points are up to a minute old and high watermarks some seconds,
    so both must name it.
    """
    if paths.RECOVERY_POINT not in root.checkpoints:
        return paths.HIGH_WATERMARK in offsets
    return paths.RECOVERY_POINT in offsets and (
        root.clean_shutdown or paths.HIGH_WATERMARK in offsets
    )
