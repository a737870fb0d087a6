"""gzip as GZIPInputStream reads it."""

from __future__ import annotations

import gzip as python_gzip
import zlib

import pytest

from kafkats.compression import gzip
from kafkats.errors import CorruptBatch

LIMIT = 1 << 20
PLAIN = b"Kafka " * 100
MEMBER = gzip.compress(memoryview(PLAIN))


def read(data: bytes, limit: int = LIMIT) -> bytes:
    return gzip.decompress(memoryview(data), limit)


def _with_fields(flags: int, fields: bytes) -> bytes:
    return MEMBER[:3] + bytes((flags,)) + MEMBER[4:10] + fields + MEMBER[10:]


def test_python_reads_ours_and_we_read_python() -> None:
    assert python_gzip.decompress(MEMBER) == PLAIN
    assert read(python_gzip.compress(PLAIN, 9)) == PLAIN


def test_several_members() -> None:
    assert read(MEMBER + gzip.compress(memoryview(b"")) + MEMBER) == PLAIN * 2


@pytest.mark.parametrize(
    "junk", [b"\0", b"junk" * 20, b"\x1f\x8b", b"\x1f\x8b\x07" + bytes(40), MEMBER[:9]]
)
def test_junk_after_a_member_is_ignored(junk: bytes) -> None:
    assert read(MEMBER + junk) == PLAIN


def test_a_second_member_must_be_whole() -> None:
    with pytest.raises(CorruptBatch, match="inside a member"):
        read(MEMBER + MEMBER[:-9])


def test_cut_at_every_byte() -> None:
    for cut in range(len(MEMBER)):
        with pytest.raises(CorruptBatch):
            read(MEMBER[:cut])


def test_optional_fields() -> None:
    assert read(_with_fields(4, b"\x03\x00abc")) == PLAIN
    assert read(_with_fields(8 | 16, b"name\0comment\0")) == PLAIN
    checksum = zlib.crc32(MEMBER[:3] + b"\2" + MEMBER[4:10]) & 0xFFFF
    assert read(_with_fields(2, checksum.to_bytes(2, "little"))) == PLAIN


@pytest.mark.parametrize(("flags", "fields"), [(2, b"\0\0"), (8, b""), (4, b"\xff\xff")])
def test_wrong_fields(flags: int, fields: bytes) -> None:
    with pytest.raises(CorruptBatch):
        read(
            _with_fields(flags, fields).replace(b"\0", b"\1")
            if flags == 8
            else _with_fields(flags, fields)
        )


@pytest.mark.parametrize("at", range(-8, 0))
def test_crc_and_size_are_verified(at: int) -> None:
    damaged = bytearray(MEMBER)
    damaged[at] ^= 1
    with pytest.raises(CorruptBatch, match="does not match"):
        read(bytes(damaged))


def test_deflate_errors_are_ours() -> None:
    with pytest.raises(CorruptBatch, match="gzip: "):
        read(MEMBER[:10] + b"\xff" * 30)


def test_the_limit_is_exact() -> None:
    assert read(MEMBER, len(PLAIN)) == PLAIN
    with pytest.raises(CorruptBatch, match="more than 599 bytes"):
        read(MEMBER, len(PLAIN) - 1)
    with pytest.raises(CorruptBatch, match="more than 600 bytes"):
        read(MEMBER * 2, len(PLAIN))


def test_input_and_output_of_many_steps() -> None:
    noise = b"".join(zlib.crc32(i.to_bytes(4, "big")).to_bytes(4, "big") for i in range(60_000))
    plain = noise + bytes(3 << 20) + noise
    assert read(gzip.compress(memoryview(plain)), 8 << 20) == plain
