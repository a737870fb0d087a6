"""What a broker will recover by itself at its next start, whatever was rebuilt before.

After an unclean stop every segment from the one that contains the partition's recovery point on is read from its start,
its indexes are rebuilt and its torn tail is cut (Kafka: LogLoader.recoverLog, before 3.0 Log.recoverLog). A recovery
point that is missing or cannot be read counts as 0. The first recovery points are written 30 s after a start.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkats import paths
from kafkats.logdir.partition import PartitionDir, SegmentFiles
from kafkats.logdir.root import LogDir


class Recovery(NamedTuple):
    """`segments` a broker will read and rewrite the indexes of, sorted; `log_bytes` of their logs."""

    recovery_point: int
    segments: tuple[SegmentFiles, ...]
    log_bytes: int


def recovery_of(root: LogDir, partition: PartitionDir) -> Recovery:
    """What the next start recovers of `partition`: nothing where `root` has a clean-shutdown marker."""
    point = 0
    if partition.name is not None:
        # Kafka looks up copies being moved and deleted under the plain name, too.
        point = root.checkpoints.get(paths.RECOVERY_POINT, {}).get(partition.name._replace(state=""), 0)
    if root.clean_shutdown:
        return Recovery(point, (), 0)
    below = [s for s in partition.segments if s.base_offset <= point]
    first = below[-1].base_offset if below else 0
    segments = tuple(s for s in partition.segments if s.base_offset >= first)
    return Recovery(point, segments, sum(s.log.size for s in segments))
