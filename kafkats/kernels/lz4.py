"""LZ4 frames in the form that Kafka's classes write: independent blocks of at most 64 KiB.

Other forms are left to `compression.lz4`. All numbers are little-endian. `old`: the frame belongs
to a wrapper of magic 0, for which Kafka computes the header checksum in another way and accepts
any.
"""

from __future__ import annotations

from typing import Final

from kafkats.kernels.jit import entry, kernel
from kafkats.kernels.memory import copy, i16, lz4_by, put8, put16, put32, put_own32, u8, u32
from kafkats.kernels.numbers import int64

_MAGIC: Final = 0x04224D18  # as four bytes in file order
_DESCRIPTOR: Final = 0x6040
_CHECKSUM: Final = 0x82  # of this descriptor
_OLD_CHECKSUM: Final = 0x1A
_HEADER: Final = 7
_SMALLEST: Final = _HEADER + 4
_BLOCK: Final = 64 * 1024
_STORED: Final = 0x80000000  # the block is not compressed


@entry
def decompress_lz4(function: int, at: int, size: int, old: int, to: int, room: int) -> int:
    """Decompress the frame of `size` bytes at address `at` to `room` bytes at address `to`.

    `function`: address of LZ4_decompress_safe, or 0. Returns the number of bytes, or -1 if the
    caller must decompress the frame in another way.
    """
    if function == 0 or size < _SMALLEST or u32(at) != _MAGIC or i16(at + 4) != _DESCRIPTOR:
        return int64(-1)
    if not old and u8(at + 6) != _CHECKSUM:
        return int64(-1)
    at, end, filled = at + _HEADER, at + size, int64(0)
    while at + 4 <= end:
        block = u8(at) | u8(at + 1) << 8 | u8(at + 2) << 16 | u8(at + 3) << 24
        at += 4
        if block == 0:
            return filled
        stored, block = block & _STORED, block & ~_STORED
        left = min(room - filled, int64(_BLOCK))
        if block > min(int64(_BLOCK), end - at) or (stored and block > left):
            return int64(-1)
        got = block
        if stored:
            copy(to + filled, at, block)
        else:
            got = lz4_by(function, at, to + filled, block, left)
            if got < 0:
                return int64(-1)
        at, filled = at + block, filled + got
    return int64(-1)


@kernel
def compress_lz4(function: int, at: int, size: int, old: int, to: int) -> int:
    """Compress `size` bytes at address `at` to a frame at `to`, with room for the worst case.

    `function`: address of LZ4_compress_default. Returns the size of the frame, or -1 on failure.
    """
    start, end = to, at + size
    put32(to, _MAGIC)
    put16(to + 4, _DESCRIPTOR)
    put8(to + 6, _OLD_CHECKSUM if old else _CHECKSUM)
    to += _HEADER
    while at < end:
        plain = min(end - at, int64(_BLOCK))
        got = lz4_by(function, at, to + 4, plain, plain + plain // 255 + 16)
        if got <= 0:
            return int64(-1)
        if got >= plain:
            copy(to + 4, at, plain)
            got = plain
            put_own32(to, plain | _STORED)
        else:
            put_own32(to, got)
        to += 4 + got
        at += plain
    put32(to, 0)
    return to + 4 - start
