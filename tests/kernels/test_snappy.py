"""The kernel for snappy against the library's, between pages that nobody may touch."""

from __future__ import annotations

import ctypes
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkats.compression import snappy
from kafkats.errors import CorruptBatch
from kafkats.kernels.snappy import decompress_snappy
from tests.kernels.guarded import Guarded

_FROM: Final = Guarded(4096)
_TO: Final = Guarded(16 * 1024)
_LIMIT: Final = 1 << 20


def varint(number: int) -> bytes:
    low = bytes([number & 0x7F | (0x80 if number > 0x7F else 0)])
    return low + varint(number >> 7) if number > 0x7F else low


def literal(data: bytes, more: int) -> bytes:
    """`more`: bytes of the size after the tag, if it has any."""
    count = len(data) - 1
    if count < 60 and not more:
        return bytes([count << 2]) + data
    return bytes([(59 + max(more, 1)) << 2]) + count.to_bytes(max(more, 1), "little") + data


def copied(kind: int, count: int, offset: int) -> bytes:
    if kind == 1:
        return bytes([1 | (count - 4 & 7) << 2 | (offset >> 8 & 7) << 5, offset & 0xFF])
    size = 2 if kind == 2 else 4
    return bytes([kind | (count - 1) << 2]) + (offset % (1 << 8 * size)).to_bytes(size, "little")


ELEMENTS = st.lists(
    st.one_of(
        st.builds(literal, st.binary(min_size=1, max_size=90), st.integers(0, 4)),
        st.builds(copied, st.integers(1, 3), st.integers(1, 64), st.integers(0, 40)),
        st.builds(copied, st.integers(1, 3), st.integers(1, 64), st.integers(0, 2**32 - 1)),
    ),
    max_size=12,
)
BLOCKS = st.lists(st.tuples(ELEMENTS, st.integers(-2, 2)), max_size=3)


def length(elements: list[bytes]) -> int:
    """Return the number of bytes that these elements stand for."""
    total = 0
    for one in elements:
        tag = one[0]
        more = max((tag >> 2) - 59, 0)
        if tag & 3 == 0:
            total += len(one) - 1 - more
        else:
            total += 4 + (tag >> 2 & 7) if tag & 3 == 1 else (tag >> 2) + 1
    return total


def framed(blocks: list[tuple[list[bytes], int]]) -> bytes:
    """`blocks`: elements, and what is added to the size of their content."""
    stream = snappy.HEADER
    for elements, wrong in blocks:
        block = varint(max(length(elements) + wrong, 0)) + b"".join(elements)
        stream += len(block).to_bytes(4, "big") + block
    return stream


def check(stream: bytes, room: int, *, last: bool) -> bool:
    """Return whether the kernel accepts `stream`; what it gives must be what the library gives."""
    start = _FROM.put(stream, last=last)
    to = _TO.put(bytes(room), last=True)
    got = decompress_snappy(start, len(stream), to, room)
    if got < 0:
        return False
    assert ctypes.string_at(to, got) == snappy.decompress(memoryview(stream), _LIMIT)
    return True


@settings(max_examples=300, deadline=None)
@given(BLOCKS, st.data(), st.booleans())
def test_it_has_no_opinion_of_its_own(
    blocks: list[tuple[list[bytes], int]], data: st.DataObject, last: bool
) -> None:
    stream = bytearray(framed(blocks))
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(stream) - 1))
        stream[at] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del stream[data.draw(st.integers(0, len(stream))) :]
    try:
        size = len(snappy.decompress(memoryview(bytes(stream)), _LIMIT))
    except CorruptBatch:
        assert not check(bytes(stream), 16 * 1024, last=last)
        return
    check(bytes(stream), data.draw(st.integers(max(size - 2, 0), size + 80)), last=last)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.binary(max_size=300), min_size=1, max_size=40), st.integers(1, 100), st.data())
def test_what_is_written_is_read(pieces: list[bytes], block: int, data: st.DataObject) -> None:
    plain = b"".join(data.draw(st.permutations(pieces * 2)))[:8000]
    stream = snappy.compress(memoryview(plain), block * 50)
    if len(stream) <= _FROM.room:
        assert check(stream, len(plain) + data.draw(st.integers(0, 80)), last=True)
        assert not plain or not check(stream, len(plain) - 1, last=True)


def test_every_offset_and_length_of_a_copy() -> None:
    for offset in range(1, 70):
        for count in range(1, 65):
            elements = [literal(bytes(range(70)), 1), copied(2, count, offset), literal(b"z", 0)]
            stream = framed([(elements, 0)])
            assert check(stream, 71 + count, last=True) and check(stream, 200, last=False)
