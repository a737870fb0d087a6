"""Why `meta.properties` and KRaft's metadata log stop a broker: its messages.

    1.0 and later   a log directory where the file cannot be read goes offline (from 2.1 on also
                    where a directory has the name); the broker stops if it is the only one, or has
                    the metadata log
    2.3 to 3.6      any other stops the broker
    3.7 and later   an unknown version or a number that is none takes the log directory offline, too

A missing file stops a broker with KRaft, also in one of several log directories. A broker with
ZooKeeper writes the file.

`metadata.log.dir` has the metadata log. It is the first of log.dirs, or a directory of its own:
that one needs a meta.properties like the others, and nothing else of a log directory.

Source: KafkaRaftServer.initializeLogDirs, MetaPropertiesEnsemble, before 3.7
BrokerMetadataCheckpoint.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kafkats import paths
from kafkats.errors import CorruptFile, Vanished
from kafkats.logdir.properties import MetaProperties, read_properties
from kafkats.recovery.facts import Outcome, RootStart
from kafkats.recovery.rules import StartRule

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,10}")
_FROM_2_3_TO_3_6: Final = ("2.3", "2.6", "2.7", "2.8", "3.0", "3.3")
"""Names of the start rules of these releases."""
_RESERVED: Final = 100
"""Directory ids below this number are no directory's own."""
_UNREAD: Final = "Error while reading meta.properties file"
_UNREAD_BEFORE: Final = "Failed to read meta.properties file under dir"
"""The same up to 3.6."""
_ONLY_0: Final = (
    "Zk-based brokers only support version 0 (which is implicit when the `version` field is"
    " missing)."
)


class Expected(NamedTuple):
    """The broker's configuration: its cluster and its node, "" and None if not given."""

    cluster_id: str = ""
    node_id: int | None = None


class Unread(NamedTuple):
    """A meta.properties that a broker does not accept."""

    outcome: Outcome
    words: str


def unread_properties(log_dir: Path, rule: StartRule) -> Unread | None:
    """Return how a broker fails on the meta.properties of a log directory, None if it reads it.

    Raises StorageFailed.
    """
    path = log_dir / paths.META_PROPERTIES
    try:
        values = read_properties(path)
    except Vanished:
        return None
    except CorruptFile as e:
        if e.position is None and rule.checkpoint == "offline":  # it could not be read at all
            words = _UNREAD if rule.marker_epoch else _UNREAD_BEFORE
            why = "java.io.IOException: Is a directory" if path.is_dir() else e.reason
            return Unread("offline", f"{words} {path}: {why}")
        return Unread("stops", f"{path}: {e.reason}")
    version = values.get("version", "0")
    key = "node.id" if version == "1" else "broker.id"
    node = values.get(key)
    unknown = version not in ("0", "1")
    no_number = node is not None and not _NUMBER.fullmatch(node)
    if not rule.marker_epoch:
        if unknown:
            return Unread("stops", f"{path}: {_ONLY_0}")
        why = f'Failed to parse {key} property as an int: For input string: "{node}"'
        return Unread("stops", f"{path}: {why}") if no_number else None
    if unknown:
        return Unread(
            "offline", f"{_UNREAD} {path}: Unknown meta.properties version number {version}"
        )
    if no_number:
        return Unread("offline", f"{_UNREAD} {path}: Unable to read {key} as a base-10 number.")
    if node is None:
        return Unread("stops", f"Error: node ID not found in {log_dir}")
    if "directory.id" in values and _is_reserved(values["directory.id"]):
        word = "resrved" if rule.name == "3.7" else "reserved"
        why = f"Invalid {word} directory ID {values['directory.id']} found in {log_dir}"
        return Unread("stops", why)
    return None


def is_unread(root: RootStart) -> bool:
    """Return whether a log directory is offline because its meta.properties was not read."""
    return any(word.startswith((_UNREAD, _UNREAD_BEFORE)) for word in root.words)


def _is_reserved(directory_id: str) -> bool:
    """Return whether an id (16 bytes as base64url) is one that brokers give no directory."""
    try:
        return int.from_bytes(base64.urlsafe_b64decode(f"{directory_id}=="), "big") < _RESERVED
    except ValueError:
        return False


def in_kraft(roots: Sequence[RootStart], rule: StartRule) -> bool | None:
    """Return whether the broker runs with KRaft, None where its log directories do not tell it.

    Brokers before 3.0 count as brokers with ZooKeeper.
    """
    if rule.name == "4.0" or not rule.java_checkpoints:
        return rule.java_checkpoints
    if _had_kraft(roots):
        return True
    return False if any(root.meta for root in roots) else None


def _had_kraft(roots: Sequence[RootStart]) -> bool:
    return any(root.metadata_log or (root.meta and root.meta.version == 1) for root in roots)


def of_zookeeper(roots: Sequence[RootStart], rule: StartRule) -> list[RootStart]:
    """Return the log directories of a cluster with ZooKeeper, if the broker knows none (4.0)."""
    return [root for root in roots if rule.name == "4.0" and root.meta and root.meta.version == 0]


def never_migrated(roots: Sequence[RootStart], rule: StartRule) -> list[RootStart]:
    """Return those of `of_zookeeper` that load, and whose partitions no cluster with KRaft knows.

    A broker that takes part in a migration has the metadata log while it still has ZooKeeper.
    """
    found = [] if _had_kraft(roots) else of_zookeeper(roots, rule)
    return [root for root in found if root.outcome == "loads"]


def misplaced_logs(roots: Sequence[RootStart]) -> list[str]:
    """Return why a broker with KRaft does not start on more than one metadata log."""
    having = [root for root in roots if root.metadata_log]
    having.sort(key=lambda root: not root.metadata_only)
    return [
        "Found unexpected metadata location in data directory"
        f" `{root.log_dir}/{paths.CLUSTER_METADATA}` (the configured metadata directory is"
        f" {having[0].log_dir})."
        for root in having[1:]
    ]


def without_properties(
    roots: Sequence[RootStart], missing: Sequence[str], rule: StartRule, *, kraft: bool | None
) -> str:
    """Return why a meta.properties that is missing or not read stops the broker, "" if not.

    `missing` are the log directories that have none. With ZooKeeper a broker writes them.
    """
    unread = [one for one in roots if is_unread(one)]
    if rule.marker_epoch and kraft and len(unread) + len(missing) == len(roots):
        return "No readable meta.properties files found."
    in_log_dirs = [one for one in roots if not one.metadata_only]
    if all(one in unread for one in in_log_dirs):
        listed = ", ".join(one.log_dir for one in in_log_dirs)
        return (
            f"Shutdown broker because none of the specified log dirs from {listed} can be created"
            " or validated"
        )
    for one in unread:
        if one.metadata_log and not rule.marker_epoch:
            return (
                "Cannot start server since `meta.properties` could not be loaded from"
                f" {one.log_dir}"
            )
        if one.metadata_log:
            return (
                f"Encountered I/O error in metadata log directory {one.log_dir}. Cannot continue."
            )
    if missing and kraft:
        return (
            f"No `meta.properties` found in {missing[0]} (have you run `kafka-storage.sh` to"
            " format the directory?)"
        )
    return ""


def words_of_all(roots: Sequence[RootStart], rule: StartRule, expected: Expected) -> list[str]:
    """Return why the broker does not start, from what its log directories say together."""
    metas = [(root.log_dir, root.meta) for root in roots if root.meta]
    if rule.marker_epoch:
        return [*_ensemble(metas, rule, expected), *_same_directory_ids(metas)]
    words = _differing(metas, rule)
    if words:
        return words
    for path, meta in metas:
        file = f"{path}/{paths.META_PROPERTIES}"
        if expected.cluster_id and meta.cluster_id not in (None, expected.cluster_id):
            words += _wrong_cluster(rule, file, expected.cluster_id, str(meta.cluster_id))
        if expected.node_id is not None and meta.node_id not in (None, expected.node_id):
            words += _wrong_node(rule, file, expected.node_id, meta.node_id)
    return words


def _ensemble(
    metas: Sequence[tuple[str, MetaProperties]], rule: StartRule, expected: Expected
) -> list[str]:
    """Compare each file with the configuration; what that lacks, the first file gives (3.7).

    With ZooKeeper a file may have no cluster.id: it contradicts nothing.
    """
    cluster, node = expected
    words: list[str] = []
    for path, meta in metas:
        file = f"{path}/{paths.META_PROPERTIES}"
        cluster = cluster or meta.cluster_id or ""
        node = meta.node_id if node is None else node
        if meta.cluster_id and meta.cluster_id != cluster:
            words += _wrong_cluster(rule, file, cluster, meta.cluster_id)
        if node is not None and meta.node_id not in (None, node):
            words += _wrong_node(rule, file, node, meta.node_id)
    return words


def _same_directory_ids(metas: Sequence[tuple[str, MetaProperties]]) -> list[str]:
    """Return the words for log directories with the same id (3.7)."""
    words: list[str] = []
    directories: dict[str, str] = {}
    for path, meta in metas:
        before = directories.setdefault(meta.directory_id, path) if meta.directory_id else path
        if before != path:
            words.append(
                f"Duplicate directory ID Optional[{meta.directory_id}] found. It was the ID of"
                f" {before}, but also of {path}"
            )
    return words


def _differing(metas: Sequence[tuple[str, MetaProperties]], rule: StartRule) -> list[str]:
    """Return the words for log directories that differ from the first one (up to 3.6)."""
    if len(metas) < 2:
        return []
    first = metas[0][1]
    words: list[str] = []
    for _, meta in metas[1:]:
        if (meta.cluster_id, meta.node_id) != (first.cluster_id, first.node_id):
            words += _inconsistent(rule, first, meta)
    return words


def _wrong_cluster(rule: StartRule, file: str, expected: str, found: str) -> list[str]:
    """Return the words for meta.properties of another cluster; brokers before 2.3 do not look."""
    if rule.marker_epoch:
        return [f"Invalid cluster.id in: {file}. Expected {expected}, but read {found}"]
    if rule.name not in _FROM_2_3_TO_3_6:
        return []
    return [
        f"The Cluster ID {expected} doesn't match stored clusterId Some({found}) in"
        " meta.properties. The broker is trying to join the wrong cluster. Configured"
        " zookeeper.connect may be wrong."
    ]


def _wrong_node(rule: StartRule, file: str, expected: int, found: int | None) -> list[str]:
    if rule.marker_epoch:
        return [
            f"Stored node id {found} doesn't match previous node id {expected} in {file}. If you"
            " moved your data, make sure your configured node id matches. If you intend to create"
            " a new node, you should remove all data in your data directories."
        ]
    stored = f"Some({found})" if rule.name in _FROM_2_3_TO_3_6 else str(found)
    return [
        f"Configured broker.id {expected} doesn't match stored broker.id {stored} in"
        " meta.properties. If you moved your data, make sure your configured broker.id matches. If"
        " you intend to create a new broker, you should remove all data in your data directories"
        " (log.dirs)."
    ]


def _inconsistent(rule: StartRule, first: MetaProperties, other: MetaProperties) -> list[str]:
    """Return the words for a meta.properties that differs from another log directory's."""
    if rule.name in _FROM_2_3_TO_3_6:
        return [
            "BrokerMetadata is not consistent across log.dirs. This could happen if multiple"
            " brokers shared a log directory (log.dirs) or partial data was manually copied from"
            " another broker. Found:"
        ]
    if first.node_id == other.node_id:
        return []
    return [
        "Failed to match brokerId across log.dirs. This could happen if multiple brokers shared a"
        " log directory (log.dirs) or partial data was manually copied from another broker. Found"
        f" {first.node_id}, {other.node_id}"
    ]
