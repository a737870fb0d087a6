"""Find an offset in the log of a segment as a broker does: by the offset index, then by headers.

A broker reads the header of one batch after the other from the position that the index gives. So a
read in a large segment costs what it returns, and at most `index.interval.bytes` and one batch
more. Source: LogSegment.translateOffset, FileRecords.searchForOffsetWithSize of Kafka 0.8 to 4.3.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kafkats.errors import CorruptBatch
from kafkats.formats import v1, v2
from kafkats.formats.framing import FRAME, MAGIC_AT, MAX_MAGIC, MIN_LEFT, MIN_SIZE, OVERHEAD, frames
from kafkats.formats.model import NO_TIMESTAMP
from kafkats.search.segment import Segment
from kafkats.segment.reader import Source


class Place(NamedTuple):
    """A batch in a log, by its header."""

    position: int
    bytes: int
    magic: int
    last_offset: int
    max_timestamp: int

    @property
    def end(self) -> int:
        """The position behind it."""
        return self.position + self.bytes


def places(source: Source, start: int) -> Iterator[Place]:
    """Yield the batches from position `start` on, up to the quiet end. Only headers are read.

    Raises CorruptBatch for a size or a magic that no batch has; StorageFailed.
    """
    position = start
    while True:
        head = source.read(position, v2.HEADER_BYTES)
        if len(head) < MIN_LEFT:
            return
        offset, size = FRAME.unpack_from(head)
        magic = head[MAGIC_AT]
        if size < MIN_SIZE or magic > MAX_MAGIC:
            raise CorruptBatch(f"size field {size}, magic {magic}", position=position)
        if position + OVERHEAD + size > source.size:
            return
        yield Place(position, OVERHEAD + size, magic, *_last(head, offset, magic))
        position += OVERHEAD + size


def _last(head: bytes, offset: int, magic: int) -> tuple[int, int]:
    """Return the last offset and the largest timestamp that a header names."""
    if magic == v2.MAGIC and len(head) == v2.HEADER_BYTES:
        header = v2.BatchHeader._make(v2.HEADER.unpack(head))
        return offset + header.last_offset_delta, header.max_timestamp
    if magic == v1.MAGIC and len(head) >= v1.HEADER.size:
        *_, timestamp = v1.HEADER.unpack_from(head)
        return offset, timestamp
    return offset, NO_TIMESTAMP


def place_of(segment: Segment, offset: int) -> Place | None:
    """Return the first batch that ends at `offset` or above; None if the segment has none.

    Raises CorruptBatch, CorruptIndex, StorageFailed.
    """
    start = segment.position_of(offset)
    return next((p for p in places(segment.log.source, start) if p.last_offset >= offset), None)


def read_batches(
    segments: Sequence[Segment], offset: int, end_offset: int, max_bytes: int
) -> bytes:
    """Return whole batches from the one with `offset` on, below `end_offset`, from one segment.

    At most `max_bytes`, but at least one batch; nothing at the log end. Raises CorruptBatch,
    CorruptIndex, StorageFailed.
    """
    if offset < end_offset:
        bases = [one.base_offset for one in segments]
        for segment in segments[max(bisect_right(bases, offset) - 1, 0) :]:
            first = place_of(segment, offset)
            if first is not None:
                return _whole(segment, first, end_offset, max_bytes)
    return b""


def _whole(segment: Segment, first: Place, end_offset: int, max_bytes: int) -> bytes:
    """Return the batches from `first` on that fit into `max_bytes`, one at least; none is cut.

    None of them ends at `end_offset` or above. Raises CorruptBatch, StorageFailed.
    """
    limit = segment.log.size
    if first.last_offset >= end_offset:
        return b""
    last = place_of(segment, end_offset)
    if last is not None:
        limit = last.position
    size = min(max(max_bytes, first.bytes), limit - first.position)
    data = segment.log.source.read(first.position, size)
    ends = [frame.position + frame.size for frame in frames(data)]
    return data[: ends[-1]] if ends else b""
