"""Magic 0: the message of Kafka 0.8 and 0.9, without a timestamp.

    frame    = offset int64 | size int32 | message             size = bytes of message, at least 14
    message  = crc int32 | magic int8 = 0 | attributes int8 | key | value
    key      = length int32 (-1: null) | bytes                 value likewise
    wrapper  = a message with codec != 0, key null, value = compressed (frame ...)

CRC: CRC-32 (zlib's) of everything after the CRC field: from the magic to the end of the value. The
CRC does not cover offset and size.

    attributes    7 6 5 4 3 | 2 1 0
                  written 0 | codec: 0 none, 1 gzip, 2 snappy, 3 lz4

Source: LegacyRecord and AbstractLegacyRecordBatch of Kafka 0.11 to 4.3; Message and
ByteBufferMessageSet before. The user page is docs/formats/message-v0.md.

History: the message was the only unit of the log, so a compressed set became the value of a
message. Messages inside a magic-0 wrapper carry absolute offsets. A leader that assigned offsets
therefore had to decompress and recompress every wrapper; KIP-31 made the offsets relative in magic
1. The lz4 of magic 0 is not a valid LZ4 frame: its header checksum covers the wrong bytes
(KAFKA-3160). Magic-0 readers depend on this checksum, so Kafka kept it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from kafkats.compression import compress
from kafkats.formats import message_set
from kafkats.formats.framing import Frame, check_offsets
from kafkats.formats.model import NO_TIMESTAMP, Batch, Codec, Record, TimestampType
from kafkats.primitives import Buffer, view

MAGIC: Final = 0


HEADER: Final = struct.Struct(
    ">"
    "q"  # offset
    "i"  # size
    "I"  # crc
    "b"  # magic
    "B"  # attributes
)
"""The fields before the key."""
assert HEADER.size == message_set.KEY_AT[MAGIC] == 18


def decode_batch(buf: Buffer, frame: Frame) -> Batch:
    """Return the header of the message or wrapper in `frame`.

    Raises CorruptBatch for an offset out of range.
    """
    check_offsets(frame)
    offset, _, crc, _, attributes = HEADER.unpack_from(view(buf), frame.position)
    return message_set.batch_of(frame, offset, crc, attributes, TimestampType.NONE, NO_TIMESTAMP)


def _absolute_offsets(offsets: list[int], wrapper_offset: int) -> list[int]:
    return offsets


_DECODER: Final = message_set.Decoder(_absolute_offsets, broken_lz4=True)


check_crc: Final = message_set.check_crc
decode_records: Final = _DECODER.decode_records
"""Decode records with timestamp -1 of type NONE."""
first_offset: Final = _DECODER.first_offset


def encode_batch(records: Iterable[Record], *, codec: int = Codec.NONE) -> bytes:
    """Encode one message per record or, with a codec, one wrapper at the offset of the last record.

    Timestamps are dropped. Raises BadInput for headers, zstd, an empty wrapper, and a field out of
    range.
    """
    records = list(records)
    message_set.check_encodable(records, codec)
    messages = b"".join(_encode_message(r.offset, Codec.NONE, r.key, r.value) for r in records)
    if codec == Codec.NONE:
        return messages
    return _encode_message(
        records[-1].offset, codec, None, compress(codec, messages, broken_lz4=True)
    )


def _encode_message(offset: int, attributes: int, key: bytes | None, value: bytes | None) -> bytes:
    return message_set.encode_message(offset, bytes((MAGIC, attributes)), key, value)
