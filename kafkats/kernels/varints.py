"""Varints as in Java: zigzag, at most 5 or 10 bytes; bits above 32 or 64 are dropped."""

from __future__ import annotations

import numpy as np

from kafkats.kernels.jit import kernel
from kafkats.kernels.memory import put8, u8
from kafkats.kernels.numbers import int64


@kernel
def _long_varint(at: int, end: int) -> tuple[int, int]:
    raw, shift, stop = int64(0), int64(0), min(end, at + 5)
    while at < stop:
        byte = u8(at)
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            raw &= 0xFFFFFFFF
            return (raw >> 1) ^ -(raw & 1), at
        shift += 7
    return int64(0), int64(0)


@kernel
def _long_varlong(at: int, end: int) -> tuple[int, int]:
    raw, shift, stop = np.uint64(0), np.uint64(0), min(end, at + 10)
    while at < stop:
        byte = np.uint64(u8(at))
        at += 1
        raw |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            return int64(raw >> np.uint64(1)) ^ -int64(raw & np.uint64(1)), at
        shift += np.uint64(7)
    return int64(0), int64(0)


@kernel
def varint(at: int, end: int) -> tuple[int, int]:
    """Decode the varint at `at`. Returns its value and the address after it.

    The address is 0 if the varint does not end before `end` and within 5 bytes.
    """
    if end - at > 1:  # most take one or two bytes: small enough to inline into the loop
        byte = u8(at)
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), at + 1
        second = u8(at + 1)
        if second < 0x80:
            return ((byte & 0x7F) >> 1 | second << 6) ^ -(byte & 1), at + 2
    return _long_varint(at, end)


@kernel
def varlong(at: int, end: int) -> tuple[int, int]:
    """As varint, for 64 bits and at most 10 bytes."""
    if end - at > 1:
        byte = u8(at)
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), at + 1
        second = u8(at + 1)
        if second < 0x80:
            return ((byte & 0x7F) >> 1 | second << 6) ^ -(byte & 1), at + 2
    return _long_varlong(at, end)


@kernel
def varint_size(value: int) -> int:
    """Return the encoded size in bytes of a 32-bit or 64-bit number."""
    raw = (value << 1) ^ (value >> 63)
    size = 1
    while raw & ~0x7F:
        raw = (raw >> 7) & 0x01FFFFFFFFFFFFFF
        size += 1
    return size


@kernel
def put_varint(at: int, value: int) -> int:
    """Encode `value` at address `at`. Returns the address after it."""
    raw = (value << 1) ^ (value >> 63)
    while raw & ~0x7F:
        put8(at, (raw & 0x7F) | 0x80)
        raw = (raw >> 7) & 0x01FFFFFFFFFFFFFF
        at += 1
    put8(at, raw)
    return at + 1
