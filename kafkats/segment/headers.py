"""Read the batch headers of a .log as rows of numbers, in chunks, without decoding records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kafkats.errors import Changed, CorruptBatch
from kafkats.formats import v2
from kafkats.formats.framing import MAGIC_AT, MIN_LEFT, Frame, check_offsets
from kafkats.kernels import headers_state as k
from kafkats.kernels.headers import headers
from kafkats.segment.reader import Source

Rows = NDArray[np.int64]
"""Shape (n, kernels.headers_state.COLUMNS), one row per batch."""

ROWS_AT_ONCE: Final = 16384
_DELTA: Final = v2.BatchHeader._fields.index("last_offset_delta")


def batch_headers(
    source: Source,
    *,
    start: int = 0,
    end: int | None = None,
    producers_only: bool = False,
    quiet_zeros: bool = False,
    at_once: int | None = None,
) -> Iterator[Rows]:
    """Yield the headers of the batches from position `start` to `end` (default: end of the file).

    Reading ends at the quiet end of the log: an unfinished batch, and with `quiet_zeros` also zeros
    up to the end of the file, as in a preallocated one. Checksums are not verified.
    `producers_only`: only batches with a producer id. A chunk has at most `at_once` rows, or
    ROWS_AT_ONCE, and is valid until the next one is requested.

    Raises CorruptBatch (bad size, magic or offsets) after the batches before it, Changed (truncated
    meanwhile), StorageFailed.
    """
    end = source.size if end is None else min(end, source.size)
    state = np.zeros(k.STATE_SLOTS, np.int64)
    state[k.POSITION], state[k.PRODUCERS_ONLY] = start, producers_only
    rows = np.empty((at_once or ROWS_AT_ONCE, k.COLUMNS), np.int64)
    why, stopped = k.AT_LIMIT, -1
    while (
        why in {k.AT_LIMIT, k.NEED_BYTES} and end - (position := int(state[k.POSITION])) >= MIN_LEFT
    ):
        window = source.window(position, min(v2.HEADER_BYTES, end - position))
        if window.file_end < end:
            raise Changed("the file was cut while it was read", position=window.file_end)
        state[: k.POSITION] = (
            window.address,
            window.origin,
            min(window.loaded, end),
            min(window.limit, end),
            end,
        )
        while (why := headers(state, rows)) == k.FULL:
            yield rows
            state[k.FILLED] = 0
        # a broker may have written a batch there meanwhile
        if why == k.STOPPED and stopped != state[k.POSITION]:
            stopped, why = int(state[k.POSITION]), k.NEED_BYTES
    if state[k.FILLED]:
        yield rows[: state[k.FILLED]]
    if why == k.STOPPED and not (
        quiet_zeros and end == source.size and source.only_zeros(int(state[k.POSITION]))
    ):
        _refuse(source, int(state[k.POSITION]), end)


def _refuse(source: Source, position: int, end: int) -> None:
    """Raise CorruptBatch unless the log ends quietly at `position`."""
    if end - position < MIN_LEFT:
        return
    head = source.read(position, v2.HEADER_BYTES)
    if len(head) < MIN_LEFT:
        raise Changed("the file was cut while it was read", position=position)
    size, magic = 12 + int.from_bytes(head[8:12], "big", signed=True), head[MAGIC_AT]
    if size >= 12 + 14 and size > end - position:
        return
    delta = (
        v2.HEADER.unpack(head)[_DELTA] if magic == v2.MAGIC and len(head) == v2.HEADER_BYTES else 0
    )
    check_offsets(Frame(position, size, int.from_bytes(head[:8], "big", signed=True), magic), delta)
    raise CorruptBatch(f"size {size} and magic {magic} are no batch's", position=position)
