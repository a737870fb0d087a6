"""Encode index points as the bytes of an offset index and a time index.

    pack(points, time_column, time_plus, base_offset, timestamp, offset_words, time_words)
        -> number of time entries

`points` has the layout of `walk`. Each point becomes an offset entry with the point's last offset.
It also becomes a time entry when its timestamp exceeds the previous one (`timestamp` for the first
point); that entry's offset is the number in `time_column` plus `time_plus`. `offset_words` and
`time_words` are int32 of shapes (n, 2) and (n, 3), with n at least the number of points. They
receive the bytes of the files.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from llvmlite import ir
from numba import types
from numba.core.typing import Context

from kafkats.kernels.jit import Emit, intrinsic, kernel
from kafkats.kernels.numbers import Int32s, Int64s


@partial(intrinsic, result=types.int32)
def _big(typingctx: Context, number: int) -> Emit:
    """Return the low 32 bits as a big-endian int32."""

    def emit(builder: ir.IRBuilder, args: Sequence[ir.Value]) -> ir.Value:
        return builder.bswap(builder.trunc(args[0], ir.IntType(32)))

    return emit


@kernel
def pack(
    points: Int64s,
    time_column: int,
    time_plus: int,
    base_offset: int,
    timestamp: int,
    offset_words: Int32s,
    time_words: Int32s,
) -> int:
    """See the module docstring."""
    times = 0
    for n in range(points.shape[0]):
        offset_words[n, 0] = _big(points[n, 2] - base_offset)
        offset_words[n, 1] = _big(points[n, 0])
        if points[n, 3] > timestamp:
            timestamp = points[n, 3]
            time_words[times, 0] = _big(timestamp >> 32)
            time_words[times, 1] = _big(timestamp)
            time_words[times, 2] = _big(points[n, time_column] + time_plus - base_offset)
            times += 1
    return times
