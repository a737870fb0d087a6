"""The codec table: round trips, bombs, and bytes that are no stream."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkats.compression import MAX_OUTPUT_BYTES, Codec, compress, decompress
from kafkats.errors import BadInput, CorruptBatch

MIB = 1 << 20
PACKED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


@st.composite
def payloads(draw: st.DrawFn) -> bytes:
    """Noise, repetition and mixtures, across the codecs' block sizes."""
    pieces = draw(st.lists(st.tuples(st.binary(max_size=200), st.integers(1, 800)), max_size=5))
    return b"".join(piece * times for piece, times in pieces)


@given(plain=payloads(), broken_lz4=st.booleans(), codec=st.sampled_from(Codec))
@settings(deadline=2000)
def test_round_trip(codec: Codec, plain: bytes, broken_lz4: bool) -> None:
    packed = compress(codec, plain, broken_lz4=broken_lz4)
    assert decompress(codec, packed, broken_lz4=broken_lz4) == plain
    assert (
        decompress(
            codec, memoryview(bytearray(packed)), broken_lz4=broken_lz4, max_output_bytes=len(plain)
        )
        == plain
    )


def _bomb(codec: Codec) -> bytes:
    """64 MiB of zeros, made of 1 MiB where the codec takes several streams or blocks in a row."""
    if codec == Codec.LZ4:
        return compress(codec, bytes(64 * MIB))
    return compress(codec, bytes(MIB)) * 64


@pytest.mark.parametrize("codec", PACKED)
def test_bombs(codec: Codec) -> None:
    bomb = _bomb(codec)
    tracemalloc.start()
    with pytest.raises(CorruptBatch, match=f"more than {2 * MIB} bytes"):
        decompress(codec, bomb, max_output_bytes=2 * MIB)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 24 * MIB
    assert len(decompress(codec, bomb)) == 64 * MIB


@pytest.mark.parametrize("codec", PACKED)
@settings(deadline=2000, max_examples=300)
@given(data=st.data())
def test_damage_is_our_error(codec: Codec, data: st.DataObject) -> None:
    stream = bytearray(compress(codec, b"Kafka" * 20 + bytes(range(40))))
    for _ in range(data.draw(st.integers(1, 3))):
        stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
    for broken_lz4 in (False, True):
        try:
            decompress(codec, stream, broken_lz4=broken_lz4, max_output_bytes=MIB)
        except CorruptBatch:
            continue


@pytest.mark.parametrize("codec", PACKED)
@given(junk=st.binary(max_size=100))
def test_junk_is_our_error(codec: Codec, junk: bytes) -> None:
    with suppress(CorruptBatch):
        decompress(codec, junk, max_output_bytes=MIB)


def test_unknown_codecs() -> None:
    for codec in (5, 6, 7, -1):
        with pytest.raises(CorruptBatch, match="unknown"):
            decompress(codec, b"")
        with pytest.raises(BadInput, match="not one of"):
            compress(codec, b"")


def test_the_default_limit() -> None:
    assert MAX_OUTPUT_BYTES == 256 * MIB
