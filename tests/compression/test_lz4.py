"""LZ4 frames as Kafka's Lz4BlockInputStream reads them."""

from __future__ import annotations

import lz4.frame
import pytest

from kafkats.compression import lz4 as kafka_lz4
from kafkats.compression.lz4 import xxhash32
from kafkats.errors import CorruptBatch

LIMIT = 16 << 20
PLAIN = b"offset position " * 20_000
FRAME = kafka_lz4.compress(memoryview(PLAIN))
SMALL = kafka_lz4.compress(memoryview(b"Kafka " * 20))


def read(data: bytes, limit: int = LIMIT, *, check_header: bool = True) -> bytes:
    return kafka_lz4.decompress(memoryview(data), limit, check_header=check_header)


def _refused(data: bytes, reason: str) -> None:
    with pytest.raises(CorruptBatch, match=reason):
        read(data)


@pytest.mark.parametrize(
    ("data", "digest"),
    [(b"", 0x02CC5D05), (b"a", 0x550D7456), (b"abc", 0x32D153FF), (b"Nobody inspects the spammish repetition", 0xE2293B2F)],
)  # fmt: skip
def test_xxhash32(data: bytes, digest: int) -> None:
    assert xxhash32(data) == digest


def test_the_lz4_library_reads_ours() -> None:
    assert lz4.frame.decompress(FRAME) == PLAIN


@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
@pytest.mark.parametrize("block_checksum", [False, True])
@pytest.mark.parametrize("content_checksum", [False, True])
@pytest.mark.parametrize("store_size", [False, True])
def test_frames_of_the_lz4_library(
    block_size: int, block_checksum: bool, content_checksum: bool, store_size: bool
) -> None:
    frame = lz4.frame.compress(
        PLAIN,
        block_size=block_size,
        block_linked=False,
        block_checksum=block_checksum,
        content_checksum=content_checksum,
        store_size=store_size,
    )
    assert read(frame) == PLAIN


def test_blocks_that_do_not_shrink_are_stored() -> None:
    frame = kafka_lz4.compress(memoryview(bytes(range(256))))
    assert frame[7:11] == (256 | 0x8000_0000).to_bytes(4, "little")
    assert read(frame) == bytes(range(256))


def test_linked_blocks_are_refused() -> None:
    _refused(lz4.frame.compress(PLAIN, block_size=4, block_linked=True), "independent blocks")


@pytest.mark.parametrize(("at", "value", "reason"), [
    (0, 5, "no lz4 frame header"),
    (4, 0x20, "flags 0x20"),
    (4, 0x61, "flags 0x61"),
    (5, 0x30, "block size byte"),
    (5, 0x41, "block size byte"),
    (5, 0xC0, "block size byte"),
    (6, 0x1A, "header checksum 0x1a"),
])  # fmt: skip
def test_headers_that_are_refused(at: int, value: int, reason: str) -> None:
    damaged = bytearray(SMALL)
    damaged[at] = value
    _refused(bytes(damaged), reason)


def test_any_header_checksum_where_it_is_ignored() -> None:
    for value in range(256):
        assert read(SMALL[:6] + bytes((value,)) + SMALL[7:], check_header=False) == b"Kafka " * 20


def test_cut_at_every_byte() -> None:
    for cut in range(len(SMALL)):
        _refused(SMALL[:cut], "lz4")


def test_what_follows_the_end_mark_is_ignored() -> None:
    assert read(SMALL + SMALL + b"junk") == b"Kafka " * 20
    assert read(SMALL[:-4] + b"\0\0\0\x80") == b"Kafka " * 20


def test_block_checksums_are_verified() -> None:
    frame = bytearray(lz4.frame.compress(PLAIN, block_linked=False, block_checksum=True))
    frame[-5] ^= 1
    _refused(bytes(frame), "checksum of a block")


def test_a_missing_content_checksum() -> None:
    frame = lz4.frame.compress(PLAIN, block_linked=False, content_checksum=True)
    assert read(frame[:-4] + b"\1\2\3\4") == PLAIN
    _refused(frame[:-1], "end mark")


def test_blocks_too_large() -> None:
    _refused(SMALL[:7] + (65537).to_bytes(4, "little") + bytes(65537), "at most 65536")


def test_a_block_that_does_not_decode() -> None:
    _refused(SMALL[:11] + b"\xff" * (len(SMALL) - 15) + SMALL[-4:], "lz4: ")


def test_the_limit_is_exact() -> None:
    assert read(FRAME, len(PLAIN)) == PLAIN
    with pytest.raises(CorruptBatch, match="more than 319999 bytes"):
        read(FRAME, len(PLAIN) - 1)
