"""Walk over a log as a broker's own reader does, which does not check the magic of a batch.

A file's batch with a magic above 2 is read as magic 2, and its checksum does not cover the magic. A
negative one is read as magic 0. Source: FileLogInputStream, LogSegment.recover.

Brokers before 0.11 read a batch of magic 2 as one message, with the batch's first offset. The
message's checksum is wrong, for in its place is the leader epoch. (Tried with 0.8.2.2, 0.9.0.1 and
0.10.2.2.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from kafkats.compression.checksums import crc32c
from kafkats.errors import CorruptBatch
from kafkats.formats import v2
from kafkats.formats.framing import MAGIC_AT, MIN_SIZE, OVERHEAD
from kafkats.kernels import headers_state as k
from kafkats.segment.facts import SegmentFacts, StopReason
from kafkats.segment.headers import Rows, batch_headers
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
    unknown_magic_at: int = -1
    """Position of the first batch with a magic above 2 that is read as magic 2, -1 without one."""


def read_on(
    source: Source,
    base_offset: int,
    *,
    start: int = 0,
    checksums: bool,
    newest_magic: int = v2.MAGIC,
) -> Span:
    """Walk from position `start` as a broker whose newest format is `newest_magic`.

    Raises Vanished, StorageFailed.
    """
    span = _read_on(source, base_offset, start, checksums=checksums)
    if newest_magic >= v2.MAGIC or span.magic_2_end < 0:
        return span
    if checksums:
        return _until_magic_2(source, base_offset, start, span)
    return _as_messages(source, base_offset, start, span)


def _until_magic_2(source: Source, base_offset: int, start: int, span: Span) -> Span:
    end = start
    for rows in headers_read_on(source, span.end, start=start):
        newer = rows[rows[:, k.MAGIC] >= v2.MAGIC]
        if len(newer):
            end = int(newer[0, k.AT])
            break
    facts, *_, cells, _ = walk(source, base_offset, start=start, end=end)
    seen = _joined(_begun(start, base_offset), facts, source)
    return seen._replace(
        stop=StopReason.BAD_CRC, messages=sum(cell.batches for cell in cells), highest_epoch=-1
    )


def _as_messages(source: Source, base_offset: int, start: int, span: Span) -> Span:
    last, highest = base_offset - 1, -1
    for rows in headers_read_on(source, span.end, start=start):
        newer = rows[:, k.MAGIC] >= v2.MAGIC
        offsets = np.where(newer, rows[:, k.FIRST_OFFSET], rows[:, k.LAST_OFFSET])
        last, highest = int(offsets[-1]), max(highest, int(offsets.max()))
    return span._replace(next_offset=last + 1, highest=highest, highest_epoch=-1)


def _begun(start: int, base_offset: int) -> Span:
    return Span(start, base_offset, -1, -1, None, False, -1)


def _read_on(source: Source, base_offset: int, start: int, *, checksums: bool) -> Span:
    seen = _begun(start, base_offset)
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
        unknown_magic_at=seen.unknown_magic_at,
    )


def _highest(source: Source, start: int, end: int) -> int:
    rows = batch_headers(source, start=start, end=end)
    return max((int(some[:, k.LAST_OFFSET].max()) for some in rows), default=-1)


def _magic_2_end(source: Source, seen: Span, facts: SegmentFacts, old: int) -> int:
    """Return the offset after the last batch of magic 2 among the walked ones, which have some.

    `old` is the number of those of magic 0 and 1. Only a mixture is read a second time.
    """
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
    size = _size(head)
    magic, _, last, epoch = _unknown_header(head)
    legacy = magic < v2.MAGIC
    if size < OVERHEAD + MIN_SIZE or seen.end + size > source.size:
        return None
    if checksums and (legacy or not _sound(source, seen.end, size)):
        return seen._replace(stop=StopReason.BAD_CRC)
    at = seen.end if seen.unknown_magic_at < 0 and not legacy else seen.unknown_magic_at
    return seen._replace(
        end=seen.end + size,
        next_offset=last + 1,
        highest=max(seen.highest, last),
        highest_epoch=max(seen.highest_epoch, epoch),
        stop=None,
        magic_2_end=seen.magic_2_end if legacy else last + 1,
        unknown_magic_at=at,
    )


def unknown_magics(source: Source, base_offset: int) -> list[tuple[int, int]]:
    """Return position and magic of each batch with a magic above 2 that a recovery keeps.

    Its checksum is correct, which does not cover the magic. Raises Vanished, StorageFailed.
    """
    span = read_on(source, base_offset, checksums=True)
    if span.unknown_magic_at < 0:
        return []
    return [
        (int(row[k.AT]), int(row[k.MAGIC]))
        for rows in headers_read_on(source, span.end, start=span.unknown_magic_at)
        for row in rows[rows[:, k.MAGIC] > v2.MAGIC]
    ]


def headers_read_on(
    source: Source, end: int, *, start: int = 0, at_once: int | None = None
) -> Iterator[Rows]:
    """Yield the headers of the batches from byte `start` to `end`, which a broker reads.

    As `batch_headers`, but a batch with a magic above 2 has a row, too, and one with a negative
    magic has one of magic 0. Raises Changed, StorageFailed.
    """
    position = start
    while True:
        try:
            yield from batch_headers(source, start=position, end=end, at_once=at_once)
        except CorruptBatch as e:
            head = source.read(e.position or 0, v2.HEADER_BYTES)
            if (
                len(head) <= MAGIC_AT
                or head[MAGIC_AT] <= v2.MAGIC
                or _size(head) < OVERHEAD + MIN_SIZE
            ):
                return
            yield _row(e.position or 0, head)
            position = (e.position or 0) + _size(head)
        else:
            return


def _size(head: bytes) -> int:
    return OVERHEAD + int.from_bytes(head[8:12], "big", signed=True)


def _unknown_header(head: bytes) -> tuple[int, int, int, int]:
    """Return magic, first and last offset, and epoch of an unknown format as a broker reads it."""
    first = int.from_bytes(head[:8], "big", signed=True)
    if head[MAGIC_AT] > 127:
        return 0, first, first, -1
    if len(head) < v2.HEADER_BYTES:
        return head[MAGIC_AT], first, first, -1
    fields = v2.BatchHeader(*v2.HEADER.unpack(head))
    return fields.magic, first, first + fields.last_offset_delta, fields.leader_epoch


def _row(position: int, head: bytes) -> Rows:
    """Return the row of one header, as `batch_headers` has it."""
    row = np.full((1, k.COLUMNS), k.UNKNOWN)
    row[0, [k.AT, k.MAGIC, k.FIRST_OFFSET, k.LAST_OFFSET, k.LEADER_EPOCH]] = (
        position,
        *_unknown_header(head),
    )
    return row


def _sound(source: Source, position: int, size: int) -> bool:
    if size < v2.HEADER_BYTES:
        return False
    batch = source.read(position, size)
    return crc32c(batch[_CRC_FROM:]) == int.from_bytes(batch[MAGIC_AT + 1 : _CRC_FROM], "big")
