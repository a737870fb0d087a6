"""When an index is good enough for a broker, said once more and slowly, over the reference decoder.

    offset entry (o, p)     p starts a batch, and every batch before p ends below o
    time entry (T, o)       every batch before the one that a search for o finds has a maximum below T
    last time entry         T is the log's maximum; with none, the log has no timestamps

Entries rise, lie inside the log, and fill the file. An offset entry of zeros alone, which no Kafka writes since the first batch
gets none, is padding.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from kafkats.formats.dispatch import batches


class Extent(NamedTuple):
    """A batch, as far as an index speaks of it."""

    position: int
    last_offset: int
    max_timestamp: int


def extents(log: bytes) -> list[Extent]:
    """The batches of an intact log."""
    return [Extent(b.position, b.last_offset, b.max_timestamp) for b in batches(log)]


def offset_index_is_sound(index: bytes, base_offset: int, log: list[Extent]) -> bool:
    if len(index) % 8:
        return False
    before = (-1, -1)
    starts = {extent.position: i for i, extent in enumerate(log)}
    for relative, position in struct.iter_unpack(">ii", index):
        offset = base_offset + relative
        inside = relative >= 0 and position in starts and offset <= log[-1].last_offset
        if not inside or position == 0 or relative <= before[0] or position <= before[1]:
            return False
        if any(extent.last_offset >= offset for extent in log[: starts[position]]):
            return False
        before = relative, position
    return True


def time_index_is_sound(index: bytes, base_offset: int, log: list[Extent]) -> bool:
    if len(index) % 12:
        return False
    maximum = max((extent.max_timestamp for extent in log), default=-1)
    entries = list(struct.iter_unpack(">qi", index))
    before = (-1, -1)
    for timestamp, relative in entries:
        offset = base_offset + relative
        if relative < 0 or offset > (log[-1].last_offset if log else -1):
            return False
        if timestamp <= before[0] or relative <= before[1]:
            return False
        if any(extent.last_offset < offset and extent.max_timestamp >= timestamp for extent in log):
            return False
        before = timestamp, relative
    return (entries[-1][0] if entries else -1) == maximum
