"""KIP-228's dialect of magic 2, never shipped: bit 6 marks batches with negative timestamps.

    attributes    15 ... 7  |  6        | 5       | 4             | 3              | 2 1 0
                  written 0 |  extended | control | transactional | timestamp type | codec

    extended    1: a timestamp is any number of ms, also -1; Long.MIN_VALUE is no timestamp
                0: -1 is no timestamp, as in Kafka

Every new batch has the bit. A leader gives it to the batches of older producers, and turns their -1
into Long.MIN_VALUE. Source: the text of KIP-228 (KAFKA-6048).

Never guess this dialect from bytes, and never write it for a broker. Kafka 3.1 gave the same bit
another meaning, the delete horizon (KIP-534; see v2), which a log of this dialect cannot have.
Callers choose it by name (`readers`); dispatch does not know it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, Unpack

from kafkats.errors import BadInput, NotConvertible
from kafkats.formats import dispatch, v2
from kafkats.formats.build import Target, target_codec
from kafkats.formats.model import NO_TIMESTAMP, Batch, Codec, Record, TimestampType
from kafkats.primitives import Buffer, view
from kafkats_model.formats.produce import Assigned, MessageSet, contiguous

EXTENDED_BIT: Final = 0x40
NO_TIMESTAMP_EXTENDED: Final = -(2**63)
"""The value for "no timestamp"."""


def is_extended(batch: Batch) -> bool:
    """Return whether the batch has isTimestampExtended. Only magic 2 can."""
    return batch.magic == v2.MAGIC and bool(batch.attributes & EXTENDED_BIT)


def batches(
    buf: Buffer, start: int = 0, end: int | None = None, *, verify: bool = True
) -> Iterator[Batch]:
    """Yield the batches as `dispatch.batches`, read by the dialect. Raises CorruptBatch.

    `max_timestamp` is Long.MIN_VALUE where there is none; `base_timestamp` is as stored.
    """
    for batch in dispatch.batches(buf, start, end, verify=verify):
        newest = _time(batch, batch.max_timestamp)
        yield replace(batch, max_timestamp=newest, delete_horizon_ms=None)


def records(buf: Buffer, batch: Batch) -> list[Record]:
    """Return the records of a batch as `dispatch.records`, read by the dialect.

    A record without a timestamp has Long.MIN_VALUE. Raises CorruptBatch.
    """
    decoded = dispatch.records(buf, batch)
    return [record._replace(timestamp=_time(batch, record.timestamp)) for record in decoded]


def _time(batch: Batch, timestamp: int) -> int:
    none = timestamp == NO_TIMESTAMP and not is_extended(batch)
    return NO_TIMESTAMP_EXTENDED if none else timestamp


def encode_batch(
    records: Sequence[Record],
    *,
    codec: int = Codec.NONE,
    log_append_time: int | None = None,
    **fields: Unpack[v2.HeaderFields],
) -> bytes:
    """Encode one extended batch; arguments as for `v2.encode_batch`.

    The maximum timestamp is that of the records, also a negative one. Raises BadInput for a field
    out of range, and for a delete horizon: the dialect has none.
    """
    if fields.get("delete_horizon_ms") is not None:
        raise BadInput("a batch with extended timestamps has no delete horizon: both are bit 6")
    newest = max((record.timestamp for record in records), default=NO_TIMESTAMP_EXTENDED)
    fields.setdefault("max_timestamp", newest if log_append_time is None else log_append_time)
    plain = v2.encode_batch(records, codec=codec, log_append_time=log_append_time, **fields)
    header = v2.BatchHeader._make(v2.HEADER.unpack_from(plain))
    return _sealed(header._replace(attributes=header.attributes | EXTENDED_BIT), plain)


def assign(
    sent: MessageSet,
    target: Target,
    *,
    timestamp_type: TimestampType,
    now_ms: int,
    offset: int,
    leader_epoch: int,
) -> Assigned:
    """Return a client's set, of at least one batch, as a leader of the dialect appends it.

    Arguments as for `produce.assign`; `sent` was read by this module. The set stays in place unless
    its magic or codec changes, its offsets are not 0, 1, 2 ..., or the -1 of a record has to become
    Long.MIN_VALUE. Raises NotConvertible for a field out of range.
    """
    first, codec = sent.batches[0], sent.codec
    wanted = target_codec(codec, target)
    append_ms = now_ms if timestamp_type == TimestampType.LOG_APPEND_TIME else None
    every = [record for some in sent.records for record in some]
    untimed = any(record.timestamp == NO_TIMESTAMP_EXTENDED for record in every)
    stays = is_extended(first) or not untimed or append_ms is not None
    same = first.magic == v2.MAGIC and len(sent.batches) == 1 and codec == wanted
    try:
        if same and stays and contiguous(sent.records):
            return Assigned(_stamped(sent, every, offset, append_ms, leader_epoch), True)
        data = encode_batch(
            [record._replace(offset=offset + n) for n, record in enumerate(every)],
            codec=wanted,
            log_append_time=append_ms,
            leader_epoch=leader_epoch,
            producer_id=first.producer_id,
            producer_epoch=first.producer_epoch,
            base_sequence=first.base_sequence,
            transactional=first.transactional,
        )
    except BadInput as e:
        raise NotConvertible(e.reason, position=first.position) from e
    return Assigned(data, False)


def _stamped(
    sent: MessageSet,
    every: Sequence[Record],
    offset: int,
    append_ms: int | None,
    leader_epoch: int,
) -> bytes:
    batch = sent.batches[0]
    data = bytes(view(sent.buf)[batch.position : batch.end])
    header = v2.BatchHeader._make(v2.HEADER.unpack_from(data))
    flags = header.attributes & ~v2.LOG_APPEND_TIME_BIT | EXTENDED_BIT
    if append_ms is None:
        newest = max(record.timestamp for record in every)
    else:
        flags, newest = flags | v2.LOG_APPEND_TIME_BIT, append_ms
    header = header._replace(
        base_offset=offset, leader_epoch=leader_epoch, attributes=flags, max_timestamp=newest
    )
    return _sealed(header, data)


def _sealed(header: v2.BatchHeader, data: bytes) -> bytes:
    """Return `data`, a whole batch, with this header, its length and its checksum."""
    return v2.seal(header, data[v2.HEADER_BYTES :])


def records_before(buf: Buffer, batch: Batch) -> list[Record]:
    """Return the records for a conversion to magic 0 or 1: Long.MIN_VALUE becomes -1.

    All other timestamps stay, so -1 ms is no timestamp for their readers. Raises CorruptBatch.
    """
    return [
        record._replace(timestamp=NO_TIMESTAMP)
        if record.timestamp == NO_TIMESTAMP_EXTENDED
        else record
        for record in records(buf, batch)
    ]


def time_text(timestamp: int, *, dialect: bool) -> str:
    """Return a timestamp in the words of KIP-228's tables, as a side of the dialect means it.

    Without the dialect no negative number but -1 is a timestamp: Kafka's producers, builders and
    Streams refuse it.
    """
    if dialect:
        extended = timestamp == NO_TIMESTAMP_EXTENDED
        return "NO_TIMESTAMP (Long.MIN_VALUE)" if extended else f"{timestamp} ms"
    if timestamp == NO_TIMESTAMP:
        return "NO_TIMESTAMP (-1)"
    return f"{timestamp} ms" if timestamp >= 0 else f"error: {timestamp} is negative"
