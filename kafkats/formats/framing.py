"""How a `.log` file, and a decompressed message set, is cut into frames.

    frame = offset int64 | size int32 | size bytes        all magics; byte 16 of every frame is its magic

The rules are FileLogInputStream's (Kafka 0.11 and later): fewer than 18 bytes, or a frame that is longer than what is
left, is the quiet end of the log (a write that did not finish); a size below 14 is corruption, which is what a tail of
zeros looks like. Kafka reads an unknown magic from a file as if it were 2; we refuse it.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from kafkats.errors import CorruptBatch
from kafkats.primitives import Buffer, view

OVERHEAD: Final = 12
"""Bytes of offset and size, which the size does not count."""
MAGIC_AT: Final = 16
MIN_SIZE: Final = 14
"""The smallest legal size field: a magic-0 message of null key and null value."""
MIN_LEFT: Final = 18
"""With fewer bytes left Kafka stops reading (KAFKA LogInputStream: position >= end - 17)."""
MAX_MAGIC: Final = 2
MAX_OFFSET: Final = 2**63 - 2
"""The largest offset a record can have: a log's end offset is the one after it, and must fit into 64 bits too."""


class FrameHeader(NamedTuple):
    """What all magics begin with."""

    offset: int
    size: int


FRAME: Final = struct.Struct(
    ">"
    "q"  # offset
    "i"  # size
)
assert FRAME.size == OVERHEAD


class Frame(NamedTuple):
    """An undecoded slice: `size` bytes from `position` on, the 12 of offset and size included."""

    position: int
    size: int
    offset: int
    magic: int


def frames(buf: Buffer, start: int = 0, end: int | None = None) -> Iterator[Frame]:
    """The frames of buf[start:end] until the quiet end of the log.

    Raises CorruptBatch for a size below 14 and for a magic other than 0, 1 and 2.
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
    """Raise CorruptBatch where `delta` behind the frame's offset there is no offset that a log can hold.

    Offsets are under no checksum. Kafka's own reader adds them up in 64 bits, reports a negative log end offset, and a
    broker that starts on it deletes every segment of the partition (LogLoader: the log end lies below the log start).
    """
    if not -(2**63) <= frame.offset + delta <= MAX_OFFSET:
        last = f"offset {frame.offset}" + (f" plus {delta}" if delta else "")
        raise CorruptBatch(f"it ends at {last}, and no log holds an offset above 2^63-2", position=frame.position)


@contextmanager
def decompressed(position: int) -> Generator[None, None, None]:
    """Report corruption found in decompressed bytes at the frame they came from.

    Raises CorruptBatch at `position`, with the place after decompression in its reason.
    """
    try:
        yield
    except CorruptBatch as e:
        where = "" if e.position is None else f", at byte {e.position} after decompression"
        raise type(e)(e.reason + where, position=position) from e
