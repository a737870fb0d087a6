"""Leaders, in-sync and eligible leader replicas, and replicated bytes, as a cluster tells them."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Final, TypeAlias

from conformance.cluster import Cluster
from conformance.raw_requests import replicas
from conformance.rejoined import log_ends
from conformance.soaked import until
from kafkats import paths
from kafkats.logdir.properties import read_partition_metadata

SETTLE_S: Final = 120
Membership: TypeAlias = dict[str, str]
"""Leader, replicas, in-sync replicas and eligible leader replicas, by partition."""
History: TypeAlias = dict[str, list[dict[str, object]]]
"""The changes of partitions in the metadata log, by partition."""
_DESCRIBED: Final = re.compile(r"^\tTopic: (\S+)\tPartition: (\d+)\t(.*)$", re.MULTILINE)
_CHANGE: Final = re.compile(
    r"offset: (\d+) .*payload: (\{\"type\":\"PARTITION_CHANGE_RECORD\".*\})"
)
_REPLICATED: Final = "kafka.server:type=BrokerTopicMetrics,name=ReplicationBytesInPerSec"


def described(cluster: Cluster, broker: int) -> str:
    """Return what kafka-topics --describe prints: of topics the settings, of partitions the replicas."""
    words = ("--bootstrap-server", f"127.0.0.1:{cluster.brokers[broker].port}", "--describe")
    return cluster.tool(_tool(cluster, "TopicCommand", "kafka.admin"), *words)


def membership(cluster: Cluster, broker: int) -> Membership:
    """Return the replicas of all partitions."""
    found = _DESCRIBED.findall(described(cluster, broker))
    return {f"{topic}-{n}": _sorted(rest) for topic, n, rest in found}


def _sorted(line: str) -> str:
    """Sort the brokers of each list but the replicas: their order says nothing."""
    fields = (field.partition(": ") for field in line.split("\t"))
    return ", ".join(
        f"{name} {brokers if name == 'Replicas' else ','.join(sorted(brokers.split(',')))}"
        for name, _, brokers in fields
    )


def replicated_bytes(cluster: Cluster, broker: int) -> int:
    """Return the bytes that a broker has fetched from leaders since its start, by its own metric."""
    url = f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{cluster.brokers[broker].metrics_port}/jmxrmi"
    words = ("--jmx-url", url, "--object-name", _REPLICATED, "--attributes", "Count")
    printed = cluster.tool(_tool(cluster, "JmxTool", "kafka.tools"), *words, "--one-time", "true")
    return int(printed.split(",")[-1])


def history(cluster: Cluster, begin: int) -> History:
    """Return the changes of partitions from an offset of the metadata log on; none with ZooKeeper."""
    found: History = defaultdict(list)
    if not cluster.controller.kraft:
        return found
    names = {
        read_partition_metadata(file).topic_id: file.parent.name.rpartition("-")[0]
        for file in cluster.brokers[1].root.glob(f"*/{paths.PARTITION_METADATA}")
    }
    logs = ",".join(map(str, sorted(metadata_log(cluster).glob(f"*{paths.LOG}"))))
    words = ("--cluster-metadata-decoder", "--files", logs)
    printed = cluster.tool(_tool(cluster, "DumpLogSegments", "kafka.tools"), *words)
    for offset, payload in _CHANGE.findall(printed):
        change = json.loads(payload)["data"]
        name = f"{names[change.pop('topicId')]}-{change.pop('partitionId')}"
        if int(offset) >= begin:
            found[name].append({
                key: sorted(value) if isinstance(value, list) else value
                for key, value in change.items()
            })
    return found


def metadata_log(cluster: Cluster) -> Path:
    return cluster.controller.root / paths.CLUSTER_METADATA


def wait_for_leaders(cluster: Cluster, broker: int, *leaders: int) -> None:
    """Wait until these brokers lead all partitions, as a broker knows it. Raises TimeoutError."""
    port = cluster.brokers[broker].port
    until(
        lambda: {one.leader for one in replicas(port).values()} == set(leaders),
        SETTLE_S,
        f"not all partitions are led by {leaders}",
    )


def wait_for_sync(cluster: Cluster, leader: int, followers: Iterable[int]) -> None:
    """Wait until the followers are in sync and have all records. Raises TimeoutError."""
    port = cluster.brokers[leader].port
    wanted = {leader, *followers}
    until(
        lambda: all(one.in_sync == wanted for one in replicas(port).values()),
        SETTLE_S,
        f"{wanted} are not in sync",
    )
    ends = log_ends(cluster.brokers[leader].root)
    for follower in followers:
        root = cluster.brokers[follower].root
        until(lambda root=root: log_ends(root) == ends, SETTLE_S, f"{root} does not reach {ends}")  # type: ignore[misc]


def _tool(cluster: Cluster, name: str, old: str) -> str:
    """Return the class of one of Kafka's tools: they moved into one package."""
    return f"org.apache.kafka.tools.{name}" if cluster.controller.kraft else f"{old}.{name}"
