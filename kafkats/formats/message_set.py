"""The rules that magic 0 and 1 share: one message, and the message set inside a wrapper.

A wrapper is an ordinary message with a codec in its attributes. Its value is the compressed
concatenation of complete messages; each has its own 12 bytes of offset and size and its own CRC.
kafkats follows Kafka's reader (0.11 and later, AbstractLegacyRecordBatch):

* The wrapper's value must not be null. Its codec must be gzip, snappy or lz4.
* The set ends at the first short read: a partial last message is dropped silently. A size below 14
  is corruption.
* The set holds at least one message, and no message in it is compressed.
* The wrapper alone determines the timestamp type. Under LogAppendTime it also determines the
  timestamp; the inner timestamps are ignored.
* The magic of the messages may differ from the wrapper's: the cleaner of 0.10.0 left such sets
  (KAFKA-4298). The wrapper's magic decides whether offsets are relative. A magic-0 message has no
  timestamp in either kind of wrapper.

As in Kafka's recovery, the CRCs of inner messages are not checked: the wrapper's CRC covers them.
As in Kafka, bytes after a message's value are ignored and any negative length is null. An inner
magic other than 0 or 1 is refused.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from kafkats.compression import Codec, decompress
from kafkats.compression.checksums import crc32
from kafkats.errors import BadInput, CorruptBatch, OversizedBatch
from kafkats.formats.framing import (
    FRAME,
    MAGIC_AT,
    MAX_OFFSET,
    MIN_SIZE,
    OVERHEAD,
    Frame,
    FrameHeader,
    decompressed,
)
from kafkats.formats.model import NO_TIMESTAMP, Batch, Record, TimestampType, codec_of
from kafkats.primitives import INT64, Buffer, encode_bytes, read_bytes, read_int32, view

CRC_FROM: Final = 16
"""Position of the magic byte, the first that the CRC-32 covers; it covers the rest of the frame."""
ATTRIBUTES_AT: Final = 17
TIMESTAMP_AT: Final = 18
KEY_AT: Final = (18, 26)
"""Position of the key's length in a frame, indexed by magic."""
WRAPPER_CODECS: Final = frozenset({Codec.GZIP, Codec.SNAPPY, Codec.LZ4})

AbsoluteOffsets: TypeAlias = Callable[[list[int], int], list[int]]
"""(inner offsets as stored, offset of the wrapper) -> absolute offsets of the records."""


class Decoder(NamedTuple):
    """The records of messages and wrappers; the wrappers of magic 0 and 1 differ in two points."""

    absolute_offsets: AbsoluteOffsets
    broken_lz4: bool

    def decode_records(self, buf: Buffer, batch: Batch) -> list[Record]:
        """Return the message itself, or the messages of the wrapper, as records.

        Raises CorruptBatch.
        """
        data = view(buf)
        key, value = _key_and_value(data[: batch.end], batch.position, batch.magic)
        if batch.codec == Codec.NONE:
            return [
                Record(batch.last_offset, batch.max_timestamp, batch.timestamp_type, key, value)
            ]
        inner = _open(batch, value, self.broken_lz4)
        with decompressed(batch.position):
            frames = inner_frames(inner)
            offsets = self.absolute_offsets([frame.offset for frame in frames], batch.last_offset)
            return [
                _inner_record(inner, frame, offset, batch)
                for frame, offset in zip(frames, offsets, strict=True)
            ]

    def first_offset(self, buf: Buffer, batch: Batch) -> int:
        """Return the offset of the first record; a wrapper is decompressed. Raises CorruptBatch."""
        if batch.codec == Codec.NONE:
            return batch.last_offset
        inner = _open(batch, value_of(buf, batch), self.broken_lz4)
        with decompressed(batch.position):
            offsets = [frame.offset for frame in inner_frames(inner)]
            return self.absolute_offsets(offsets, batch.last_offset)[0]


def batch_of(
    frame: Frame,
    offset: int,
    crc: int,
    attributes: int,
    timestamp_type: TimestampType,
    timestamp: int,
) -> Batch:
    """Return a message or wrapper as a batch, from the fields of its header.

    A wrapper's first offset and number of records are -1: only its content tells them.
    """
    codec = codec_of(attributes)
    plain = codec == Codec.NONE
    return Batch(
        position=frame.position,
        size=frame.size,
        magic=frame.magic,
        base_offset=offset if plain else -1,
        last_offset=offset,
        codec=codec,
        timestamp_type=timestamp_type,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        leader_epoch=-1,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=1 if plain else -1,
        crc=crc,
        attributes=attributes,
    )


def check_crc(buf: Buffer, batch: Batch) -> None:
    """Raise CorruptBatch unless the stored CRC-32 matches the bytes from the magic to the end."""
    crc = crc32(view(buf)[batch.position + CRC_FROM : batch.end])
    if crc != batch.crc:
        raise CorruptBatch(
            f"CRC-32 is {crc:08x}, the message says {batch.crc:08x}", position=batch.position
        )


def wrapped(
    buf: Buffer, batch: Batch, *, broken_lz4: bool, most: int | None = None
) -> tuple[memoryview, list[Frame]]:
    """Return the decompressed message set of a wrapper, and its frames with their stored offsets.

    Use it to inspect the set itself; decode_records returns the records. Raises CorruptBatch;
    OversizedBatch for more than `most` messages.
    """
    inner = _open(batch, value_of(buf, batch), broken_lz4)
    with decompressed(batch.position):
        return inner, inner_frames(inner, most)


def value_of(buf: Buffer, batch: Batch) -> bytes | None:
    """Return the value of a message; for a wrapper it is still compressed. Raises CorruptBatch."""
    return _key_and_value(view(buf)[: batch.end], batch.position, batch.magic)[1]


def _open(batch: Batch, value: bytes | None, broken_lz4: bool) -> memoryview:
    if batch.codec not in WRAPPER_CODECS:
        raise CorruptBatch(
            f"codec {batch.codec} cannot be in magic {batch.magic}", position=batch.position
        )
    if value is None:
        raise CorruptBatch("a wrapper without a value", position=batch.position)
    with decompressed(batch.position):
        plain = decompress(batch.codec, value, broken_lz4=broken_lz4)
    return memoryview(plain)


def inner_frames(inner: memoryview, most: int | None = None) -> list[Frame]:
    """Return the frames of a decompressed message set, at least one.

    Raises CorruptBatch with the position in the decompressed bytes; OversizedBatch for more than
    `most`.
    """
    frames: list[Frame] = []
    position = 0
    # A file ends quietly with fewer than 18 bytes. A message set reads and checks the 12 bytes of
    # offset and size first.
    while len(inner) - position >= OVERHEAD:
        header = FrameHeader._make(FRAME.unpack_from(inner, position))
        if header.size < MIN_SIZE:
            raise CorruptBatch(
                f"size field {header.size} of a message is below {MIN_SIZE}", position=position
            )
        size = OVERHEAD + header.size
        if size > len(inner) - position:
            break
        if len(frames) == most:
            raise OversizedBatch(f"more than {most} messages in a wrapper", position=position)
        frames.append(Frame(position, size, header.offset, inner[position + MAGIC_AT]))
        position += size
    if not frames:
        raise CorruptBatch("a wrapper without messages")
    return frames


def _inner_record(inner: memoryview, frame: Frame, offset: int, wrapper: Batch) -> Record:
    if frame.magic >= len(KEY_AT):
        raise CorruptBatch(
            f"magic {frame.magic} of a message in a wrapper is not 0 or 1", position=frame.position
        )
    if codec_of(inner[frame.position + ATTRIBUTES_AT]) != Codec.NONE:
        raise CorruptBatch("a compressed message in a wrapper", position=frame.position)
    end = frame.position + frame.size
    key, value = _key_and_value(inner[:end], frame.position, frame.magic)
    if frame.magic == 0:
        return Record(offset, NO_TIMESTAMP, TimestampType.NONE, key, value)
    if wrapper.timestamp_type == TimestampType.LOG_APPEND_TIME:
        timestamp = wrapper.max_timestamp
    else:
        (timestamp,) = INT64.unpack_from(inner, frame.position + TIMESTAMP_AT)
    return Record(offset, timestamp, wrapper.timestamp_type, key, value)


def _key_and_value(
    until_end: memoryview, position: int, magic: int
) -> tuple[bytes | None, bytes | None]:
    length, pos = read_int32(until_end, position + KEY_AT[magic])
    key, pos = read_bytes(until_end, pos, length)
    length, pos = read_int32(until_end, pos)
    return key, read_bytes(until_end, pos, length)[0]


def encode_message(offset: int, header: bytes, key: bytes | None, value: bytes | None) -> bytes:
    """Encode one message; `header` is the magic, the attributes and, in magic 1, the timestamp.

    Raises BadInput for an offset or a length out of range.
    """
    if offset > MAX_OFFSET:
        raise BadInput(f"offset {offset} does not fit: no log holds one above 2^63-2")
    body = header + encode_bytes(key) + encode_bytes(value)
    try:
        return FRAME.pack(offset, 4 + len(body)) + crc32(body).to_bytes(4, "big") + body
    except struct.error as e:
        raise BadInput(
            f"offset {offset} or a size of {len(body)} bytes does not fit into a message: {e}"
        ) from e


def check_encodable(records: list[Record], codec: int) -> None:
    """Raise BadInput for headers, an empty wrapper and zstd, which no message set can hold."""
    if any(record.headers for record in records):
        raise BadInput("magic 0 and 1 have no record headers")
    if codec != Codec.NONE and codec not in WRAPPER_CODECS:
        raise BadInput(f"codec {codec} cannot be in magic 0 or 1")
    if codec != Codec.NONE and not records:
        raise BadInput("a wrapper needs at least one message")
