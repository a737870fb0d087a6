"""Decompress batches ahead of `columns`, many in one call.

    ahead(state, plain)     decompresses the next compressed batches of the window, up to one that
                            the caller must decompress

State and `plain` are those of `columns`.
"""

from __future__ import annotations

from typing import Final

from kafkats.kernels.batch import WHOLE, codec_of, frame, wrapper_value
from kafkats.kernels.columns import (
    ADDRESS,
    AHEAD,
    JOINED,
    JOINED_ROOM,
    JOINED_USED,
    LOADED,
    LZ4,
    ORIGIN,
    PACKED,
    PLAIN_COUNT,
    ZSTD,
    ZSTD_CONTEXT,
)
from kafkats.kernels.jit import kernel
from kafkats.kernels.layout import COUNT_AT, HEADER, MIN_LEFT
from kafkats.kernels.lz4 import decompress_lz4
from kafkats.kernels.memory import i32, zstd_by
from kafkats.kernels.numbers import Int64s, int64
from kafkats.kernels.zstd import is_window_allowed

_LZ4: Final = 3
_ZSTD: Final = 4


@kernel
def ahead(state: Int64s, plain: Int64s) -> bool:
    """Decompress batches from AHEAD on into JOINED while they fit; add a row to `plain` for each.

    Returns True if the caller must decompress the bytes that PACKED describes. This function
    reports no corruption: columns() reads the same batches and reports it.
    """
    address, origin, loaded = state[ADDRESS], state[ORIGIN], state[LOADED]
    position, number = state[AHEAD], state[PLAIN_COUNT]
    wants = False
    while not wants and number < len(plain) and origin <= position <= loaded - MIN_LEFT:
        at = address + (position - origin)
        what, total, magic = frame(at, loaded - position)
        if what != WHOLE:
            break
        codec = codec_of(at, magic)
        start, size = at + HEADER, total - HEADER
        if magic == 2 and i32(at + COUNT_AT) <= 0:
            codec = int64(0)
        if magic < 2 and codec != 0:
            start, size = wrapper_value(at, total, magic)
            if size < 0:
                break
        if codec != 0:
            got, to = int64(-1), state[JOINED] + state[JOINED_USED]
            room = state[JOINED_ROOM] - state[JOINED_USED]
            if codec == _LZ4:
                got = decompress_lz4(state[LZ4], start, size, magic == 0, to, room)
            elif (
                codec == _ZSTD
                and magic == 2
                and state[ZSTD] != 0
                and is_window_allowed(start, size)
            ):
                got = zstd_by(state[ZSTD], state[ZSTD_CONTEXT], to, room, start, size)
                # error codes are the highest numbers
                got = got if got >= 0 and got <= room else int64(-1)
            if got < 0:
                if number > 0 and room < state[JOINED_ROOM] // 2:
                    break  # the buffer may be too small: retry with an empty one
                wants = True
                state[PACKED], state[PACKED + 1], state[PACKED + 2] = position, codec, magic
                state[PACKED + 3], state[PACKED + 4] = start, size
            else:
                plain[number, 0], plain[number, 1], plain[number, 2] = position, to, got
                state[JOINED_USED] += got
                number += 1
        position += total
    state[AHEAD], state[PLAIN_COUNT] = position, number
    return wants
