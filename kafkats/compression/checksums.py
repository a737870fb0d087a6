"""CRC-32 (magic 0 and 1) and CRC-32C (magic 2), for Python and as C functions for the kernels.

Two wheels carry C libraries with exported functions; the signatures differ:

    deflate   uint32 libdeflate_crc32(uint32 init, const uint8 *bytes, size_t length)
                  init 0, result final
    isal      uint32 crc32_gzip_refl(uint32 init, const uint8 *bytes, uint64 length)
                  the same, but slower on large batches
              uint32 crc32_iscsi(uint8 *bytes, int length, uint32 init)
                  init 0xffffffff, result to be inverted

They are used only if they exist and return the known answers. Otherwise the kernels compile their
own functions.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from deflate import _deflate
from isal import isal_zlib

if TYPE_CHECKING:
    from typing_extensions import Buffer

CRC32_OF_DIGITS: Final = 0xCBF43926
"""CRC-32 of b"123456789": the published check value."""
CRC32C_OF_DIGITS: Final = 0xE3069283
"""CRC-32C of b"123456789": the published check value."""
_DIGITS: Final = b"123456789"
_LONGER: Final = bytes(7 * i & 255 for i in range(1000))
"""A longer input. The functions process many bytes per step; nine bytes test only the last step."""
_KNOWN: Final = (
    (_DIGITS, CRC32_OF_DIGITS, CRC32C_OF_DIGITS),
    (_LONGER, 0x114AD5FF, 0x79A16AE6),
)
"""Inputs, and their CRC-32 and CRC-32C."""


class Addresses(NamedTuple):
    """Addresses in this process of the two C functions, with the signatures of ISA-L."""

    crc32: int
    crc32c: int


def crc32(data: Buffer) -> int:
    """Return the CRC-32 of `data`, unsigned.

    Magic 0 and 1 store it, from the magic byte to the end.
    """
    return isal_zlib.crc32(data)


def crc32c(data: Buffer) -> int:
    """Return the CRC-32C of `data`, unsigned. Magic 2 stores it, from the attributes to the end."""
    from crc32c import crc32c as checksum  # its package reads metadata, which takes 25 ms

    return cast(int, checksum(data))


@cache
def library_addresses() -> Addresses | None:
    """Return the addresses of both functions, each from the first library that has it.

    Returns None if one is missing or fails the known-answer test.
    """
    crc32_at = _of_deflate() or _address(isal_zlib.__file__, "crc32_gzip_refl")
    addresses = Addresses(crc32_at, _address(isal_zlib.__file__, "crc32_iscsi"))
    return addresses if all(addresses) and answers(addresses) else None


def crc32_library() -> str:
    """Return the library that `library_addresses` takes CRC-32 from."""
    return "deflate" if _of_deflate() else "isal, slower on large batches"


def _of_deflate() -> int:
    return _address(_deflate.__file__, "libdeflate_crc32")


def _address(library: str | None, name: str) -> int:
    """Return the address of the function, or 0 if the library lacks it."""
    try:
        return ctypes.cast(ctypes.CDLL(library)[name], ctypes.c_void_p).value or 0
    except (OSError, AttributeError, TypeError):
        return 0


def answers(addresses: Addresses) -> bool:
    """Return whether both functions give the known values."""
    refl = _REFL(addresses.crc32)
    iscsi = _ISCSI(addresses.crc32c)
    for data, wanted, wanted_c in _KNOWN:
        buffer = ctypes.create_string_buffer(data, len(data))
        if refl(0, buffer, len(data)) != wanted:
            return False
        if iscsi(buffer, len(data), 0xFFFFFFFF) ^ 0xFFFFFFFF != wanted_c:
            return False
    return True


_REFL: Final = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint64)
_ISCSI: Final = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32)
