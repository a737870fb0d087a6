"""Split a `.log` file, or a decompressed message set, into frames.

    frame = offset int64 | size int32 | size bytes       all magics; byte 16 of a frame is its magic

The rules are FileLogInputStream's (Kafka 0.11 and later). Fewer than 18 bytes, or a frame longer
than the rest of the file, is the quiet end of the log: an unfinished write. A size below 14 is
corruption; a tail of zeros looks like this. Kafka decodes an unknown magic in a file as magic 2;
kafkats refuses it.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from kafkats.errors import CorruptBatch
from kafkats.primitives import Buffer, view

OVERHEAD: Final = 12
"""Bytes of offset and size, which the size field does not count."""
MAGIC_AT: Final = 16
MIN_SIZE: Final = 14
"""The smallest legal size field: a magic-0 message with null key and null value."""
MIN_LEFT: Final = 18
"""Kafka stops reading when fewer bytes are left (FileLogInputStream: position >= end - 17)."""
MAX_MAGIC: Final = 2
MAX_OFFSET: Final = 2**63 - 2
"""The largest offset of a record. The log end offset is one higher and must fit into 64 bits."""


class FrameHeader(NamedTuple):
    """The fields at the start of every magic."""

    offset: int
    size: int


FRAME: Final = struct.Struct(
    ">"
    "q"  # offset
    "i"  # size
)
assert FRAME.size == OVERHEAD


class Frame(NamedTuple):
    """One undecoded frame: `size` bytes from `position`, with the 12 bytes of offset and size."""

    position: int
    size: int
    offset: int
    magic: int


def frames(buf: Buffer, start: int = 0, end: int | None = None) -> Iterator[Frame]:
    """Yield the frames of buf[start:end] up to the quiet end of the log.

    Raises CorruptBatch for a size below 14, and for a magic other than 0, 1 and 2.
    """
    data = view(buf)
    stop = len(data) if end is None else min(end, len(data))
    position = start
    while stop - position >= MIN_LEFT:
        header = FrameHeader._make(FRAME.unpack_from(data, position))
        if header.size < MIN_SIZE:
            raise CorruptBatch(f"size field {header.size} is below {MIN_SIZE}", position=position)
        size = OVERHEAD + header.size
        if size > stop - position:
            return
        magic = data[position + MAGIC_AT]
        if magic > MAX_MAGIC:
            raise CorruptBatch(f"magic {magic} is not 0, 1 or 2", position=position)
        yield Frame(position, size, header.offset, magic)
        position += size


def check_offsets(frame: Frame, delta: int = 0) -> None:
    """Raise CorruptBatch if the frame's offset plus `delta` is not an offset that a log can hold.

    No checksum covers the offset. Kafka's reader adds in 64 bits and then reports a negative log
    end offset. A broker that starts on such a log deletes every segment of the partition
    (LogLoader: the log end offset lies below the log start offset).
    """
    if not -(2**63) <= frame.offset + delta <= MAX_OFFSET:
        last = f"offset {frame.offset}" + (f" plus {delta}" if delta else "")
        raise CorruptBatch(
            f"it ends at {last}, and no log holds an offset above 2^63-2", position=frame.position
        )


@contextmanager
def decompressed(position: int) -> Generator[None, None, None]:
    """Context manager that reports corruption in decompressed bytes at the frame's position.

    Raises CorruptBatch with `position`; the reason names the position after decompression.
    """
    try:
        yield
    except CorruptBatch as e:
        where = "" if e.position is None else f", at byte {e.position} after decompression"
        raise type(e)(e.reason + where, position=position) from e
