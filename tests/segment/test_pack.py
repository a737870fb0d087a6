"""Compression by address gives the very bytes of kafkats.compression."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkats.compression import Codec, compress
from kafkats.segment import pack
from kafkats.segment.pack import Packer

PACKED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
SHARED = Packer()


def packed(
    packer: Packer, codec: Codec, plain: bytes, room: int, *, broken_lz4: bool = False
) -> bytes | None:
    source, into = np.frombuffer(plain + b"\0", np.uint8), np.full(room + 8, 0xA5, np.uint8)
    size = packer.pack(
        codec, source.ctypes.data, len(plain), into.ctypes.data, room, broken_lz4=broken_lz4
    )
    assert (into[room:] == 0xA5).all()  # nothing behind the room
    return None if size < 0 else into[:size].tobytes()


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("size", [0, 1, 31, 1000, 32 * 1024, 32 * 1024 + 1, 64 * 1024 + 1, 300_000])
def test_text_and_noise(codec: Codec, size: int) -> None:
    chance = random.Random(size)
    for plain in ((b"some text, %d; " % size * size)[:size], chance.randbytes(size), bytes(size)):
        for magic_0 in (False, True):
            expected = compress(codec, plain, broken_lz4=magic_0)
            assert (
                packed(SHARED, codec, plain, size + size // 5 + 1024, broken_lz4=magic_0)
                == expected
            )


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(PACKED), st.lists(st.binary(max_size=40), max_size=9), st.integers(1, 50))
def test_anything(codec: Codec, parts: list[bytes], times: int) -> None:
    plain = b"".join(parts) * times
    assert packed(SHARED, codec, plain, 2 * len(plain) + 1024) == compress(codec, plain)


@pytest.mark.parametrize("codec", PACKED)
def test_no_room(codec: Codec) -> None:
    plain = random.Random(5).randbytes(5000)
    assert packed(SHARED, codec, plain, 4000) is None
    assert packed(SHARED, codec, plain, 7000) == compress(
        codec, plain
    )  # a context is not spoiled by it


def test_every_short_cut_is_taken_here() -> None:
    assert None not in (
        pack.lz4_compress_default(),
        pack.deflate_functions(),
        pack.zstd_functions(),
    )


def test_without_the_short_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [pack.lz4_compress_default, pack.deflate_functions, pack.zstd_functions]
    monkeypatch.setattr(pack, "exported", lambda *_: None)
    monkeypatch.setattr(pack, "exported_lz4", lambda name: None)
    for function in found:
        function.cache_clear()
    try:
        assert {function() for function in found} == {None}
        for codec in PACKED:
            assert packed(Packer(), codec, b"plain" * 99, 2000) == compress(codec, b"plain" * 99)
    finally:
        for function in found:
            function.cache_clear()


def test_a_library_that_gives_other_bytes_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = pack._trials()
    monkeypatch.setattr(pack, "compress", lambda codec, data, **_: compress(codec, data[:-1]))
    found = [pack.lz4_compress_default, pack.deflate_functions, pack.zstd_functions]
    for function in found:
        function.cache_clear()
    try:
        assert {function() for function in found} == {None}
        assert trials == pack._trials()
    finally:
        for function in found:
            function.cache_clear()
