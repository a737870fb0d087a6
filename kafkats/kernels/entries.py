"""Index points to the bytes of both indexes.

    pack(points, time_column, time_plus, base_offset, timestamp, offset_words, time_words) -> time entries

`points` as `walk` fills them. Each gets an offset entry, of its last offset; and a time entry when its timestamp is above the
one before (`timestamp` is before the first), of the offset in `time_column` plus `time_plus`. The words are int32 of shape
(n, 2) and (n, 3), n at least the number of points, and hold the bytes as they are in the files.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from kafkats.kernels.jit import intrinsic, kernel


@intrinsic
def _big(typingctx: Any, number: Any) -> Any:
    """The low 32 bits, big endian."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bswap(builder.trunc(args[0], ir.IntType(32)))

    return types.int32(types.int64), codegen


@kernel
def pack(
    points: Any,
    time_column: int,
    time_plus: int,
    base_offset: int,
    timestamp: int,
    offset_words: Any,
    time_words: Any,
) -> int:
    """See the module."""
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
