"""The cleaner's rule, batch by batch: Kafka's own bytes, shapes, losses, the end of the log, what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafkats.compression import compress
from kafkats.errors import CorruptBatch, NotConvertible
from kafkats.formats import convert, dispatch, v0, v1, v2
from kafkats.formats.build import Target
from kafkats.formats.control import ControlType, encode_end_marker
from kafkats.formats.convert import Converted, convert_batch, convert_segment
from kafkats.formats.model import Codec, Header, Record, TimestampType
from kafkats.generations import LOSSES
from tests.formats.logs import NULL, RECORD, nullable, raw_batch, raw_message

T = 1700000000000
NONE, CREATE, APPEND = TimestampType.NONE, TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME
RECORDS = [Record(100, T + 5, CREATE, b"k0", b"v0"), Record(101, T, CREATE, b"k1", b"v1")]
TIMELESS = [r._replace(timestamp=-1) for r in RECORDS]

# What Kafka 4.1.1's own classes wrote. A batch of magic 2 that a conversion wrote has no leader epoch, theirs has 7.
A1_V0 = "0000000000000064000000128697724c0000000000026b3000000002763000000000000000650000001257e7496e0000000000026b31000000027631"
A1_V1 = "00000000000000640000001a6985e25301000000018bcfe56805000000026b3000000002763000000000000000650000001aa5da6a6201000000018bcfe56800000000026b31000000027631"
A1_V1_TIMELESS = "00000000000000640000001a0b430e730100ffffffffffffffff000000026b3000000002763000000000000000650000001ada3335510100ffffffffffffffff000000026b31000000027631"
A2 = "0000000000000064000000470000000702170f2c710000000000010000018bcfe568050000018bcfe56805ffffffffffffffffffffffffffff0000000214000000046b300476300014000902046b3104763100"
A2_TIMELESS = "000000000000006400000047000000070279f4ae59000000000001ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff0000000214000000046b300476300014000002046b3104763100"
A3_V0 = "000000000000006500000051715c72310003ffffffff0000004304224d1860401a34000000120001009164000000128697724c0f0080026b300000000276060000020010651e004057e7496e0d00a000026b3100000002763100000000"
A3_V1 = "0000000000000065000000640f48e67f01030000018bcfe56805ffffffff0000004e04224d186040823f00000016000100f0061a6985e25301000000018bcfe56805000000026b30060010760600000200001d00501aa5da6a62090001260000160090026b3100000002763100000000"
A3_V2 = "00000000000000640000005600000007029df087030003000000010000018bcfe568050000018bcfe56805ffffffffffffffffffffffffffff0000000204224d186040821600008014000000046b300476300014000902046b310476310000000000"
A4 = "0000000000000033000000539f3c807201090000018bcfe56800ffffffff0000003d1f8b08000000000000ff63608003a9c0880833460e0606c6eef34f3340224cd90620b2cc00aa8211a4aa412359044d952158952100d6b4271e4c000000"
A7_V0 = "00000000000000640000001056cf205f000000000001610000000131"
A7_V2 = "00000000000000640000003affffffff028a4f76cd000000000000ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff00000001100000000261023100"
A9_ZSTD = "0000000000000000000000460000000002af79f96d0004000000000000018bcfe568000000018bcfe56800ffffffffffffffffffffffffffff0000000128b52ffd005848000010000000026b027600010000"
A9_SNAPPY = "000000000000000000000050000000000208ee48690002000000000000018bcfe568000000018bcfe56800ffffffffffffffffffffffffffff0000000182534e415050590000000001000000010000000b092010000000026b027600"


def without_epoch(log: str) -> str:
    return log[:24] + "ffffffff" + log[32:]


@pytest.mark.parametrize(
    ("before", "target", "after"),
    [
        pytest.param(A1_V0, Target(1), A1_V1_TIMELESS, id="v0-v1"),
        pytest.param(A1_V1, Target(0), A1_V0, id="v1-v0"),
        pytest.param(A1_V1_TIMELESS, Target(0), A1_V0, id="v1 without time-v0"),
        pytest.param(A7_V0, Target(2), A7_V2, id="v0-v2, the cleaner's"),
        pytest.param(A7_V2, Target(0), A7_V0, id="v2-v0, the cleaner's"),
        pytest.param(A2, Target(1), A1_V1, id="v2-v1"),
        pytest.param(A2, Target(0), A1_V0, id="v2-v0"),
        pytest.param(A2_TIMELESS, Target(1), A1_V1_TIMELESS, id="v2 without time-v1"),
        pytest.param(A3_V1, Target(2), without_epoch(A3_V2), id="v1 lz4-v2"),
        pytest.param(A3_V1, Target(0), A3_V0, id="v1 lz4-v0"),
        pytest.param(A3_V2, Target(1), A3_V1, id="v2 lz4-v1"),
        pytest.param(A3_V2, Target(0), A3_V0, id="v2 lz4-v0"),
        pytest.param(A3_V0, Target(2, Codec.NONE), without_epoch(A2_TIMELESS), id="v0 lz4-v2 none"),
        pytest.param(A3_V1, Target(2, Codec.NONE), without_epoch(A2), id="v1 lz4-v2 none"),
        pytest.param(A3_V1, Target(1, Codec.NONE), A1_V1, id="v1 lz4-v1 none"),
        pytest.param(A3_V0, Target(0, Codec.NONE), A1_V0, id="v0 lz4-v0 none"),
        pytest.param(A2, Target(1, Codec.LZ4), A3_V1, id="v2-v1 lz4"),
        pytest.param(A2, Target(0, Codec.LZ4), A3_V0, id="v2-v0 lz4"),
        pytest.param(A2, Target(2, Codec.LZ4), A3_V2, id="v2-v2 lz4"),
        pytest.param(A3_V2, Target(2, Codec.NONE), A2, id="v2 lz4-v2 none"),
        pytest.param(A9_ZSTD, Target(2, Codec.SNAPPY), A9_SNAPPY, id="v2 zstd-v2 snappy"),
        pytest.param(A9_SNAPPY, Target(2, Codec.ZSTD), A9_ZSTD, id="v2 snappy-v2 zstd"),
    ],
)
def test_the_bytes_of_kafka(before: str, target: Target, after: str) -> None:
    assert convert_segment(bytes.fromhex(before), 0, target).data.hex() == after


def test_a_log_append_time_wrapper_comes_back_to_the_byte() -> None:
    up = convert_segment(bytes.fromhex(A4), 50, Target(2))
    (batch,) = dispatch.batches(up.data)
    assert (batch.timestamp_type, batch.max_timestamp, batch.base_timestamp, batch.codec) == (
        APPEND,
        T,
        T,
        Codec.GZIP,
    )
    assert convert_segment(up.data, 50, Target(1)) == Converted(bytes.fromhex(A4), {}, 2)


@pytest.mark.parametrize(
    "target", [Target(0), Target(0, Codec.LZ4), Target(1), Target(2), Target(2, Codec.LZ4)]
)
def test_what_is_converted_already_is_copied(target: Target) -> None:
    lie = bytearray(bytes.fromhex({0: A3_V0, 1: A3_V1, 2: A3_V2}[target.magic]))
    lie[-1] ^= 1  # its content could not be read: it is not looked at
    (batch,) = dispatch.batches(lie, verify=False)
    assert convert_batch(lie, batch, target) == Converted(bytes(lie), {}, 0)


def test_also_what_no_magic_allows_is_copied() -> None:
    log = raw_message(5, 1, attributes=4, value=nullable(b"?"))
    for target in (Target(1), Target(1, Codec.ZSTD)):
        assert convert_segment(log, 0, target) == Converted(log, {}, 0)


def shapes(log: bytes, target: Target) -> list[tuple[int, ...]]:
    """(magic, codec, base offset, last offset, count) of the frames after conversion."""
    batches = dispatch.batches(convert_segment(log, 0, target).data)
    return [(b.magic, int(b.codec), b.base_offset, b.last_offset, b.count) for b in batches]


HOLES = [
    r._replace(offset=offset)
    for r, offset in zip(RECORDS + TIMELESS, (100, 103, 104, 110), strict=True)
]


class TestShapes:
    def test_each_message_becomes_its_own_batch(self) -> None:
        expected = [(2, 0, offset, offset, 1) for offset in (100, 103, 104, 110)]
        assert shapes(v1.encode_batch(HOLES), Target(2)) == expected
        assert shapes(v0.encode_batch(HOLES), Target(2)) == expected

    def test_a_wrapper_becomes_one_batch_with_its_holes(self) -> None:
        for layout in (v0, v1):
            assert shapes(layout.encode_batch(HOLES, codec=Codec.GZIP), Target(2)) == [
                (2, 1, 100, 110, 4)
            ]

    def test_a_batch_becomes_one_wrapper_or_messages(self) -> None:
        for magic in (0, 1):
            log = v2.encode_batch(HOLES, codec=Codec.GZIP, base_offset=90, last_offset=120)
            assert shapes(log, Target(magic)) == [(magic, 1, -1, 110, -1)]
            messages = [(magic, 0, offset, offset, 1) for offset in (100, 103, 104, 110)]
            assert shapes(log, Target(magic, Codec.NONE)) == messages

    def test_compressing_messages_gives_a_wrapper_each(self) -> None:
        log = v1.encode_batch(RECORDS)
        assert shapes(log, Target(1, Codec.LZ4)) == [(1, 3, -1, 100, -1), (1, 3, -1, 101, -1)]
        assert shapes(log, Target(2, Codec.LZ4)) == [(2, 3, 100, 100, 1), (2, 3, 101, 101, 1)]

    def test_inner_offsets_follow_the_magic(self) -> None:
        log = v2.encode_batch(HOLES, codec=Codec.GZIP)
        down = convert_segment(log, 0, Target(0)).data
        up = convert_segment(down, 0, Target(1)).data
        assert up == v1.encode_batch([r._replace(timestamp=-1) for r in HOLES], codec=Codec.GZIP)
        assert down == v0.encode_batch(HOLES, codec=Codec.GZIP)

    def test_another_codec_keeps_the_header_and_the_records_to_the_byte(self) -> None:
        # Deltas of LogAppendTime, a delete horizon, holes at both ends, bit 7, the producer, a key that is no UTF-8.
        area = bytes.fromhex("14 00 05 02 02 6b 01 02 02 ff 01")
        log = raw_batch(
            area, attributes=0x00D8, last_offset_delta=9, max_timestamp=T, leader_epoch=4, producer_id=7,
            producer_epoch=1, base_sequence=3,
        )  # fmt: skip
        packed = convert_segment(log, 10, Target(2, Codec.ZSTD))
        (before,), (after,) = dispatch.batches(log), dispatch.batches(packed.data)
        assert (packed.losses, packed.records, after.codec, after.attributes) == (
            {},
            1,
            Codec.ZSTD,
            0x00DC,
        )
        assert convert_segment(packed.data, 10, Target(2, Codec.NONE)).data == log
        assert dispatch.records(packed.data, after) == dispatch.records(log, before)


class TestTimestamps:
    def test_negative_ones_are_carried(self) -> None:
        odd = [r._replace(timestamp=ts) for r, ts in zip(RECORDS, (-5000, -(2**63)), strict=True)]
        for codec in (Codec.NONE, Codec.SNAPPY):
            up = convert_segment(v1.encode_batch(odd, codec=codec), 100, Target(2)).data
            assert [r for b in dispatch.batches(up) for r in dispatch.records(up, b)] == odd
            assert {b.max_timestamp for b in dispatch.batches(up)} == {-1}
            down = convert_segment(up, 100, Target(1)).data
            assert down == v1.encode_batch(odd, codec=codec)

    def test_the_wrapper_has_the_maximum(self) -> None:
        (batch,) = dispatch.batches(convert_segment(bytes.fromhex(A3_V2), 100, Target(1)).data)
        assert batch.max_timestamp == T + 5

    def test_log_append_time_goes_up_and_down(self) -> None:
        for codec in (Codec.NONE, Codec.LZ4):
            log = v1.encode_batch(RECORDS, codec=codec, log_append_time=T + 99)
            up = convert_segment(log, 100, Target(2)).data
            told = [
                (r.timestamp, r.timestamp_type)
                for b in dispatch.batches(up)
                for r in dispatch.records(up, b)
            ]
            assert told == [(T + 99, APPEND)] * 2
            assert convert_segment(up, 100, Target(1)).data == log

    def test_an_in_place_stamped_wrapper_is_rebuilt_with_stamped_messages(self) -> None:
        log = v1.encode_batch(RECORDS, codec=Codec.LZ4, log_append_time=T + 99, stamp_inner=False)
        back = convert_segment(convert_segment(log, 100, Target(2)).data, 100, Target(1)).data
        assert back == v1.encode_batch(RECORDS, codec=Codec.LZ4, log_append_time=T + 99)

    def test_the_producers_times_behind_log_append_time_do_not_come_out(self) -> None:
        log = v2.encode_batch(RECORDS, log_append_time=T + 99)
        assert convert_segment(log, 100, Target(1)).data == v1.encode_batch(
            RECORDS, log_append_time=T + 99
        )


PRODUCER = {"leader_epoch": 3, "producer_id": 77, "producer_epoch": 1}


def marker(kind: ControlType, offset: int = 42) -> bytes:
    record = Record(offset, T, CREATE, *encode_end_marker(kind, 9))
    return v2.encode_batch([record], transactional=True, control=True, **PRODUCER)


EMPTY = v2.encode_batch(
    [], base_offset=10, last_offset=12, max_timestamp=T, base_sequence=4, **PRODUCER
)
HEADED = [RECORDS[0]._replace(headers=(Header("h", b"x"), Header("i", None))), RECORDS[1]]


class TestLosses:
    @pytest.mark.parametrize(
        ("log", "losses"),
        [
            pytest.param(v2.encode_batch(RECORDS), {}, id="none"),
            pytest.param(v2.encode_batch(HEADED), {"headers": 1}, id="headers"),
            pytest.param(
                v2.encode_batch(RECORDS, leader_epoch=0), {"leader-epochs": 1}, id="leader epoch"
            ),
            pytest.param(
                v2.encode_batch(RECORDS, delete_horizon_ms=T),
                {"delete-horizon": 1},
                id="delete horizon",
            ),
            pytest.param(
                v2.encode_batch(RECORDS, producer_id=0), {"idempotence": 1}, id="idempotence"
            ),
            pytest.param(
                v2.encode_batch(RECORDS, transactional=True, **PRODUCER),
                {"transactions": 1, "idempotence": 1, "leader-epochs": 1},
                id="transaction",
            ),
            pytest.param(EMPTY, {"idempotence": 1, "leader-epochs": 1}, id="empty"),
            pytest.param(
                marker(ControlType.COMMIT), {"control": 1, "leader-epochs": 1}, id="COMMIT"
            ),
            pytest.param(
                marker(ControlType.ABORT),
                {"control": 1, "aborted-visible": 1, "leader-epochs": 1},
                id="ABORT",
            ),
        ],
    )
    def test_below_magic_2(self, log: bytes, losses: dict[str, int]) -> None:
        assert set(losses) <= set(LOSSES)
        assert convert_segment(log, 0, Target(1)).losses == losses
        (batch,) = dispatch.batches(log)
        timed = {} if batch.control or not batch.count else {"timestamps": 2}
        assert convert_segment(log, 0, Target(0)).losses == losses | timed
        assert convert_segment(log, 0, Target(2, Codec.GZIP)).losses == {}

    def test_timestamps_are_counted_by_record(self) -> None:
        log = v1.encode_batch([*RECORDS, TIMELESS[0]._replace(offset=105)])
        assert convert_segment(log, 0, Target(0)).losses == {"timestamps": 2}
        assert convert_segment(log, 0, Target(2)).losses == {}

    def test_a_segment_adds_up(self) -> None:
        log = (
            EMPTY
            + marker(ControlType.ABORT)
            + marker(ControlType.COMMIT, 43)
            + v2.encode_batch(HEADED)
        )
        converted = convert_segment(log, 0, Target(1))
        assert converted.losses == {
            "headers": 1, "control": 2, "aborted-visible": 1, "idempotence": 1, "leader-epochs": 3
        }  # fmt: skip
        assert (converted.data, converted.records) == (v1.encode_batch(RECORDS), 2)


class TestMarkersAndEmptyBatches:
    @pytest.mark.parametrize("log", [EMPTY, marker(ControlType.ABORT)], ids=["empty", "ABORT"])
    def test_in_magic_2_they_are_never_touched(self, log: bytes) -> None:
        for codec in Codec:
            assert convert_segment(log, 0, Target(2, codec)).data == log

    @pytest.mark.parametrize("log", [EMPTY, marker(ControlType.ABORT)], ids=["empty", "ABORT"])
    def test_below_they_vanish(self, log: bytes) -> None:
        for magic in (0, 1):
            assert convert_segment(log, 0, Target(magic)).data == b""

    def test_a_marker_of_an_unknown_type_is_one(self) -> None:
        log = raw_batch(bytes.fromhex("16 00 00 00 08 00000063 02 00 00"), attributes=0x30)
        assert convert_segment(log, 0, Target(1)).losses == {"control": 1, "leader-epochs": 1}

    def test_a_marker_without_a_type_is_refused(self) -> None:
        with pytest.raises(CorruptBatch):
            convert_segment(raw_batch(RECORD, attributes=0x30), 0, Target(1))


HOLE_AT_THE_END = v2.encode_batch(RECORDS, last_offset=105, leader_epoch=1)


class TestEndOfTheLog:
    """Offsets must not be given out twice: what keeps the log's end stays where a conversion would lose it."""

    @pytest.mark.parametrize(
        "last",
        [EMPTY, marker(ControlType.COMMIT), HOLE_AT_THE_END],
        ids=["empty", "COMMIT", "hole"],
    )
    def test_the_last_batch_stays(self, last: bytes) -> None:
        log = last + last
        for target in (Target(0), Target(1), Target(1, Codec.GZIP)):
            kept = convert_segment(log, 0, target, log_end=True)
            once = convert_segment(last, 0, target)
            assert (kept.data, kept.losses) == (once.data + last, once.losses)
            assert convert_segment(log, 0, target).data == once.data * 2

    def test_a_last_batch_that_says_all_is_converted(self) -> None:
        log = EMPTY + v2.encode_batch(RECORDS, base_offset=90)
        assert convert_segment(log, 0, Target(1), log_end=True).data == v1.encode_batch(RECORDS)

    def test_upward_it_holds_too(self) -> None:
        # A wrapper of magic 0 says its last offset and its messages theirs; they need not agree.
        wrapper = raw_message(
            105, 0, attributes=1, value=nullable(compress(Codec.GZIP, v0.encode_batch(RECORDS)))
        )
        assert convert_segment(wrapper, 0, Target(2), log_end=True).data == wrapper
        assert shapes(wrapper, Target(2)) == [(2, 1, 100, 101, 2)]

    def test_the_codec_alone_changes_no_end(self) -> None:
        (batch,) = dispatch.batches(
            convert_segment(HOLE_AT_THE_END, 0, Target(2, Codec.LZ4), log_end=True).data
        )
        assert (batch.codec, batch.last_offset) == (Codec.LZ4, 105)


class TestOldWrappers:
    def test_offset_0_counts_from_0(self) -> None:
        inner = v1.encode_batch([r._replace(offset=i) for i, r in enumerate(RECORDS)])
        log = raw_message(
            0, 1, attributes=1, timestamp=T, value=nullable(compress(Codec.GZIP, inner))
        )
        assert shapes(log, Target(2)) == [(2, 1, 0, 1, 2)]
        assert shapes(log, Target(0)) == [(0, 1, -1, 1, -1)]

    def test_magic_0_inside_magic_1(self) -> None:
        inner = v0.encode_batch([Record(0, -1, NONE, b"a", b"1")]) + v1.encode_batch([
            Record(1, T, CREATE, b"b", b"2")
        ])
        log = raw_message(
            101, 1, attributes=1, timestamp=T, value=nullable(compress(Codec.GZIP, inner))
        )
        expected = [Record(100, -1, CREATE, b"a", b"1"), Record(101, T, CREATE, b"b", b"2")]
        assert convert_segment(log, 0, Target(2)).data == v2.encode_batch(
            expected, codec=Codec.GZIP
        )
        assert convert_segment(log, 0, Target(1, Codec.LZ4)).data == v1.encode_batch(
            expected, codec=Codec.LZ4
        )
        assert convert_segment(log, 0, Target(0)).losses == {"timestamps": 1}
        assert convert_segment(log, 0, Target(1)).data == log

    def test_magic_1_inside_magic_0(self) -> None:
        value = nullable(compress(Codec.GZIP, v1.encode_batch(RECORDS)))
        log = raw_message(101, 0, attributes=1, value=value)
        assert convert_segment(log, 0, Target(2)).data == v2.encode_batch(RECORDS, codec=Codec.GZIP)

    def test_magic_0_inside_a_log_append_time_wrapper_is_refused(self) -> None:
        # In magic 2 there is one time for all records, and this one has none.
        value = nullable(
            compress(Codec.GZIP, v0.encode_batch([r._replace(offset=0) for r in RECORDS[:1]]))
        )
        log = raw_message(100, 1, attributes=9, timestamp=T, value=value)
        for target in (Target(2), Target(1, Codec.LZ4)):
            with pytest.raises(NotConvertible, match="LogAppendTime"):
                convert_segment(log, 0, target)
        assert convert_segment(log, 0, Target(0)).losses == {}

    def test_a_partial_last_message_and_bytes_behind_a_value_are_dropped(self) -> None:
        inner = v1.encode_batch([r._replace(offset=i) for i, r in enumerate(RECORDS)]) + b"\0" * 11
        value = nullable(compress(Codec.GZIP, inner)) + b"behind"
        log = raw_message(101, 1, attributes=1, timestamp=T, value=value)
        assert convert_segment(log, 0, Target(2)).data == v2.encode_batch(RECORDS, codec=Codec.GZIP)


FIRST = v1.encode_batch(RECORDS[:1])


class TestRefused:
    @pytest.mark.parametrize(
        ("bad", "target", "kind"),
        [
            pytest.param(raw_message(101, 1, attributes=1, value=NULL), Target(2), CorruptBatch, id="no value"),
            pytest.param(
                raw_message(101, 1, attributes=1, value=nullable(compress(Codec.GZIP, b""))),
                Target(2), CorruptBatch, id="no messages",
            ),
            pytest.param(
                raw_message(101, 1, attributes=1, value=nullable(b"junk")), Target(2), CorruptBatch, id="not gzip"
            ),
            pytest.param(raw_message(101, 1, attributes=4), Target(2), CorruptBatch, id="zstd in magic 1"),
            pytest.param(
                raw_message(101, 1, attributes=4), Target(2, Codec.NONE), CorruptBatch, id="zstd in magic 1 to none"
            ),
            pytest.param(raw_batch(b"\x0e junk"), Target(1), CorruptBatch, id="records"),
            pytest.param(raw_batch(b"\x0e junk"), Target(2, Codec.LZ4), CorruptBatch, id="records, codec only"),
            pytest.param(raw_batch(RECORD, record_count=-1), Target(1), CorruptBatch, id="count"),
            pytest.param(FIRST[:-1] + b"?", Target(2), CorruptBatch, id="crc"),
            pytest.param(bytes.fromhex(A9_ZSTD), Target(1), NotConvertible, id="zstd down"),
            pytest.param(FIRST, Target(1, Codec.ZSTD), NotConvertible, id="zstd wanted below magic 2"),
            pytest.param(
                v0.encode_batch(RECORDS[::-1], codec=Codec.GZIP), Target(2), NotConvertible, id="falling offsets"
            ),
            pytest.param(
                v0.encode_batch([RECORDS[0], RECORDS[0]], codec=Codec.GZIP), Target(2), NotConvertible, id="equal offsets"
            ),
            pytest.param(
                v0.encode_batch([RECORDS[0], RECORDS[1]._replace(offset=2**31 + 100)], codec=Codec.GZIP),
                Target(2), NotConvertible, id="offsets too far apart",
            ),
            pytest.param(FIRST[:20], Target(2), NotConvertible, id="torn"),
            pytest.param(FIRST[:5], Target(2), NotConvertible, id="few bytes left"),
        ],
    )  # fmt: skip
    def test_the_segment_is_blocked_at_the_place(
        self, bad: bytes, target: Target, kind: type[CorruptBatch] | type[NotConvertible]
    ) -> None:
        log = EMPTY + bad
        with pytest.raises(kind) as caught:
            convert_segment(log, 0, target)
        assert caught.value.position is not None
        assert len(EMPTY) <= caught.value.position <= len(EMPTY) + v2.HEADER_BYTES

    def test_zstd_goes_down_with_another_codec(self) -> None:
        assert shapes(bytes.fromhex(A9_ZSTD), Target(1, Codec.GZIP)) == [(1, 1, -1, 0, -1)]
        assert shapes(bytes.fromhex(A9_ZSTD), Target(0, Codec.NONE)) == [(0, 0, 0, 0, 1)]

    @pytest.mark.parametrize("base_offset", [101, 102, 101 - 2**31, -(2**40)])
    def test_an_offset_outside_the_segment(self, base_offset: int) -> None:
        for target in (Target(2), Target(1)):
            with pytest.raises(NotConvertible, match="base offset"):
                convert_segment(bytes.fromhex(A1_V1), base_offset, target)

    @pytest.mark.parametrize("base_offset", [100, 101 - 2**31 + 1])
    def test_the_first_and_the_last_offset_that_fit(self, base_offset: int) -> None:
        assert convert_segment(bytes.fromhex(A1_V1), base_offset, Target(2)).records == 2

    def test_a_segment_that_would_grow_too_large(self, monkeypatch: pytest.MonkeyPatch) -> None:
        size = len(convert_segment(bytes.fromhex(A1_V0), 100, Target(2)).data)
        monkeypatch.setattr(convert, "MAX_SEGMENT_BYTES", size - 1)
        with pytest.raises(NotConvertible, match=f"{size} bytes"):
            convert_segment(bytes.fromhex(A1_V0), 100, Target(2))

    def test_nothing_is_converted_to_nothing(self) -> None:
        assert convert_segment(b"", 0, Target(2), log_end=True) == Converted(b"", {}, 0)


def test_the_page_has_the_words_of_the_losses() -> None:
    page = (Path(__file__).parents[2] / "docs" / "formats" / "conversion.md").read_text(
        encoding="utf-8"
    )
    section = page.split("### What is lost, and counted")[1].split("### ")[0]
    assert tuple(re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE)) == LOSSES
