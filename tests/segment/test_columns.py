"""Columns against the plain decoders: generated, damaged and real segments; windows and chunks of any size."""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkats.compression import Codec, compress
from kafkats.errors import Changed
from kafkats.formats import v0, v1, v2
from kafkats.formats.model import Header, Record, TimestampType
from kafkats.segment import columns as columns_module
from kafkats.segment.columns import Binary, columns
from kafkats.segment.reader import Source, Window, open_source
from kafkats_model.memory_source import array_source
from tests.builders.columns import as_records, believed, entries, read
from tests.formats.logs import AREAS, NULL, nullable, raw_batch, raw_message
from tests.golden import Case, Unpacked, cases, partitions
from tests.index.generated import BASE, batch_bytes, damaged_logs, frame_starts, logs, reseal


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


def assert_same(
    log: bytes, source: Source | None = None, *, control: bool = True, **options: Any
) -> bool:
    """Records, batch fields and error as by the plain decoders; whether there was an error."""
    ours = read(source or array_source(np.frombuffer(log, np.uint8)), control=control, **options)
    plain = believed(log, control=control)
    assert ours[0] == plain[0]
    assert ours[1] == plain[1]
    assert (ours[2] is None) == (plain[2] is None)
    if ours[2] is not None and plain[2] is not None:
        assert (ours[2].reason, ours[2].position) == (plain[2].reason, plain[2].position)
    return ours[2] is not None


@st.composite
def rich_batches(draw: st.DrawFn, offset: int) -> tuple[bytes, int]:
    """A batch of magic 2 with headers, nulls, producer fields."""
    sizes = st.none() | st.binary(max_size=9) | st.sampled_from([b"", b"v" * 200])
    records = []
    for _ in range(draw(st.integers(1, 5))):
        named = st.builds(Header, st.text(max_size=3), sizes)
        headers = tuple(draw(st.lists(named, max_size=3)))
        time = draw(st.sampled_from([5, -1, -7, 2**62, -(2**63)]))
        records.append(
            Record(offset, time, TimestampType.CREATE_TIME, draw(sizes), draw(sizes), headers)
        )
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


@pytest.mark.slow(2)
@settings(max_examples=120, deadline=None)
@given(mixed_logs(), st.integers(1, 400), st.integers(1, 600), st.booleans())
def test_windows_and_chunks_cut_anywhere(log: bytes, window: int, room: int, control: bool) -> None:
    assert_same(log, small_windows(log, window), room=room, control=control)


@pytest.mark.slow(2)
@settings(max_examples=100, deadline=None)
@given(damaged_logs(), st.integers(1, 400), st.integers(1, 600))
def test_damaged_segments(log: bytes, window: int, room: int) -> None:
    assert_same(log, small_windows(log, window), room=room)


@pytest.mark.slow(2)
@settings(max_examples=200, deadline=None)
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


@st.composite
def odd_wrappers(draw: st.DrawFn) -> bytes:
    """Wrappers around messages of any magic, attributes and lengths, cut short or followed by something."""
    lengths = st.sampled_from([
        NULL,
        b"\x80\0\0\0",
        b"\0\0\0\x03abc",
        b"\0\0\0\0",
        b"\0\0\0\x05ab",
        b"\0\0\0\x08",
    ])
    inner = b"".join(
        raw_message(
            draw(st.sampled_from([0, 1, 2, 7, 2000, -1, 2**63 - 1])),
            draw(st.sampled_from([0, 1, 1, 1, 0, 2, 255])),
            attributes=draw(st.sampled_from([0, 0, 0, 8, 1])),
            key=draw(lengths), value=draw(lengths),
        )
        for _ in range(draw(st.integers(0, 4)))
    )  # fmt: skip
    inner = inner[: len(inner) - draw(st.sampled_from([0, 0, 0, 3, 20, 27]))] + draw(
        st.sampled_from([b"", b"\0", bytes(13)])
    )
    magic, codec = draw(st.integers(0, 1)), draw(st.sampled_from([1, 2, 3, 3, 4, 7]))
    packed = compress(codec, inner, broken_lz4=magic == 0) if codec < 4 else inner
    return raw_message(
        draw(st.sampled_from([0, 1, 2, 2000, 2**63 - 1, -4])),
        magic,
        attributes=codec | draw(st.sampled_from([0, 8])),
        key=draw(st.sampled_from([NULL, NULL, b"\0\0\0\x02kk", b"\0\0\1\0"])),
        value=draw(
            st.sampled_from(
                [nullable(packed)] * 4 + [NULL, nullable(packed[:-3]), b"\0\1\0\0" + packed]
            )
        ),
    )


@pytest.mark.slow(1)
@settings(max_examples=300, deadline=None)
@given(st.lists(odd_wrappers(), min_size=1, max_size=2).map(b"".join))
def test_odd_wrappers(log: bytes) -> None:
    assert_same(log)


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("name", AREAS)
def test_one_record_area(name: str, codec: Codec) -> None:
    count, area = AREAS[name]
    good = v1.encode_batch([Record(1, 2, TimestampType.CREATE_TIME, b"before", None)])
    batch = raw_batch(
        compress(codec, area) if codec else area, attributes=codec, record_count=count
    )
    assert_same(good + batch + good)


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", list(Codec))
def test_batches_larger_than_any_buffer(magic: int, codec: Codec) -> None:
    if magic < 2 and codec == Codec.ZSTD:
        return
    layout: Any = (v0, v1, v2)[magic]
    records = [
        Record(BASE + n, -1, TimestampType.CREATE_TIME, b"k", (b"%d " % n) * size)
        for n, size in enumerate([1, 20_000, 300_000, 1_500_000, 2, 9_000, 3])
    ]
    log = b"".join(layout.encode_batch(records[at : at + 3], codec=codec) for at in range(0, 7, 2))
    assert_same(log, small_windows(log, 100_000))
    assert_same(log)


@pytest.mark.parametrize(("window", "refused"), [(17 << 3, False), (17 << 3 | 1, True)])
def test_a_zstd_window_above_128_mib_is_refused(window: int, refused: bool) -> None:
    records = [Record(BASE + i, 9, TimestampType.CREATE_TIME, None, b"x" * 99) for i in range(9)]
    log = bytearray(v2.encode_batch(records, codec=Codec.ZSTD))
    log[v2.HEADER_BYTES + 5] = window
    reseal(log, 0, len(log))
    assert assert_same(bytes(log)) is refused


def test_many_small_compressed_batches() -> None:
    """More than are decompressed at once, with others in between."""
    parts = []
    for n in range(400):
        codec = (Codec.LZ4, Codec.ZSTD, Codec.GZIP, Codec.SNAPPY, Codec.NONE, Codec.LZ4, Codec.LZ4)[
            n % 7
        ]
        record = Record(BASE + n, n, TimestampType.CREATE_TIME, b"%d" % n, b"v" * (n * 37 % 9000))
        parts.append(
            (v1 if n % 3 and codec != Codec.ZSTD else v2).encode_batch([record], codec=codec)
        )
    log = b"".join(parts)
    assert_same(log)
    assert_same(log, small_windows(log, 5000), room=3000)


def test_without_functions_by_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns_module, "lz4_decompress_safe", lambda: None)
    monkeypatch.setattr(columns_module, "zstd_functions", lambda: None)
    test_many_small_compressed_batches()


def test_what_is_not_wanted_is_not_there() -> None:
    records = [
        Record(BASE + n, n, TimestampType.CREATE_TIME, None, b"v" * n, (Header("h", b"1"),))
        for n in range(5)
    ]
    log = v2.encode_batch(records) + v1.encode_batch(
        [r._replace(headers=()) for r in records], codec=Codec.GZIP
    )
    source = array_source(np.frombuffer(log, np.uint8))
    (bare,) = columns(source, key=False, value=False, headers=False)
    assert (bare.key, bare.value, bare.headers, bare.batch) == (None, None, None, None)
    assert bare.offset.tolist() == [r.offset for r in records] * 2
    assert bare.timestamp.tolist() == [r.timestamp for r in records] * 2
    (one,) = columns(source, key=False, headers=False)
    assert one.value is not None
    assert entries(one.value) == [r.value for r in records] * 2
    assert (one.key, one.headers) == (None, None)


def test_part_of_a_segment() -> None:
    parts = [
        v1.encode_batch([Record(n, n, TimestampType.CREATE_TIME, None, b"v")]) for n in range(5)
    ]
    log, size = b"".join(parts), len(parts[0])
    source = array_source(np.frombuffer(log, np.uint8))
    for end in (
        3 * size,
        4 * size - 1,
    ):  # a batch that does not end in time is not there, as for a torn tail
        assert [r.offset for r in read(source, start=size, end=end)[0]] == [1, 2]
    assert read(source, start=len(log))[0] == read(source, start=9, end=9)[0] == []


def test_checksums_may_be_left_out() -> None:
    log = bytearray(v1.encode_batch([Record(1, 1, TimestampType.CREATE_TIME, None, b"v")]))
    log[-1] ^= 1
    source = array_source(np.frombuffer(bytes(log), np.uint8))
    assert read(source)[2] is not None
    assert [r.value for r in read(source, checksums=False)[0]] == [b"w"]


def test_a_file_that_is_cut_meanwhile(tmp_path: Path) -> None:
    log = b"".join(
        v1.encode_batch([Record(n, n, TimestampType.CREATE_TIME, None, b"v")]) for n in range(5)
    )
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(log)
    with open_source(path) as source:
        os.truncate(path, len(log) // 2)
        with pytest.raises(Changed, match="cut"):
            list(columns(source))


def test_chunks_that_are_kept() -> None:
    log = b"".join(
        v1.encode_batch([Record(n, n, TimestampType.CREATE_TIME, None, b"%d" % n * 9)])
        for n in range(99)
    )
    chunks = list(columns(array_source(np.frombuffer(log, np.uint8)), room=500, reuse=False))
    assert len(chunks) > 5
    assert [r.value for chunk in chunks for r in as_records(chunk)] == [
        b"%d" % n * 9 for n in range(99)
    ]


@settings(max_examples=50, deadline=None)
@given(mixed_logs())
def test_arrow_takes_the_buffers_as_they_are(log: bytes) -> None:
    def binary(column: Binary) -> pa.Array:
        buffers = [
            pa.py_buffer(column.valid),
            pa.py_buffer(column.offsets),
            pa.py_buffer(column.data),
        ]
        return pa.Array.from_buffers(pa.binary(), len(column.offsets) - 1, buffers, column.nulls)

    for chunk in columns(array_source(np.frombuffer(log, np.uint8))):
        assert chunk.key is not None and chunk.value is not None and chunk.headers is not None
        names, values = binary(chunk.headers.keys), binary(chunk.headers.values)
        headers = pa.ListArray.from_arrays(
            pa.array(chunk.headers.offsets),
            pa.StructArray.from_arrays([names, values], ["key", "value"]),
        )
        batch = pa.record_batch({
            "offset": pa.array(chunk.offset), "timestamp": pa.array(chunk.timestamp), "headers": headers,
            "key": binary(chunk.key), "value": binary(chunk.value),
        })  # fmt: skip
        batch.validate(full=True)
        told = [
            (r.offset, r.timestamp, r.key, r.value, [(h.key.encode(), h.value) for h in r.headers])
            for r in as_records(chunk)
        ]
        rows = batch.to_pylist()
        assert told == [
            (
                r["offset"],
                r["timestamp"],
                r["key"],
                r["value"],
                [(h["key"], h["value"]) for h in r["headers"]],
            )
            for r in rows
        ]


@pytest.mark.slow(4)
def test_golden_segments(golden: Unpacked) -> None:
    """Every segment that real brokers left, also the damaged ones: records, batch fields and errors as by the plain decoders."""
    seen = {b""}
    errors = 0
    for segment in golden.segments():
        log = segment.log.read_bytes()
        if log not in seen:
            seen.add(log)
            errors += assert_same(log)
    assert len(seen) > 4000
    assert errors > 50


CONSUMED = ("matrix", "content", "timestamps", "transactions", "upgrade")
"""Cases whose `data` is what `records` was read from."""


@pytest.mark.parametrize("one", cases(*CONSUMED), ids=repr)
def test_what_the_consumer_read(one: Case, golden: Unpacked) -> None:
    told: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for said in one.records():
        told[said["tp"]].append(_as_said(said))
    compared = 0
    for folder in partitions(golden(one, "data")):
        if folder.name not in told:
            continue
        ours: list[tuple[Any, ...]] = []
        for log in sorted(folder.glob("*.log")):
            with open_source(log) as source:
                records, fields, error = read(source, control=False)
            assert error is None
            ours += [_as_told(record, row[2]) for record, row in zip(records, fields, strict=True)]
        assert ours == told[folder.name], folder
        compared += len(ours)
    assert compared


def _as_told(record: Record, epoch: int) -> tuple[Any, ...]:
    def content(data: bytes | None) -> Any:
        return (
            data
            if data is None
            else data.hex()
            if len(data) <= 40
            else hashlib.sha256(data).hexdigest()[:16]
        )

    headers = [[h.key, None if h.value is None else h.value.hex()] for h in record.headers]
    return (
        record.offset,
        record.timestamp,
        record.timestamp_type,
        content(record.key),
        content(record.value),
        headers,
    )


def _as_said(said: dict[str, Any]) -> tuple[Any, ...]:
    types = {
        "CreateTime": TimestampType.CREATE_TIME,
        "LogAppendTime": TimestampType.LOG_APPEND_TIME,
    }
    return (
        said["offset"], -1 if said["timestamp"] is None else said["timestamp"],
        types.get(said["timestamp_type"], TimestampType.NONE),
        said["key"] if "key" in said else said["key_sha256"],
        said["value"] if "value" in said else said["value_sha256"],
        said.get("headers", []),
    )  # fmt: skip
