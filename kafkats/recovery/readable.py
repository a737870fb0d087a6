"""Look for whole batches behind the place where reading a .log stopped.

A broker's recovery cuts a log at its first bad batch. Whether good batches lie behind that place
decides whether the cut loses them. A batch counts if its header is possible and its checksum holds.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kafkats.errors import CorruptBatch
from kafkats.formats import dispatch
from kafkats.formats.framing import (
    FRAME,
    MAGIC_AT,
    MAX_MAGIC,
    MIN_LEFT,
    MIN_SIZE,
    OVERHEAD,
    FrameHeader,
)
from kafkats.generations import MAX_RELATIVE_OFFSET
from kafkats.segment.reader import Source

_PIECE: Final = 1 << 20


def batch_behind(source: Source, position: int, base_offset: int, next_offset: int) -> int:
    """Return the position of the first good batch at or behind `position`, -1 for none.

    Only batches count whose offset belongs to the segment `base_offset` and is not below
    `next_offset`, the offset after the last batch before. Raises StorageFailed.
    """
    highest = base_offset + MAX_RELATIVE_OFFSET
    while position + MIN_LEFT <= source.size:
        data = source.read(position, _PIECE + MIN_LEFT)
        for at in _candidates(data, next_offset, highest):
            if _is_batch(source, position + at):
                return position + at
        position += max(len(data) - MIN_LEFT, 1)
    return -1


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


def _is_batch(source: Source, position: int) -> bool:
    header = FrameHeader._make(FRAME.unpack(source.read(position, OVERHEAD)))
    size = OVERHEAD + header.size
    if position + size > source.size:
        return False
    try:
        return next(dispatch.batches(source.read(position, size)), None) is not None
    except CorruptBatch:
        return False
