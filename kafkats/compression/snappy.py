"""snappy in the framing of snappy-java ("xerial"), and raw snappy.

    stream = header | block ...
    header = 82 'SNAPPY' 00 | version int32 = 1 | oldest reader int32 = 1
    block  = size int32 | raw snappy                                              big-endian

Written: the header, even for empty data, and blocks of 32 KiB uncompressed (producers 0.8.2 to
0.10.2: 1 KiB). No Python wheel compresses a block to the bytes of the C++ library. Our blocks
decompress to the same data.

Read, as by SnappyInputStream: data without the magic is one raw block (some clients write this). A
header in place of a block size begins a concatenated stream. A stream cut inside a block size ends
quietly. Version fields are not checked.
"""

from __future__ import annotations

import struct
from typing import Final

import cramjam

from kafkats.compression.limit import Output
from kafkats.errors import CorruptBatch

MAGIC: Final = b"\x82SNAPPY\0"
HEADER: Final = MAGIC + struct.pack(">ii", 1, 1)
BLOCK_BYTES: Final = 32 * 1024
_SIZE: Final = struct.Struct(">I")
_HEADER_HEAD: Final = MAGIC[:4]


def compress(data: memoryview, block_bytes: int = BLOCK_BYTES) -> bytes:
    """Return the header, and blocks of `block_bytes` uncompressed bytes."""
    pieces = [HEADER]
    for start in range(0, len(data), block_bytes):
        block = bytes(cramjam.snappy.compress_raw(bytes(data[start : start + block_bytes])))
        pieces += (_SIZE.pack(len(block)), block)
    return b"".join(pieces)


def decompress(data: memoryview, max_output_bytes: int) -> bytes:
    """Return the content of all blocks, or of the one raw block. Raises CorruptBatch."""
    if not data:
        raise CorruptBatch("snappy: no bytes at all")
    output = Output(max_output_bytes)
    if len(data) < len(HEADER) or bytes(data[: len(MAGIC)]) != MAGIC:
        _add_raw(data, output)
        return output.join()
    pos = len(HEADER)
    while len(data) - pos >= _SIZE.size:
        if data[pos : pos + _SIZE.size] == _HEADER_HEAD:
            if len(data) - pos < len(HEADER):
                raise CorruptBatch(
                    "snappy: the bytes end inside the header of a concatenated stream"
                )
            if bytes(data[pos : pos + len(MAGIC)]) != MAGIC:
                break
            pos += len(HEADER)
            continue
        (size,) = _SIZE.unpack_from(data, pos)
        pos += _SIZE.size
        if size > len(data) - pos:
            raise CorruptBatch(f"snappy: a block of {size} bytes, {len(data) - pos} left")
        _add_raw(data[pos : pos + size], output)
        pos += size
    return output.join()


def _add_raw(block: memoryview, output: Output) -> None:
    raw = bytes(block)
    try:
        output.expect(cramjam.snappy.decompress_raw_len(raw))
        output.add(bytes(cramjam.snappy.decompress_raw(raw)))
    except cramjam.DecompressionError as e:
        raise CorruptBatch(f"snappy: {e}") from e
