"""The deep check against the plain decoders, on generated, damaged and real segments."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkats.compression import Codec, compress, decompress
from kafkats.errors import CorruptBatch
from kafkats.formats import dispatch, v1, v2
from kafkats.formats.model import Record, TimestampType
from kafkats.index.check import check_segment
from kafkats.segment import unpack
from kafkats.segment.deep import Deep, look_at_records
from kafkats.segment.walk import walk
from kafkats_model.memory_source import array_source
from tests.formats.logs import AREAS
from tests.golden import Unpacked
from tests.index.generated import BASE, damaged_logs, frame_starts, logs, reseal
from tests.index.reference import read_batches


def deep(log: bytes) -> Deep:
    source = array_source(np.frombuffer(log, np.uint8))
    return look_at_records(source, walk(source, BASE).facts)


def believed(log: bytes) -> tuple[int, list[int], list[int]]:
    """Records, positions of undecodable batches and of such with a wrong maximum, by the plain decoders."""
    records, undecodable, wrong = 0, [], []
    for batch in read_batches(log)[0]:
        try:
            found = dispatch.records(log, batch)
        except CorruptBatch:
            undecodable.append(batch.position)
            continue
        records += len(found)
        newest = max([-1, *(r.timestamp for r in found)])
        created = batch.timestamp_type == TimestampType.CREATE_TIME
        if found and created and newest != max(batch.max_timestamp, -1):
            wrong.append(batch.position)
    return records, undecodable, wrong


def assert_same(log: bytes) -> None:
    ours, (records, undecodable, wrong) = deep(log), believed(log)
    assert (ours.undecodable, ours.undecodable_position) == (
        len(undecodable),
        undecodable[0] if undecodable else -1,
    )
    assert (ours.wrong_maximum, ours.wrong_maximum_position) == (
        len(wrong),
        wrong[0] if wrong else -1,
    )
    assert ours.facts.records == (records if not undecodable else -1)
    assert ours.facts.depth == "deep"


@pytest.mark.slow(3)
@settings(max_examples=150, deadline=None)
@given(damaged_logs())
def test_damaged_segments(log: bytes) -> None:
    assert_same(log)


@pytest.mark.slow(3)
@settings(max_examples=250, deadline=None)
@given(logs(max_batches=4), st.data())
def test_damaged_records_with_a_good_checksum(log: bytes, data: st.DataObject) -> None:
    turned = bytearray(log)
    for _ in range(data.draw(st.integers(1, 3)) if log else 0):
        at = data.draw(st.sampled_from(frame_starts(log)))
        end = at + 12 + int.from_bytes(log[at + 8 : at + 12], "big")
        begin = at + (23 if turned[at + 16] == 2 else 17)
        place = data.draw(st.integers(begin, end - 1))
        turned[place] = data.draw(st.integers(0, 255) | st.sampled_from([0x80, 0xFF, 0x7F, 1]))
        reseal(turned, at, end)
    assert_same(bytes(turned))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("name", AREAS)
def test_one_record_area(name: str, codec: Codec) -> None:
    count, area = AREAS[name]
    empty = bytearray(v2.encode_batch([], base_offset=BASE, last_offset=BASE))
    batch = empty + (compress(codec, area) if codec else area)
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">h", batch, 21, int(codec))
    struct.pack_into(">q", batch, 27, 5)
    struct.pack_into(">q", batch, 35, 5)
    struct.pack_into(">i", batch, 57, count)
    reseal(batch, 0, len(batch))
    assert_same(bytes(batch))
    decodes = deep(bytes(batch)).undecodable == 0
    good = {
        "good",
        "two",
        "length of five bytes",
        "length with bits above 32",
        "nulls",
        "nulls of any negative length",
    }
    good |= {
        "time delta of ten bytes",
        "a header",
        "a header without value",
        "header count of two bytes",
        "nothing counted",
    }
    assert decodes == (name in good)


@pytest.mark.slow(1)
def test_what_real_brokers_wrote_decodes(golden: Unpacked) -> None:
    total = 0
    for segment in golden.segments("matrix", "timestamps", "compaction", "transactions", "upgrade"):
        check = check_segment(segment.log, deep=True)
        assert not {"undecodable", "wrong-maximum"} & {f.kind for f in check.findings}, segment
        assert check.facts.records >= 0
        total += check.facts.records
    assert total > 50_000


def test_findings(golden: Unpacked, tmp_path: Path) -> None:
    source = max(
        golden("matrix-4.3.1-v2", "data").glob("none-ct-0/*.log"), key=lambda p: p.stat().st_size
    )
    for suffix in (".log", ".index", ".timeindex"):
        shutil.copy(source.with_suffix(suffix), tmp_path)
    log = tmp_path / source.name
    data = bytearray(log.read_bytes())
    at = frame_starts(bytes(data))[0]
    end = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    data[at + 61] ^= 2  # the first record's length
    reseal(data, at, end)
    log.write_bytes(data)
    found = [f for f in check_segment(log, deep=True).findings if f.file == log.name]
    assert [(f.kind, f.position) for f in found] == [("undecodable", at)]
    data[at + 61] ^= 2
    maximum = struct.unpack_from(">q", data, at + 35)[0]
    struct.pack_into(">q", data, at + 35, maximum - 1)
    reseal(data, at, end)
    log.write_bytes(data)
    found = [f for f in check_segment(log, deep=True).findings if f.file == log.name]
    assert [(f.kind, f.position, f.expected) for f in found] == [
        ("wrong-maximum", at, str(maximum))
    ]
    assert not [f for f in check_segment(log).findings if f.file == log.name]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("size", [0, 1, 1000, 64 * 1024, 64 * 1024 + 1, 5 * 1024 * 1024])
def test_short_cuts_give_the_same_bytes(codec: Codec, size: int) -> None:
    plain = (b"some text, " * (size // 11 + 1))[:size]
    packed = memoryview(compress(codec, plain))
    assert unpack.Unpacker().unpack(codec, packed, broken_lz4=False).tobytes() == plain


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]),
    st.binary(max_size=300),
    st.data(),
)
def test_short_cuts_have_no_opinion_of_their_own(
    codec: Codec, plain: bytes, data: st.DataObject
) -> None:
    packed = bytearray(compress(codec, plain * 3))
    kind = data.draw(st.sampled_from(["turn", "cut", "more", "twice"]))
    if kind == "turn":
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    elif kind == "cut":
        del packed[data.draw(st.integers(0, len(packed) - 1)) :]
    else:
        packed = packed * 2 if kind == "twice" else packed + b"\0more"
    try:
        expected = decompress(codec, bytes(packed))
    except CorruptBatch:
        with pytest.raises(CorruptBatch):
            unpack.Unpacker().unpack(codec, memoryview(bytes(packed)), broken_lz4=False)
    else:
        assert (
            unpack.Unpacker().unpack(codec, memoryview(bytes(packed)), broken_lz4=False).tobytes()
            == expected
        )


@pytest.mark.parametrize(
    ("window", "allowed"), [(17 << 3, True), (17 << 3 | 1, False), (255, False)]
)
def test_a_zstd_window_above_128_mib_is_refused(window: int, allowed: bool) -> None:
    records = [Record(BASE + i, 9, TimestampType.CREATE_TIME, None, b"x" * 99) for i in range(9)]
    log = bytearray(v2.encode_batch(records, codec=Codec.ZSTD))
    log[v2.HEADER_BYTES + 5] = window
    reseal(log, 0, len(log))
    assert deep(bytes(log)).undecodable == (not allowed)
    assert_same(bytes(log))


def test_without_the_short_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpack, "exported", lambda *_: None)
    unpack.lz4_decompress_safe.cache_clear()
    unpack.zstd_functions.cache_clear()
    records = [Record(BASE + i, 9, TimestampType.CREATE_TIME, None, b"x" * 99) for i in range(9)]
    log = v2.encode_batch(records[:5], codec=Codec.ZSTD) + v1.encode_batch(
        records[5:], codec=Codec.LZ4
    )
    try:
        assert unpack.lz4_decompress_safe() is None
        assert unpack.zstd_functions() is None
        assert deep(log).facts.records == 9
    finally:
        unpack.lz4_decompress_safe.cache_clear()
        unpack.zstd_functions.cache_clear()
