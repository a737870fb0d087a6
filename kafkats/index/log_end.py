"""The log end as a broker finds it when it opens a segment (LogSegment.readNextOffset).

It looks up the last entry of the `.index`, and reads the headers of the batches from there on. If
none of them reaches the offset of that entry, the log ends at the base offset of the segment.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkats.formats import v2
from kafkats.index import offset_index
from kafkats.index.slots import Slots
from kafkats.segment.broker_walk import Span, read_on
from kafkats.segment.reader import Source


class LogEnd(NamedTuple):
    """A log end, and the batches that were read for it."""

    offset: int
    misled: bool
    """Whether the index names an offset that no batch reaches."""
    start: int
    """The position from which the batches were read."""
    span: Span


def find_log_end(
    log: Source,
    entries: Slots,
    count: int,
    base_offset: int,
    *,
    warm: bool,
    newest_magic: int = v2.MAGIC,
) -> LogEnd:
    """Return the log end by the first `count` entries of the segment's `.index`.

    `warm` is that of `offset_index.lookup`, `newest_magic` that of `read_on`. Raises Vanished,
    StorageFailed.
    """
    last, position = 0, 0
    if count:
        last, _ = offset_index.STRUCT.unpack_from(entries, (count - 1) * offset_index.STRUCT.size)
        slot = offset_index.lookup(entries, count, last, warm=warm)
        position = max(slot.value, 0) if slot.number >= 0 else 0
    start = min(position, log.size)
    span = read_on(log, base_offset, start=start, checksums=False, newest_magic=newest_magic)
    misled = span.highest < base_offset + last
    return LogEnd(base_offset if misled else span.next_offset, misled, start, span)
