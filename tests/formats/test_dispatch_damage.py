"""Damaged bytes: our error, or what was written; never a foreign exception, never a hang."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkats.errors import CorruptBatch
from kafkats.formats import dispatch
from kafkats.formats.model import Batch, Record
from tests.golden import Unpacked

LONGEST = 8 * 1024
"""Beyond so many bytes not every cut is tried."""


@pytest.fixture(scope="module")
def heads(golden: Unpacked) -> list[bytes]:
    """The first two batches of every golden file, each once."""
    found = {}
    for segment in golden.segments():
        with segment.log.open("rb") as file:
            log = file.read(4 * 1024 * 1024)
        try:
            first = list(islice(dispatch.batches(log), 2))
        except CorruptBatch:
            continue
        if first:
            found[log[: first[-1].end]] = None
    return list(found)


def _cuts(log: bytes, batches: list[Batch]) -> list[int]:
    if len(log) <= LONGEST:
        return list(range(len(log)))
    ends = [0, *(batch.end for batch in batches)]
    near = {cut for end in ends for cut in range(max(0, end - 100), min(end + 200, len(log)))}
    return sorted(near | set(range(0, len(log), 997)))


@pytest.mark.slow(8)
def test_cut_at_every_byte(heads: list[bytes]) -> None:
    assert len(heads) > 3000
    for log in heads:
        batches = list(dispatch.batches(log))
        for cut in _cuts(log, batches):
            assert list(dispatch.batches(log, 0, cut)) == [
                batch for batch in batches if batch.end <= cut
            ]


def _content(record: Record) -> tuple[object, ...]:
    return record.timestamp, record.key, record.value, record.headers


@pytest.mark.slow(6)
def test_every_header_byte_flipped(heads: list[bytes]) -> None:
    refused = passed = 0
    for log in heads:
        for batch in dispatch.batches(log):
            frame = log[batch.position : batch.end]
            records = _contents(frame)
            for at in range(min(len(frame), 61 if batch.magic == 2 else 34)):
                damaged = bytearray(frame)
                damaged[at] ^= 0xFF
                try:
                    found = _contents(damaged)
                except CorruptBatch:
                    refused += 1
                else:
                    # Only offsets and the leader epoch are outside the CRC; a size too large is a torn tail.
                    assert found in (records, [])
                    passed += 1
    assert refused > passed > 0


def _contents(log: bytes | bytearray) -> list[tuple[object, ...]]:
    return [
        _content(record)
        for batch in dispatch.batches(log)
        for record in dispatch.records(log, batch)
    ]


@pytest.fixture(scope="module")
def shapes(heads: list[bytes]) -> list[bytes]:
    """One head of each combination of magic, codec and flags."""
    found = {}
    for log in sorted(heads, key=len):
        if len(log) < LONGEST:
            found.setdefault(
                tuple((b.magic, b.attributes, b.count > 1) for b in dispatch.batches(log)), log
            )
    return list(found.values())


@pytest.mark.slow(5)
@settings(max_examples=1500, deadline=2000)
@given(data=st.data())
def test_mutated_bytes_without_the_crc(shapes: list[bytes], data: st.DataObject) -> None:
    log = bytearray(data.draw(st.sampled_from(shapes)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(log) - 1))
        log[at] = data.draw(st.integers(0, 255))
    _read_everything(log)


@settings(max_examples=500, deadline=2000)
@given(log=st.binary(max_size=400), magic=st.integers(0, 2))
def test_any_bytes(log: bytes, magic: int) -> None:
    size = max(0, len(log) - 12).to_bytes(4, "big")
    _read_everything(log[:8] + size + log[12:16] + bytes((magic,)) + log[17:])


def _read_everything(log: bytes | bytearray) -> None:
    try:
        for batch in dispatch.batches(log, verify=False):
            dispatch.first_offset(log, batch)
            dispatch.records(log, batch)
    except CorruptBatch as e:
        assert e.position is not None
        assert 0 <= e.position <= len(log)


@pytest.mark.parametrize("end", [0, 1, 17])
def test_fewer_than_18_bytes_are_the_quiet_end(end: int) -> None:
    assert list(dispatch.batches(bytes(end))) == []


def test_zeros_are_corrupt() -> None:
    with pytest.raises(CorruptBatch, match="size field 0") as caught:
        list(dispatch.batches(bytes(18)))
    assert caught.value.position == 0


def test_unknown_magic_is_corrupt() -> None:
    for magic in (3, 127, 128, 255):
        with pytest.raises(CorruptBatch, match=f"magic {magic}"):
            list(
                dispatch.batches(
                    bytes(8) + (49).to_bytes(4, "big") + bytes(4) + bytes((magic,)) + bytes(44)
                )
            )
