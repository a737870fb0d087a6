"""zstd as zstd-jni writes and reads it (RFC 8878); magic 2 only, since Kafka 2.1 (KIP-110).

Written: level 3, no content size, no checksum. Kafka flushes the stream before it closes it, so
every frame ends with an empty raw block, 01 00 00. Compressing, flushing a block and finishing
gives the same bytes (with the same zstd version); a one-shot compressor does not.

Read: several frames in a row, also skippable ones. Empty input gives empty output. A first frame
that is cut short is corrupt. A later one that is cut short is a quiet end: zstd-jni 1.5 accepts it
once it has read all its input. Bytes after a frame that are not a frame are corrupt. Windows of up
to 128 MiB, zstd's own limit, are accepted.
"""

from __future__ import annotations

from typing import Final

import zstandard

from kafkats.compression.limit import Output
from kafkats.errors import CorruptBatch

LEVEL: Final = 3
_STEP: Final = 512
"""Bytes read at a time.

A 4-byte block can hold 128 KiB, so one step exceeds the limit by at most 16 MiB.
"""


def compress(data: memoryview) -> bytes:
    """Return one frame that ends with the empty raw block."""
    if not data:
        # zstd-jni writes content size 0 if it is closed before any byte is written.
        return zstandard.ZstdCompressor(level=LEVEL).compress(b"")
    stream = zstandard.ZstdCompressor(
        level=LEVEL, write_content_size=False, write_checksum=False
    ).compressobj()
    return stream.compress(data) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) + stream.flush()


def decompress(data: memoryview, max_output_bytes: int) -> bytes:
    """Return the content of all frames of `data`. Raises CorruptBatch."""
    output = Output(max_output_bytes)
    pos = 0
    while pos < len(data):
        pos = _read_frame(data, pos, output)
    return output.join()


def _read_frame(data: memoryview, pos: int, output: Output) -> int:
    """Add the frame at `pos`. Returns the position after it."""
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
