"""The converter with kernels against the plain one, byte for byte: all pairs, codecs, timestamp types, windows and buffers of any size."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkats.compression import Codec, compress
from kafkats.errors import CorruptBatch, NotConvertible
from kafkats.formats import dispatch, v0, v1, v2
from kafkats.formats.build import Target
from kafkats.formats.control import ControlType, encode_end_marker
from kafkats.formats.convert import convert_segment
from kafkats.formats.model import Header, Record, TimestampType
from kafkats.segment import convert
from kafkats.segment.convert import Conversion, convert_source
from kafkats.segment.reader import Source, Window, open_source
from kafkats.segment.walk import walk
from kafkats_model.memory_source import array_source
from tests.golden import Unpacked
from tests.index.generated import BASE, damaged_logs, logs, reseal

TARGETS = [
    *(Target(magic, codec) for magic in (0, 1) for codec in (None, *list(Codec)[:4])),
    *(Target(2, codec) for codec in (None, *Codec)),
]
TIMES = st.sampled_from([-1, -1, 0, 5, 6, 1_700_000_000_000, -7, 2**63 - 1, -(2**63)])


def ours(source: Source, target: Target, *, log_end: bool = False) -> tuple[bytes, Conversion]:
    parts: list[bytes] = []
    done = convert_source(
        source, BASE, target, lambda data: parts.append(bytes(data)), log_end=log_end
    )
    return b"".join(parts), done


def assert_same(
    log: bytes, target: Target, *, log_end: bool = False, source: Source | None = None
) -> Conversion | None:
    source = source or array_source(np.frombuffer(log, np.uint8))
    try:
        expected = convert_segment(log, BASE, target, log_end=log_end)
    except (CorruptBatch, NotConvertible) as error:
        with pytest.raises((CorruptBatch, NotConvertible)) as raised:
            ours(source, target, log_end=log_end)
        found = raised.value
        assert (type(found), found.position, found.reason) == (
            type(error),
            error.position,
            error.reason,
        )
        return None
    data, done = ours(source, target, log_end=log_end)
    assert data == expected.data
    assert (done.losses, done.records) == (expected.losses, expected.records)
    assert (done.bytes, done.hash) == (len(data), "blake3:" + blake3(data).hexdigest())
    assert (done.batches_in, done.batches_out) == (frames(log), frames(data))
    assert done.changed == (data != log)
    return done


def frames(log: bytes) -> int:
    return sum(1 for _ in dispatch.batches(log, verify=False))


@st.composite
def records(draw: st.DrawFn, first: int, most: int) -> list[Record]:
    found, offset = [], first
    for _ in range(draw(st.integers(1, most))):
        value = (
            draw(st.none() | st.binary(max_size=30))
            if draw(st.booleans())
            else b"a longer value; " * 20
        )
        headers = tuple(
            Header(key, value) for key, value in draw(st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2))
        )  # fmt: skip
        found.append(
            Record(
                offset,
                draw(TIMES),
                TimestampType.CREATE_TIME,
                draw(st.none() | st.binary(max_size=9)),
                value,
                headers if draw(st.booleans()) else (),
            )
        )
        offset += draw(st.sampled_from([1, 1, 1, 2, 200]))
    return found


@st.composite
def batch_v2(draw: st.DrawFn, first: int) -> tuple[bytes, int]:
    given_records = draw(records(first, 6))
    gap, more = draw(st.sampled_from([(0, 0), (0, 0), (0, 3), (2, 0)]))
    fields = {
        "leader_epoch": draw(st.sampled_from([-1, 0, 7])),
        "producer_id": draw(st.sampled_from([-1, 0, 77])),
        "base_offset": first - gap if first - gap >= BASE else first,
        "last_offset": given_records[-1].offset + more,
        "transactional": draw(st.booleans()),
        "delete_horizon_ms": draw(st.sampled_from([None, None, 99])),
    }
    kind = draw(st.sampled_from(["data"] * 6 + ["empty", "control", "odd control"]))
    if kind == "empty":
        given_records = []
    elif kind == "control":
        key, value = encode_end_marker(
            draw(st.sampled_from([ControlType.ABORT, ControlType.COMMIT])), 9
        )
        given_records = [Record(first, 5, TimestampType.CREATE_TIME, key, value)]
        fields |= {"control": True, "last_offset": first}
    elif kind == "odd control":
        fields["control"] = True
    codec = draw(st.sampled_from(list(Codec))) if kind == "data" else Codec.NONE
    data = v2.encode_batch(
        given_records, codec=codec, log_append_time=draw(st.none() | TIMES), **fields
    )
    return data, fields["last_offset"] + 1


@st.composite
def batch_old(draw: st.DrawFn, first: int, magic: int) -> tuple[bytes, int]:
    codec = draw(st.sampled_from(list(Codec)[:4]))
    given_records = [r._replace(headers=()) for r in draw(records(first, 6 if codec else 1))]
    after = given_records[-1].offset + 1
    if magic == 0:
        return v0.encode_batch(given_records, codec=codec), after
    stamped = draw(st.none() | TIMES)
    return v1.encode_batch(
        given_records, codec=codec, log_append_time=stamped, stamp_inner=draw(st.booleans())
    ), after


@st.composite
def mixed(draw: st.DrawFn) -> bytes:
    """A healthy segment of batches that have everything."""
    offset, parts = BASE, []
    for _ in range(draw(st.integers(0, 8))):
        magic = draw(st.sampled_from([0, 1, 2, 2]))
        data, offset = draw(batch_v2(offset) if magic == 2 else batch_old(offset, magic))
        parts.append(data)
        offset += draw(st.sampled_from([0, 0, 4]))
    return b"".join(parts)


def cut_anywhere(log: bytes, sizes: list[int]) -> Source:
    """Windows of such sizes, each in memory of its own, overwritten when the next one comes."""
    whole = array_source(np.frombuffer(log, np.uint8))
    kept: list[np.ndarray] = [np.empty(0, np.uint8)]
    turn = iter(sizes * 10_000)

    def window(position: int, needed: int) -> Window:
        loaded = min(len(log), position + max(needed, next(turn)))
        kept[0][:] = 0xA5
        kept[0] = np.frombuffer(log[position:loaded], np.uint8).copy()
        return Window(kept[0].ctypes.data, position, loaded, loaded, len(log))

    return whole._replace(window=window)


@pytest.mark.slow(4)
@settings(max_examples=200, deadline=None)
@given(mixed(), st.sampled_from(TARGETS), st.booleans())
def test_segments_that_have_everything(log: bytes, target: Target, log_end: bool) -> None:
    assert_same(log, target, log_end=log_end)


@pytest.mark.slow(2)
@settings(max_examples=100, deadline=None)
@given(
    logs(), st.sampled_from([*TARGETS, Target(0, Codec.ZSTD), Target(1, Codec.ZSTD)]), st.booleans()
)
def test_other_segments(log: bytes, target: Target, log_end: bool) -> None:
    assert_same(log, target, log_end=log_end)


@pytest.mark.slow(2)
@settings(max_examples=100, deadline=None)
@given(damaged_logs(), st.sampled_from(TARGETS), st.booleans())
def test_damaged_segments(log: bytes, target: Target, log_end: bool) -> None:
    assert_same(log, target, log_end=log_end)


@pytest.mark.slow(4)
@settings(max_examples=100, deadline=None)
@given(
    mixed(),
    st.sampled_from(TARGETS),
    st.lists(st.integers(18, 400), min_size=1),
    st.sampled_from([64, 300, 70_000]),
)
def test_windows_and_buffers_of_any_size(
    log: bytes, target: Target, sizes: list[int], room: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(convert, "_ROOM", room)
        patch.setattr(convert, "_PIECE", max(1, room - 40))
        patch.setattr(convert, "_AREA", room)
        patch.setattr(convert, "_PLAIN", room)
        assert_same(log, target, source=cut_anywhere(log, sizes))


@pytest.mark.slow(4)
@settings(max_examples=120, deadline=None)
@given(mixed(), st.sampled_from(TARGETS), st.data())
def test_turned_bytes_under_a_good_checksum(
    log: bytes, target: Target, data: st.DataObject
) -> None:
    turned = bytearray(log)
    for batch in list(dispatch.batches(log)):
        if data.draw(st.booleans()):
            at = batch.position + data.draw(
                st.sampled_from([0, 7, 17, 22, 23, 26, 27, 57, 60])
                | st.integers(17, batch.size - 1)
            )
            if at < batch.end and at not in range(batch.position + 12, batch.position + 17):
                turned[at] = data.draw(st.sampled_from([0, 1, 2, 8, 0x7F, 0x80, 0xFF]))
                reseal(turned, batch.position, batch.end)
    assert_same(bytes(turned), target)


def test_of_two_faults_the_first_in_the_file_is_named() -> None:
    """The value of the second message leads beyond it, and bytes follow that are no batch."""
    sound = v0.encode_batch([Record(BASE, -1, TimestampType.NONE, None, b"one")])
    damaged = bytearray(v0.encode_batch([Record(BASE + 1, -1, TimestampType.NONE, None, b"")]))
    damaged[17], damaged[-4:] = Codec.SNAPPY, struct.pack(">i", 127)
    reseal(damaged, 0, len(damaged))
    log = sound + bytes(damaged) + bytes(3)
    for convert_log in (
        lambda: convert_segment(log, BASE, Target(2)),
        lambda: ours(array_source(np.frombuffer(log, np.uint8)), Target(2)),
    ):
        with pytest.raises(CorruptBatch, match="127 bytes of a key, value or header expected"):
            convert_log()


def wrapper(
    magic: int,
    offset: int,
    inner: bytes,
    codec: Codec,
    *,
    attributes: int = 0,
    key: bytes | None = None,
) -> bytes:
    """A wrapper around anything."""
    time = struct.pack(">q", 77) if magic else b""
    value = compress(codec, inner, broken_lz4=magic == 0)
    fields = (
        struct.pack(">i", -1 if key is None else len(key))
        + (key or b"")
        + struct.pack(">i", len(value))
        + value
    )
    body = bytearray(
        struct.pack(">qiiBB", offset, 6 + len(time) + len(fields), 0, magic, attributes | codec)
        + time
        + fields
    )
    reseal(body, 0, len(body))
    return bytes(body)


def message(magic: int, offset: int, time: int = 5) -> bytes:
    record = Record(offset, time, TimestampType.CREATE_TIME, b"k", b"value")
    return v1.encode_batch([record]) if magic else v0.encode_batch([record])


ODD = {
    "inner messages of the other magic, in magic 1": wrapper(1, BASE + 5, message(0, 0) + message(0, 3), Codec.GZIP),
    "inner messages of the other magic, in magic 0": wrapper(0, BASE + 5, message(1, BASE) + message(1, BASE + 3), Codec.LZ4),
    "inner messages of both magics": wrapper(1, BASE + 5, message(0, 0) + message(1, 3), Codec.LZ4),
    "of both, LogAppendTime": wrapper(1, BASE + 5, message(0, 0) + message(1, 3), Codec.LZ4, attributes=8),
    "a wrapper with a key": wrapper(1, BASE + 5, message(1, 0), Codec.SNAPPY, key=b"key"),
    "wrapper offset 0 (librdkafka), above the base": wrapper(1, 0, message(1, BASE) + message(1, BASE + 1), Codec.GZIP),
    "wrapper offset 0, below the base": wrapper(1, 0, message(1, 0) + message(1, 1), Codec.GZIP),
    "wrapper offset below its last message's": wrapper(1, BASE, message(1, BASE + 1), Codec.GZIP),
    "offsets that do not increase": wrapper(0, BASE + 5, message(0, BASE + 1) + message(0, BASE + 1), Codec.GZIP),
    "offsets that fall": wrapper(1, BASE + 5, message(1, 3) + message(1, 1), Codec.LZ4),
    "no message": wrapper(1, BASE, b"", Codec.LZ4),
    "less than a message": wrapper(0, BASE, message(0, BASE)[:-1], Codec.LZ4),
    "a cut last message": wrapper(0, BASE, message(0, BASE) + message(0, BASE + 1)[:-3], Codec.LZ4),
    "a size too small": wrapper(1, BASE, message(1, 0) + bytes(30), Codec.LZ4),
    "a compressed message inside": wrapper(1, BASE, wrapper(1, 0, message(1, 0), Codec.GZIP), Codec.LZ4),
    "a magic-2 batch inside": wrapper(1, BASE, v2.encode_batch([Record(0, 1, TimestampType.CREATE_TIME, None, b"")]), Codec.LZ4),
    "an offset below the base": message(1, BASE - 1),
    "the highest offset": message(0, BASE + 2**31 - 1),
    "an offset above it": message(1, BASE + 2**31),
    "a wrapper that begins below the base": wrapper(1, BASE, message(1, 0) + message(1, 9), Codec.LZ4),
}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("name", ODD)
def test_odd_messages(name: str, target: Target) -> None:
    assert_same(ODD[name], target)
    assert_same(message(1, BASE) + ODD[name] + message(0, BASE + 9), target)


def test_what_is_kept_at_the_log_end() -> None:
    data = [Record(BASE, 5, TimestampType.CREATE_TIME, b"k", b"v")]
    key, value = encode_end_marker(ControlType.ABORT, 1)
    marker = v2.encode_batch(
        [Record(BASE + 1, 5, TimestampType.CREATE_TIME, key, value)],
        control=True,
        transactional=True,
    )
    log = v2.encode_batch(data, transactional=True, producer_id=7, leader_epoch=3) + marker
    kept = assert_same(log, Target(1), log_end=True)
    assert kept and kept.kept_last and kept.changed
    assert kept.losses == {"transactions": 1, "idempotence": 1, "leader-epochs": 1}
    gone = assert_same(log, Target(1))
    assert gone and not gone.kept_last
    assert gone.losses == {
        "transactions": 1,
        "control": 1,
        "aborted-visible": 1,
        "idempotence": 1,
        "leader-epochs": 1,
    }
    ends_lower = v2.encode_batch(data, last_offset=BASE + 4)
    kept = assert_same(ends_lower, Target(0), log_end=True)
    assert kept and kept.kept_last and not kept.changed
    same = assert_same(v2.encode_batch(data), Target(2), log_end=True)
    assert same and not same.kept_last


def test_a_file_that_is_cut_meanwhile(tmp_path: Path) -> None:
    log = b"".join(message(1, BASE + n) for n in range(200_000))
    path = tmp_path / "0.log"
    path.write_bytes(log)
    with open_source(path) as source:
        path.write_bytes(log[: len(log) // 2 - 5])
        with pytest.raises(NotConvertible):
            ours(source, Target(2))


def test_no_more_than_a_segment_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    log = message(0, BASE) * 3
    monkeypatch.setattr(convert, "MAX_SEGMENT_BYTES", len(log))
    assert ours(array_source(np.frombuffer(log, np.uint8)), Target(0))[1].bytes == len(log)
    with pytest.raises(NotConvertible):
        ours(array_source(np.frombuffer(log, np.uint8)), Target(1))


def test_without_lz4_by_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert, "lz4_decompress_safe", lambda: None)
    monkeypatch.setattr(convert, "lz4_compress_default", lambda: None)
    given_records = [
        Record(BASE + n, n, TimestampType.CREATE_TIME, b"k", b"value" * 40) for n in range(900)
    ]
    log = v1.encode_batch(given_records, codec=Codec.LZ4) + v2.encode_batch(
        [r._replace(offset=r.offset + 900) for r in given_records], codec=Codec.LZ4
    )
    for target in TARGETS:
        assert_same(log, target)


def test_batches_beyond_every_buffer() -> None:
    big = [
        Record(BASE + n, n, TimestampType.CREATE_TIME, None, bytes([n]) * 700_000) for n in range(9)
    ]
    log = v2.encode_batch(big) + v1.encode_batch(
        [r._replace(offset=r.offset + 9) for r in big], codec=Codec.LZ4
    )
    log += v0.encode_batch([big[0]._replace(offset=BASE + 20, value=b"x" * 3_000_000)])
    for target in (
        Target(0),
        Target(1),
        Target(2),
        Target(2, Codec.LZ4),
        Target(1, Codec.SNAPPY),
        Target(2, Codec.NONE),
    ):
        assert_same(log, target)


def test_a_forecast_says_what_will_be(golden: Unpacked) -> None:
    log = max(
        golden("matrix-4.3.1-v2", "data").glob("lz4-ct-0/*.log"), key=lambda p: p.stat().st_size
    )
    with open_source(log, mapped=True) as source:
        parts: list[bytes] = []
        done = convert_source(
            source, int(log.stem), Target(1), lambda d: parts.append(bytes(d)), log_end=True
        )
        assert done == convert_source(source, int(log.stem), Target(1), None, log_end=True)
        undigested = convert_source(
            source, int(log.stem), Target(1), None, log_end=True, digest=False
        )
        assert undigested == done._replace(hash="")
        assert done.bytes == sum(map(len, parts)) > 0


@pytest.mark.slow(4)
def test_what_real_brokers_wrote(golden: Unpacked) -> None:
    seen = set()
    for segment in golden.segments("matrix", "timestamps", "compaction", "transactions", "upgrade"):
        log = segment.log.read_bytes()
        base = int(segment.log.stem)
        facts = walk(array_source(np.frombuffer(log, np.uint8)), base).facts
        log = log[: facts.valid_bytes]
        types = frozenset(batch.timestamp_type for batch in dispatch.batches(log))
        kind = (facts.magics, facts.codecs, types, facts.control_batches)
        if len(log) > 50_000 or kind in seen:
            continue
        seen.add(kind)
        source = array_source(np.frombuffer(log, np.uint8))
        for target in (Target(0, Codec.SNAPPY), Target(1, Codec.NONE), Target(2)):
            expected = convert_segment(log, base, target, log_end=True)
            parts: list[bytes] = []
            done = convert_source(
                source, base, target, lambda d, p=parts: p.append(bytes(d)), log_end=True
            )
            assert b"".join(parts) == expected.data, (segment, target)
            assert (done.losses, done.records) == (expected.losses, expected.records)
    assert len(seen) > 10
