"""Magic 2: the record batch of Kafka 0.11 and later (KIP-98, headers by KIP-82).

    batch    = header (61 bytes) | records                 with a codec, records are one stream
    record   = length varint | attributes int8 = 0 | timestamp delta varlong | offset delta varint
               | key length varint (-1: null) | key | value length varint (-1: null) | value
               | header count varint | header ...
    header   = key length varint | UTF-8 key | value length varint (-1: null) | value

    position  0 base offset 8 | 8 length 4 | 12 leader epoch 4 | 16 magic 1 | 17 crc 4
             21 attributes 2 | 23 last offset delta 4 | 27 base timestamp 8 | 35 max timestamp 8
             43 producer id 8 | 51 producer epoch 2 | 53 base sequence 4 | 57 record count 4
             61 records

CRC: CRC-32C (Castagnoli) of everything from the attributes (position 21) to the end. The CRC does
not cover base offset, length, leader epoch and magic, so a leader can overwrite those alone.

    attributes    15 ... 7  |  6             | 5       | 4             | 3              | 2 1 0
                  written 0 | delete horizon | control | transactional | timestamp type | codec

    timestamp type    0 CreateTime, 1 LogAppendTime

Source: DefaultRecordBatch and DefaultRecord of Kafka 0.11 to 4.3; bit 6 KIP-534 (3.1); zstd KIP-110
(2.1). The user page is docs/formats/batch-v2.md.

Compaction removes records but keeps the header's base offset, last offset delta, producer fields
and maximum timestamp: offsets must not be used twice, and producer sequences must stay known. So
the first record may lie above the base offset and the last record below the last offset. A batch
may be empty (61 bytes) only to keep its producer's state.

With bit 6 set, the base timestamp holds the delete horizon: the time at which Kafka may delete
tombstones. Timestamp deltas then count from it. Under LogAppendTime every record has the header's
maximum timestamp, and the deltas still hold the producer's timestamps.

As in Kafka's reader, deltas are not checked against the header, and neither order nor attributes of
records are checked.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple, TypedDict

from kafkats.compression import compress, decompress
from kafkats.compression.checksums import crc32c
from kafkats.counts import counted
from kafkats.errors import BadInput, CorruptBatch
from kafkats.formats.framing import MAX_OFFSET, OVERHEAD, Frame, check_offsets, decompressed
from kafkats.formats.model import (
    NO_TIMESTAMP,
    Batch,
    Codec,
    Header,
    Record,
    TimestampType,
    codec_of,
)
from kafkats.primitives import (
    Buffer,
    encode_varint,
    encode_varint_bytes,
    read_bytes,
    read_varint,
    read_varlong,
    view,
    wrap_int64,
)

MAGIC: Final = 2
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40
CRC_FROM: Final = 21
HEADER_BYTES: Final = 61


class BatchHeader(NamedTuple):
    """The 61 bytes before the records."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int


HEADER: Final = struct.Struct(
    ">"
    "q"  # base_offset
    "i"  # length
    "i"  # leader_epoch
    "b"  # magic
    "I"  # crc
    "h"  # attributes
    "i"  # last_offset_delta
    "q"  # base_timestamp
    "q"  # max_timestamp
    "q"  # producer_id
    "h"  # producer_epoch
    "i"  # base_sequence
    "i"  # record_count
)
assert HEADER.size == HEADER_BYTES


def decode_batch(buf: Buffer, frame: Frame) -> Batch:
    """Return the header of the batch in `frame`.

    Raises CorruptBatch for a frame shorter than the header, and for offsets out of range.
    """
    if frame.size < HEADER_BYTES:
        raise CorruptBatch(
            f"a magic-2 batch of {frame.size} bytes, at least {HEADER_BYTES}",
            position=frame.position,
        )
    header = BatchHeader._make(HEADER.unpack_from(view(buf), frame.position))
    check_offsets(frame, header.last_offset_delta)
    flags = header.attributes
    appended = flags & LOG_APPEND_TIME_BIT
    return Batch(
        position=frame.position,
        size=frame.size,
        magic=MAGIC,
        base_offset=header.base_offset,
        last_offset=header.base_offset + header.last_offset_delta,
        codec=codec_of(flags),
        timestamp_type=TimestampType.LOG_APPEND_TIME if appended else TimestampType.CREATE_TIME,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        count=header.record_count,
        crc=header.crc,
        attributes=flags,
        transactional=bool(flags & TRANSACTIONAL_BIT),
        control=bool(flags & CONTROL_BIT),
        delete_horizon_ms=header.base_timestamp if flags & DELETE_HORIZON_BIT else None,
    )


def check_crc(buf: Buffer, batch: Batch) -> None:
    """Raise CorruptBatch unless the stored CRC-32C matches the bytes from the attributes on."""
    crc = crc32c(view(buf)[batch.position + CRC_FROM : batch.end])
    if crc != batch.crc:
        raise CorruptBatch(
            f"CRC-32C is {crc:08x}, the batch says {batch.crc:08x}", position=batch.position
        )


def first_offset(buf: Buffer, batch: Batch) -> int:
    """Return the header's base offset, which compaction keeps."""
    return batch.base_offset


def decode_records(buf: Buffer, batch: Batch) -> list[Record]:
    """Return the records of a batch with its control records; [] for an empty batch.

    Raises CorruptBatch.
    """
    if batch.count < 0:
        raise CorruptBatch(f"record count {batch.count} is negative", position=batch.position)
    if batch.count == 0:
        # Kafka's iterator of uncompressed batches stops here, whatever bytes the area holds.
        return []
    data = view(buf)
    area = batch.position + HEADER_BYTES
    if batch.codec == Codec.NONE:
        return _decode_area(data[: batch.end], area, batch)
    with decompressed(batch.position):
        plain = decompress(batch.codec, data[area : batch.end])
        return _decode_area(memoryview(plain), 0, batch)


def _decode_area(area: memoryview, pos: int, batch: Batch) -> list[Record]:
    records = []
    for _ in range(batch.count):
        record, pos = _decode_record(area, pos, batch)
        records.append(record)
    if pos != len(area):
        raise CorruptBatch(
            f"{counted(len(area) - pos, 'byte')} left after {counted(batch.count, 'record')}",
            position=pos,
        )
    return records


def _decode_record(area: memoryview, start: int, batch: Batch) -> tuple[Record, int]:
    length, body = read_varint(area, start)
    end = body + length
    if end > len(area):
        raise CorruptBatch(f"a record of {length} bytes, {len(area) - body} left", position=start)
    delta, pos = read_varlong(area, body + 1)
    offset_delta, pos = read_varint(area, pos)
    length, pos = read_varint(area, pos)
    key, pos = read_bytes(area, pos, length)
    length, pos = read_varint(area, pos)
    value, pos = read_bytes(area, pos, length)
    headers, pos = _decode_headers(area, pos)
    if pos != end:
        raise CorruptBatch(
            f"a record of {end - body} bytes whose fields take {pos - body}", position=start
        )
    appended = batch.timestamp_type == TimestampType.LOG_APPEND_TIME
    timestamp = batch.max_timestamp if appended else wrap_int64(batch.base_timestamp + delta)
    offset = wrap_int64(batch.base_offset + offset_delta)
    return Record(offset, timestamp, batch.timestamp_type, key, value, headers), pos


def _decode_headers(area: memoryview, start: int) -> tuple[tuple[Header, ...], int]:
    count, pos = read_varint(area, start)
    if not 0 <= count <= len(area) - pos:
        raise CorruptBatch(
            f"{counted(count, 'record header')}, {counted(len(area) - pos, 'byte')} left",
            position=start,
        )
    headers = []
    for _ in range(count):
        length, at = read_varint(area, pos)
        key, pos = read_bytes(area, at, length)
        if key is None:
            raise CorruptBatch(f"a record header's key of {length} bytes", position=at)
        length, pos = read_varint(area, pos)
        value, pos = read_bytes(area, pos, length)
        # Java decodes invalid UTF-8 as U+FFFD too.
        headers.append(Header(key.decode("utf-8", "replace"), value))
    return tuple(headers), pos


class HeaderFields(TypedDict, total=False):
    """The arguments of `encode_batch` that only magic 2 has."""

    base_offset: int | None
    last_offset: int | None
    max_timestamp: int | None
    delete_horizon_ms: int | None
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    transactional: bool
    control: bool


def encode_batch(
    records: Sequence[Record],
    *,
    codec: int = Codec.NONE,
    base_offset: int | None = None,
    last_offset: int | None = None,
    log_append_time: int | None = None,
    max_timestamp: int | None = None,
    delete_horizon_ms: int | None = None,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
) -> bytes:
    """Encode one batch as Kafka's MemoryRecordsBuilder lays it out.

    Defaults: `base_offset` and `last_offset` are the first and last record's offset.
    `max_timestamp` is `log_append_time` or else the maximum of the records' timestamps, at least
    -1. `log_append_time`, in ms, also makes the batch LogAppendTime. Without records both offsets
    are required; the codec bits are 0 and the base timestamp is -1, as in the empty batch that
    compaction leaves for a producer's state. Raises BadInput for a field out of range.
    """
    if not records and (base_offset is None or last_offset is None):
        raise BadInput("an empty batch needs its base and last offset")
    base = records[0].offset if base_offset is None else base_offset
    base_timestamp = records[0].timestamp if records else NO_TIMESTAMP
    if delete_horizon_ms is not None and records:
        base_timestamp = delete_horizon_ms
    newest = (
        max([NO_TIMESTAMP, *(r.timestamp for r in records)])
        if log_append_time is None
        else log_append_time
    )
    flags = (
        (LOG_APPEND_TIME_BIT if log_append_time is not None else 0)
        | (TRANSACTIONAL_BIT if transactional else 0)
        | (CONTROL_BIT if control else 0)
        | (DELETE_HORIZON_BIT if delete_horizon_ms is not None and records else 0)
    )
    area = b"".join(_encode_record(r, base, base_timestamp) for r in records)
    header = BatchHeader(
        base_offset=base,
        length=0,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=flags | (codec if records else 0),
        last_offset_delta=(records[-1].offset if last_offset is None else last_offset) - base,
        base_timestamp=base_timestamp,
        max_timestamp=newest if max_timestamp is None else max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    return seal(header, compress(codec, area) if records else b"")


def _encode_record(record: Record, base_offset: int, base_timestamp: int) -> bytes:
    offset_delta = record.offset - base_offset
    if not -(1 << 31) <= offset_delta < 1 << 31 or wrap_int64(record.timestamp) != record.timestamp:
        raise BadInput(
            f"offset {record.offset} or timestamp {record.timestamp} does not fit into a"
            f" batch that begins at {base_offset}"
        )
    body = b"".join((
        b"\0",
        encode_varint(wrap_int64(record.timestamp - base_timestamp)),
        encode_varint(offset_delta),
        encode_varint_bytes(record.key),
        encode_varint_bytes(record.value),
        encode_varint(len(record.headers)),
        *(
            encode_varint_bytes(_encode_key(h)) + encode_varint_bytes(h.value)
            for h in record.headers
        ),
    ))
    return encode_varint(len(body)) + body


def _encode_key(header: Header) -> bytes:
    try:
        return header.key.encode()
    except UnicodeEncodeError as e:
        raise BadInput(f"a record header's key is not text: {e.reason}") from e


def seal(header: BatchHeader, area: bytes) -> bytes:
    """Return header and records with length and CRC filled in.

    Raises BadInput for a field out of range.
    """
    if header.base_offset + header.last_offset_delta > MAX_OFFSET:
        raise BadInput(
            f"offset {header.base_offset} plus {header.last_offset_delta} does not fit: no"
            " log holds one above 2^63-2"
        )
    try:
        length = HEADER_BYTES - OVERHEAD + len(area)
        covered = HEADER.pack(*header)[CRC_FROM:] + area
        return (
            HEADER.pack(*header._replace(length=length, crc=crc32c(covered)))[:CRC_FROM] + covered
        )
    except struct.error as e:
        raise BadInput(f"a field or the size does not fit into a magic-2 batch: {e}") from e
