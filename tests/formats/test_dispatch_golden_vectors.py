"""Bytes that Kafka 4.1.1's own classes wrote, read by us and written by us.

Every vector holds in both directions. The snappy ones are short enough for that; longer blocks decode to the same,
but no wheel has the C++ compressor.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from kafkats.compression import Codec, compress, decompress
from kafkats.formats import dispatch, v0, v1, v2
from kafkats.formats.control import (
    ControlType,
    decode_control_type,
    decode_coordinator_epoch,
    encode_end_marker,
)
from kafkats.formats.model import Header, Record, TimestampType

T = 1700000000000
NONE, CREATE, APPEND = TimestampType.NONE, TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME

V0 = [Record(100, -1, NONE, b"k0", b"v0"), Record(101, -1, NONE, b"k1", b"v1")]
V1 = [Record(100, T + 5, CREATE, b"k0", b"v0"), Record(101, T, CREATE, b"k1", b"v1")]
NO_TIME = [r._replace(timestamp=-1) for r in V1]
APPENDED = [Record(50, T, APPEND, b"k0", b"v0"), Record(51, T, APPEND, b"k1", b"v1")]
HEADERS = [
    Record(5, T, CREATE, None, b"v", (Header("h", b"x"), Header("n", None))),
    Record(6, T - 1, CREATE, b"k", None),
]
KV = [Record(0, T, CREATE, b"k", b"v")]
COMMIT = [Record(42, T, CREATE, *encode_end_marker(ControlType.COMMIT, 9))]
ABORT = [Record(42, T, CREATE, *encode_end_marker(ControlType.ABORT, 9))]
MARKER = {
    "leader_epoch": 3,
    "producer_id": 77,
    "producer_epoch": 1,
    "transactional": True,
    "control": True,
}


class Vector(NamedTuple):
    name: str
    hex: str
    records: list[Record]
    encoded: bytes


# fmt: off
VECTORS = [
    Vector("A1 v0", "0000000000000064000000128697724c0000000000026b3000000002763000000000000000650000001257e7496e0000000000026b31000000027631",
           V0, v0.encode_batch(V0)),
    Vector("A1 v1", "00000000000000640000001a6985e25301000000018bcfe56805000000026b3000000002763000000000000000650000001aa5da6a6201000000018bcfe56800000000026b31000000027631",
           V1, v1.encode_batch(V1)),
    Vector("A1 v1 without time", "00000000000000640000001a0b430e730100ffffffffffffffff000000026b3000000002763000000000000000650000001ada3335510100ffffffffffffffff000000026b31000000027631",
           NO_TIME, v1.encode_batch(NO_TIME)),
    Vector("A2 v2", "0000000000000064000000470000000702170f2c710000000000010000018bcfe568050000018bcfe56805ffffffffffffffffffffffffffff0000000214000000046b300476300014000902046b3104763100",
           V1, v2.encode_batch(V1, leader_epoch=7)),
    Vector("A2 v2 without time", "000000000000006400000047000000070279f4ae59000000000001ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff0000000214000000046b300476300014000002046b3104763100",
           NO_TIME, v2.encode_batch(NO_TIME, leader_epoch=7)),
    Vector("A3 v0 lz4", "000000000000006500000051715c72310003ffffffff0000004304224d1860401a34000000120001009164000000128697724c0f0080026b300000000276060000020010651e004057e7496e0d00a000026b3100000002763100000000",
           V0, v0.encode_batch(V0, codec=Codec.LZ4)),
    Vector("A3 v1 lz4", "0000000000000065000000640f48e67f01030000018bcfe56805ffffffff0000004e04224d186040823f00000016000100f0061a6985e25301000000018bcfe56805000000026b30060010760600000200001d00501aa5da6a62090001260000160090026b3100000002763100000000",
           V1, v1.encode_batch(V1, codec=Codec.LZ4)),
    Vector("A3 v2 lz4", "00000000000000640000005600000007029df087030003000000010000018bcfe568050000018bcfe56805ffffffffffffffffffffffffffff0000000204224d186040821600008014000000046b300476300014000902046b310476310000000000",
           V1, v2.encode_batch(V1, codec=Codec.LZ4, leader_epoch=7)),
    Vector("A4 v1 gzip LogAppendTime", "0000000000000033000000539f3c807201090000018bcfe56800ffffffff0000003d1f8b08000000000000ff63608003a9c0880833460e0606c6eef34f3340224cd90620b2cc00aa8211a4aa412359044d952158952100d6b4271e4c000000",
           APPENDED, v1.encode_batch(APPENDED, codec=Codec.GZIP, log_append_time=T)),
    Vector("A5 COMMIT", "000000000000002a0000004200000003021a776cc30030000000000000018bcfe568000000018bcfe56800000000000000004d0001ffffffff000000012000000008000000010c00000000000900",
           COMMIT, v2.encode_batch(COMMIT, **MARKER)),
    Vector("A5 ABORT", "000000000000002a000000420000000302ee49ba8b0030000000000000018bcfe568000000018bcfe56800000000000000004d0001ffffffff000000012000000008000000000c00000000000900",
           ABORT, v2.encode_batch(ABORT, **MARKER)),
    Vector("A6 empty", "000000000000000a000000310000000302d91894b1000000000002ffffffffffffffff0000018bcfe56800000000000000004d00010000000400000000",
           [], v2.encode_batch([], base_offset=10, last_offset=12, max_timestamp=T, leader_epoch=3, producer_id=77, producer_epoch=1, base_sequence=4)),
    Vector("A7 v0", "00000000000000640000001056cf205f000000000001610000000131",
           [Record(100, -1, NONE, b"a", b"1")], v0.encode_batch([Record(100, -1, NONE, b"a", b"1")])),
    Vector("A7 v2", "00000000000000640000003affffffff028a4f76cd000000000000ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff00000001100000000261023100",
           [Record(100, -1, CREATE, b"a", b"1")], v2.encode_batch([Record(100, -1, CREATE, b"a", b"1")])),
    Vector("A8 headers", "0000000000000005000000480000000302c4ee48e10000000000010000018bcfe568000000018bcfe56800ffffffffffffffffffffffffffff000000021c0000000102760402680278026e010e000102026b0100",
           HEADERS, v2.encode_batch(HEADERS, leader_epoch=3)),
    Vector("A9 zstd", "0000000000000000000000460000000002af79f96d0004000000000000018bcfe568000000018bcfe56800ffffffffffffffffffffffffffff0000000128b52ffd005848000010000000026b027600010000",
           KV, v2.encode_batch(KV, codec=Codec.ZSTD, leader_epoch=0)),
    Vector("A9 snappy", "000000000000000000000050000000000208ee48690002000000000000018bcfe568000000018bcfe56800ffffffffffffffffffffffffffff0000000182534e415050590000000001000000010000000b092010000000026b027600",
           KV, v2.encode_batch(KV, codec=Codec.SNAPPY, leader_epoch=0)),
]

STREAMS = [
    (Codec.GZIP, b'{"use', "1f8b08000000000000ffab562a2d4e05002f54eb2905000000"),
    (Codec.SNAPPY, b'{"use', "82534e415050590000000001000000010000000705107b22757365"),
    (Codec.LZ4, b'{"use', "04224d18604082050000807b2275736500000000"),
    (Codec.ZSTD, b'{"use', "28b52ffd00582800007b22757365010000"),
    (Codec.GZIP, b"", "1f8b08000000000000ff03000000000000000000"),
    (Codec.SNAPPY, b"", "82534e41505059000000000100000001"),
    (Codec.LZ4, b"", "04224d1860408200000000"),
    (Codec.ZSTD, b"", "28b52ffd2000010000"),
]
# fmt: on


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v.name)
def test_decodes(vector: Vector) -> None:
    log = bytes.fromhex(vector.hex)
    assert [
        r for batch in dispatch.batches(log) for r in dispatch.records(log, batch)
    ] == vector.records


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v.name)
def test_encodes_to_the_same_bytes(vector: Vector) -> None:
    assert vector.encoded.hex() == vector.hex


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v.name)
def test_encoded_decodes_to_the_same(vector: Vector) -> None:
    (*batches,) = dispatch.batches(vector.encoded)
    assert [
        r for batch in batches for r in dispatch.records(vector.encoded, batch)
    ] == vector.records


@pytest.mark.parametrize(("codec", "plain", "packed"), STREAMS)
def test_streams(codec: Codec, plain: bytes, packed: str) -> None:
    assert compress(codec, plain).hex() == packed
    assert decompress(codec, bytes.fromhex(packed)) == plain


def test_lz4_of_magic_0_has_the_wrong_header_checksum() -> None:
    broken = "04224d1860401a050000807b2275736500000000"
    assert compress(Codec.LZ4, b'{"use', broken_lz4=True).hex() == broken
    assert decompress(Codec.LZ4, bytes.fromhex(broken), broken_lz4=True) == b'{"use'


def test_headers_of_the_special_batches() -> None:
    logs = {v.name: bytes.fromhex(v.hex) for v in VECTORS}
    (commit,), (empty,), (gzip,) = (
        dispatch.batches(logs[name])
        for name in ("A5 COMMIT", "A6 empty", "A4 v1 gzip LogAppendTime")
    )
    assert (commit.transactional, commit.control, commit.producer_id, commit.leader_epoch) == (
        True,
        True,
        77,
        3,
    )
    assert (empty.base_offset, empty.last_offset, empty.count, empty.size, empty.max_timestamp) == (
        10,
        12,
        0,
        61,
        T,
    )
    assert (gzip.last_offset, gzip.count, gzip.timestamp_type, gzip.max_timestamp) == (
        51,
        -1,
        APPEND,
        T,
    )


def test_markers() -> None:
    assert [decode_control_type(r.key) for r in COMMIT + ABORT] == [
        ControlType.COMMIT,
        ControlType.ABORT,
    ]
    assert {decode_coordinator_epoch(r.value) for r in COMMIT + ABORT} == {9}
