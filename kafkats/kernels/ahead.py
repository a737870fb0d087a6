"""Decompress batches ahead of `columns`, many in one call.

    ahead(state, plain)     decompresses the next compressed batches of the window, up to one that
                            the caller must decompress

State and `plain` are those of `columns`.
"""

from __future__ import annotations

from typing import Final

from kafkats.kernels import columns as k
from kafkats.kernels import layout as f
from kafkats.kernels.batch import WHOLE, codec_of, frame, wrapper_value
from kafkats.kernels.jit import entry
from kafkats.kernels.lz4 import decompress_lz4
from kafkats.kernels.memory import i32, zstd_by
from kafkats.kernels.numbers import Int64Rows, Int64s, int64
from kafkats.kernels.zstd import is_window_allowed

_LZ4: Final = 3
_ZSTD: Final = 4


@entry
def ahead(state: Int64s, plain: Int64Rows) -> bool:
    """Decompress batches from AHEAD on into JOINED while they fit; add a row to `plain` for each.

    Returns True if the caller must decompress the bytes that PACKED describes. This function
    reports no corruption: columns() reads the same batches and reports it.
    """
    address, origin, loaded = state[k.ADDRESS], state[k.ORIGIN], state[k.LOADED]
    position, number = state[k.AHEAD], state[k.PLAIN_COUNT]
    wants = False
    while not wants and number < len(plain) and origin <= position <= loaded - f.MIN_LEFT:
        at = address + (position - origin)
        what, total, magic = frame(at, loaded - position)
        if what != WHOLE:
            break
        codec = codec_of(at, magic)
        start, size = at + f.HEADER, total - f.HEADER
        if magic == 2 and i32(at + f.COUNT_AT) <= 0:
            codec = int64(0)
        if magic < 2 and codec != 0:
            start, size = wrapper_value(at, total, magic)
            if size < 0:
                break
        if codec != 0:
            got, to = int64(-1), state[k.JOINED] + state[k.JOINED_USED]
            room = state[k.JOINED_ROOM] - state[k.JOINED_USED]
            if codec == _LZ4:
                got = decompress_lz4(state[k.LZ4], start, size, magic == 0, to, room)
            elif (
                codec == _ZSTD
                and magic == 2
                and state[k.ZSTD] != 0
                and is_window_allowed(start, size)
            ):
                got = zstd_by(state[k.ZSTD], state[k.ZSTD_CONTEXT], to, room, start, size)
                # error codes are the highest numbers
                got = got if got >= 0 and got <= room else int64(-1)
            if got < 0:
                if number > 0 and room < state[k.JOINED_ROOM] // 2:
                    break  # the buffer may be too small: retry with an empty one
                wants = True
                state[k.PACKED], state[k.PACKED + 1], state[k.PACKED + 2] = position, codec, magic
                state[k.PACKED + 3], state[k.PACKED + 4] = start, size
            else:
                plain[number, 0], plain[number, 1], plain[number, 2] = position, to, got
                state[k.JOINED_USED] += got
                number += 1
        position += total
    state[k.AHEAD], state[k.PLAIN_COUNT] = position, number
    return wants
