"""Walk over a log as a broker's own reader does, which does not check the magic of a batch.

A file's batch with a magic above 2 is read as magic 2, and its checksum does not cover the magic. A
negative one is read as magic 0. Source: FileLogInputStream, LogSegment.recover.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kafkats.compression.checksums import crc32c
from kafkats.formats import v2
from kafkats.formats.framing import MAGIC_AT, MIN_SIZE, OVERHEAD
from kafkats.segment.facts import SegmentFacts, StopReason
from kafkats.segment.headers import batch_headers
from kafkats.segment.reader import Source
from kafkats.segment.walk import walk

_CRC_FROM: Final = 21


class Span(NamedTuple):
    """The batches from one position to the first one that a broker does not read."""

    end: int
    """The position behind the last batch."""
    next_offset: int
    """The offset after the last batch; the base offset of the segment without one."""
    highest: int
    """The highest last offset of a batch, -1 without one."""
    highest_epoch: int
    """The highest leader epoch of a batch, -1 without one."""
    stop: StopReason | None
    not_increasing: bool
    """A batch begins at or below an offset before it."""
    out_of_range: int
    """Position of the first batch below the base offset or too far above it, -1 without one."""
    batches: int = 0
    """Batches of magic 2."""
    messages: int = 0
    """Messages and wrappers of magic 0 and 1."""
    magic_2_end: int = -1
    """The offset after the last batch of magic 2, -1 without one."""


def read_on(source: Source, base_offset: int, *, start: int = 0, checksums: bool) -> Span:
    """Walk from position `start`. Raises Vanished, StorageFailed."""
    seen = Span(start, base_offset, -1, -1, None, False, -1)
    while True:
        facts, *_, cells, _ = walk(source, base_offset, start=seen.end, checksums=checksums)
        new = sum(cell.batches for cell in cells if cell.magic >= v2.MAGIC)
        old = sum(cell.batches for cell in cells) - new
        magic_2_end = _magic_2_end(source, seen, facts, old) if new else seen.magic_2_end
        seen = _joined(seen, facts, source)
        seen = seen._replace(
            batches=seen.batches + new, messages=seen.messages + old, magic_2_end=magic_2_end
        )
        after = (
            _unknown_magic(source, seen, checksums) if facts.stop == StopReason.BAD_MAGIC else None
        )
        if after is None or after.end == seen.end:
            return after or seen
        seen = after


def _joined(seen: Span, facts: SegmentFacts, source: Source) -> Span:
    if facts.batches <= 0:
        return seen._replace(stop=facts.stop)
    highest = max(seen.highest, facts.last_offset)
    disordered = facts.not_increasing_position >= 0
    if disordered:
        highest = max(highest, _highest(source, seen.end, facts.valid_bytes))
    return Span(
        facts.valid_bytes,
        facts.next_offset,
        highest,
        max(seen.highest_epoch, facts.highest_leader_epoch),
        facts.stop,
        seen.not_increasing or disordered,
        seen.out_of_range if seen.out_of_range >= 0 else facts.out_of_range_position,
        seen.batches,
        seen.messages,
    )


def _highest(source: Source, start: int, end: int) -> int:
    from kafkats.kernels import headers as k

    rows = batch_headers(source, start=start, end=end)
    return max((int(some[:, k.LAST_OFFSET].max()) for some in rows), default=-1)


def _magic_2_end(source: Source, seen: Span, facts: SegmentFacts, old: int) -> int:
    """Return the offset after the last batch of magic 2 among the walked ones, which have some.

    `old` is the number of those of magic 0 and 1. Only a mixture is read a second time.
    """
    from kafkats.kernels import headers as k

    if not old:
        return facts.next_offset
    end = -1
    for rows in batch_headers(source, start=seen.end, end=facts.valid_bytes):
        ends = rows[rows[:, k.MAGIC] >= v2.MAGIC, k.LAST_OFFSET]
        end = int(ends[-1]) + 1 if len(ends) else end
    return end


def _unknown_magic(source: Source, seen: Span, checksums: bool) -> Span | None:
    """Return the span with the next batch, whose magic is unknown; None if a broker stops at it."""
    head = source.read(seen.end, v2.HEADER_BYTES)
    if len(head) <= MAGIC_AT:
        return None
    size = OVERHEAD + int.from_bytes(head[8:12], "big", signed=True)
    legacy = head[MAGIC_AT] > 127
    if size < OVERHEAD + MIN_SIZE or seen.end + size > source.size:
        return None
    if checksums and (legacy or not _sound(source, seen.end, size)):
        return seen._replace(stop=StopReason.BAD_CRC)
    last = int.from_bytes(head[:8], "big", signed=True)
    if not legacy and len(head) == v2.HEADER_BYTES:
        last += v2.BatchHeader(*v2.HEADER.unpack(head)).last_offset_delta
    return seen._replace(
        end=seen.end + size,
        next_offset=last + 1,
        highest=max(seen.highest, last),
        stop=None,
        magic_2_end=seen.magic_2_end if legacy else last + 1,
    )


def _sound(source: Source, position: int, size: int) -> bool:
    if size < v2.HEADER_BYTES:
        return False
    batch = source.read(position, size)
    return crc32c(batch[_CRC_FROM:]) == int.from_bytes(batch[MAGIC_AT + 1 : _CRC_FROM], "big")
