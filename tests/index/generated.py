"""Segments for property tests: batches of all magics and codecs, offsets with holes, then damage."""

from __future__ import annotations

import struct

from hypothesis import strategies as st

from kafkats.compression.checksums import crc32, crc32c
from kafkats.formats import v0, v1, v2
from kafkats.formats.model import Codec, Record, TimestampType

BASE = 1000
TIMES = st.one_of(st.integers(-3, 60), st.just(-1), st.sampled_from([2**62, -(2**63)]))
CODECS = {
    0: st.sampled_from(list(Codec)[:4]),
    1: st.sampled_from(list(Codec)[:4]),
    2: st.sampled_from(list(Codec)),
}


@st.composite
def batch_bytes(draw: st.DrawFn, first_offset: int) -> tuple[bytes, int]:
    """One encoded batch that begins at `first_offset` or a little above, and the offset after it."""
    magic = draw(st.sampled_from([0, 1, 2]))
    codec = draw(CODECS[magic])
    offset = first_offset + draw(st.sampled_from([0, 0, 0, 1, 7]))
    count = 1 if magic < 2 and codec == Codec.NONE else draw(st.integers(1, 4))
    records = []
    for _ in range(count):
        value = draw(st.binary(max_size=40)) * draw(st.sampled_from([1, 1, 3]))
        time = -1 if magic == 0 else draw(TIMES)
        records.append(
            Record(offset, time, TimestampType.CREATE_TIME, draw(st.none() | st.just(b"k")), value)
        )
        offset += 1 + draw(st.sampled_from([0, 0, 2]))
    stamped = draw(st.sampled_from([None, None, 55]))
    if magic == 0:
        return v0.encode_batch(
            [r._replace(timestamp_type=TimestampType.NONE) for r in records], codec=codec
        ), offset
    if magic == 1:
        return v1.encode_batch(records, codec=codec, log_append_time=stamped), offset
    horizon = draw(st.sampled_from([None, None, 9]))
    flags = draw(
        st.sampled_from([{}, {"transactional": True}, {"transactional": True, "control": True}])
    )
    data = v2.encode_batch(
        records,
        codec=codec,
        log_append_time=stamped,
        delete_horizon_ms=horizon,
        leader_epoch=3,
        **flags,
    )
    return data, offset


@st.composite
def logs(draw: st.DrawFn, max_batches: int = 14) -> bytes:
    """A healthy .log with base offset BASE."""
    offset, parts = BASE, []
    for _ in range(draw(st.integers(0, max_batches))):
        data, offset = draw(batch_bytes(offset))
        parts.append(data)
    return b"".join(parts)


@st.composite
def damaged_logs(draw: st.DrawFn) -> bytes:
    """A .log, as it was or cut, with zeros or noise behind it, with bytes turned, with headers changed and their CRC made good."""
    data = bytearray(draw(logs()))
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(["cut", "zeros", "noise", "byte", "size", "reseal", "repeat"]))
        starts = frame_starts(bytes(data))
        if kind == "cut" and data:
            del data[draw(st.integers(0, len(data) - 1)) :]
        elif kind == "zeros":
            data += bytes(draw(st.integers(1, 70)))
        elif kind == "noise":
            data += draw(st.binary(min_size=1, max_size=70))
        elif kind == "byte" and data:
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
        elif kind == "size" and starts:
            at = draw(st.sampled_from(starts))
            data[at + 8 : at + 12] = struct.pack(
                ">i", draw(st.sampled_from([-1, 0, 13, 14, 21, 22, 48, 49, 2**31 - 1]))
            )
        elif kind == "reseal" and starts:
            at = draw(st.sampled_from(starts))
            end = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big")
            place = draw(st.sampled_from([*range(0, 8), *range(12, min(61, end - at))]))
            data[at + place] = draw(st.integers(0, 255))
            reseal(data, at, end)
        elif kind == "repeat" and starts:
            data += data[draw(st.sampled_from(starts)) :]
    return bytes(data)


def frame_starts(data: bytes) -> list[int]:
    """Where frames begin, by their sizes alone."""
    at, found = 0, []
    while at + 18 <= len(data):
        size = int.from_bytes(data[at + 8 : at + 12], "big", signed=True)
        if size < 14 or at + 12 + size > len(data):
            break
        found.append(at)
        at += 12 + size
    return found


def reseal(data: bytearray, at: int, end: int) -> None:
    """Make the CRC of the frame at `at` true again."""
    if data[at + 16] == 2:
        data[at + 17 : at + 21] = crc32c(data[at + 21 : end]).to_bytes(4, "big")
    else:
        data[at + 12 : at + 16] = crc32(data[at + 16 : end]).to_bytes(4, "big")
