"""Check that the small files of a partition directory can be read.

These are the leader epochs, the partition metadata and the producer snapshots. Unlike
`scan_partition`, this module reads contents: a few bytes per partition, and one snapshot per roll.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from kafkats import errors, paths
from kafkats.findings import Finding
from kafkats.logdir.checkpoints import read_epochs
from kafkats.logdir.partition import PartitionDir
from kafkats.logdir.properties import read_partition_metadata
from kafkats.logdir.snapshot import read_snapshot

_READERS: Final[dict[str, tuple[Callable[[Path], object], str]]] = {
    paths.LEADER_EPOCH: (read_epochs, "brokers from 1.1 on do not start with it"),
    paths.PARTITION_METADATA: (
        read_partition_metadata,
        "brokers from 2.8 on cannot tell whose directory it is",
    ),
    paths.SNAPSHOT: (
        read_snapshot,
        "a broker deletes it at its next start, and rebuilds producer state from the log",
    ),
}


def check_small_files(partition: PartitionDir) -> tuple[Finding, ...]:
    """Return a finding `unreadable` for each file that its reader rejects, `vanished` if lost."""
    findings = []
    names = [(f.name, f.name) for f in partition.others if f.name in _READERS]
    names += [(f.name, paths.SNAPSHOT) for f in partition.others if f.name.endswith(paths.SNAPSHOT)]
    names += [
        (s.files[paths.SNAPSHOT].name, paths.SNAPSHOT)
        for s in partition.segments
        if paths.SNAPSHOT in s.files
    ]
    for name, kind in names:
        read, consequence = _READERS[kind]
        try:
            read(partition.path / name)
        except errors.Vanished:
            findings.append(Finding("vanished", name, "was listed, and was gone a moment later"))
        except errors.KafkatsError as e:
            position = -1 if e.position is None else e.position
            findings.append(Finding("unreadable", name, f"{e.reason}; {consequence}", position))
    return tuple(findings)
