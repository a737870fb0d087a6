"""Check that the small files of a partition directory can be read.

These are the leader epochs, the partition metadata and the producer snapshots. This module reads
contents: a few bytes per partition, and one snapshot per roll.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kafkats import errors, paths
from kafkats.findings import Finding
from kafkats.logdir.checkpoints import read_epochs
from kafkats.logdir.partition import PARTITION_FILES, PartitionDir, is_base, opened
from kafkats.logdir.properties import read_partition_metadata


def _read_snapshot(path: str) -> object:
    from kafkats.logdir.snapshot import read_snapshot  # takes the codecs

    return read_snapshot(path)


_READERS: Final[dict[str, tuple[Callable[[str], object], str]]] = {
    paths.LEADER_EPOCH: (read_epochs, "brokers from 1.1 on do not start with it"),
    paths.PARTITION_METADATA: (
        read_partition_metadata,
        "brokers from 2.8 on cannot tell whose directory it is",
    ),
    paths.SNAPSHOT: (
        _read_snapshot,
        "a broker deletes it at its next start, and rebuilds producer state from the log",
    ),
}

_INDEXES: Final = paths.INDEX_KINDS[:2]
_OF_SEGMENTS: Final = (paths.LOG, paths.SNAPSHOT, paths.TXN_INDEX)


class SmallFiles(NamedTuple):
    """The regular files of a partition directory whose contents are checked, by name.

    `names` are epochs, metadata and snapshots; snapshots at the base of a segment come last.
    `transactions` are the transaction indexes of segments, sorted.
    """

    names: tuple[str, ...] = ()
    transactions: tuple[str, ...] = ()


def list_small_files(directory: Path) -> SmallFiles:
    """List the files whose contents are checked. Of other files only the names are read.

    Raises Vanished, or another StorageFailed, when the directory cannot be listed.
    """
    others: list[str] = []
    of_segments: list[str] = []
    logs: set[str] = set()
    with opened(directory) as handle, os.scandir(handle) as entries:
        for entry in entries:
            name = entry.name
            if name.endswith(_INDEXES):
                continue
            base, kind = name[:20], name[20:]
            if name in PARTITION_FILES:
                others += [name] if entry.is_file(follow_symlinks=False) else []
            elif kind in _OF_SEGMENTS and is_base(base) and entry.is_file(follow_symlinks=False):
                if kind == paths.LOG:
                    logs.add(base)
                else:
                    of_segments.append(name)
    return _small_files(others, of_segments, logs)


def small_files_of(partition: PartitionDir) -> SmallFiles:
    """Return the same from a listing."""
    beside = [
        segment.files[kind].name
        for segment in partition.segments
        for kind in (paths.SNAPSHOT, paths.TXN_INDEX)
        if kind in segment.files
    ]
    if not beside and not partition.others:  # most have none
        return SmallFiles()
    others = [file.name for file in partition.others if file.name in PARTITION_FILES]
    alone = [
        file.name
        for file in partition.others
        if file.name[20:] in _OF_SEGMENTS and is_base(file.name[:20])
    ]
    return _small_files(others, [*beside, *alone], {name[:20] for name in beside})


def _small_files(
    others: Iterable[str], of_segments: Sequence[str], logs: Collection[str]
) -> SmallFiles:
    if not of_segments:
        return SmallFiles(tuple(sorted(others)))
    beside = sorted(name for name in of_segments if name[:20] in logs)
    alone = sorted(set(of_segments) - set(beside))
    snapshots = (name for name in (*alone, *beside) if name.endswith(paths.SNAPSHOT))
    transactions = (name for name in beside if name.endswith(paths.TXN_INDEX))
    return SmallFiles((*sorted(others), *snapshots), tuple(transactions))


def check_small_files(directory: Path, files: SmallFiles) -> tuple[Finding, ...]:
    """Return a finding `unreadable` for each file that its reader rejects, `vanished` if lost."""
    findings = []
    for name in files.names:
        read, consequence = _READERS[paths.SNAPSHOT if name.endswith(paths.SNAPSHOT) else name]
        try:
            read(f"{directory}/{name}")
        except errors.Vanished:
            findings.append(Finding("vanished", name, "was listed, and was gone a moment later"))
        except errors.KafkatsError as e:
            position = -1 if e.position is None else e.position
            findings.append(Finding("unreadable", name, f"{e.reason}; {consequence}", position))
    return tuple(findings)
