"""Directories that a broker sets aside because its cluster does not know their topic id.

From 3.7 on a KRaft broker compares `partition.metadata` with the cluster's metadata after loading.
It renames a directory with an unknown topic id to `-stray`, and serves an empty log. Source:
LogManager.isStrayReplica (before 4.1 in BrokerMetadataPublisher).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from kafkats import paths
from kafkats.errors import BadInput
from kafkats.recovery.facts import PartitionStart
from kafkats.recovery.rules import StartRule

_TOPIC: Final = re.compile(r"\s*Topic:\s*(\S+)\s+TopicId:\s*([A-Za-z0-9_-]{22})(\s.*)?")


def read_topic_ids(text: str, path: str) -> dict[str, str]:
    """Return the topics by id, from the output of `kafka-topics --describe`.

    Raises BadInput for a text without topic ids.
    """
    found = (_TOPIC.fullmatch(line) for line in text.splitlines())
    ids = {m[2]: m[1] for m in found if m}
    if not ids:
        raise BadInput("not the output of kafka-topics --describe: no TopicId in it", path=path)
    return ids


def why_set_aside(start: PartitionStart, ids: Mapping[str, str], rule: StartRule) -> str:
    """Return the broker's words for setting a directory aside, "" if it is loaded.

    A directory without a topic id is left out: what a broker does depends on its release.
    """
    name = paths.parse_partition(start.partition_dir)
    if "stray" not in rule.states or name is None or name.state or not start.topic_id:
        return ""
    if start.topic_id in ids:
        return ""
    return f"the topicId {start.topic_id} does not exist in the metadata image"
