"""Integers, varints and nullable bytes."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkats import primitives as p
from kafkats.errors import CorruptBatch

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)


def at(data: bytes) -> memoryview:
    return memoryview(data)


@pytest.mark.parametrize(("value", "encoded"), [
    (0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (-65, "8101"), (300, "d804"),
    (2**31 - 1, "feffffff0f"), (-(2**31), "ffffffff0f"),
])  # fmt: skip
def test_varint_examples(value: int, encoded: str) -> None:
    data = bytes.fromhex(encoded)
    assert p.encode_varint(value) == data
    assert p.read_varint(at(data), 0) == p.read_varlong(at(data), 0) == (value, len(data))


@given(value=INT32)
def test_varint(value: int) -> None:
    encoded = p.encode_varint(value)
    assert p.read_varint(at(b"\xff" + encoded), 1) == (value, 1 + len(encoded))


@given(value=INT64)
def test_varlong(value: int) -> None:
    encoded = p.encode_varint(value)
    assert len(encoded) <= 10
    assert p.read_varlong(at(encoded), 0) == (value, len(encoded))


def test_longer_encodings_than_needed() -> None:
    assert p.read_varint(at(b"\x80\x80\x80\x80\x00"), 0) == (0, 5)
    assert p.read_varint(at(b"\xff\xff\xff\xff\x7f"), 0) == (-(2**31), 5)
    assert p.read_varlong(at(b"\x82" + b"\x80" * 8 + b"\x00"), 0) == (1, 10)
    assert p.read_varlong(at(b"\xff" * 9 + b"\x7f"), 0) == (-(2**63), 10)


@pytest.mark.parametrize(("data", "reason"), [
    (b"\xff" * 5, "more than 5"), (b"\xff" * 9, "more than 5"), (b"\xff" * 4, "inside a varint"), (b"", "inside a varint"),
])  # fmt: skip
def test_varints_that_do_not_end(data: bytes, reason: str) -> None:
    with pytest.raises(CorruptBatch, match=reason) as caught:
        p.read_varint(at(data), 0)
    assert caught.value.position == 0


def test_varlongs_that_do_not_end() -> None:
    with pytest.raises(CorruptBatch, match="more than 10"):
        p.read_varlong(at(b"\xff" * 10), 0)


def test_fixed_numbers() -> None:
    data = b"\0\xff\xff\xff\xfe"
    assert p.read_int32(at(data), 1) == (-2, 5)
    with pytest.raises(CorruptBatch, match="4 bytes of a number") as caught:
        p.read_int32(at(data), 2)
    assert caught.value.position == 2


@given(value=st.none() | st.binary(max_size=300))
def test_nullable_bytes(value: bytes | None) -> None:
    for encoded, read in (
        (p.encode_bytes(value), p.read_int32),
        (p.encode_varint_bytes(value), p.read_varint),
    ):
        length, pos = read(at(encoded), 0)
        assert p.read_bytes(at(encoded), pos, length) == (value, len(encoded))


def test_any_negative_length_is_null() -> None:
    assert p.read_bytes(at(b"abc"), 1, -7) == (None, 1)


def test_bytes_beyond_the_end() -> None:
    with pytest.raises(CorruptBatch, match="3 bytes of a key, value or header expected, 2 left"):
        p.read_bytes(at(b"abc"), 1, 3)


@given(value=st.integers(-(2**66), 2**66))
def test_wrap_int64(value: int) -> None:
    wrapped = p.wrap_int64(value)
    assert -(2**63) <= wrapped < 2**63
    assert (value - wrapped) % 2**64 == 0


def test_view_of_any_bytes(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"\x01\x02\x03\x04")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        for buf in (
            b"\x01\x02\x03\x04",
            bytearray(b"\x01\x02\x03\x04"),
            np.array([1, 2, 3, 4], np.uint8),
            mapped,
        ):
            with p.view(buf) as flat:
                assert (flat.format, flat.ndim, bytes(flat)) == ("B", 1, b"\x01\x02\x03\x04")
    assert p.view(memoryview(b"\0\0\0\1").cast("i")).nbytes == 4
