"""Directories that a KRaft broker gives up, because they are no replicas that its cluster knows.

It compares `partition.metadata` with the cluster's metadata: the cluster must know the topic id,
and the broker must be among the partition's replicas.

    3.0 to 3.6      it deletes the others
    3.7 and later   it renames them to `-stray`, and serves an empty log in their place
    3.8 and later   the same for a directory without a topic id

Source: LogManager.isStrayReplica (before 4.1 isStrayKraftReplica), before 3.7
BrokerMetadataPublisher.findStrayPartitions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from kafkats import paths
from kafkats.errors import BadInput
from kafkats.recovery.facts import PartitionStart
from kafkats.recovery.rules import start_rule

_TOPIC: Final = re.compile(r"\s*Topic:\s*(\S+)\s+TopicId:\s*([A-Za-z0-9_-]{22})(\s.*)?")
_REPLICAS: Final = re.compile(r"\s*Topic:\s*(\S+)\s+Partition:\s*(\d+)\s.*\sReplicas:\s*([\d,]+).*")

_WITHOUT_ID: Final = "it has no topicId"


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


def why_set_aside(
    start: PartitionStart, cluster: Cluster | None, node_id: int | None, kafka: str
) -> str:
    """Return the words of a KRaft broker for giving a directory up, "" if it stays.

    `kafka` is the broker's release. `cluster` and `node_id` are None if they are not known.
    """
    name = paths.parse_partition(start.partition_dir)
    if name is None or name.state or not start_rule(kafka).topic_ids:
        return ""
    if start.outcome != "loads":
        return ""  # it compares loaded logs
    if not start.topic_id:
        return _WITHOUT_ID if _renames_without_id(kafka) else ""
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


def _renames_without_id(kafka: str) -> bool:
    major, minor = map(int, kafka.split(".")[:2])
    return (major, minor) >= (3, 8)
