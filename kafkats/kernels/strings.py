"""Append entries to a column of nullable byte strings with Arrow's layout."""

from __future__ import annotations

from kafkats.kernels.jit import kernel
from kafkats.kernels.memory import copy, move4, move8, put8, put_own32, u8
from kafkats.kernels.numbers import int64


@kernel
def _copy(to: int, start: int, size: int) -> None:
    """Copy up to 16 bytes with two moves that may overlap.

    Most keys are short, so this avoids a call.
    """
    if size > 16:
        copy(to, start, size)
    elif size >= 8:
        move8(to, start)
        move8(to + size - 8, start + size - 8)
    elif size >= 4:
        move4(to, start)
        move4(to + size - 4, start + size - 4)
    else:
        for n in range(size):
            put8(to + n, u8(start + n))


@kernel
def append(
    data: int, offsets: int, valid: int, row: int, filled: int, start: int, length: int
) -> int:
    """Write `length` bytes from `start` as entry `row`; a negative length is null.

    `filled` is the number of bytes in the column before. Returns the number after.
    """
    if length > 0:
        _copy(data + filled, start, length)
        filled += length
    put_own32(offsets + 4 * (row + 1), filled)
    if valid != 0:
        at, bit = valid + (row >> 3), row & 7
        put8(at, (u8(at) & ((1 << bit) - 1)) | (int64(length >= 0) << bit))
    return filled
