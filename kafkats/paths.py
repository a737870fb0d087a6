"""File and directory names of a log directory. Only this module formats or parses them.

The files of a segment share its base offset, zero-padded to 20 digits:
`00000000000000000042.timeindex`. While a broker works on them they have another suffix (`.deleted`,
`.cleaned`, `.swap`). Partition directories are `topic-partition`, with `.<id>-delete`,
`.<id>-future` or `.<id>-stray` while a broker moves or deletes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

LOG: Final = ".log"
OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TXN_INDEX: Final = ".txnindex"
SNAPSHOT: Final = ".snapshot"
INDEX_KINDS: Final = (OFFSET_INDEX, TIME_INDEX, TXN_INDEX)
SEGMENT_KINDS: Final = (LOG, *INDEX_KINDS, SNAPSHOT)
TRANSIENT_SUFFIXES: Final = (".deleted", ".cleaned", ".swap")

LOCK: Final = ".lock"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
RECOVERY_POINT: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARK: Final = "replication-offset-checkpoint"
LOG_START: Final = "log-start-offset-checkpoint"
CLEANER: Final = "cleaner-offset-checkpoint"
OFFSET_CHECKPOINTS: Final = (RECOVERY_POINT, HIGH_WATERMARK, LOG_START, CLEANER)
META_PROPERTIES: Final = "meta.properties"
LEADER_EPOCH: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
CLUSTER_METADATA: Final = "__cluster_metadata-0"
REMOTE_INDEX_CACHE: Final = "remote-log-index-cache"
PROPOSED_INDEXES: Final = (".time.index", ".enriched.index")
"""Ends of names of index files that never were Kafka's. They are not its .index."""
DIALECT: Final = "kafkats-dialect"
"""Ours: names the dialect of the logs, in a log directory that a replay wrote."""

# Kafka parses the digits before the dot with Long.parseLong: any number of them, up to Long.MAX.
_SEGMENT_FILE: Final = re.compile(
    r"(?P<digits>[0-9]{1,20})"
    r"(?P<kind>\.(?:log|index|timeindex|txnindex|snapshot))"
    r"(?P<suffix>\.(?:deleted|cleaned|swap))?"
)
_PARTITION: Final = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>[0-9]{1,10})")
_MOVING: Final = re.compile(r"(?P<name>.+)\.(?P<id>[0-9a-f]+)-(?P<state>delete|future|stray)")
_MAX_TOPIC_LENGTH: Final = 249


class SegmentFile(NamedTuple):
    """The parts of a file name in a partition directory."""

    base_offset: int
    kind: str
    suffix: str


class PartitionName(NamedTuple):
    """The parts of a partition directory's name. `state` is "", `delete`, `future` or `stray`."""

    topic: str
    partition: int
    state: str

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def segment_file(base_offset: int, kind: str = LOG) -> str:
    """Return the name of one file of a segment, e.g. `segment_file(42, TIME_INDEX)`."""
    return f"{base_offset:020d}{kind}"


def segment_files(base_offsets: pa.Array, kind: str) -> pa.Array:
    """Return `segment_file` of each base offset."""
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(pc.utf8_lpad(base_offsets.cast("string"), 20, "0"), kind, "")


def parse_segment_file(name: str) -> SegmentFile | None:
    """Parse a file name. Return None if Kafka does not take it for a segment's file."""
    m = _SEGMENT_FILE.fullmatch(name)
    if m is None or int(m["digits"]) > 2**63 - 1:
        return None
    return SegmentFile(int(m["digits"]), m["kind"], m["suffix"] or "")


def deleted_logs(names: Iterable[str]) -> list[int]:
    """Return the base offsets of the logs among file names that a broker was deleting."""
    deleted = (parse_segment_file(name) for name in names if name.endswith(".deleted"))
    return [file.base_offset for file in deleted if file and file.kind == LOG]


def partition_name(directory: str) -> PartitionName:
    """Parse a directory name. Return the topic "" and the partition -1 for any other directory."""
    return parse_partition(directory) or PartitionName("", -1, "")


@lru_cache(maxsize=2**14)  # a listing passes a log directory's names several times
def parse_partition(name: str) -> PartitionName | None:
    """Parse a directory name. Return None if Kafka does not take it for a partition's directory."""
    moving = _MOVING.fullmatch(name)
    m = _PARTITION.fullmatch(moving["name"] if moving else name)
    if m is None or int(m["partition"]) > 2**31 - 1:
        return None
    topic = m["topic"]
    if topic in (".", "..") or len(topic) > _MAX_TOPIC_LENGTH:
        return None
    return PartitionName(topic, int(m["partition"]), moving["state"] if moving else "")
