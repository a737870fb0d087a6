"""Decompress for the deep check: common forms by the fastest library, all others by `compression`.

A short cut accepts only what brokers and Java clients write. Data that it does not accept, or finds
defective, is passed to the readers of `kafkats.compression`. So these alone decide what is corrupt.

    gzip     one member without optional fields      isal's inflate, which also checks CRC and size
    snappy   blocks after one header                 our own kernel
    lz4      the frame of Kafka's own classes        LZ4_decompress_safe of the lz4 wheel,
                                                     by address
    zstd     whole frames and nothing else           ZSTD_decompressDCtx of the zstandard wheel,
                                                     by address
"""

from __future__ import annotations

import ctypes
import importlib.util
import weakref
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from kafkats.compression import Codec, decompress
from kafkats.kernels.lz4 import decompress_lz4
from kafkats.kernels.snappy import decompress_snappy
from kafkats.kernels.zstd import is_window_allowed

if TYPE_CHECKING:
    from ctypes import _NamedFuncPointer, _SimpleCData

ZSTD: Final = "zstandard._cffi"
"""The module whose library is libzstd."""
_ROOM: Final = 4 * 1024 * 1024
_GZIP_PLAIN: Final = bytes.fromhex("1f8b0800")
_ISAL_ERROR: Final[type[Exception]] = isal_zlib.error  # type: ignore[assignment]


class Unpacker:
    """Owns the buffer; a result is valid until the next call."""

    def __init__(self) -> None:
        self._buffer = np.empty(_ROOM, np.uint8)
        self.address = self._buffer.ctypes.data
        self._lz4_function: int | None = None
        self._zstd_context = 0

    def unpack(self, codec: int, data: memoryview, *, broken_lz4: bool) -> NDArray[np.uint8]:
        """Return the decompressed bytes, uint8 of shape (n,).

        Raises CorruptBatch as kafkats.compression.decompress.
        """
        size = self.short_cut(codec, data, broken_lz4)
        if size >= 0:
            return self._buffer[:size]
        return np.frombuffer(decompress(codec, data, broken_lz4=broken_lz4), np.uint8)

    def short_cut(self, codec: int, data: memoryview, broken_lz4: bool) -> int:
        """Return the number of decompressed bytes at `address`.

        Returns -1 if no short cut accepts the data; `unpack` then decompresses it.
        """
        way = _SHORT_CUTS.get(codec)
        return -1 if way is None else way(self, data, broken_lz4)

    def _gzip(self, data: memoryview, broken_lz4: bool) -> int:
        if data[:4] != _GZIP_PLAIN:
            return -1
        inflate = isal_zlib.decompressobj(31)
        try:
            plain = inflate.decompress(data, _ROOM)
        except _ISAL_ERROR:
            return -1
        if not inflate.eof or inflate.unused_data:
            return -1
        self._buffer[: len(plain)] = np.frombuffer(plain, np.uint8)
        return len(plain)

    def _snappy(self, data: memoryview, broken_lz4: bool) -> int:
        at = np.frombuffer(data, np.uint8).ctypes.data
        return int(decompress_snappy(at, len(data), self.address, _ROOM))

    def _lz4(self, data: memoryview, broken_lz4: bool) -> int:
        if self._lz4_function is None:
            self._lz4_function = address_of(lz4_decompress_safe())
        function, at = self._lz4_function, np.frombuffer(data, np.uint8).ctypes.data
        return int(decompress_lz4(function, at, len(data), broken_lz4, self.address, _ROOM))

    def _zstd(self, data: memoryview, broken_lz4: bool) -> int:
        zstd, source = zstd_functions(), np.frombuffer(data, np.uint8).ctypes.data
        if zstd is None or not is_window_allowed(source, len(data)):
            return -1
        if not self._zstd_context:  # threads must not share a context
            self._zstd_context = zstd.create()
            weakref.finalize(self, zstd.free, self._zstd_context)
        got = zstd.decompress(self._zstd_context, self.address, _ROOM, source, len(data))
        return got if got <= _ROOM else -1  # error codes are the highest numbers


_SHORT_CUTS: Final[dict[int, Callable[[Unpacker, memoryview, bool], int]]] = {
    Codec.GZIP: Unpacker._gzip,
    Codec.SNAPPY: Unpacker._snappy,
    Codec.LZ4: Unpacker._lz4,
    Codec.ZSTD: Unpacker._zstd,
}


@cache
def lz4_decompress_safe() -> Callable[[int, int, int, int], int] | None:
    """Return `int LZ4_decompress_safe(source, destination, size, room)`.

    Returns None if the function is not exported or fails a trial.
    """
    function = exported_lz4("LZ4_decompress_safe")
    if function is None:
        return None
    packed, room = b"\x50kafka", ctypes.create_string_buffer(16)
    right = (
        function(np.frombuffer(packed, np.uint8).ctypes.data, room, len(packed), 16) == 5
        and room.raw[:5] == b"kafka"
    )
    return function if right else None


class Zstd(NamedTuple):
    """Functions of libzstd.

    `create() -> context`, `size_t decompress(context, destination, room, source, size)`,
    `free(context)`.
    """

    create: Callable[[], int]
    decompress: Callable[[int, int, int, int, int], int]
    free: Callable[[int], int]


@cache
def zstd_functions() -> Zstd | None:
    """Return functions of the zstandard wheel; None if they are not exported or fail a trial."""
    pointer, number = ctypes.c_void_p, ctypes.c_size_t
    functions = [
        exported(ZSTD, "ZSTD_createDCtx", pointer),
        exported(ZSTD, "ZSTD_decompressDCtx", number, pointer, pointer, number, pointer, number),
        exported(ZSTD, "ZSTD_freeDCtx", number, pointer),
    ]
    if None in functions:
        return None
    zstd = Zstd(*functions)  # type: ignore[arg-type]
    packed = bytes.fromhex("28b52ffd2005290000") + b"kafka"
    room = ctypes.create_string_buffer(16)
    context = zstd.create()
    source = np.frombuffer(packed, np.uint8).ctypes.data
    got = zstd.decompress(context, ctypes.addressof(room), 16, source, len(packed))
    zstd.free(context)
    return zstd if got == 5 and room.raw[:5] == b"kafka" else None


def address_of(function: Callable[..., int] | None) -> int:
    """Return the address of a function of `exported`, 0 for none."""
    if function is None:
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]


def exported_lz4(name: str) -> _NamedFuncPointer | None:
    """Return `int name(source, destination, size, room)` of liblz4, or None."""
    pointer, number = ctypes.c_void_p, ctypes.c_int
    return exported("lz4.block._block", name, number, pointer, pointer, number, number)


def exported(
    module: str,
    name: str,
    result: type[_SimpleCData[Any]] | None = None,
    *arguments: type[_SimpleCData[Any]],
) -> _NamedFuncPointer | None:
    """Return the C function `name` that the extension module `module` exports, or None.

    Without `result` it takes what it is given, and returns an int. The module is not imported:
    zstandard's needs cffi for that. A module without a file is a part of Python (zlib in Debian's
    3.13): its libraries are those of the process.
    """
    try:
        spec = importlib.util.find_spec(module)
        if spec is None:
            return None
        function = ctypes.CDLL(spec.origin if spec.has_location else None)[name]
    except (ImportError, OSError, AttributeError):
        return None
    if result is not None:
        function.restype, function.argtypes = result, arguments
    return function
