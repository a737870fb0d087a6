"""Requests of clients to one partition, by their versions.

    produce        0, 1: magic 0      2: magic 0 and 1      3 and later: one batch of magic 2
                   2 and later answer with the broker's time under LogAppendTime, else with -1
                   zstd from 7 on
    fetch          0, 1: at most magic 0      2, 3: at most magic 1      4 and later: as stored
    list offsets   0: segments by mtime      1 and later: records by their timestamps

Source: ReplicaManager, KafkaApis of Kafka 0.8 to 4.3; KIP-31, KIP-32, KIP-98, KIP-110.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kafkats.broker.generation import Generation, Versions
from kafkats.broker.partition_log import PartitionLog
from kafkats.broker.validate import CORRUPT_MESSAGE, INVALID_RECORD, Validated
from kafkats.errors import CorruptBatch, NotConvertible, Rejected, UsageError
from kafkats.formats import dispatch, v0, v1, v2
from kafkats.formats.fetch import fetch as converted
from kafkats.formats.model import NO_TIMESTAMP, Codec, Record, TimestampType
from kafkats.generations import SEARCH_RULES
from kafkats.search import broker as search
from kafkats.search.answers import Answer, Target, Word

_ZSTD_SINCE: Final = 7
_BATCHES_SINCE: Final = 3
_MAGIC_1_SINCE: Final = 2
_AS_STORED_SINCE: Final = 4
_WORDS: Final = {word.value: word for word in Word}


class Produced(NamedTuple):
    """The answer to a produce request."""

    validated: Validated
    timestamp: int
    """The broker's time of the set under LogAppendTime; -1: the producer's own times count."""


class Fetched(NamedTuple):
    """The answer to a fetch."""

    data: bytes
    stored_bytes: int
    how: str
    """`as stored` or `converted`."""


def message_set(version: int, codec: Codec, records: Sequence[Record]) -> bytes:
    """Return the set that a producer of this version sends. Raises BadInput."""
    if version >= _BATCHES_SINCE:
        return v2.encode_batch(records, codec=codec)
    if version >= _MAGIC_1_SINCE:
        return v1.encode_batch(records, codec=codec)
    return v0.encode_batch(records, codec=codec)


def produce(
    log: PartitionLog, version: int, data: bytes, *, now_ms: int, leader_epoch: int
) -> Produced:
    """Append a message set as the leader. Raises Rejected; UsageError for an unknown version."""
    _check_version("produce", version, log.generation.produce, log.generation)
    _check_set(version, data)
    made = log.append_as_leader(data, now_ms=now_ms, leader_epoch=leader_epoch)
    stamped = log.topic.timestamp_type == TimestampType.LOG_APPEND_TIME
    return Produced(made, now_ms if stamped and version >= _MAGIC_1_SINCE else NO_TIMESTAMP)


def _check_set(version: int, data: bytes) -> None:
    """Raise Rejected for a format that the version of the request does not carry."""
    try:
        batches = list(dispatch.batches(data, verify=False))
    except CorruptBatch as e:
        raise Rejected(f"{CORRUPT_MESSAGE}: {e.reason}", position=e.position) from e
    for batch in batches:
        if version >= _BATCHES_SINCE:
            if batch.magic != v2.MAGIC:
                reason = f"produce version {version} carries magic 2, not {batch.magic}"
                raise Rejected(f"{INVALID_RECORD}: {reason}", position=batch.position)
            if batch.codec == Codec.ZSTD and version < _ZSTD_SINCE:
                reason = f"zstd needs produce version {_ZSTD_SINCE}, not {version}"
                raise Rejected(f"UNSUPPORTED_COMPRESSION_TYPE: {reason}", position=batch.position)
        elif batch.magic > (version >= _MAGIC_1_SINCE):
            reason = f"produce version {version} does not carry magic {batch.magic}"
            raise Rejected(f"{INVALID_RECORD}: {reason}", position=batch.position)


def fetch(log: PartitionLog, version: int, offset: int, max_bytes: int) -> Fetched:
    """Read as a consumer of this version receives it, below the high watermark.

    Raises Rejected; UsageError for an unknown version; CorruptBatch, CorruptIndex, StorageFailed.
    """
    _check_version("fetch", version, log.generation.fetch, log.generation)
    _check_offset(log, offset)
    data = log.read(offset, log.high_watermark, max_bytes)
    magic = 2 if version >= _AS_STORED_SINCE else int(version >= _MAGIC_1_SINCE)
    if all(batch.magic <= magic for batch in dispatch.batches(data, verify=False)):
        return Fetched(data, len(data), "as stored")
    try:
        return Fetched(converted(data, magic, first_offset=offset), len(data), "converted")
    except NotConvertible as e:
        reason = f"UNSUPPORTED_COMPRESSION_TYPE: {e.reason}"
        raise Rejected(reason, path=log.directory) from e


def replicate(leader: PartitionLog, log: PartitionLog, max_bytes: int, *, now_ms: int) -> int:
    """Append what the leader has above the log end, as it is. Returns the bytes.

    Raises Rejected where the leader has no such offset; otherwise as
    `PartitionLog.append_as_follower`.
    """
    _check_offset(leader, log.log_end_offset)
    data = leader.read(log.log_end_offset, leader.log_end_offset, max_bytes)
    magics = {batch.magic for batch in dispatch.batches(data, verify=False)}
    if magics and max(magics) > max(log.generation.leader.magics):
        reason = f"Kafka {log.generation.kafka} does not know magic {max(magics)}"
        raise Rejected(f"CORRUPT_MESSAGE: {reason}", path=log.directory)
    appended = log.append_as_follower(data, now_ms=now_ms)
    return appended.bytes if appended else 0


def list_offsets(log: PartitionLog, version: int, time: int, *, now_ms: int) -> Answer:
    """Return the offset at a time. Negative times are words where the broker knows them.

    Raises UsageError for an unknown version; otherwise as `search.broker.find`.
    """
    _check_version("list-offsets", version, log.generation.list_offsets, log.generation)
    rule = log.generation.search if version else SEARCH_RULES["0.8"]
    word = _WORDS.get(time) if time in rule.specials else None
    target: Target = time if word is None else word
    with log.opened() as partition:
        return search.find(partition, target, rule, now_ms=now_ms)


def _check_offset(log: PartitionLog, offset: int) -> None:
    if not log.log_start_offset <= offset <= log.log_end_offset:
        reason = f"{offset} is not within {log.log_start_offset} to {log.log_end_offset}"
        raise Rejected(f"OFFSET_OUT_OF_RANGE: {reason}", path=log.directory)


def _check_version(request: str, version: int, known: Versions, generation: Generation) -> None:
    if not known.lowest <= version <= known.highest:
        raise UsageError(
            f"{request} version {version}: Kafka {generation.kafka} answers"
            f" {known.lowest} to {known.highest}"
        )
