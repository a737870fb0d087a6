"""Compress and decompress with Kafka's codecs: none, gzip, snappy, lz4, zstd.

Each codec's module describes the framing that Kafka's Java classes write and what their readers
accept; the user page is docs/formats/compression.md. Decompression never returns more than
`max_output_bytes`, because 1 MiB can expand to terabytes. It allocates memory in steps.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Final

from kafkats.compression import gzip, lz4, snappy, zstd
from kafkats.compression.limit import MAX_OUTPUT_BYTES, allowed
from kafkats.errors import BadInput, CorruptBatch
from kafkats.primitives import Buffer, view

__all__ = ["MAX_OUTPUT_BYTES", "Codec", "compress", "decompress"]


class Codec(IntEnum):
    """The lowest three attribute bits of every magic."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_COMPRESS: Final[dict[int, Callable[[memoryview], bytes]]] = {
    Codec.NONE: bytes,
    Codec.GZIP: gzip.compress,
    Codec.SNAPPY: snappy.compress,
    Codec.LZ4: lz4.compress,
    Codec.ZSTD: zstd.compress,
}
_DECOMPRESS: Final[dict[int, Callable[[memoryview, int], bytes]]] = {
    Codec.GZIP: gzip.decompress,
    Codec.SNAPPY: snappy.decompress,
    Codec.LZ4: lz4.decompress,
    Codec.ZSTD: zstd.decompress,
}


def compress(codec: int, data: Buffer, *, broken_lz4: bool = False) -> bytes:
    """Return `data` in the framing of Kafka's Java clients and brokers, at default levels.

    `broken_lz4` writes the lz4 header checksum of magic 0. Raises BadInput for an unknown codec.
    """
    if codec not in _COMPRESS:
        raise BadInput(f"codec {codec} is not one of none, gzip, snappy, lz4, zstd")
    if codec == Codec.LZ4 and broken_lz4:
        return lz4.compress(view(data), broken_header=True)
    return _COMPRESS[codec](view(data))


def decompress(
    codec: int, data: Buffer, *, broken_lz4: bool = False, max_output_bytes: int | None = None
) -> bytes:
    """Return the decompressed content of `data`, with the leniency of Kafka's readers and no more.

    `broken_lz4` ignores the lz4 header checksum, as readers of magic 0 must. `max_output_bytes`
    defaults to `compression.limit.allowed()`. Raises CorruptBatch without a position for malformed
    data and for an unknown codec. Raises OversizedBatch for output beyond `max_output_bytes`.
    """
    most = allowed() if max_output_bytes is None else max_output_bytes
    if codec == Codec.NONE:
        return bytes(view(data))
    if codec not in _DECOMPRESS:
        raise CorruptBatch(f"codec {codec} is unknown")
    if codec == Codec.LZ4 and broken_lz4:
        return lz4.decompress(view(data), most, check_header=False)
    return _DECOMPRESS[codec](view(data), most)
