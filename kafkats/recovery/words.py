"""The messages of brokers that do not start, or that set files aside, by generation."""

from __future__ import annotations

from kafkats.logdir.properties import MetaProperties
from kafkats.recovery.rules import StartRule


def bad_directory(path: str, name: str) -> str:
    return (
        f"Found directory {path}, '{name}' is not in the form of topic-partition or"
        " topic-partition.uniqueId-delete (if marked for deletion)."
    )


def bad_number(text: str) -> str:
    return f'java.lang.NumberFormatException: For input string: "{text}"'


def bad_size(rule: StartRule, path: str, size: int) -> str:
    if "3.0" not in rule.releases and rule.name in ("0.10", "0.11", "1.0"):
        return "Record size is smaller than minimum record overhead (14)."
    return f"Found record size {size} smaller than minimum record overhead (14) in file {path}."


def held_lock(path: str) -> str:
    return (
        f"Failed to acquire lock on file .lock in {path}. A Kafka instance in another process or"
        " thread is using this directory."
    )


def duplicate(rule: StartRule, first: str, second: str, partition: str) -> str:
    if rule.name in ("0.8", "0.9", "0.10", "0.11"):
        return f"Duplicate log directories found: {first}, {second}!"
    return f"Duplicate log directories for {partition} are found in both {first} and {second}."


def corrupt_index(path: str, last: int, base: int) -> str:
    return (
        f"Corrupt index found, index file ({path}) has non-zero size but the last offset is {last}"
        f" and the base offset is {base}"
    )


def wrong_cluster(rule: StartRule, file: str, expected: str, found: str) -> list[str]:
    """Return the words for meta.properties of another cluster; brokers before 2.3 do not look."""
    if rule.marker_epoch:
        return [f"Invalid cluster.id in: {file}. Expected {expected}, but read {found}"]
    if rule.name not in ("2.3", "3.0"):
        return []
    return [
        f"The Cluster ID {expected} doesn't match stored clusterId Some({found}) in"
        " meta.properties. The broker is trying to join the wrong cluster. Configured"
        " zookeeper.connect may be wrong."
    ]


def wrong_node(rule: StartRule, file: str, expected: int, found: int | None) -> list[str]:
    if rule.marker_epoch:
        return [
            f"Stored node id {found} doesn't match previous node id {expected} in {file}. If you"
            " moved your data, make sure your configured node id matches. If you intend to create"
            " a new node, you should remove all data in your data directories."
        ]
    return [
        f"Configured broker.id {expected} doesn't match stored broker.id {found} in"
        " meta.properties. If you moved your data, make sure your configured broker.id matches. If"
        " you intend to create a new broker, you should remove all data in your data directories"
        " (log.dirs)."
    ]


def inconsistent(
    rule: StartRule, file: str, first: MetaProperties, other: MetaProperties
) -> list[str]:
    """Return the words for a meta.properties that differs from another log directory's."""
    if rule.marker_epoch:
        if first.cluster_id != other.cluster_id:
            return wrong_cluster(rule, file, str(first.cluster_id), str(other.cluster_id))
        return wrong_node(rule, file, first.node_id or 0, other.node_id)
    if rule.name in ("2.3", "3.0"):
        return [
            "BrokerMetadata is not consistent across log.dirs. This could happen if multiple"
            " brokers shared a log directory (log.dirs) or partial data was manually copied from"
            f" another broker. Found: {first.cluster_id}, {first.node_id} and {other.cluster_id},"
            f" {other.node_id}"
        ]
    if first.node_id == other.node_id:
        return []
    return [
        "Failed to match brokerId across log.dirs. This could happen if multiple brokers shared a"
        " log directory (log.dirs) or partial data was manually copied from another broker. Found"
        f" {first.node_id}, {other.node_id}"
    ]
