"""Magic 1: the message of Kafka 0.10 with a timestamp (KIP-32) and relative offsets (KIP-31).

    frame    = offset int64 | size int32 | message             size = bytes of message, at least 22
    message  = crc int32 | magic int8 = 1 | attributes int8 | timestamp int64 | key | value
    key      = length int32 (-1: null) | bytes                 value likewise
    wrapper  = a message with codec != 0, key null, value = compressed (frame ...), and the offset
               of the last record

CRC: CRC-32 (zlib's) of everything after the CRC field: from the magic to the end of the value. The
CRC does not cover offset and size.

    attributes    7 6 5 4   |  3                                        | 2 1 0
                  written 0 |  timestamp: 0 CreateTime, 1 LogAppendTime | codec, see below

    codec         0 none, 1 gzip, 2 snappy, 3 lz4

Source: LegacyRecord and AbstractLegacyRecordBatch of Kafka 0.11 to 4.3; KIP-31, KIP-32. The user
page is docs/formats/message-v1.md.

Inner offsets are relative so that a leader assigns offsets to a wrapper by writing one number
outside the CRC, and never recompresses it. Inner offsets count 0, 1, 2 ... from the first message.
The wrapper carries the absolute offset of its *last* message, so absolute = wrapper - last inner +
inner. This also holds where compaction left holes. Kafka's reader has two exceptions, and so has
this one: a wrapper at offset exactly 0 counts from 0 (early librdkafka); any other wrapper below
its own last inner offset is corrupt.

The wrapper's timestamp is the maximum of the inner ones. Under LogAppendTime it is the broker's
time, and readers ignore the inner timestamps. A broker that kept the compressed bytes left the
producer's timestamps inside. A broker that rebuilt the wrapper (0.11 and later) wrote its own time
and bit 3 into every message.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from kafkats.compression import compress
from kafkats.errors import BadInput, CorruptBatch
from kafkats.formats import message_set
from kafkats.formats.framing import Frame, check_offsets
from kafkats.formats.model import NO_TIMESTAMP, Batch, Codec, Record, TimestampType
from kafkats.primitives import Buffer, view, wrap_int64

MAGIC: Final = 1
LOG_APPEND_TIME_BIT: Final = 0x08
MIN_FRAME_BYTES: Final = 34
"""12 bytes of offset and size, and 22 of a message with null key and null value."""


HEADER: Final = struct.Struct(
    ">"
    "q"  # offset
    "i"  # size
    "I"  # crc
    "b"  # magic
    "B"  # attributes
    "q"  # timestamp
)
"""The fields before the key."""
assert HEADER.size == message_set.KEY_AT[MAGIC] == 26


def decode_batch(buf: Buffer, frame: Frame) -> Batch:
    """Return the header of the message or wrapper in `frame`.

    Raises CorruptBatch for a frame too short for magic 1, and for an offset out of range.
    """
    if frame.size < MIN_FRAME_BYTES:
        raise CorruptBatch(
            f"a magic-1 message of {frame.size} bytes, at least {MIN_FRAME_BYTES}",
            position=frame.position,
        )
    check_offsets(frame)
    offset, _, crc, _, attributes, timestamp = HEADER.unpack_from(view(buf), frame.position)
    appended = attributes & LOG_APPEND_TIME_BIT
    kind = TimestampType.LOG_APPEND_TIME if appended else TimestampType.CREATE_TIME
    return message_set.batch_of(frame, offset, crc, attributes, kind, timestamp)


def _absolute_offsets(offsets: list[int], wrapper_offset: int) -> list[int]:
    last = offsets[-1]
    if wrapper_offset == 0:
        return offsets
    if wrapper_offset < last:
        raise CorruptBatch(
            f"the wrapper's offset {wrapper_offset} is below its last message's {last}, and not 0"
        )
    base = wrapper_offset - last
    return [wrap_int64(base + offset) for offset in offsets]


_DECODER: Final = message_set.Decoder(_absolute_offsets, broken_lz4=False)


check_crc: Final = message_set.check_crc
decode_records: Final = _DECODER.decode_records
"""Decode records with absolute offsets and the wrapper's timestamp type."""
first_offset: Final = _DECODER.first_offset


def encode_batch(
    records: Iterable[Record],
    *,
    codec: int = Codec.NONE,
    log_append_time: int | None = None,
    stamp_inner: bool = True,
) -> bytes:
    """Encode one message per record or, with a codec, one wrapper at the offset of the last record.

    `log_append_time`, in ms, makes the timestamp type LogAppendTime. The inner messages of a
    wrapper then also carry that time and bit 3, as in a wrapper that a broker of 0.11 or later
    rebuilds. With `stamp_inner` False they keep CreateTime, as when the leader stamps the wrapper
    in place. Raises BadInput for headers, zstd, an empty wrapper, and a field out of range.
    """
    records = list(records)
    message_set.check_encodable(records, codec)
    if codec == Codec.NONE:
        return b"".join(
            _encode_message(r.offset, r.timestamp, r.key, r.value, log_append_time) for r in records
        )
    base = records[0].offset
    inner_time = log_append_time if stamp_inner else None
    inner = b"".join(
        _encode_message(r.offset - base, r.timestamp, r.key, r.value, inner_time) for r in records
    )
    newest = max(NO_TIMESTAMP, *(r.timestamp for r in records))
    return _encode_message(
        records[-1].offset, newest, None, compress(codec, inner), log_append_time, codec
    )


def _encode_message(
    offset: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    log_append_time: int | None,
    codec: int = Codec.NONE,
) -> bytes:
    appended = log_append_time is not None
    attributes = codec | (LOG_APPEND_TIME_BIT if appended else 0)
    try:
        header = struct.pack(">bBq", MAGIC, attributes, log_append_time if appended else timestamp)
    except struct.error as e:
        raise BadInput(f"a timestamp does not fit into 64 bits: {e}") from e
    return message_set.encode_message(offset, header, key, value)
