"""Addresses of CRC functions for the kernels: a library's, or our own if no library is usable.

Our own use slicing by 16 (tables of 16 x 256). They are called as C functions with ISA-L's
signatures.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from kafkats.compression.checksums import Addresses, answers, library_addresses
from kafkats.errors import KafkatsError
from kafkats.kernels.jit import entry, kernel
from kafkats.kernels.memory import u8
from kafkats.kernels.numbers import int64

_CRC32_POLYNOMIAL: Final = 0xEDB88320
_CRC32C_POLYNOMIAL: Final = 0x82F63B78
_SLICES: Final = 16


@cache
def crc_addresses() -> Addresses:
    """Return the functions for this process. The compiled fallback lives as long as the process."""
    addresses = library_addresses()
    return fallback_addresses() if addresses is None else addresses


@cache
def fallback_addresses() -> Addresses:
    """Return our own functions. Raises KafkatsError if they fail the known-answer test."""
    addresses = Addresses(own_crc32.address, own_crc32c.address)
    if not answers(addresses):
        raise KafkatsError("checksum functions give wrong answers on this machine")
    return addresses


def _table(polynomial: int) -> np.ndarray[tuple[int, int], np.dtype[np.uint32]]:
    table = np.zeros((_SLICES, 256), np.uint32)
    crc = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        crc = np.where(crc & 1, (crc >> 1) ^ np.uint32(polynomial), crc >> 1).astype(np.uint32)
    table[0] = crc
    for k in range(1, _SLICES):
        table[k] = (table[k - 1] >> 8) ^ table[0][table[k - 1] & 0xFF]
    return table


_CRC32: Final = _table(_CRC32_POLYNOMIAL)
_CRC32C: Final = _table(_CRC32C_POLYNOMIAL)


@kernel
def _slide(crc: np.uint32, at: int, n: int, table: npt.NDArray[np.uint32]) -> np.uint32:
    i = 0
    while n - i >= 16:
        first = np.uint32(crc) ^ (
            np.uint32(u8(at + i))
            | np.uint32(u8(at + i + 1)) << np.uint32(8)
            | np.uint32(u8(at + i + 2)) << np.uint32(16)
            | np.uint32(u8(at + i + 3)) << np.uint32(24)
        )
        crc = (
            table[15, first & np.uint32(255)]
            ^ table[14, (first >> np.uint32(8)) & np.uint32(255)]
            ^ table[13, (first >> np.uint32(16)) & np.uint32(255)]
            ^ table[12, first >> np.uint32(24)]
        )
        for k in range(4, 16):
            crc ^= table[15 - k, u8(at + i + k)]
        i += 16
    while i < n:
        crc = (np.uint32(crc) >> np.uint32(8)) ^ table[
            0, (crc ^ np.uint32(u8(at + i))) & np.uint32(255)
        ]
        i += 1
    return np.uint32(crc)


@entry
def own_crc32(init: int, start: int, length: int) -> int:
    """Return the CRC-32. A C caller passes `init` in 32 bits of a register, and reads 32 bits."""
    return int64(~_slide(~np.uint32(init), start, length, _CRC32))


@entry
def own_crc32c(start: int, length: int, init: int) -> int:
    """Return the CRC-32C. A C caller passes `length` and `init` in 32 bits of registers."""
    return int64(_slide(np.uint32(init), start, int64(np.int32(length)), _CRC32C))
