"""Addresses of CRC functions for the kernels: a library's, or our own if no library is usable.

Our own use slicing by 16 (tables of 16 x 256). numba compiles them as C functions with ISA-L's
signatures.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt
from numba import carray, cfunc, types
from numba.core.ccallback import CFunc

from kafkats.compression.checksums import Addresses, answers, library_addresses
from kafkats.errors import KafkatsError

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
    refl, iscsi = _compile()
    _KEPT.extend((refl, iscsi))
    if refl.address is None or iscsi.address is None:
        raise KafkatsError("checksum functions do not compile on this machine")
    addresses = Addresses(refl.address, iscsi.address)
    if not answers(addresses):
        raise KafkatsError("checksum functions give wrong answers on this machine")
    return addresses


_KEPT: Final[list[CFunc]] = []


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


def _compile() -> tuple[CFunc, CFunc]:
    from numba import njit

    def slide(
        crc: np.uint32, data: npt.NDArray[np.uint8], table: npt.NDArray[np.uint32]
    ) -> np.uint32:
        n, i = data.size, 0
        while n - i >= 16:
            first = np.uint32(crc) ^ (
                np.uint32(data[i])
                | np.uint32(data[i + 1]) << np.uint32(8)
                | np.uint32(data[i + 2]) << np.uint32(16)
                | np.uint32(data[i + 3]) << np.uint32(24)
            )
            crc = (
                table[15, first & np.uint32(255)]
                ^ table[14, (first >> np.uint32(8)) & np.uint32(255)]
                ^ table[13, (first >> np.uint32(16)) & np.uint32(255)]
                ^ table[12, first >> np.uint32(24)]
            )
            for k in range(4, 16):
                crc ^= table[15 - k, data[i + k]]
            i += 16
        while i < n:
            crc = (np.uint32(crc) >> np.uint32(8)) ^ table[0, (crc ^ data[i]) & np.uint32(255)]
            i += 1
        return np.uint32(crc)

    compiled: Callable[[np.uint32, npt.NDArray[np.uint8], npt.NDArray[np.uint32]], np.uint32]
    compiled = njit(slide, nogil=True)
    crc32_table, crc32c_table = _CRC32, _CRC32C

    def refl(init: int, start: types.CPointer, length: int) -> np.uint32:
        return ~compiled(~np.uint32(init), carray(start, length), crc32_table)

    def iscsi(start: types.CPointer, length: int, init: int) -> np.uint32:
        return compiled(np.uint32(init), carray(start, length), crc32c_table)

    data = types.CPointer(types.uint8)
    return (
        cfunc(types.uint32(types.uint32, data, types.uint64))(refl),
        cfunc(types.uint32(data, types.int32, types.uint32))(iscsi),
    )
