"""Read lookup-table cells for many times in one pass.

    pick(cells, rows, times, words, numbers, epochs, reasons)

`cells` is int64 of shape (n, 4), one column per name below; the four numbers of a cell are adjacent
in memory, so each time costs one memory access. `rows` holds the row of `cells` for each time (-1:
none).
"""

from __future__ import annotations

from typing import Final

from kafkats.kernels.jit import entry
from kafkats.kernels.numbers import Int8s, Int32s, Int64Rows, Int64s

OFFSET: Final = 0
TIMESTAMP: Final = 1
SEGMENT: Final = 2
PACKED: Final = 3  # leader epoch * 256 + reason
COLUMNS: Final = 4

# Indexes into `words`, which holds the codes of the reasons.
EXACT: Final = 0
FIRST_AFTER: Final = 1
COARSE: Final = 2
ABSENT: Final = 3


@entry
def pick(
    cells: Int64Rows,
    rows: Int64s,
    times: Int64s,
    words: Int64s,
    numbers: Int64Rows,
    epochs: Int32s,
    reasons: Int8s,
) -> None:
    """Write offset, timestamp and segment to `numbers` (shape (3, n)), and epochs and reasons.

    Runs without the GIL.
    """
    for i in range(len(rows)):
        row = rows[i]
        if row < 0 or row >= len(cells):
            numbers[0, i] = numbers[1, i] = numbers[2, i] = epochs[i] = -1
            reasons[i] = words[ABSENT]
            continue
        offset, timestamp, packed = cells[row, OFFSET], cells[row, TIMESTAMP], cells[row, PACKED]
        reason = packed & 255
        if offset >= 0:
            if timestamp == times[i]:
                reason = words[EXACT]
            elif timestamp < times[i]:
                reason = words[COARSE]
            elif reason == words[EXACT]:
                reason = words[FIRST_AFTER]
        numbers[0, i], numbers[1, i], numbers[2, i] = offset, timestamp, cells[row, SEGMENT]
        epochs[i], reasons[i] = packed >> 8, reason
