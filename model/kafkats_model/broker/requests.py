"""Requests of clients to one partition, by their versions.

Which formats they carry is in formats/versions.py. A produce from version 2 on answers with the
broker's time under LogAppendTime, else with -1. Version 0 of list offsets finds segments by mtime,
later ones find records by their timestamps.

Source: ReplicaManager, KafkaApis of Kafka 0.8 to 4.3; KIP-32, KIP-79.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkats.errors import CorruptBatch, NotConvertible, UsageError
from kafkats.formats import dispatch, v0, v1, v2
from kafkats.formats.model import NO_TIMESTAMP, Codec, Record, TimestampType
from kafkats.formats.versions import (
    AS_STORED_SINCE,
    BATCHES_SINCE,
    MAGIC_1_SINCE,
    fetched_magic,
    produced_magic,
)
from kafkats.generations import SEARCH_RULES
from kafkats.search import broker as search
from kafkats.search.answers import Answer, Target, Word
from kafkats.search.broker import offsets_before
from kafkats_model.broker import dialect_search
from kafkats_model.broker.error_names import (
    CORRUPT_MESSAGE,
    OFFSET_OUT_OF_RANGE,
    UNKNOWN_ERROR,
    UNSUPPORTED_COMPRESSION,
    UNSUPPORTED_VERSION,
)
from kafkats_model.broker.generation import Generation, Versions
from kafkats_model.broker.partition_log import DUPLICATE, PartitionLog
from kafkats_model.broker.validate import MOST_RECORDS, Validated
from kafkats_model.errors import Rejected
from kafkats_model.formats import kip228
from kafkats_model.formats.fetch import fetch as converted
from kafkats_model.formats.readers import reader
from kafkats_model.formats.versions import ZSTD_SINCE, carries, last_codec

if TYPE_CHECKING:
    from kafkats_model.broker.bulk import SetsAppended
    from kafkats_model.broker.enriched_log import EnrichedLog

_MANY: Final = 1 << 18
"""Bytes of a fetch that are worth kernels."""
_WORDS: Final = {word.value: word for word in Word}


class Produced(NamedTuple):
    """The answer to a produce request."""

    validated: Validated
    timestamp: int
    """The broker's time of the set under LogAppendTime; -1: the producer's own times count.

    For a set that was appended before it is the largest timestamp of then.
    """


class Fetched(NamedTuple):
    """The answer to a fetch."""

    data: bytes
    stored_bytes: int
    how: str
    """`as stored` or `converted`."""


class Replicated(NamedTuple):
    """The answer to a follower's fetch, appended."""

    data: bytes
    stored_bytes: int
    how: str
    """`as it is`, `converted` by the leader, or `nothing new`."""
    version: int
    """The version of the fetch request."""


def message_set(
    version: int,
    codec: Codec,
    records: Sequence[Record],
    dialect: str | None = None,
    producer: v2.HeaderFields | None = None,
) -> bytes:
    """Return the set that a producer of this version sends.

    `producer` has the fields of an idempotent or transactional one. Raises BadInput, UsageError.
    """
    if producer is not None and (dialect or version < BATCHES_SINCE):
        raise UsageError(f"a producer id needs produce version {BATCHES_SINCE}, and no dialect")
    if dialect:
        check_dialect("produce", version, dialect)
        return kip228.encode_batch(records, codec=codec)
    magic = produced_magic(version)
    if magic == v2.MAGIC:
        return v2.encode_batch(records, codec=codec, **(producer or v2.HeaderFields()))
    if magic == v1.MAGIC:
        return v1.encode_batch(records, codec=codec)
    return v0.encode_batch(records, codec=codec)


def produce(
    log: PartitionLog, version: int, data: bytes, *, now_ms: int, leader_epoch: int
) -> Produced:
    """Append a message set as the leader. Raises Rejected; UsageError for an unknown version."""
    _check_version("produce", version, log.generation.produce, log.generation)
    _check_set(version, log.generation, data)
    made = log.append_as_leader(data, now_ms=now_ms, leader_epoch=leader_epoch)
    if made.how == DUPLICATE:
        return Produced(made, made.largest.timestamp)
    stamped = log.topic.timestamp_type == TimestampType.LOG_APPEND_TIME
    return Produced(made, now_ms if stamped and version >= MAGIC_1_SINCE else NO_TIMESTAMP)


def check_dialect(request: str, version: int, dialect: str | None) -> None:
    """Raise UsageError for a version of a produce or fetch that cannot carry magic 2."""
    since = BATCHES_SINCE if request == "produce" else AS_STORED_SINCE
    if dialect and version < since:
        raise UsageError(f"dialect {dialect} is magic 2: {request} version {since} or later")


def first_time(answer: Fetched, offset: int, dialect: str | None) -> str:
    """Return the first record's timestamp as a consumer means it, "" without a record.

    `offset` is the requested one. Raises CorruptBatch.
    """
    known = reader(dialect)
    for batch in known.batches(answer.data, verify=False):
        for record in known.records(answer.data, batch):
            if record.offset >= offset:
                return kip228.time_text(record.timestamp, dialect=bool(dialect))
    return ""


def produce_sets(
    log: PartitionLog,
    version: int,
    sets: NDArray[np.uint8],
    ends: Sequence[int],
    *,
    now_ms: int,
    leader_epoch: int,
) -> SetsAppended:
    """Append many message sets, a request each, as `produce` does. `sets` are rewritten.

    `ends` are their ends in bytes. A rejected set is left out. Raises UsageError for an unknown
    version; StorageFailed.
    """
    from kafkats_model.broker.bulk import append_sets
    from kafkats_model.broker.set_judge import ALL_MAGICS

    _check_version("produce", version, log.generation.produce, log.generation)
    newest = max(log.generation.leader.magics)
    return append_sets(
        log, sets, ends, now_ms=now_ms, leader_epoch=leader_epoch,
        check=partial(_check_set, version, log.generation),
        last_codec=min(last_codec(version), _last_codec_known(log.generation)),
        magics=[magic for magic in ALL_MAGICS[: newest + 1] if carries(version, magic)],
    )  # fmt: skip


def _last_codec_known(generation: Generation) -> Codec:
    """Return the last codec, by its number, that a release knows."""
    return Codec.ZSTD if generation.produce.highest >= ZSTD_SINCE else Codec.LZ4


def _check_set(version: int, generation: Generation, data: bytes) -> None:
    """Raise Rejected for a format that the broker does not know, or does not take by this version.

    Raises UsageError for more records in a batch than a replay takes in bounded time.
    """
    rule = generation.leader
    try:
        batches = list(dispatch.batches(data, verify=False))
    except CorruptBatch as e:
        raise Rejected(f"{CORRUPT_MESSAGE}: {e.reason}", position=e.position) from e
    for batch in batches:
        if batch.count > MOST_RECORDS:
            raise UsageError(f"a set of {batch.count} records: at most {MOST_RECORDS} are played")
        reason = ""
        if version >= BATCHES_SINCE and batch is not batches[0]:
            reason = f"{rule.invalid}: {len(batches)} batches in a set that must be one"
        elif batch.magic > max(rule.magics):
            reason = (
                f"{CORRUPT_MESSAGE}: Kafka {generation.kafka} does not know magic {batch.magic}"
            )
        elif not carries(version, batch.magic):
            reason = f"{rule.invalid}: produce version {version} does not carry magic {batch.magic}"
        elif batch.codec == Codec.ZSTD and _last_codec_known(generation) < Codec.ZSTD:
            reason = f"{UNKNOWN_ERROR}: Kafka {generation.kafka} does not know zstd"
        elif batch.codec == Codec.ZSTD and last_codec(version) < Codec.ZSTD:
            reason = f"{UNSUPPORTED_COMPRESSION}: zstd needs produce version {ZSTD_SINCE}"
        if reason:
            raise Rejected(reason, position=batch.position)


def fetch(log: PartitionLog, version: int, offset: int, max_bytes: int) -> Fetched:
    """Read as a consumer of this version receives it, below the high watermark.

    Raises Rejected; UsageError for an unknown version; CorruptBatch, CorruptIndex, StorageFailed.
    """
    _check_version("fetch", version, log.generation.fetch, log.generation)
    return _read(log, version, offset, log.high_watermark, max_bytes)


def _read(log: PartitionLog, version: int, offset: int, end: int, max_bytes: int) -> Fetched:
    check_offset(log, offset)
    data = log.read(offset, end, max_bytes)
    magic = fetched_magic(version)
    known = max(log.generation.leader.magics)
    stored = max((batch.magic for batch in dispatch.batches(data, verify=False)), default=0)
    # Brokers convert to older formats than their own, and know no newer one. Before 0.10 there was
    # none older: they send what the disk has.
    if stored <= magic or magic >= known:
        return Fetched(data, len(data), "as stored")
    if stored > known:
        reason = f"Kafka {log.generation.kafka} does not know magic {stored}"
        raise Rejected(f"{CORRUPT_MESSAGE}: {reason}", path=log.directory)
    try:
        older = log.generation.reader.older
        made = converted(data, magic, first_offset=offset, records=older)
        return Fetched(made, len(data), "converted")
    except NotConvertible as e:
        reason = f"{UNSUPPORTED_COMPRESSION}: {e.reason}"
        raise Rejected(reason, path=log.directory) from e


def check_decodes(data: bytes, magic: int) -> None:
    """Raise Rejected if a consumer that decodes formats up to `magic` meets a later one."""
    for batch in dispatch.batches(data, verify=False):
        if batch.magic > magic:
            reason = f"a message of magic {batch.magic}, the consumer decodes magic {magic} at most"
            raise Rejected(f"{UNSUPPORTED_VERSION}: {reason}", position=batch.position)


def formats_of(data: bytes) -> str:
    """Return the formats of the batches of `data`: `1 gzip` or `0 none, 1 none`."""
    found = {(batch.magic, batch.codec) for batch in dispatch.batches(data, verify=False)}
    return ", ".join(f"{magic} {Codec(codec).name.lower()}" for magic, codec in sorted(found))


def replicate(
    leader: PartitionLog, log: PartitionLog, max_bytes: int, *, version: int | None, now_ms: int
) -> Replicated:
    """Append what the leader has above the log end, as it sends it.

    `version` is that of the follower's fetch requests, by inter.broker.protocol.version; None: the
    highest that both brokers know. Raises Rejected where the leader has no such offset or version;
    otherwise as `PartitionLog.append_as_follower`.
    """
    known, own = leader.generation.fetch, log.generation.fetch
    version = min(known.highest, own.highest) if version is None else version
    if not known.lowest <= version <= known.highest:
        reason = (
            f"fetch version {version} of the follower: Kafka {leader.generation.kafka} answers"
            f" {known.lowest} to {known.highest}"
        )
        raise Rejected(f"{UNSUPPORTED_VERSION}: {reason}", path=log.directory)
    sent = _read(leader, version, log.log_end_offset, leader.log_end_offset, max_bytes)
    magics = {batch.magic for batch in dispatch.batches(sent.data, verify=False)}
    if magics and max(magics) > max(log.generation.leader.magics):
        reason = f"Kafka {log.generation.kafka} does not know magic {max(magics)}"
        raise Rejected(f"{CORRUPT_MESSAGE}: {reason}", path=log.directory)
    size = _follow(log, sent.data, now_ms)
    if not size:
        return Replicated(b"", sent.stored_bytes, "nothing new", version)
    how = "as it is" if sent.how == "as stored" else sent.how
    return Replicated(sent.data[:size], sent.stored_bytes, how, version)


def _follow(log: PartitionLog, data: bytes, now_ms: int) -> int:
    """Append a fetch, and return its bytes. Kernels take longer to load than few batches."""
    if len(data) < _MANY:
        appended = log.append_as_follower(data, now_ms=now_ms)
        return appended.bytes if appended else 0
    from kafkats_model.broker.bulk import append_fetch

    return append_fetch(log, data, now_ms=now_ms)


class Listed(NamedTuple):
    """The answer to a search by time."""

    answer: Answer
    offsets: list[int]
    """Version 0 answers with several, the newest first; later versions with one."""


def list_offsets(
    log: PartitionLog, version: int, time: int, *, now_ms: int, count: int = 1
) -> Listed:
    """Return the offset at a time. Negative times are words where the broker knows them.

    Version 0 returns up to `count` offsets. By KIP-33's text its first is that of the time index,
    and the base offsets of earlier segments follow.

    Raises UsageError for an unknown version, and for a count of another version; otherwise as
    `search.broker.find`.
    """
    _check_version("list-offsets", version, log.generation.list_offsets, log.generation)
    if version and count != 1:
        raise UsageError(f"list-offsets version {version} asks for one offset; count is of 0")
    indexed = log.generation.search.unit == "entry"
    rule = log.generation.search if version or indexed else SEARCH_RULES["0.8"]
    word = _WORDS.get(time) if time in rule.specials else None
    target: Target = time if word is None else word
    if log.generation.dialect and word is None and version:
        answer = dialect_search.find(log, time)
        return Listed(answer, [answer.offset] if answer.offset >= 0 else [])
    with log.opened() as partition:
        answer = search.find(partition, target, rule, now_ms=now_ms)
        offsets = [answer.offset] if answer.offset >= 0 else []
        if not version and not indexed:
            offsets = offsets_before(partition, target, now_ms=now_ms, most=count)
        elif not version:
            bases = [s.base_offset for s in partition.segments if s.base_offset < answer.offset]
            offsets = [*offsets, *reversed(bases)][:count]
    return Listed(answer, offsets)


def check_offset(log: PartitionLog | EnrichedLog, offset: int) -> None:
    """Raise Rejected for an offset outside of the log, which a fetch cannot ask for.

    The log end never is, also where it lies below the log start (`StartRule.start_wins`).
    """
    if offset != log.log_end_offset and not log.log_start_offset <= offset < log.log_end_offset:
        reason = f"{offset} is not within {log.log_start_offset} to {log.log_end_offset}"
        raise Rejected(f"{OFFSET_OUT_OF_RANGE}: {reason}", path=log.directory)


def _check_version(request: str, version: int, known: Versions, generation: Generation) -> None:
    if not known.lowest <= version <= known.highest:
        raise UsageError(
            f"{request} version {version}: Kafka {generation.kafka} answers"
            f" {known.lowest} to {known.highest}"
        )
