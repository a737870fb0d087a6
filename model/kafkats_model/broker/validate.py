"""Judge a producer's message set as the leader of a partition does, before it is appended.

Pure: the bytes of the set, the topic, the broker's clock and the next offset give the bytes to
append, or an error. An error rejects the whole set, as in Kafka. The order of the checks:

1. each batch is whole, and its checksum is right                     CORRUPT_MESSAGE
2. one batch where one is required, one magic; a client's batch counts its offsets from 0, names as
   many as it has records, is no control batch, has a sequence        INVALID_RECORD
3. transactions and producer ids need magic 2                         UNSUPPORTED_FOR_MESSAGE_FORMAT
4. the records decode; a message in a wrapper has the wrapper's magic INVALID_RECORD
5. the checksum of each message in a wrapper                          CORRUPT_MESSAGE
6. a key in each record of a compacted topic                          INVALID_RECORD
7. timestamps: CreateTime in range, none marked as the broker's       INVALID_TIMESTAMP

Up to 2.3 INVALID_RECORD is CORRUPT_MESSAGE, and a set may have several compressed batches, of any
magic (`LeaderRule.invalid`, `one_kind`). Only produce requests from version 3 on bring one batch.

Then offsets, and what a conversion changes: `formats/produce.py`. Source: Log.
analyzeAndValidateRecords and LogValidator of Kafka 0.10 to 4.3; KIP-31 and KIP-32 for their texts.

kafkats is stricter in one point: bytes behind the last whole batch are CORRUPT_MESSAGE. Kafka drops
them without a word.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from kafkats.compression.checksums import crc32
from kafkats.compression.limit import allowed
from kafkats.counts import counted
from kafkats.errors import CorruptBatch, NotConvertible, OversizedBatch, UsageError
from kafkats.formats import message_set, v2
from kafkats.formats.framing import OVERHEAD
from kafkats.formats.model import NO_TIMESTAMP, Batch, Codec, Record, TimestampType
from kafkats.primitives import Buffer, view, wrap_int64
from kafkats_model.broker.error_names import (
    CORRUPT_MESSAGE,
    INVALID_TIMESTAMP,
    UNKNOWN_ERROR,
    UNSUPPORTED_FORMAT,
)
from kafkats_model.broker.leader_rules import LeaderRule
from kafkats_model.broker.settings import Topic
from kafkats_model.errors import Rejected
from kafkats_model.formats.produce import Assigned, MessageSet, contiguous
from kafkats_model.formats.readers import Reader, reader

MOST_RECORDS: Final = 1 << 20
"""The limit of one batch: a few KB of zstd can hold tens of millions."""
_CRC_AT: Final = OVERHEAD


class Largest(NamedTuple):
    """The largest timestamp of an append in ms, and the offset kept with it.

    Without a timestamp it is the format's number for none (`dialects.Reader.no_timestamp`).
    """

    timestamp: int
    offset: int


class Validated(NamedTuple):
    """The accepted set."""

    data: bytes
    """As it is appended."""
    first_offset: int
    last_offset: int
    largest: Largest
    how: str
    """`in place`: the batches are the client's; `converted`: to another magic; `recompressed`."""


def validate(
    buf: Buffer,
    topic: Topic,
    rule: LeaderRule,
    *,
    now_ms: int,
    offset: int,
    leader_epoch: int,
) -> Validated:
    """Return the set `buf` of a client as the leader of `topic` appends it at `offset`.

    `now_ms` is the broker's clock. Raises Rejected, with the position of the batch; UsageError for
    more records or bytes than are played in bounded time.
    """
    known = reader(rule.dialect)
    batches = whole_batches(buf, known, rule.invalid)
    every: list[list[Record]] = []
    sent = MessageSet(buf, batches, every)
    _check_count(sent, rule)
    for batch in batches:
        _check_header(batch, batches[0], topic, rule)
        every.append(_records(buf, batch, known, rule))
        _check_records(batch, every[-1], topic, rule, now_ms)
    _check_offsets(sent, topic, rule)
    try:
        made = known.assign(
            sent,
            topic.target,
            timestamp_type=topic.timestamp_type,
            now_ms=now_ms,
            offset=offset,
            leader_epoch=leader_epoch,
            **_of_release(rule),
        )
    except NotConvertible as e:
        where = batches[0].position if e.position is None else e.position
        raise Rejected(f"{UNKNOWN_ERROR}: {e.reason}", position=where) from e
    how = "in place"
    if not made.in_place:
        if not rule.dialect:
            _check_negative(sent)
        how = "recompressed" if batches[0].magic == topic.target.magic else "converted"
    last = offset + sum(map(len, sent.records)) - 1
    largest = (
        _largest(sent, made, topic, rule, offset, now_ms)
        if rule.record_of_maximum and not rule.dialect
        else largest_of_batches(known.batches(made.data, verify=False), known.no_timestamp)
    )
    return Validated(made.data, offset, last, largest, how)


def _of_release(rule: LeaderRule) -> dict[str, bool]:
    """Return the arguments of `assign` that a dialect has no use for."""
    if rule.dialect:
        return {}
    return {
        "delete_horizon": rule.delete_horizon,
        "one_kind": rule.one_kind,
        "stamp_inner": rule.stamp_inner,
    }


def whole_batches(buf: Buffer, known: Reader, invalid: str) -> list[Batch]:
    """Return the batches of a set, at least one. Raises Rejected unless they are all of it.

    `invalid` is the error for none.
    """
    batches: list[Batch] = []
    try:
        batches.extend(known.batches(buf))
    except CorruptBatch as e:
        raise Rejected(f"{CORRUPT_MESSAGE}: {e.reason}", position=e.position) from e
    end, size = batches[-1].end if batches else 0, len(view(buf))
    if end < size:
        raise Rejected(
            f"{CORRUPT_MESSAGE}: {size - end} bytes that are no whole batch", position=end
        )
    if not batches:
        raise Rejected(f"{invalid}: the set has no batch", position=0)
    return batches


def _check_count(sent: MessageSet, rule: LeaderRule) -> None:
    count, magic = len(sent.batches), sent.batches[0].magic
    if rule.one_kind and count > 1 and (magic == v2.MAGIC or sent.codec != Codec.NONE):
        reason = f"{count} batches in a set that must be one"
        raise Rejected(f"{rule.invalid}: {reason}", position=sent.batches[1].position)


def _check_header(batch: Batch, first: Batch, topic: Topic, rule: LeaderRule) -> None:
    if rule.one_kind and batch.magic != first.magic:
        reason = f"magic {batch.magic} in a set that begins with magic {first.magic}"
        raise Rejected(f"{rule.invalid}: {reason}", position=batch.position)
    reason = _header_fault(batch) if batch.magic == v2.MAGIC else ""
    if reason:
        raise Rejected(f"{rule.invalid}: {reason}", position=batch.position)
    if topic.target.magic < v2.MAGIC and (batch.transactional or batch.producer_id >= 0):
        reason = f"a producer id or a transaction cannot be in magic {topic.target.magic}"
        raise Rejected(f"{UNSUPPORTED_FORMAT}: {reason}", position=batch.position)


def _header_fault(batch: Batch) -> str:
    """Return why a leader rejects the header of a client's batch of magic 2, "" if it does not."""
    if batch.base_offset != 0:
        return f"the base offset of a client's batch is 0, not {batch.base_offset}"
    named = batch.last_offset - batch.base_offset + 1
    if named <= 0 or batch.count <= 0:
        return f"{counted(batch.count, 'record')}, {counted(named, 'offset')}"
    if named != batch.count:
        return f"the batch names {counted(named, 'offset')} for {counted(batch.count, 'record')}"
    if batch.control:
        return "a client cannot write control records"
    if batch.producer_id >= 0 and batch.base_sequence < 0:
        return f"sequence {batch.base_sequence} of producer {batch.producer_id}"
    return ""


def _records(buf: Buffer, batch: Batch, known: Reader, rule: LeaderRule) -> list[Record]:
    try:
        if batch.magic < v2.MAGIC and batch.codec != Codec.NONE:
            _check_inner(buf, batch, rule)
        return known.records(buf, batch)
    except OversizedBatch as e:
        most = f"{allowed()} bytes after decompression and {MOST_RECORDS} records"
        raise UsageError(f"a batch of at most {most} is played, not the one sent") from e
    except CorruptBatch as e:
        where = batch.position if e.position is None else e.position
        raise Rejected(f"{rule.invalid}: {e.reason}", position=where) from e


def _check_inner(buf: Buffer, wrapper: Batch, rule: LeaderRule) -> None:
    """Check magic and checksum of the messages in a wrapper. Raises CorruptBatch, Rejected."""
    inner, frames = message_set.wrapped(
        buf, wrapper, broken_lz4=wrapper.magic == 0, most=MOST_RECORDS
    )
    for number, frame in enumerate(frames):
        if frame.magic != wrapper.magic:
            reason = f"message {number} in a wrapper of magic {wrapper.magic} has {frame.magic}"
            raise Rejected(f"{rule.invalid}: {reason}", position=wrapper.position)
        end = frame.position + frame.size
        stored = int.from_bytes(inner[frame.position + _CRC_AT :][:4], "big")
        crc = crc32(inner[frame.position + message_set.CRC_FROM : end])
        if crc != stored:
            reason = f"CRC-32 of message {number} in a wrapper is {crc:08x}, it says {stored:08x}"
            raise Rejected(f"{CORRUPT_MESSAGE}: {reason}", position=wrapper.position)


def _check_records(
    batch: Batch, records: list[Record], topic: Topic, rule: LeaderRule, now_ms: int
) -> None:
    """Raise Rejected for records that a leader does not take.

    A wrong timestamp is named before a missing key, wherever they are, as Kafka does.
    """
    keyless = -1
    for number, record in enumerate(records):
        if topic.compacted and record.key is None:
            keyless = number if keyless < 0 else keyless
            continue
        wrong = _timestamp_fault(batch, number, record.timestamp, topic, rule, now_ms)
        if wrong:
            raise Rejected(wrong, position=batch.position)
    if keyless >= 0:
        reason = f"record {keyless} has no key, and the topic is compacted"
        raise Rejected(f"{rule.invalid}: {reason}", position=batch.position)


def _check_offsets(sent: MessageSet, topic: Topic, rule: LeaderRule) -> None:
    """Raise Rejected for offsets that are not 0, 1, 2 ..., where they do not become so.

    2.4.0 to 2.5.0 look at each set that is compressed or will be, unless one side is magic 0. 2.6
    and later give up a compressed batch of magic 2 that stays as it is.
    """
    first, target = sent.batches[0], topic.target
    error = rule.invalid
    if rule.holes == "rejected":
        compressed = sent.codec != Codec.NONE or target.codec not in {None, Codec.NONE}
        judged = compressed and min(first.magic, target.magic) > 0
    else:
        error = UNKNOWN_ERROR
        unchanged = target.codec in {None, first.codec} and target.magic == first.magic
        judged = first.magic == v2.MAGIC and first.codec != Codec.NONE and unchanged
    if judged and rule.holes != "renumbered" and not contiguous(sent.records):
        reason = "the offsets in a compressed batch are not 0, 1, 2 ..."
        raise Rejected(f"{error}: {reason}", position=first.position)


def _check_negative(sent: MessageSet) -> None:
    """Raise Rejected for a negative timestamp in a set that has to be built: Kafka cannot build it.

    In a set that stays in place Kafka appends it.
    """
    for batch, records in zip(sent.batches, sent.records, strict=True):
        low = min((record.timestamp for record in records), default=NO_TIMESTAMP)
        if low < NO_TIMESTAMP:
            reason = f"timestamp {low} is negative, and the set has to be converted"
            raise Rejected(f"{UNKNOWN_ERROR}: {reason}", position=batch.position)


def _timestamp_fault(
    batch: Batch, number: int, timestamp: int, topic: Topic, rule: LeaderRule, now_ms: int
) -> str:
    """Return why a leader rejects the timestamp of a record, "" if it does not."""
    judged = topic.timestamp_type == TimestampType.CREATE_TIME and (
        timestamp != reader(rule.dialect).no_timestamp or not rule.untimed
    )
    if judged and _out_of_range(timestamp, topic, rule, now_ms):
        begin, end = now_ms - topic.before_max_ms, now_ms + topic.after_max_ms
        return (
            f"{rule.out_of_range}: timestamp {timestamp} of record {number} is not within"
            f" [{begin}, {end}]"
        )
    if batch.timestamp_type == TimestampType.LOG_APPEND_TIME and not (judged and rule.stamped):
        return f"{INVALID_TIMESTAMP}: record {number} of a client is marked LogAppendTime"
    return ""


def _out_of_range(timestamp: int, topic: Topic, rule: LeaderRule, now_ms: int) -> bool:
    """Return True if a timestamp is too far from the clock, by Java's arithmetic of 64 bits."""
    if rule.bounds:
        behind = wrap_int64(now_ms - timestamp)
        return behind > topic.before_max_ms or wrap_int64(-behind) > topic.after_max_ms
    return wrap_int64(abs(wrap_int64(timestamp - now_ms))) > topic.before_max_ms


def largest_of_batches(batches: Iterator[Batch], no_timestamp: int = NO_TIMESTAMP) -> Largest:
    """Return the largest timestamp of batches, and the last offset of the first that has it.

    `no_timestamp` is the result for batches without timestamps.
    """
    timestamp, offset = no_timestamp, -1
    for batch in batches:
        if batch.max_timestamp > timestamp:
            timestamp, offset = batch.max_timestamp, batch.last_offset
    return Largest(timestamp, offset)


def _largest(
    sent: MessageSet, made: Assigned, topic: Topic, rule: LeaderRule, offset: int, now_ms: int
) -> Largest:
    """Return the largest timestamp as leaders up to 3.6 tell it, with the offset of its record.

    A compressed set, and one that was built as one batch, has its last offset.
    """
    records = [record for some in sent.records for record in some]
    last = offset + len(records) - 1
    target = topic.target.magic
    codec = sent.codec if topic.target.codec is None else topic.target.codec
    one_batch = codec != Codec.NONE or sent.codec != Codec.NONE
    if not made.in_place:
        one_batch = codec != Codec.NONE or target == v2.MAGIC
    if topic.timestamp_type == TimestampType.LOG_APPEND_TIME:
        built = rule.built_last and not made.in_place
        return Largest(now_ms, last if one_batch or built or target == v2.MAGIC else offset)
    timed = any(batch.magic > 0 for batch in sent.batches) and target > 0
    newest = max((r.timestamp for r in records), default=NO_TIMESTAMP) if timed else NO_TIMESTAMP
    if newest <= NO_TIMESTAMP:
        return Largest(NO_TIMESTAMP, last if one_batch or not made.in_place else -1)
    if one_batch:
        return Largest(newest, last)
    number = next(n for n, record in enumerate(records) if record.timestamp == newest)
    return Largest(newest, offset + number)
