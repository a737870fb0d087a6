"""Columns against the plain decoders: generated, damaged and real segments; windows and chunks of any size."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkats.compression import Codec
from kafkats.errors import CorruptBatch
from kafkats.formats import dispatch, v2
from kafkats.formats.model import Batch, Header, Record, TimestampType
from kafkats.segment.columns import Binary, Columns, columns
from kafkats.segment.reader import Source, Window, array_source
from tests.index.generated import BASE, batch_bytes, damaged_logs, frame_starts, logs, reseal


def entries(column: Binary) -> list[bytes | None]:
    """As Python values; the bits and the count of nulls must agree."""
    count = len(column.offsets) - 1
    valid = np.unpackbits(column.valid, count=count, bitorder="little")
    data = column.data.tobytes()
    assert (count - int(valid.sum())) == column.nulls
    assert column.offsets[0] == 0
    assert column.offsets[-1] == len(data)
    spans = zip(column.offsets[:-1].tolist(), column.offsets[1:].tolist(), valid.tolist(), strict=True)
    return [data[a:b] if there else None for a, b, there in spans]


def as_records(chunk: Columns) -> list[Record]:
    assert chunk.key is not None and chunk.value is not None and chunk.headers is not None
    offsets = chunk.headers.offsets.tolist()
    names, values = entries(chunk.headers.keys), entries(chunk.headers.values)
    headers = [Header((name or b"").decode("utf-8", "replace"), v) for name, v in zip(names, values, strict=True)]
    rows = zip(
        chunk.offset.tolist(), chunk.timestamp.tolist(), map(TimestampType, chunk.timestamp_type.tolist()),
        entries(chunk.key), entries(chunk.value), (tuple(headers[a:b]) for a, b in pairwise(offsets)), strict=True,
    )  # fmt: skip
    found = [Record(*row) for row in rows]
    assert len(found) == chunk.rows > 0
    return found


Fields = tuple[int, int, int, int, int, int]


def read(source: Source, **options: Any) -> tuple[list[Record], list[Fields], CorruptBatch | None]:
    """Records, their batches' fields, and the error at the end."""
    records: list[Record] = []
    fields: list[Fields] = []
    try:
        for chunk in columns(source, batch=True, **options):
            records += as_records(chunk)
            assert chunk.batch is not None
            fields += zip(*(column.tolist() for column in chunk.batch), strict=True)
    except CorruptBatch as e:
        return records, fields, e
    return records, fields, None


def believed(log: bytes, *, control: bool = True) -> tuple[list[Record], list[Fields], CorruptBatch | None]:
    """The same by the plain decoders."""
    records: list[Record] = []
    fields: list[Fields] = []
    try:
        for batch in dispatch.batches(log):
            found = dispatch.records(log, batch)
            if control or not batch.control:
                records += found
                fields += [_fields(batch, record) for record in found]
    except CorruptBatch as e:
        return records, fields, e
    return records, fields, None


def _fields(batch: Batch, record: Record) -> Fields:
    sequence = -1
    if batch.base_sequence >= 0:
        sequence = batch.base_sequence + record.offset - batch.base_offset
        sequence -= 2**31 if sequence >= 2**31 else 0
    return (
        batch.magic, batch.attributes, batch.leader_epoch, batch.producer_id, batch.producer_epoch, sequence
    )  # fmt: skip


def small_windows(log: bytes, size: int) -> Source:
    """A source whose windows hold `size` bytes, or what is needed: in a buffer of their own, overwritten by the next."""
    whole = np.frombuffer(log, np.uint8)
    kept: list[np.ndarray[Any, Any]] = []

    def window(position: int, needed: int) -> Window:
        for old in kept:
            old[:] = 0xEE
        piece = whole[position : position + max(size, needed)].copy()
        kept[:] = [piece]
        loaded = position + len(piece)
        return Window(piece.ctypes.data if len(piece) else 0, position, loaded, loaded, len(whole))

    return array_source(whole)._replace(window=window)


def assert_same(log: bytes, source: Source | None = None, *, control: bool = True, **options: Any) -> None:
    ours = read(source or array_source(np.frombuffer(log, np.uint8)), control=control, **options)
    plain = believed(log, control=control)
    assert ours[0] == plain[0]
    assert ours[1] == plain[1]
    assert (ours[2] is None) == (plain[2] is None)
    if ours[2] is not None and plain[2] is not None:
        assert (ours[2].reason, ours[2].position) == (plain[2].reason, plain[2].position)


@st.composite
def rich_batches(draw: st.DrawFn, offset: int) -> tuple[bytes, int]:
    """A batch of magic 2 with headers, nulls, producer fields."""
    sizes = st.none() | st.binary(max_size=9) | st.sampled_from([b"", b"v" * 200])
    records = []
    for _ in range(draw(st.integers(1, 5))):
        named = st.builds(Header, st.text(max_size=3), sizes)
        headers = tuple(draw(st.lists(named, max_size=3)))
        time = draw(st.sampled_from([5, -1, -7, 2**62, -(2**63)]))
        records.append(Record(offset, time, TimestampType.CREATE_TIME, draw(sizes), draw(sizes), headers))
        offset += draw(st.sampled_from([1, 1, 3]))
    control = draw(st.sampled_from([False, False, True]))
    data = v2.encode_batch(
        records, codec=draw(st.sampled_from(list(Codec))), leader_epoch=draw(st.sampled_from([-1, 0, 2**31 - 1])),
        producer_id=draw(st.sampled_from([-1, 7, 2**63 - 1])), producer_epoch=draw(st.sampled_from([-1, 2**15 - 1])),
        base_sequence=draw(st.sampled_from([-1, 0, 2**31 - 2])), transactional=control or draw(st.booleans()),
        control=control, log_append_time=draw(st.sampled_from([None, None, 99])),
    )  # fmt: skip
    return data, offset


@st.composite
def mixed_logs(draw: st.DrawFn, max_batches: int = 10) -> bytes:
    offset, parts = BASE, []
    for _ in range(draw(st.integers(0, max_batches))):
        data, offset = draw(rich_batches(offset) if draw(st.booleans()) else batch_bytes(offset))
        parts.append(data)
    return b"".join(parts)


@settings(max_examples=200, deadline=None)
@given(mixed_logs(), st.integers(1, 400), st.integers(1, 600), st.booleans())
def test_windows_and_chunks_cut_anywhere(log: bytes, window: int, room: int, control: bool) -> None:
    assert_same(log, small_windows(log, window), room=room, control=control)


@settings(max_examples=150, deadline=None)
@given(damaged_logs(), st.integers(1, 400), st.integers(1, 600))
def test_damaged_segments(log: bytes, window: int, room: int) -> None:
    assert_same(log, small_windows(log, window), room=room)


@settings(max_examples=300, deadline=None)
@given(logs(max_batches=4) | mixed_logs(max_batches=4), st.data())
def test_damaged_records_with_a_good_checksum(log: bytes, data: st.DataObject) -> None:
    turned = bytearray(log)
    for _ in range(data.draw(st.integers(1, 3)) if log else 0):
        at = data.draw(st.sampled_from(frame_starts(log)))
        end = at + 12 + int.from_bytes(log[at + 8 : at + 12], "big")
        begin = at + (23 if turned[at + 16] == 2 else 17)
        turned[data.draw(st.integers(begin, end - 1))] = data.draw(
            st.integers(0, 255) | st.sampled_from([0x80, 0xFF, 0x7F, 1])
        )
        reseal(turned, at, end)
    assert_same(bytes(turned))
