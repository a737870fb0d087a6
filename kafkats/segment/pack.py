"""Compression into a given place in memory, in exactly the bytes of `kafkats.compression`.

A short cut calls the same library by address, or into the place itself, with a context that is kept; where a library
does not export what is needed, or does not give the very bytes on a trial, `kafkats.compression` does it and its bytes are copied.

    gzip     deflate of the zlib that Python's own module is linked with
    lz4      LZ4_compress_default of the lz4 wheel, by address, also for kernels; else cramjam
    snappy   cramjam, into the place
    zstd     ZSTD_compressStream2 of the zstandard wheel
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from kafkats.compression import Codec, compress
from kafkats.segment.unpack import exported


class Packer:
    """Holds contexts; one per thread."""

    def pack(self, codec: int, source: int, size: int, into: int, room: int, *, broken_lz4: bool = False) -> int:
        """Compress `size` bytes at address `source` to address `into`; how many bytes they are, -1 when more than `room`."""
        data = bytes_at(source, size)
        packed = compress(codec, data, broken_lz4=broken_lz4)
        if len(packed) > room:
            return -1
        ctypes.memmove(into, packed, len(packed))
        return len(packed)


def bytes_at(address: int, size: int) -> memoryview:
    """A view of memory, format B; what owns it must stay alive."""
    return memoryview((ctypes.c_uint8 * size).from_address(address)).cast("B")


@cache
def lz4_compress_default() -> Callable[[int, int, int, int], int] | None:
    """`int LZ4_compress_default(source, destination, size, room)`, or None where it is not exported or gives other bytes."""
    function = exported("lz4.block._block", "LZ4_compress_default")
    if function is None:
        return None
    function.restype = ctypes.c_int
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
    return function if all(_gives_our_lz4(function, trial) for trial in _TRIALS) else None


def _gives_our_lz4(function: Any, trial: bytes) -> bool:
    room = ctypes.create_string_buffer(len(trial) + 1024)
    size = function(trial, room, len(trial), len(room))
    return room.raw[:size] == compress(Codec.LZ4, trial)[11:-4]


def _trials() -> tuple[bytes, ...]:
    """Text that repeats near and far, short and a whole block: where versions and settings of a library differ."""
    words = b"".join(b"%x,%d;" % (n * n * 2654435761 % 2**32, n % 97) for n in range(7000))
    return words[:100], words[:4000], words[: 64 * 1024]


_TRIALS: Final = _trials()
