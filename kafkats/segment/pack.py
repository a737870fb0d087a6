"""Compress into a given buffer, with exactly the bytes of `kafkats.compression`.

A short cut calls the same library with a reused context, and the library writes directly into the
buffer. `kafkats.compression` compresses instead, and its bytes are copied, if a library does not
export the functions or does not give the same bytes in a trial.

    gzip     deflate of the zlib that Python's own module is linked with, by address
    snappy   cramjam, as `kafkats.compression` calls it
    lz4      LZ4_compress_default of the lz4 wheel, by address; for kernels
    zstd     ZSTD_compressStream2 of the zstandard wheel, by address
"""

from __future__ import annotations

import ctypes
import struct
import weakref
import zlib
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

import cramjam

from kafkats.compression import Codec, compress, gzip, snappy, zstd
from kafkats.compression.checksums import crc32
from kafkats.primitives import INT32
from kafkats.segment.unpack import ZSTD, exported, exported_lz4

if TYPE_CHECKING:
    from ctypes import _CArgObject, _NamedFuncPointer

_TRAILER: Final = struct.Struct("<II")
_EVERYTHING: Final = ctypes.c_uint8 * 2**46
"""One type for views of any size, because ctypes creates a new type for every length."""


def bytes_at(address: int, size: int) -> memoryview:
    """Return a view of memory, format B; the owner of the memory must stay alive."""
    return memoryview(_EVERYTHING.from_address(address)).cast("B")[:size]


class Packer:
    """Reuses compression contexts; use one per thread."""

    def __init__(self) -> None:
        self._deflate: _Stream | None = None
        self._zstd = 0

    def pack(
        self, codec: int, source: int, size: int, into: int, room: int, *, broken_lz4: bool = False
    ) -> int:
        """Compress `size` bytes at address `source` to address `into`, which has `room` bytes.

        Returns the compressed size, or -1 if it exceeds `room`.
        """
        short_cut = _SHORT_CUTS.get(codec)
        if short_cut is not None and size:
            packed_size = short_cut(self, source, size, into, room)
            if packed_size >= 0:
                return packed_size
        packed = compress(codec, bytes_at(source, size), broken_lz4=broken_lz4)
        if len(packed) > room:
            return -1
        ctypes.memmove(into, packed, len(packed))
        return len(packed)

    def _gzip(self, source: int, size: int, into: int, room: int) -> int:
        library = deflate_functions()
        if library is None or size > _MOST:
            return -1
        stream = self._deflate
        if stream is None:
            stream = self._deflate = _begin(library)
            weakref.finalize(self, library.end, ctypes.byref(stream))
        head, tail = len(gzip.HEADER), _TRAILER.size
        library.reset(ctypes.byref(stream))
        stream.next_in, stream.avail_in = source, size
        stream.next_out, stream.avail_out = into + head, max(0, min(room - head - tail, _MOST))
        if library.deflate(ctypes.byref(stream), _FINISH) != _STREAM_END:
            return -1
        packed = stream.total_out
        ctypes.memmove(into, gzip.HEADER, head)
        _TRAILER.pack_into(
            bytes_at(into + head + packed, tail), 0, crc32(bytes_at(source, size)), size
        )
        return int(head + packed + tail)

    def _snappy(self, source: int, size: int, into: int, room: int) -> int:
        plain, packed, filled = bytes_at(source, size), bytes_at(into, room), len(snappy.HEADER)
        packed[:filled] = snappy.HEADER
        for start in range(0, size, snappy.BLOCK_BYTES):
            block = plain[start : start + snappy.BLOCK_BYTES]
            # snappy's own bound, and the length
            if room - filled < 40 + len(block) + len(block) // 6:
                return -1
            got = cramjam.snappy.compress_raw_into(block, packed[filled + 4 :])
            INT32.pack_into(packed, filled, got)
            filled += 4 + got
        return filled

    def _zstd_frame(self, source: int, size: int, into: int, room: int) -> int:
        library = zstd_functions()
        if library is None:
            return -1
        if not self._zstd:
            self._zstd = _new_context(library)
            weakref.finalize(self, library.free, self._zstd)
        return _zstd_frame(library, self._zstd, source, size, into, room)


_SHORT_CUTS: Final[dict[int, Callable[[Packer, int, int, int, int], int]]] = {
    Codec.GZIP: Packer._gzip,
    Codec.SNAPPY: Packer._snappy,
    Codec.ZSTD: Packer._zstd_frame,
}


# lz4


@cache
def lz4_compress_default() -> Callable[[int, int, int, int], int] | None:
    """Return `int LZ4_compress_default(source, destination, size, room)`.

    Returns None if the function is not exported or gives other bytes.
    """
    function = exported_lz4("LZ4_compress_default")
    if function is None:
        return None
    return function if all(_gives_our_lz4(function, trial) for trial in _trials()) else None


def _gives_our_lz4(function: _NamedFuncPointer, trial: bytes) -> bool:
    room = ctypes.create_string_buffer(len(trial) + 1024)
    size = function(trial, room, len(trial), len(room))
    return room.raw[:size] == compress(Codec.LZ4, trial)[11:-4]


@cache
def _trials() -> tuple[bytes, ...]:
    """Return text with near and far repetitions, short, medium, and a whole block.

    Versions and settings of a library differ on such input.
    """
    words = b"".join(b"%x,%d;" % (n * n * 2654435761 % 2**32, n % 97) for n in range(7000))
    return words[:100], words[:4000], words[: 64 * 1024]


# gzip: zlib.h


class _Stream(ctypes.Structure):
    """z_stream."""

    _fields_ = (
        ("next_in", ctypes.c_void_p),
        ("avail_in", ctypes.c_uint),
        ("total_in", ctypes.c_ulong),
        ("next_out", ctypes.c_void_p),
        ("avail_out", ctypes.c_uint),
        ("total_out", ctypes.c_ulong),
        ("msg", ctypes.c_char_p),
        ("state", ctypes.c_void_p),
        ("zalloc", ctypes.c_void_p),
        ("zfree", ctypes.c_void_p),
        ("opaque", ctypes.c_void_p),
        ("data_type", ctypes.c_int),
        ("adler", ctypes.c_ulong),
        ("reserved", ctypes.c_ulong),
    )


class Deflate(NamedTuple):
    """Functions of zlib; each takes a z_stream."""

    init: Callable[..., int]
    reset: Callable[[_CArgObject], int]
    deflate: Callable[[_CArgObject, int], int]
    end: Callable[[_CArgObject], int]


_FINISH: Final = 4
_STREAM_END: Final = 1
_MOST: Final = 2**31 - 1


@cache
def deflate_functions() -> Deflate | None:
    """Return the functions of the library behind Python's zlib.

    Returns None if they are not exported or give other bytes.
    """
    functions = [
        exported("zlib", name)
        for name in ("deflateInit2_", "deflateReset", "deflate", "deflateEnd")
    ]
    if None in functions:
        return None
    library = Deflate(*functions)  # type: ignore[arg-type]
    return library if all(_gives_our_gzip(library, trial) for trial in _trials()) else None


def _gives_our_gzip(library: Deflate, trial: bytes) -> bool:
    stream = _begin(library)
    if stream.state is None:
        return False
    into = ctypes.create_string_buffer(len(trial) + 1024)
    stream.next_in, stream.avail_in = (
        ctypes.cast(ctypes.c_char_p(trial), ctypes.c_void_p),
        len(trial),
    )
    stream.next_out, stream.avail_out = ctypes.addressof(into), len(into)
    ended = library.deflate(ctypes.byref(stream), _FINISH) == _STREAM_END
    same = (
        ended and into.raw[: stream.total_out] == compress(Codec.GZIP, trial)[len(gzip.HEADER) : -8]
    )
    library.end(ctypes.byref(stream))
    return same


def _begin(library: Deflate) -> _Stream:
    stream = _Stream()
    version = zlib.ZLIB_RUNTIME_VERSION.encode()
    library.init(
        ctypes.byref(stream),
        -1,
        zlib.DEFLATED,
        -zlib.MAX_WBITS,
        8,
        0,
        version,
        ctypes.sizeof(_Stream),
    )
    return stream


# zstd: zstd.h


class _Bytes(ctypes.Structure):
    """ZSTD_inBuffer and ZSTD_outBuffer."""

    _fields_ = (("start", ctypes.c_void_p), ("size", ctypes.c_size_t), ("pos", ctypes.c_size_t))


class Zstd(NamedTuple):
    """Functions of libzstd; each takes a context."""

    create: Callable[[], int]
    free: Callable[[int], int]
    reset: Callable[[int, int], int]
    set: Callable[[int, int, int], int]
    stream: Callable[[int, _CArgObject, _CArgObject, int], int]


_LEVEL, _CONTENT_SIZE, _CHECKSUM = 100, 200, 201  # ZSTD_cParameter
_SESSION_ONLY: Final = 1
_FLUSH, _END = 1, 2  # ZSTD_EndDirective


@cache
def zstd_functions() -> Zstd | None:
    """Return the functions of the zstandard wheel.

    Returns None if they are not exported or give other bytes.
    """
    context, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    functions = [
        exported(ZSTD, "ZSTD_createCCtx", context),
        exported(ZSTD, "ZSTD_freeCCtx", size, context),
        exported(ZSTD, "ZSTD_CCtx_reset", size, context, number),
        exported(ZSTD, "ZSTD_CCtx_setParameter", size, context, number, number),
        exported(ZSTD, "ZSTD_compressStream2", size, context, context, context, number),
    ]
    if None in functions:
        return None
    library = Zstd(*functions)  # type: ignore[arg-type]
    return library if all(_gives_our_zstd(library, trial) for trial in _trials()) else None


def _gives_our_zstd(library: Zstd, trial: bytes) -> bool:
    context = _new_context(library)
    into = ctypes.create_string_buffer(len(trial) + 1024)
    start = ctypes.cast(ctypes.c_char_p(trial), ctypes.c_void_p).value or 0
    sizes = [
        _zstd_frame(library, context, start, len(trial), ctypes.addressof(into), len(into))
        for _ in range(2)
    ]
    library.free(context)
    return into.raw[: max(sizes[1], 0)] == compress(Codec.ZSTD, trial)


def _new_context(library: Zstd) -> int:
    context = library.create()
    for parameter, value in ((_LEVEL, zstd.LEVEL), (_CONTENT_SIZE, 0), (_CHECKSUM, 0)):
        library.set(context, parameter, value)
    return context


def _zstd_frame(library: Zstd, context: int, source: int, size: int, into: int, room: int) -> int:
    """Compress, flush a block, finish, as Kafka does; this leaves an empty last block.

    Returns the compressed size, or -1 if it exceeds `room`.
    """
    given, taken = _Bytes(source, size, 0), _Bytes(into, room, 0)
    library.reset(context, _SESSION_ONLY)
    for step in (_FLUSH, _END):
        # bytes left to write, or an error
        if library.stream(context, ctypes.byref(taken), ctypes.byref(given), step):
            return -1
    return int(taken.pos)
