"""snappy as snappy-java's SnappyInputStream reads it."""

from __future__ import annotations

import cramjam
import pytest

from kafkats.compression import snappy
from kafkats.errors import CorruptBatch

LIMIT = 1 << 20
PLAIN = bytes(range(256)) * 10
STREAM = snappy.compress(memoryview(PLAIN))


def read(data: bytes, limit: int = LIMIT) -> bytes:
    return snappy.decompress(memoryview(data), limit)


def test_raw() -> None:
    assert read(bytes(cramjam.snappy.compress_raw(PLAIN))) == PLAIN
    assert read(b"\0") == b""
    assert read(b"\x01\x00\x82") == b"\x82"


def test_no_bytes_at_all() -> None:
    with pytest.raises(CorruptBatch, match="no bytes"):
        read(b"")


def test_only_a_header_is_empty() -> None:
    assert snappy.compress(memoryview(b"")) == snappy.HEADER
    assert read(snappy.HEADER) == b""


def test_blocks_of_old_producers() -> None:
    small = snappy.compress(memoryview(PLAIN), block_bytes=1024)
    assert len(small) > len(STREAM)
    assert read(small) == PLAIN


def test_blocks_are_32_kib() -> None:
    plain = bytes(80_000)
    sizes, pos, stream = [], len(snappy.HEADER), snappy.compress(memoryview(plain))
    while pos < len(stream):
        size = int.from_bytes(stream[pos : pos + 4], "big")
        sizes.append(cramjam.snappy.decompress_raw_len(stream[pos + 4 : pos + 4 + size]))
        pos += 4 + size
    assert sizes == [32768, 32768, 80_000 - 65536]


def test_concatenated_streams() -> None:
    assert read(STREAM + STREAM + snappy.HEADER + STREAM) == PLAIN * 3


def test_a_cut_header_of_a_concatenated_stream() -> None:
    with pytest.raises(CorruptBatch, match="concatenated"):
        read(STREAM + snappy.HEADER[:15])


def test_a_wrong_header_of_a_concatenated_stream_ends_quietly() -> None:
    assert read(STREAM + snappy.HEADER[:6] + b"X" + snappy.HEADER[7:] + STREAM) == PLAIN


def test_versions_are_not_looked_at() -> None:
    assert read(snappy.MAGIC + bytes(8) + STREAM[16:]) == PLAIN


def test_cut_at_every_byte() -> None:
    blocks = snappy.compress(memoryview(PLAIN), block_bytes=1024)
    quiet = set()
    for cut in range(len(blocks)):
        try:
            found = read(blocks[:cut])
        except CorruptBatch:
            continue
        assert PLAIN.startswith(found)
        quiet.add(len(found))
    assert quiet == {0, 1024, 2048}


def test_a_block_longer_than_the_stream() -> None:
    with pytest.raises(CorruptBatch, match="block of 4294967295 bytes"):
        read(snappy.HEADER + b"\xff\xff\xff\xff\x00")


@pytest.mark.parametrize("claim", [b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff\x7f"])
def test_a_claimed_length_takes_no_memory(claim: bytes) -> None:
    with pytest.raises(CorruptBatch):
        read(claim + b"\0")


def test_the_limit_is_exact() -> None:
    assert read(STREAM, len(PLAIN)) == PLAIN
    with pytest.raises(CorruptBatch, match="more than 2559 bytes"):
        read(STREAM, len(PLAIN) - 1)
