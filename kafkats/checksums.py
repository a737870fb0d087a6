"""CRC-32 (magic 0 and 1) and CRC-32C (magic 2), for Python code and, as C functions by address, for the kernels.

The isal wheel carries ISA-L, whose two functions are exported but undocumented; note how their signatures differ:

    uint32 crc32_gzip_refl(uint32 init, const uint8 *bytes, uint64 length)     init 0, result final
    uint32 crc32_iscsi(uint8 *bytes, int length, uint32 init)                  init 0xffffffff, result to be inverted

They are used only when both are found and give the known answers; otherwise the kernels compile their own.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import crc32c as _crc32c
from isal import isal_zlib

if TYPE_CHECKING:
    from typing_extensions import Buffer

CRC32_OF_DIGITS: Final = 0xCBF43926
"""CRC-32 of b"123456789": the published check value."""
CRC32C_OF_DIGITS: Final = 0xE3069283
"""CRC-32C of b"123456789"."""
_DIGITS: Final = b"123456789"


class Addresses(NamedTuple):
    """Where two C functions with ISA-L's signatures begin in this process."""

    crc32: int
    crc32c: int


def crc32(data: Buffer) -> int:
    """CRC-32 of `data`, unsigned: what magic 0 and 1 store, over everything after the CRC field."""
    return isal_zlib.crc32(data)


def crc32c(data: Buffer) -> int:
    """CRC-32C of `data`, unsigned: what magic 2 stores, from the attributes to the end of the batch."""
    return cast(int, _crc32c.crc32c(data))


@cache
def library_addresses() -> Addresses | None:
    """ISA-L's two functions, or None where the wheel does not export them or they answer wrongly."""
    try:
        library = ctypes.CDLL(isal_zlib.__file__)
        found = Addresses(*(ctypes.cast(library[name], ctypes.c_void_p).value or 0 for name in _NAMES))
    except (OSError, AttributeError, TypeError):
        return None
    return found if answers(found) else None


def answers(addresses: Addresses) -> bool:
    """Whether both functions give the published check values."""
    refl = _REFL(addresses.crc32)
    iscsi = _ISCSI(addresses.crc32c)
    digits = ctypes.create_string_buffer(_DIGITS, len(_DIGITS))
    return bool(
        refl(0, digits, len(_DIGITS)) == CRC32_OF_DIGITS
        and iscsi(digits, len(_DIGITS), 0xFFFFFFFF) ^ 0xFFFFFFFF == CRC32C_OF_DIGITS
    )


_NAMES: Final = ("crc32_gzip_refl", "crc32_iscsi")
_REFL: Final = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint64)
_ISCSI: Final = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32)
