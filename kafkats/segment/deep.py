"""Decode every record of a segment, and compare each batch's maximum timestamp with its records."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkats.errors import CorruptBatch, OversizedBatch
from kafkats.formats.message_set import KEY_AT, WRAPPER_CODECS
from kafkats.formats.model import TimestampType
from kafkats.formats.v2 import HEADER_BYTES as _HEADER_V2
from kafkats.formats.v2 import MAGIC as MAGIC_V2
from kafkats.kernels import records as k
from kafkats.primitives import read_bytes, read_int32, view
from kafkats.segment.facts import SegmentFacts
from kafkats.segment.reader import Source
from kafkats.segment.unpack import Unpacker


class Deep(NamedTuple):
    """The result of decoding. Positions are -1 if there is none."""

    facts: SegmentFacts
    undecodable: int
    undecodable_position: int
    undecodable_reason: str
    wrong_maximum: int
    wrong_maximum_position: int
    wrong_maximum_found: int
    """The records' maximum in the first batch whose header has another."""
    wrapped: dict[tuple[int, int, TimestampType], int]
    """Records in decodable wrappers by magic, codec and timestamp type."""
    oversized_position: int = -1
    """First batch that decompresses to more than the limit; its records are not decoded."""
    oversized_reason: str = ""


class _Oversized(NamedTuple):
    position: int
    reason: str


def look_at_records(source: Source, facts: SegmentFacts) -> Deep:
    """Decode all records before `facts.valid_bytes`.

    `facts` must have depth full; those returned have depth deep. Raises StorageFailed.
    """
    state, alone, unpacker = k.new_state(), k.new_state(), Unpacker()
    state[k.END] = facts.valid_bytes
    reason, needed = "", 18
    oversized: _Oversized | None = None
    wrapped: dict[tuple[int, int, TimestampType], int] = {}
    while state[k.POSITION] < facts.valid_bytes:
        window = source.window(int(state[k.POSITION]), needed)
        if window.file_end < facts.valid_bytes:  # truncated meanwhile
            break
        state[: k.END] = window.address, window.origin, window.loaded, window.limit
        while (why := k.deep(state)) == k.COMPRESSED:
            position, size = int(state[k.POSITION]), int(state[k.SIZE])
            try:
                decodes = _decodes(state, alone, unpacker, source.read(position, size))
            except OversizedBatch as e:
                oversized = oversized or _Oversized(position, e.reason)
                state[k.POSITION] = position + size
                continue
            except CorruptBatch as e:
                decodes, reason = False, reason or e.reason
            if decodes and state[k.MAGIC] != MAGIC_V2:
                cell = _cell(state)
                wrapped[cell] = wrapped.get(cell, 0) + int(alone[k.COUNT])
            state[k.COUNT], state[k.FOUND_MAXIMUM] = alone[k.COUNT], alone[k.FOUND_MAXIMUM]
            k.judge(state, position, decodes)
            state[k.POSITION] = position + size
        if why == k.MOVED:  # rewritten meanwhile
            break
        needed = int(state[k.NEEDED]) if why == k.NEED_BYTES else 18
    s = state.tolist()
    return Deep(
        facts._replace(depth="deep", records=-1 if s[k.UNDECODABLE] or oversized else s[k.RECORDS]),
        s[k.UNDECODABLE],
        s[k.UNDECODABLE_FIRST],
        reason,
        s[k.WRONG_MAXIMUM],
        s[k.WRONG_MAXIMUM_FIRST],
        s[k.WRONG_MAXIMUM_FOUND],
        wrapped,
        *(oversized or _Oversized(-1, "")),
    )


def _cell(state: NDArray[np.int64]) -> tuple[int, int, TimestampType]:
    magic = int(state[k.MAGIC])
    appended = TimestampType.LOG_APPEND_TIME if state[k.APPENDED] else TimestampType.CREATE_TIME
    return magic, int(state[k.CODEC]), appended if magic else TimestampType.NONE


def _decodes(
    state: NDArray[np.int64], alone: NDArray[np.int64], unpacker: Unpacker, data: bytes
) -> bool:
    """Decompress one batch or wrapper and check its content. Raises CorruptBatch."""
    codec, magic = int(state[k.CODEC]), int(state[k.MAGIC])
    for slot in (k.COUNT, k.BASE_TIMESTAMP, k.MAGIC, k.OFFSET):
        alone[slot] = state[slot]
    packed = view(data)[_HEADER_V2:] if magic == MAGIC_V2 else _wrapped(data, codec, magic)
    plain = unpacker.unpack(codec, packed, broken_lz4=magic == 0)
    alone[k.ADDRESS], alone[k.SIZE] = plain.ctypes.data, plain.size
    return bool(k.area(alone) if magic == MAGIC_V2 else k.message_set(alone))


def _wrapped(data: bytes, codec: int, magic: int) -> memoryview:
    """Return the value of a wrapper."""
    if codec not in WRAPPER_CODECS:
        raise CorruptBatch(f"codec {codec} cannot be in magic {magic}")
    whole = view(data)
    length, at = read_int32(whole, KEY_AT[magic])
    _, at = read_bytes(whole, at, length)
    length, at = read_int32(whole, at)
    if length < 0:
        raise CorruptBatch("a wrapper without a value")
    if length > len(whole) - at:
        raise CorruptBatch(f"{length} bytes of a value expected, {len(whole) - at} left")
    return whole[at : at + length]
