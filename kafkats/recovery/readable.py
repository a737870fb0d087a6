"""Look for whole batches behind the place where reading a .log stopped.

A broker's recovery cuts a log at its first bad batch. Whether good batches lie behind that place
decides whether the cut loses them. A batch counts if its header is possible and its checksum holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkats.formats.framing import MAGIC_AT, MAX_MAGIC, MIN_LEFT, MIN_SIZE
from kafkats.generations import MAX_RELATIVE_OFFSET
from kafkats.records.piece import batch_at
from kafkats.segment.facts import SegmentFacts
from kafkats.segment.reader import Source
from kafkats.segment.walk import walk

_PIECE: Final = 1 << 20


class Run(NamedTuple):
    """Adjacent good batches of a .log, from the byte `start` to `facts.valid_bytes`."""

    start: int
    facts: SegmentFacts


def batch_behind(source: Source, position: int, base_offset: int) -> int:
    """Return the position of the first good batch at or behind `position`, -1 for none.

    Only batches count whose offset belongs to the segment `base_offset`. An offset below those
    before counts, too: a broker that starts beside a torn tail and a clean-shutdown marker can give
    out offsets twice. Raises StorageFailed.
    """
    highest = base_offset + MAX_RELATIVE_OFFSET
    while position + MIN_LEFT <= source.size:
        data = source.read(position, _PIECE + MIN_LEFT)
        for at in _candidates(data, base_offset, highest):
            if batch_at(source, position + at):
                return position + at
        position += max(len(data) - MIN_LEFT, 1)
    return -1


def good_runs(source: Source, position: int, base_offset: int) -> Iterator[Run]:
    """Yield the runs of good batches at or behind `position`, in the order of the file.

    Raises Vanished, StorageFailed.
    """
    at = batch_behind(source, position, base_offset)
    while at >= 0:
        facts = walk(source, base_offset, start=at).facts
        if facts.valid_bytes > at:
            yield Run(at, facts)
        at = batch_behind(source, max(facts.valid_bytes, at + 1), base_offset)


def _candidates(data: bytes, lowest: int, highest: int) -> list[int]:
    """Return the places of `data` where a header with a possible magic, offset and size begins."""
    view = np.frombuffer(data, np.uint8)
    count = len(view) - MIN_LEFT + 1
    if count <= 0:
        return []
    places = np.flatnonzero(view[MAGIC_AT : MAGIC_AT + count] <= MAX_MAGIC)
    offsets = _number(view, places, 8)
    sizes = _number(view, places + 8, 4).astype(np.int32)
    possible = (offsets >= lowest) & (offsets <= highest) & (sizes >= MIN_SIZE)
    found: list[int] = places[possible].tolist()
    return found


def _number(view: NDArray[np.uint8], at: NDArray[np.intp], width: int) -> NDArray[np.int64]:
    """Return the big-endian numbers of `width` bytes that begin at the places `at`."""
    number = np.zeros(len(at), np.int64)
    for n in range(width):
        number = (number << 8) | view[at + n].astype(np.int64)
    return number
