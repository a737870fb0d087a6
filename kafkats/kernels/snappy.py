"""snappy in the framing of snappy-java, as `compression.snappy` describes it.

    stream = header of 16 bytes | size int32, block ...
    block  = size of its content, a varint | element ...
    element = literal: tag, bytes | copy: tag, bytes of the offset                little-endian

The lowest two bits of a tag say what the element is: a literal, or a copy of up to 64 bytes with an
offset of 1, 2 or 4 bytes. Other framings, and defective data, are left to `compression.snappy`.
"""

from __future__ import annotations

from typing import Final

from kafkats.kernels.jit import entry, inlined, kernel
from kafkats.kernels.memory import copy, i32, i64, move8, move16, put8, u8
from kafkats.kernels.numbers import int64

_MAGIC: Final = -0x7DACB1BEAFAFA700  # 82 'SNAPPY' 00
_HEADER: Final = 16
_LONGEST_TAGGED: Final = 60
"""Bytes of a literal; longer ones have their size after the tag."""
_WIDE: Final = 72
"""Bytes of the room that an element may overwrite from its beginning on, where they exist."""


@entry
def decompress_snappy(at: int, size: int, to: int, room: int) -> int:
    """Decompress the `size` bytes at address `at` to `room` bytes at address `to`.

    Returns the number of bytes, or -1 if the caller must decompress them in another way. What lies
    behind the result in the room is not kept.
    """
    if size < _HEADER or i64(at) != _MAGIC:
        return int64(-1)
    at, end, filled = at + _HEADER, at + size, int64(0)
    while end - at >= 4:
        packed = i32(at)
        at += 4
        if packed <= 0 or packed > end - at:
            return int64(-1)
        got = _block(at, at + packed, to + filled, room - filled)
        if got < 0:
            return int64(-1)
        at, filled = at + packed, filled + got
    return filled if at == end else int64(-1)


@kernel
def _little(at: int, count: int) -> int:
    """Return the number of `count` bytes at `at`."""
    number = int64(0)
    for n in range(count):
        number |= u8(at + n) << (8 * n)
    return number


@inlined
def _size_of(at: int, end: int) -> tuple[int, int]:
    """Return the size of a block's content, and the address after it; 0 if it is malformed."""
    size, shift, stop = int64(0), int64(0), min(end, at + 5)
    while at < stop:
        byte = u8(at)
        at += 1
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return size, at
        shift += 7
    return int64(0), int64(0)


@inlined
def _repeat(to: int, offset: int, count: int) -> None:
    """Copy up to 64 bytes from `offset` bytes back. Overwrites up to 71 bytes from `to` on."""
    start, stop = to - offset, to + count
    if offset >= 16:
        move16(to, start)
        move16(to + 16, start + 16)
        if count > 32:
            move16(to + 32, start + 32)
            move16(to + 48, start + 48)
    else:
        while to - start < 8 and to < stop:  # the pattern doubles
            move8(to, start)
            to += to - start
        while to < stop:
            move8(to, start)
            to, start = to + 8, start + 8


@kernel
def _repeat_exactly(to: int, offset: int, count: int) -> None:
    for n in range(count):
        put8(to + n, u8(to + n - offset))


@kernel
def _block(at: int, end: int, to: int, room: int) -> int:  # noqa: C901 - registers
    """Decompress the block from `at` to `end`. Returns the number of bytes, or -1."""
    size, at = _size_of(at, end)
    if at == 0 or size > room:
        return int64(-1)
    start, stop, brim = to, to + size, to + room - _WIDE
    while at < end:
        tag = u8(at)
        at += 1
        if tag & 3 == 0:
            count = (tag >> 2) + 1
            if count <= 16 and end - at >= 16 and to <= brim:
                move16(to, at)
            else:
                if count > _LONGEST_TAGGED:
                    more = count - _LONGEST_TAGGED
                    if end - at < 4:  # the library reads four bytes in any case
                        return int64(-1)
                    count = _little(at, more) + 1
                    at += more
                if count > end - at or count > stop - to:
                    return int64(-1)
                copy(to, at, count)
            at += count
        else:
            left = end - at
            if left < 4:
                near = _little(at, left)
            else:
                near = u8(at) | u8(at + 1) << 8 | u8(at + 2) << 16 | u8(at + 3) << 24
            if tag & 3 == 1:
                count, offset, at = 4 + (tag >> 2 & 7), (tag >> 5) << 8 | near & 0xFF, at + 1
            else:
                count, offset, at = (tag >> 2) + 1, near & 0xFFFF, at + 2
                if tag & 3 == 3:
                    offset, at = near, at + 2
            if offset == 0 or offset > to - start or at > end:
                return int64(-1)
            if to <= brim:
                _repeat(to, offset, count)
            elif count <= stop - to:
                _repeat_exactly(to, offset, count)
            else:
                return int64(-1)
        to += count
    return size if to == stop else int64(-1)
