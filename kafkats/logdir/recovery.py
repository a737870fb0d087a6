"""The segments that a broker recovers at its next start, whether or not kafkats rebuilt them.

After an unclean stop a broker recovers the segment that contains the partition's recovery point and
all later ones: it reads each log from its start, rebuilds the indexes and cuts a torn tail (Kafka:
LogLoader.recoverLog, before 3.0 Log.recoverLog). A missing or unreadable recovery point counts as
0. A broker writes its first recovery points 30 s after it starts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kafkats import paths
from kafkats.logdir.partition import PartitionDir, SegmentFiles
from kafkats.logdir.root import LogDir


class Recovery(NamedTuple):
    """The `segments` that a broker will recover, by base offset.

    `log_bytes` is the size of their logs.
    """

    recovery_point: int
    segments: tuple[SegmentFiles, ...]
    log_bytes: int


def recovery_of(root: LogDir, partition: PartitionDir) -> Recovery:
    """Return what the next start recovers of `partition`: nothing after a clean shutdown."""
    point = 0
    if partition.name is not None:
        # Kafka looks up `-future` and `-delete` directories under the plain partition name.
        point = root.checkpoints.get(paths.RECOVERY_POINT, {}).get(
            partition.name._replace(state=""), 0
        )
    if root.clean_shutdown:
        return Recovery(point, (), 0)
    first = first_recovered((s.base_offset for s in partition.segments), point)
    segments = tuple(s for s in partition.segments if s.base_offset >= first)
    return Recovery(point, segments, sum(s.log.size for s in segments))


def first_recovered(bases: Iterable[int], recovery_point: int) -> int:
    """Return the offset from which on a broker recovers segments after an unclean stop.

    `bases` are the base offsets of a partition's segments, in order.
    """
    return max((base for base in bases if base <= recovery_point), default=0)
