"""zstd as zstd-jni writes and reads it (RFC 8878); magic 2 only, since Kafka 2.1 (KIP-110).

Written: level 3, no content size, no checksum. Kafka flushes the stream before it closes it, so every frame ends with
an empty raw block, 01 00 00: compress, flush a block, finish gives the same bytes (with the same zstd version), a
one-shot compressor does not. Read: several frames in a row, skippable ones too; no bytes at all are no output. A first
frame that does not end is corrupt, and so is what is no frame after one; a later frame cut short is a quiet end (zstd-jni
1.5 takes it so, as long as it has read all its input). Windows up to 128 MiB, zstd's own limit.
"""

from __future__ import annotations

from typing import Final

import zstandard

from kafkats.codecs.limit import Output
from kafkats.errors import CorruptBatch

LEVEL: Final = 3
_STEP: Final = 512
"""Bytes read at a time. A block can hold 128 KiB in 4 bytes, so one step puts out at most 16 MiB beyond the limit."""


def compress(data: memoryview) -> bytes:
    """One frame, ending in the empty raw block."""
    if not data:
        # zstd-jni, closed before any byte came, knows and writes the content size: 0.
        return zstandard.ZstdCompressor(level=LEVEL).compress(b"")
    stream = zstandard.ZstdCompressor(level=LEVEL, write_content_size=False, write_checksum=False).compressobj()
    return stream.compress(data) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) + stream.flush()


def decompress(data: memoryview, max_output_bytes: int) -> bytes:
    """All frames of `data`. Raises CorruptBatch."""
    output = Output(max_output_bytes)
    pos = 0
    while pos < len(data):
        pos = _read_frame(data, pos, output)
    return output.join()


def _read_frame(data: memoryview, pos: int, output: Output) -> int:
    """Add the frame at `pos`; returns the position after it."""
    frame = zstandard.ZstdDecompressor().decompressobj()
    began = pos
    while not frame.eof:
        step = data[pos : pos + _STEP]
        if not step:
            if began:
                return pos
            raise CorruptBatch("zstd: the bytes end inside a frame")
        try:
            output.add(frame.decompress(step))
        except zstandard.ZstdError as e:
            raise CorruptBatch(f"zstd: {e}") from e
        pos += len(step)
    return pos - len(frame.unused_data)
