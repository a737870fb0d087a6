"""Directories that a KRaft broker gives up, because they are no replicas that its cluster knows.

It compares `partition.metadata` with the cluster's metadata: the cluster must know the topic id,
and the broker must be among the partition's replicas.

    3.0 to 3.6      it deletes the others
    3.7 and later   it renames them to `-stray`, and serves an empty log in their place

A directory without a topic id is no replica from 3.7.1 on (KAFKA-16814). Before, it is an exception
of the search: up to 3.6 no directory is deleted then, and 3.7.0 does not start. Source:
LogManager.isStrayReplica (before 4.1 isStrayKraftReplica), before 3.7.1 findStrayReplicas, before
3.7 BrokerMetadataPublisher.findStrayPartitions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from kafkats import paths
from kafkats.errors import BadInput
from kafkats.recovery.facts import PartitionStart
from kafkats.recovery.rules import StartRule, start_rule
from kafkats.recovery.words import not_renamed

_TOPIC: Final = re.compile(r"\s*Topic:\s*(\S+)\s+TopicId:\s*([A-Za-z0-9_-]{22})(\s.*)?")
_REPLICAS: Final = re.compile(
    r"\s*Topic:\s*(\S+)\s+Partition:\s*(\d+)\s.*?(?<!Adding)(?<!Removing)\sReplicas:\s*([\d,]+).*"
)

_WITHOUT_ID: Final = "it has no topicId"
_RENAMES_WITHOUT_ID: Final = (3, 7, 1)
_STOPS_WITHOUT_ID: Final = (3, 7, 0)
_NEWEST: Final = 99


class Cluster(NamedTuple):
    """The topics of a cluster."""

    topics: Mapping[str, str]
    """Names by topic id."""
    replicas: Mapping[tuple[str, int], Collection[int]] = {}
    """Node ids by topic name and partition. A partition that is not named may be anywhere."""


def read_cluster(text: str, path: str) -> Cluster:
    """Return the topics in the output of `kafka-topics --describe`.

    Raises BadInput for a text without topic ids.
    """
    lines = text.splitlines()
    topics = {m[2]: m[1] for line in lines if (m := _TOPIC.fullmatch(line))}
    if not topics:
        raise BadInput("not the output of kafka-topics --describe: no TopicId in it", path=path)
    found = (m for line in lines if (m := _REPLICAS.fullmatch(line)))
    return Cluster(topics, {(m[1], int(m[2])): _numbers(m[3]) for m in found})


def _numbers(text: str) -> list[int]:
    return [int(one) for one in text.split(",") if one]


def given_up(
    starts: Sequence[PartitionStart], cluster: Cluster | None, node_id: int | None, kafka: str
) -> list[PartitionStart]:
    """Return the starts, each with why a KRaft broker gives the directory up.

    `kafka` is the broker's release. `cluster` and `node_id` are None if they are not known.
    """
    release = _release(kafka)
    if release < _RENAMES_WITHOUT_ID and _without_id(starts, kafka):
        return list(starts)
    return [replace(one, set_aside=_why(one, cluster, node_id, kafka)) for one in starts]


def refused_without_id(starts: Sequence[PartitionStart], kafka: str) -> list[str]:
    """Return the words of a KRaft broker that ends at directories without a topic id."""
    if _release(kafka) != _STOPS_WITHOUT_ID:
        return []
    return [
        f"the log dir {one.log_dir}/{one.partition_dir} does not have a topic ID, which is not"
        " allowed when running in KRaft mode"
        for one in _without_id(starts, kafka)
    ]


def _without_id(starts: Sequence[PartitionStart], kafka: str) -> list[PartitionStart]:
    return [one for one in starts if _is_compared(one, kafka) and not one.topic_id]


def _is_compared(start: PartitionStart, kafka: str) -> bool:
    """Return whether the directory is a loaded log that the search looks at."""
    name = paths.parse_partition(start.partition_dir)
    whole = name is not None and not name.state
    return whole and start.outcome == "loads" and start_rule(kafka).topic_ids


def _why(start: PartitionStart, cluster: Cluster | None, node_id: int | None, kafka: str) -> str:
    """Return the broker's words for a stray directory, "" if it keeps the directory."""
    name = paths.parse_partition(start.partition_dir)
    if name is None or not _is_compared(start, kafka):
        return ""
    if not start.topic_id:
        return _WITHOUT_ID
    if cluster is None:
        return ""
    topic = cluster.topics.get(start.topic_id)
    if topic is None:
        return f"the topicId {start.topic_id} does not exist in the metadata image"
    replicas = cluster.replicas.get((topic, name.partition))
    if replicas is None or node_id is None or node_id in replicas:
        return ""
    listed = ", ".join(map(str, replicas))
    return (
        f"the current replica assignment [{listed}] does not contain the local brokerId {node_id}"
    )


def _release(kafka: str) -> tuple[int, ...]:
    """Return the numbers of a release; the newest patch if it names none."""
    numbers = tuple(map(int, kafka.split(".")[:3]))
    return numbers if len(numbers) == 3 else (*numbers, _NEWEST)


def blocked_moves(
    partitions: Sequence[PartitionStart], rule: StartRule, *, kraft: bool | None
) -> Iterator[str]:
    """Yield the broker's words for each future replica beside the replica that it would replace.

    A broker with KRaft from 3.7 on finishes a move between its log directories that lacks only its
    last rename: when the cluster assigns a partition to the log directory of its `-future` copy, it
    renames the copy. It ends where the partition's own directory stands in the way. The cluster
    assigns a partition to the log directory in which its replica lies, so both in one directory end
    the broker. A copy with another topic id is set aside before. Source:
    LogManager.recoverAbandonedFutureLogs.
    """
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
