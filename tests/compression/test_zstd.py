"""zstd as zstd-jni reads and writes it."""

from __future__ import annotations

import pytest
import zstandard

from kafkats.compression import zstd
from kafkats.errors import CorruptBatch

LIMIT = 32 << 20
PLAIN = b"offset position " * 2_000
FRAME = zstd.compress(memoryview(PLAIN))
SKIPPABLE = b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"


def read(data: bytes, limit: int = LIMIT) -> bytes:
    return zstd.decompress(memoryview(data), limit)


def test_frames_end_in_an_empty_raw_block() -> None:
    assert FRAME.endswith(b"\x01\0\0")
    assert zstandard.ZstdDecompressor().decompressobj().decompress(FRAME) == PLAIN


@pytest.mark.parametrize("checksum", [False, True])
def test_one_shot_frames(checksum: bool) -> None:
    assert (
        read(zstandard.ZstdCompressor(level=19, write_checksum=checksum).compress(PLAIN)) == PLAIN
    )


def test_several_frames() -> None:
    assert read(FRAME + zstd.compress(memoryview(b"")) + SKIPPABLE + FRAME) == PLAIN * 2


def test_no_bytes_are_no_output() -> None:
    assert read(b"") == b""


def test_cut_at_every_byte() -> None:
    for cut in range(1, len(FRAME)):
        with pytest.raises(CorruptBatch, match="inside a frame"):
            read(FRAME[:cut])


def test_a_later_frame_cut_short_ends_quietly() -> None:
    for cut in range(1, len(FRAME)):
        assert read(FRAME + FRAME[:cut]).startswith(PLAIN)


def test_junk_after_a_frame() -> None:
    with pytest.raises(CorruptBatch, match="zstd: "):
        read(FRAME + b"junk")


def test_windows_beyond_128_mib() -> None:
    with pytest.raises(CorruptBatch, match="zstd: "):
        read(b"\x28\xb5\x2f\xfd\x00" + bytes(((28 - 10) << 3,)) + b"\x01\0\0")


def test_the_limit_is_exact() -> None:
    assert read(FRAME, len(PLAIN)) == PLAIN
    with pytest.raises(CorruptBatch, match="more than 31999 bytes"):
        read(FRAME, len(PLAIN) - 1)
