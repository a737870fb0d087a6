"""LZ4 frames as Kafka's own Java classes write and read them; all numbers are little-endian.

    frame = 04 22 4d 18 | flags | sizes | header checksum | block ... | 00 00 00 00
    block = size uint32 (top bit: not compressed) | bytes

Written: flags 0x60 (version 1, independent blocks, no checksums, no content size) and sizes 0x40
(64 KiB blocks). A block that does not shrink is stored uncompressed. The header checksum is bits 8
to 15 of xxHash32 over flags and sizes: 0x82. Magic 0 also hashes the frame's magic, which gives
0x1a (KAFKA-3160); its readers ignore this byte. No library writes such frames, so this module does.
The blocks come from the liblz4 build in cramjam, which compresses to the same bytes as lz4-java.
The PyPI package `lz4` does not, so it only decompresses.

Read, as by Lz4BlockInputStream: one frame with blocks up to 64 KiB, 256 KiB, 1 MiB or 4 MiB. Block
checksums are verified. Content size and content checksum are skipped. Bytes after the end mark are
ignored.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

import cramjam
from lz4 import block as lz4_block

from kafkats.compression.limit import Output
from kafkats.errors import CorruptBatch

MAGIC: Final = bytes.fromhex("04224d18")
BLOCK_BYTES: Final = 64 * 1024
_DESCRIPTOR: Final = bytes((0x60, 0x40))
_END_MARK: Final = bytes(4)
_SIZE: Final = struct.Struct("<I")
_STORED: Final = 0x8000_0000
_CONTENT_CHECKSUM, _CONTENT_SIZE, _BLOCK_CHECKSUM, _INDEPENDENT = 0x04, 0x08, 0x10, 0x20


class _Frame(NamedTuple):
    blocks_at: int
    max_block_bytes: int
    block_checksums: bool
    content_checksum: bool


def compress(data: memoryview, *, broken_header: bool = False) -> bytes:
    """Return one frame; with `broken_header` it has the header checksum of magic 0."""
    hashed = MAGIC + _DESCRIPTOR if broken_header else _DESCRIPTOR
    pieces = [MAGIC, _DESCRIPTOR, _header_checksum(hashed)]
    for start in range(0, len(data), BLOCK_BYTES):
        plain = bytes(data[start : start + BLOCK_BYTES])
        packed = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        stored = len(packed) >= len(plain)
        block = plain if stored else packed
        pieces += (_SIZE.pack(len(block) | (_STORED if stored else 0)), block)
    return b"".join((*pieces, _END_MARK))


def decompress(data: memoryview, max_output_bytes: int, *, check_header: bool = True) -> bytes:
    """Return the content of the frame up to its end mark. Raises CorruptBatch."""
    frame = _read_header(data, check_header)
    output = Output(max_output_bytes)
    pos = frame.blocks_at
    while True:
        size, pos = _read_uint32(data, pos)
        stored, size = bool(size & _STORED), size & ~_STORED
        if size == 0:
            if frame.content_checksum:
                _read_uint32(data, pos)
            return output.join()
        if size > frame.max_block_bytes:
            raise CorruptBatch(f"lz4: a block of {size} bytes, at most {frame.max_block_bytes}")
        block = data[pos : pos + size]
        pos += size
        if len(block) < size:
            raise CorruptBatch(f"lz4: a block of {size} bytes, {len(block)} left")
        if frame.block_checksums:
            checksum, pos = _read_uint32(data, pos)
            if checksum != xxhash32(block):
                raise CorruptBatch("lz4: the checksum of a block does not match")
        output.add(bytes(block) if stored else _decompress_block(block, frame.max_block_bytes))


def _decompress_block(block: memoryview, most: int) -> bytes:
    try:
        plain: bytes = lz4_block.decompress(block, uncompressed_size=most)
    except lz4_block.LZ4BlockError as e:
        raise CorruptBatch(f"lz4: {e}") from e
    return plain


def _read_header(data: memoryview, check: bool) -> _Frame:
    if len(data) < len(MAGIC) + 2 or data[: len(MAGIC)] != MAGIC:
        raise CorruptBatch("no lz4 frame header")
    flags, sizes = data[4], data[5]
    if flags >> 6 != 1 or not flags & _INDEPENDENT or flags & 0x03:
        raise CorruptBatch(
            f"lz4: flags {flags:#04x} are not those of independent blocks, version 1"
        )
    if not 4 <= sizes >> 4 <= 7 or sizes & 0x0F:
        raise CorruptBatch(f"lz4: block size byte {sizes:#04x}")
    checksum_at = 14 if flags & _CONTENT_SIZE else 6
    if len(data) <= checksum_at:
        raise CorruptBatch("lz4: the bytes end inside the frame header")
    if check and data[checksum_at : checksum_at + 1] != _header_checksum(
        data[len(MAGIC) : checksum_at]
    ):
        raise CorruptBatch(f"lz4: header checksum {data[checksum_at]:#04x} does not match")
    return _Frame(
        blocks_at=checksum_at + 1,
        max_block_bytes=1 << (8 + 2 * (sizes >> 4)),
        block_checksums=bool(flags & _BLOCK_CHECKSUM),
        content_checksum=bool(flags & _CONTENT_CHECKSUM),
    )


def _header_checksum(descriptor: bytes | memoryview) -> bytes:
    return bytes((xxhash32(descriptor) >> 8 & 0xFF,))


def _read_uint32(data: memoryview, pos: int) -> tuple[int, int]:
    if len(data) - pos < _SIZE.size:
        raise CorruptBatch("lz4: the bytes end before the end mark")
    return _SIZE.unpack_from(data, pos)[0], pos + _SIZE.size


_MASK: Final = 0xFFFF_FFFF
_P1, _P2, _P3, _P4, _P5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
_STRIPE: Final = struct.Struct("<4I")


def xxhash32(data: bytes | memoryview) -> int:
    """Return xxHash32 of `data` with seed 0, unsigned. No package in use here exports it."""
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
    while len(data) - pos >= _SIZE.size:
        total = _rotate(total + _SIZE.unpack_from(data, pos)[0] * _P3, 17) * _P4
        pos += _SIZE.size
    for byte in data[pos:]:
        total = _rotate(total + byte * _P5, 11) * _P1
    total &= _MASK
    total = (total ^ total >> 15) * _P2 & _MASK
    total = (total ^ total >> 13) * _P3 & _MASK
    return total ^ total >> 16


def _rotate(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> 32 - bits) & _MASK
