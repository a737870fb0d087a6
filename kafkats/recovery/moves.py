"""Future replicas that a starting broker puts in the place of their partitions.

A broker with KRaft from 3.7 on finishes a move between its log directories that lacks only its last
rename: when the cluster assigns a partition to the log directory of its `-future` copy, it renames
the copy. It ends where the partition's own directory stands in the way. The cluster assigns a
partition to the log directory in which its replica lies, so both in one directory end the broker.
A copy with another topic id is set aside before. Source: LogManager.recoverAbandonedFutureLogs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafkats import paths
from kafkats.recovery.facts import PartitionStart
from kafkats.recovery.rules import StartRule
from kafkats.recovery.words import not_renamed


def blocked_moves(
    partitions: Sequence[PartitionStart], rule: StartRule, *, kraft: bool | None
) -> Iterator[str]:
    """Yield the broker's words for each future replica beside the replica that it would replace."""
    if not kraft or not rule.marker_epoch:
        return
    loaded = [one for one in partitions if one.outcome == "loads" and not one.set_aside]
    own = {(one.log_dir, one.partition_dir): one.topic_id for one in loaded}
    for one in loaded:
        name = paths.parse_partition(one.partition_dir)
        if name is None or name.state != "future":
            continue
        partition = str(name._replace(state=""))
        if one.topic_id and own.get((one.log_dir, partition)) == one.topic_id:
            yield not_renamed(partition, one.log_dir)
