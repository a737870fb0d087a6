"""The enriched message: a magic 1 with Kafka tags that was proposed in 2014 and never shipped.

    frame    = offset int64 | size int32 | message             size = bytes of message, at least 22
    message  = crc int32 | magic int8 = 1 | attributes int8 | timestamp int32 | tags | key | value
    tags     = length int32 (-1: none) | tag ...
    tag      = id int8 | value; the id determines the size of the value
    key      = length int32 (-1: null) | bytes                 value likewise
    wrapper  = a message of a compressed type: its value is compressed (frame ...) and its offset
               is that of the *first* record

CRC: CRC-32 (zlib's) of everything after the CRC field: from the magic to the end of the value. The
CRC does not cover offset and size.

    attributes    7 6 5 4   |  3 2 1 0
                  written 0 |  type: 0 normal, 1 gzip, 2 snappy, 3 lz4, 8 ... 11 control

Source: the proposal "Kafka Enriched Message Metadata" (KAFKA-527, KAFKA-979, KAFKA-1001). The
proposal leaves some numbers open; kafkats defines those itself: see MessageType, the tags 33 and
34, and model/docs/formats/enriched.md, which lists every such choice.

Never guess this format from bytes, and never write it for a broker. The magic 1 that shipped
(KIP-31, KIP-32) has a 64-bit timestamp where this format has a 32-bit timestamp and a 32-bit
length, so the same bytes are legal in both. A user names it as the dialect `enriched`
(formats/readers.py); dispatch does not know it.

Purpose of the proposal: offsets inside a wrapper are relative to the wrapper's own offset, which is
that of its first record. A leader therefore assigns offsets by writing one number outside the CRC
(`assign`). A mirror that copies a wrapper without decompressing it clears the tag `honored`
(`with_tags`). Readers then count the messages instead of adding the inner offsets, because
compaction may have left holes in those. A cleaner merges wrappers into one (`merge`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import pairwise
from typing import Final, NamedTuple

from kafkats.compression import compress, decompress
from kafkats.counts import counted
from kafkats.errors import BadInput, CorruptBatch
from kafkats.formats import message_set
from kafkats.formats.framing import FRAME, Frame, check_offsets, decompressed, frames
from kafkats.formats.message_set import check_crc
from kafkats.formats.model import NO_TIMESTAMP, Batch, Codec, Record, TimestampType
from kafkats.primitives import Buffer, encode_bytes, read_bytes, read_int32, view, wrap_int64
from kafkats_model.formats.enriched_tags import Tags, encode_tags, parse_tags

__all__ = [
    "HEADER",
    "MAGIC",
    "MessageType",
    "Tags",
    "assign",
    "batches",
    "check_crc",
    "decode_batch",
    "decode_records",
    "decode_tags",
    "encode_batch",
    "encode_message",
    "largest_time",
    "last_offset",
    "merge",
    "message_type",
    "with_tags",
]

MAGIC: Final = 1
MIN_FRAME_BYTES: Final = 34
TYPE_BITS: Final = 0x0F
_INT32_MAX: Final = 2**31 - 1


class MessageType(IntEnum):
    """The lowest four attribute bits.

    The proposal does not number the control types; 8 to 11 are ours.
    """

    NORMAL = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    LEADER_EPOCH = 8
    START_TRANSACTION = 9
    COMMIT_TRANSACTION = 10
    ABORT_TRANSACTION = 11

    @property
    def label(self) -> str:
        """The name for people: abort-transaction."""
        return self.name.lower().replace("_", "-")


_COMPRESSED: Final = frozenset({MessageType.GZIP, MessageType.SNAPPY, MessageType.LZ4})


class MessageHeader(NamedTuple):
    """The fields before the tags."""

    offset: int
    size: int
    crc: int
    magic: int
    attributes: int
    timestamp: int
    tags_length: int


HEADER: Final = struct.Struct(
    ">"
    "q"  # offset
    "i"  # size
    "I"  # crc
    "b"  # magic
    "B"  # attributes
    "i"  # timestamp
    "i"  # tags_length
)
assert HEADER.size == 26


def decode_batch(buf: Buffer, frame: Frame) -> Batch:
    """Return the header of the message or wrapper in `frame` as a Batch; timestamps in ms.

    The timestamp tag takes precedence over the header's seconds. The broker sets the time, so the
    type is LogAppendTime. The last offset is -1 for a wrapper whose last offset only its content
    tells. Raises CorruptBatch for an invalid frame, tag or type.
    """
    if frame.magic != MAGIC:
        raise CorruptBatch(f"magic {frame.magic} of an enriched message", position=frame.position)
    if frame.size < MIN_FRAME_BYTES:
        raise CorruptBatch(
            f"a message of {frame.size} bytes, at least {MIN_FRAME_BYTES}", position=frame.position
        )
    header, tags, _ = _decode_header(view(buf)[: frame.position + frame.size], frame.position)
    kind = _type_of(header, frame.position)
    wrapper = kind in _COMPRESSED
    last = header.offset
    if wrapper:
        last = (
            -1
            if tags.honored or tags.messages < 1
            else wrap_int64(header.offset + tags.messages - 1)
        )
    time = _time_ms(header, tags)
    return Batch(
        position=frame.position,
        size=frame.size,
        magic=MAGIC,
        base_offset=header.offset,
        last_offset=last,
        codec=Codec(kind) if wrapper else Codec.NONE,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        base_timestamp=time,
        max_timestamp=time,
        leader_epoch=-1,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=tags.messages if wrapper else 1,
        crc=header.crc,
        attributes=header.attributes,
        transactional=kind > MessageType.LEADER_EPOCH,
        control=kind >= MessageType.LEADER_EPOCH,
    )


def batches(
    buf: Buffer, start: int = 0, end: int | None = None, *, verify: bool = True
) -> Iterator[Batch]:
    """Yield the messages and wrappers of buf[start:end] in file order, as dispatch.batches does.

    Raises CorruptBatch, also for another magic: a log of this dialect has no other.
    """
    for frame in frames(buf, start, end):
        check_offsets(frame)
        batch = decode_batch(buf, frame)
        if verify:
            check_crc(buf, batch)
        yield batch


def message_type(batch: Batch) -> MessageType:
    """Return the type of a message or wrapper that `decode_batch` returned."""
    return MessageType(batch.attributes & TYPE_BITS)


def decode_tags(buf: Buffer, batch: Batch) -> Tags:
    """Return the tags of a message or wrapper. Raises CorruptBatch."""
    return _decode_header(view(buf)[: batch.end], batch.position)[1]


def last_offset(buf: Buffer, batch: Batch) -> int:
    """Return the offset of the last record; a wrapper with the tag `honored` is decompressed.

    Raises CorruptBatch.
    """
    return batch.last_offset if batch.last_offset >= 0 else decode_records(buf, batch)[-1].offset


def largest_time(buf: Buffer, batch: Batch) -> int:
    """Return the largest timestamp of the records in ms, -1 for none.

    A wrapper that has none itself, because a cleaner merged it, is decompressed. Raises
    CorruptBatch.
    """
    if batch.codec == Codec.NONE or batch.max_timestamp != NO_TIMESTAMP:
        return max(batch.max_timestamp, NO_TIMESTAMP)
    return max([NO_TIMESTAMP, *(record.timestamp for record in decode_records(buf, batch))])


def decode_records(buf: Buffer, batch: Batch) -> list[Record]:
    """Return the records with absolute offsets.

    A wrapper's timestamp, if set, applies to all its records.

    Raises CorruptBatch, also when the number of messages in a wrapper differs from its tag.
    """
    data = view(buf)[: batch.end]
    tags, key, value = _decode_message(data, batch.position)
    if batch.codec == Codec.NONE:
        return [Record(batch.base_offset, batch.max_timestamp, batch.timestamp_type, key, value)]
    if value is None:
        raise CorruptBatch("a wrapper without a value", position=batch.position)
    with decompressed(batch.position):
        inner = memoryview(decompress(batch.codec, value))
        inside = message_set.inner_frames(inner)
        if tags.messages not in {-1, len(inside)}:
            raise CorruptBatch(
                f"{counted(len(inside), 'message')} in a wrapper whose tag says {tags.messages}"
            )
        return [
            _inner_record(inner, frame, index, batch, tags) for index, frame in enumerate(inside)
        ]


def _inner_record(
    inner: memoryview, frame: Frame, index: int, wrapper: Batch, tags: Tags
) -> Record:
    message = decode_batch(inner, frame)
    if message.codec != Codec.NONE:
        raise CorruptBatch("a compressed message in a wrapper", position=frame.position)
    _, key, value = _decode_message(inner[: message.end], frame.position)
    time = message.max_timestamp if wrapper.max_timestamp == NO_TIMESTAMP else wrapper.max_timestamp
    offset = wrap_int64(wrapper.base_offset + (frame.offset if tags.honored else index))
    return Record(offset, time, wrapper.timestamp_type, key, value)


def _decode_header(until_end: memoryview, position: int) -> tuple[MessageHeader, Tags, int]:
    """Return header, tags, and the position after the tags."""
    header = MessageHeader._make(HEADER.unpack_from(until_end, position))
    if header.tags_length < -1:  # mostly the low half of a timestamp of the magic 1 that shipped
        reason = f"tags of {header.tags_length} bytes: -1 stands for none"
        raise CorruptBatch(reason, position=position)
    raw, pos = read_bytes(until_end, position + HEADER.size, header.tags_length)
    return header, parse_tags(raw or b"", position), pos


def _decode_message(
    until_end: memoryview, position: int
) -> tuple[Tags, bytes | None, bytes | None]:
    _, tags, pos = _decode_header(until_end, position)
    length, pos = read_int32(until_end, pos)
    key, pos = read_bytes(until_end, pos, length)
    length, pos = read_int32(until_end, pos)
    return tags, key, read_bytes(until_end, pos, length)[0]


def _type_of(header: MessageHeader, position: int) -> MessageType:
    try:
        return MessageType(header.attributes & TYPE_BITS)
    except ValueError as e:
        raise CorruptBatch(
            f"message type {header.attributes & TYPE_BITS} is unknown", position=position
        ) from e


def _time_ms(header: MessageHeader, tags: Tags) -> int:
    if tags.timestamp_ms != NO_TIMESTAMP or header.timestamp == NO_TIMESTAMP:
        return tags.timestamp_ms
    return header.timestamp * 1000


def encode_message(
    offset: int,
    kind: MessageType,
    key: bytes | None,
    value: bytes | None,
    tags: Tags,
    timestamp_s: int = NO_TIMESTAMP,
) -> bytes:
    """Encode one message; `timestamp_s` is the header's timestamp in seconds.

    Raises BadInput for a field out of range.
    """
    encoded = encode_tags(tags)
    try:
        front = struct.pack(">bBi", MAGIC, kind, timestamp_s) + encode_bytes(encoded or None)
    except struct.error as e:
        raise BadInput(f"a type or timestamp does not fit into an enriched message: {e}") from e
    return message_set.encode_message(offset, front, key, value)


def encode_batch(
    records: Iterable[Record],
    *,
    codec: int = Codec.NONE,
    append_time_ms: int | None = None,
    honored: bool = True,
) -> bytes:
    """Encode one message per record or, with a codec, one wrapper at the first record's offset.

    Each message carries its own timestamp as a tag, in ms. `append_time_ms` replaces that timestamp
    on each uncompressed message; for a wrapper it sets only the wrapper's, as a broker does that
    does not decompress it. Raises BadInput for headers, zstd, an empty wrapper, and a field out of
    range.
    """
    records = list(records)
    message_set.check_encodable(records, codec)
    if codec == Codec.NONE:
        return b"".join(_encode_record(r, r.offset, append_time_ms) for r in records)
    start = records[0].offset
    inner = b"".join(_encode_record(r, r.offset - start, None) for r in records)
    tags = Tags(
        timestamp_ms=NO_TIMESTAMP if append_time_ms is None else append_time_ms,
        messages=len(records),
        honored=honored,
        unkeyed=all(r.key is None for r in records),
    )
    seconds = _seconds(tags.timestamp_ms)
    return encode_message(start, MessageType(codec), None, compress(codec, inner), tags, seconds)


def _encode_record(record: Record, offset: int, append_time_ms: int | None) -> bytes:
    time = record.timestamp if append_time_ms is None else append_time_ms
    tags = Tags(timestamp_ms=time)
    return encode_message(
        offset, MessageType.NORMAL, record.key, record.value, tags, _seconds(time)
    )


def _seconds(timestamp_ms: int) -> int:
    # The header's 32 bits end in 2038. The tag always holds the full time.
    return timestamp_ms // 1000 if 0 <= timestamp_ms // 1000 <= _INT32_MAX else NO_TIMESTAMP


def assign(buf: Buffer, batch: Batch, offset: int) -> bytes:
    """Return the message or wrapper at another offset, without decompression (KAFKA-527).

    The CRC does not change. Raises BadInput for an offset out of range.
    """
    try:
        front = FRAME.pack(offset, batch.size - FRAME.size)
    except struct.error as e:
        raise BadInput(f"offset {offset} does not fit into a message: {e}") from e
    return front + bytes(view(buf)[batch.position + FRAME.size : batch.end])


def with_tags(buf: Buffer, batch: Batch, tags: Tags) -> bytes:
    """Return the message or wrapper with other tags; key and value keep their bytes.

    A compressed value is not decompressed. A mirror clears `honored`; a broker sets `timestamp_ms`.
    Raises CorruptBatch, and BadInput for a field out of range.
    """
    data = view(buf)[: batch.end]
    header, _, _ = _decode_header(data, batch.position)
    _, key, value = _decode_message(data, batch.position)
    seconds = header.timestamp if tags.timestamp_ms == NO_TIMESTAMP else _seconds(tags.timestamp_ms)
    return encode_message(
        header.offset, _type_of(header, batch.position), key, value, tags, seconds
    )


def merge(
    buf: Buffer,
    batches: Sequence[Batch],
    codec: Codec,
    keep: Callable[[Record], bool] = lambda _: True,
) -> bytes:
    """Merge messages and wrappers into one wrapper at the offset of its first record.

    Only the records that `keep` accepts stay; b"" if it accepts none. Holes in the offsets are
    kept, as by the proposal's cleaner. Raises CorruptBatch. Raises BadInput when one is a control
    message, or when the offsets do not increase.
    """
    if any(batch.control for batch in batches):
        raise BadInput("a control message cannot be in a wrapper")
    records = [record for batch in batches for record in decode_records(buf, batch)]
    if any(b.offset <= a.offset for a, b in pairwise(records)):
        raise BadInput("offsets of the messages to merge do not increase")
    kept = [record for record in records if keep(record)]
    return encode_batch(kept, codec=codec) if kept or not records else b""
