"""xxHash32 with seed 0, which LZ4 frames use. No package in use here exports it."""

from __future__ import annotations

import struct
from typing import Final

_MASK: Final = 0xFFFF_FFFF
_P1, _P2, _P3, _P4, _P5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
_STRIPE: Final = struct.Struct("<4I")
_WORD: Final = struct.Struct("<I")


def xxhash32(data: bytes | memoryview) -> int:
    """Return the hash of `data`, unsigned."""
    pos = len(data) & ~15
    if pos:
        lanes = [_P1 + _P2, _P2, 0, -_P1]
        for words in _STRIPE.iter_unpack(data[:pos]):
            lanes = [
                _rotate(lane + word * _P2, 13) * _P1
                for lane, word in zip(lanes, words, strict=True)
            ]
        total = sum(_rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
    else:
        total = _P5
    total += len(data)
    while len(data) - pos >= _WORD.size:
        total = _rotate(total + _WORD.unpack_from(data, pos)[0] * _P3, 17) * _P4
        pos += _WORD.size
    for byte in data[pos:]:
        total = _rotate(total + byte * _P5, 11) * _P1
    total &= _MASK
    total = (total ^ total >> 15) * _P2 & _MASK
    total = (total ^ total >> 13) * _P3 & _MASK
    return total ^ total >> 16


def _rotate(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> 32 - bits) & _MASK
