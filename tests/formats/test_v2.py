"""The record batch of magic 2: what Kafka's reader accepts and refuses, and the fields that outlive records."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkats.compression import Codec, compress, limit
from kafkats.errors import BadInput, CorruptBatch
from kafkats.formats import dispatch, v2
from kafkats.formats.control import ControlType, decode_control_type, decode_coordinator_epoch
from kafkats.formats.model import Batch, Header, Record, TimestampType
from kafkats.primitives import encode_varint
from tests.formats.logs import RECORD, raw_batch, record

CREATE, APPEND = TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME
PLAIN = [Record(10, 1000, CREATE, b"k", None)]


def one(log: bytes) -> Batch:
    (batch,) = dispatch.batches(log)
    return batch


def read(log: bytes) -> list[Record]:
    return dispatch.records(log, one(log))


def refused(log: bytes, reason: str, position: int | None = None) -> None:
    batch = one(log)
    with pytest.raises(CorruptBatch, match=reason) as caught:
        dispatch.records(log, batch)
    assert caught.value.position == position or (
        position is None and caught.value.position is not None
    )


class TestHeader:
    def test_fields(self) -> None:
        batch = one(
            raw_batch(
                RECORD, leader_epoch=7, attributes=0x70, last_offset_delta=5, max_timestamp=2000,
                producer_id=77, producer_epoch=3, base_sequence=4,
            )
        )  # fmt: skip
        assert batch.delete_horizon_ms == batch.base_timestamp == 1000
        assert (batch.transactional, batch.control, batch.last_offset, batch.max_timestamp) == (
            True,
            True,
            15,
            2000,
        )
        assert (
            batch.leader_epoch,
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
        ) == (7, 77, 3, 4)
        assert (batch.size, batch.end, batch.count, batch.codec) == (69, 69, 1, Codec.NONE)

    def test_no_horizon_without_the_bit(self) -> None:
        assert one(raw_batch(RECORD)).delete_horizon_ms is None

    def test_shorter_than_its_header(self) -> None:
        log = bytes(8) + (48).to_bytes(4, "big") + bytes(4) + b"\x02" + bytes(43)
        with pytest.raises(CorruptBatch, match="60 bytes, at least 61"):
            list(dispatch.batches(log))

    def test_leader_epoch_and_offset_are_outside_the_crc(self) -> None:
        log = raw_batch(RECORD)
        moved = (99).to_bytes(8, "big") + log[8:12] + (5).to_bytes(4, "big") + log[16:]
        assert (one(moved).base_offset, one(moved).leader_epoch, read(moved)[0].offset) == (
            99,
            5,
            99,
        )

    def test_crc_names_both_numbers(self) -> None:
        damaged = raw_batch(RECORD)[:-1] + b"\1"
        with pytest.raises(
            CorruptBatch, match=r"CRC-32C is [0-9a-f]{8}, the batch says [0-9a-f]{8}"
        ) as caught:
            one(damaged)
        assert caught.value.position == 0

    def test_no_offset_follows_the_largest(self) -> None:
        with pytest.raises(CorruptBatch, match="no log holds an offset above"):
            one(raw_batch(RECORD, base_offset=2**63 - 1, last_offset_delta=1))


class TestRefused:
    def test_negative_count(self) -> None:
        refused(raw_batch(RECORD, record_count=-1), "record count -1", 0)

    def test_fewer_records_than_counted(self) -> None:
        refused(raw_batch(RECORD, record_count=2), "inside a varint", 69)

    def test_bytes_after_the_last_record(self) -> None:
        refused(raw_batch(RECORD + b"\0"), "1 byte left after 1 record", 69)
        refused(
            raw_batch(compress(Codec.GZIP, RECORD + b"\0"), attributes=1),
            "1 byte left .* after decompression",
            0,
        )

    def test_no_records_to_look_at(self) -> None:
        # Kafka returns before it looks at what lies there.
        assert read(raw_batch(b"junk", record_count=0)) == []
        assert read(raw_batch(b"junk", record_count=0, attributes=1)) == []

    @pytest.mark.parametrize("codec", [5, 6, 7])
    def test_unknown_codecs(self, codec: int) -> None:
        # Only the records need it: recovery keeps such a batch.
        assert one(raw_batch(RECORD, attributes=codec)).codec == codec
        refused(raw_batch(RECORD, attributes=codec), f"codec {codec} is unknown", 0)

    @pytest.mark.parametrize(("body", "reason"), [
        ("0000000000", "inside a varint"),                  # no header count
        ("000000 02 6b 01 00 00", "a record of 8 bytes whose fields take 7"),
        ("000000 02 6b 01 01", "-1 record headers"),
        ("000000 02 6b 01 10", "8 record headers, 0 bytes left"),
        ("000000 02 6b 01 02 01 01", "a record header's key of -1 bytes"),
        ("000000 02 6b 01 02 7e", "63 bytes of a key, value or header expected"),
        ("000000 7e 6b", "63 bytes of a key, value or header expected"),
        ("00ffffffffffffffffffff 00 01 01 00", "a varint of more than 10 bytes"),
        ("00 00 ffffffffff 01 01 00", "a varint of more than 5 bytes"),
    ])  # fmt: skip
    def test_record_structure(self, body: str, reason: str) -> None:
        area = record(bytes.fromhex(body))
        refused(raw_batch(area), reason)
        refused(raw_batch(compress(Codec.LZ4, area), attributes=3), reason, 0)

    def test_a_record_longer_than_what_is_left(self) -> None:
        refused(raw_batch(encode_varint(100) + RECORD[1:]), "a record of 100 bytes, 7 left", 61)

    def test_a_record_that_reads_on_into_the_next(self) -> None:
        refused(raw_batch(record(bytes(5)) + b"\0"), "a record of 5 bytes whose fields take 6", 61)

    @pytest.mark.parametrize("length", [0, -1, -100])
    def test_a_record_without_room_for_its_fields(self, length: int) -> None:
        refused(raw_batch(encode_varint(length) + RECORD[1:]), f"a record of {length} bytes", 61)

    def test_the_limit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(limit, "_allowed", 9999)
        log = v2.encode_batch([Record(0, 0, CREATE, None, bytes(10_000))], codec=Codec.ZSTD)
        with pytest.raises(CorruptBatch, match="more than 9999 bytes"):
            dispatch.records(log, one(log))

    def test_no_zstd_bytes_at_all(self) -> None:
        refused(raw_batch(b"", attributes=4), "inside a varint", 0)


class TestNotChecked:
    """What Kafka does not check on reading, we do not refuse."""

    def test_record_attributes_and_high_attribute_byte(self) -> None:
        assert read(raw_batch(RECORD[:1] + b"\xff" + RECORD[2:], attributes=0x7F80)) == PLAIN

    def test_offsets_against_the_header(self) -> None:
        area = record(bytes.fromhex("00 00 0a 01 01 00")) + record(
            bytes.fromhex("00 00 03 01 01 00")
        )
        assert [r.offset for r in read(raw_batch(area, record_count=2))] == [15, 8]

    def test_timestamps_against_the_header(self) -> None:
        assert read(raw_batch(RECORD, max_timestamp=3)) == PLAIN

    def test_any_negative_length_is_null(self) -> None:
        assert read(raw_batch(record(bytes.fromhex("00 00 00 03 05 00")))) == [
            Record(10, 1000, CREATE, None, None)
        ]

    def test_header_keys_that_are_not_utf8(self) -> None:
        (found,) = read(raw_batch(record(bytes.fromhex("00 00 00 01 01 02 04 ff 68 03"))))
        assert found.headers == (Header("\ufffdh", None),)

    def test_longer_varints_than_needed(self) -> None:
        assert read(raw_batch(record(bytes.fromhex("00 8000 8000 8200 6b 8100 80808000")))) == PLAIN


class TestTimestamps:
    def test_log_append_time_is_the_maximum(self) -> None:
        log = v2.encode_batch(
            [Record(0, 5, CREATE, None, b"a"), Record(1, 9, CREATE, None, b"b")], log_append_time=70
        )
        assert [(r.timestamp, r.timestamp_type) for r in read(log)] == [(70, APPEND)] * 2
        assert (one(log).base_timestamp, one(log).max_timestamp) == (5, 70)

    def test_deltas_count_from_the_delete_horizon(self) -> None:
        records = [Record(4, 1000, CREATE, b"a", None), Record(5, 2000, CREATE, b"b", None)]
        log = v2.encode_batch(records, delete_horizon_ms=1_000_000)
        assert read(log) == records
        assert (one(log).delete_horizon_ms, one(log).max_timestamp) == (1_000_000, 2000)

    def test_negative_ones(self) -> None:
        records = [
            Record(i, t, CREATE, None, None)
            for i, t in enumerate([-5000, -(2**63), 2**63 - 1, -1, 0])
        ]
        log = v2.encode_batch(records)
        assert read(log) == records
        assert one(log).max_timestamp == 2**63 - 1
        assert one(v2.encode_batch(records[:2])).max_timestamp == -1


class TestWhatCompactionLeaves:
    def test_holes(self) -> None:
        records = [Record(12, 0, CREATE, b"a", b""), Record(15, 0, CREATE, b"b", b"")]
        log = v2.encode_batch(
            records,
            base_offset=10,
            last_offset=19,
            base_sequence=3,
            producer_id=1,
            producer_epoch=0,
        )
        assert read(log) == records
        assert (
            one(log).base_offset,
            one(log).last_offset,
            dispatch.first_offset(log, one(log)),
        ) == (10, 19, 10)

    def test_empty_batches(self) -> None:
        log = v2.encode_batch(
            [], base_offset=10, last_offset=12, max_timestamp=99, codec=Codec.GZIP, transactional=True,
            delete_horizon_ms=5,
        )  # fmt: skip
        batch = one(log)
        assert (len(log), batch.codec, batch.base_timestamp, batch.delete_horizon_ms) == (
            61,
            Codec.NONE,
            -1,
            None,
        )
        assert (batch.transactional, batch.max_timestamp, read(log)) == (True, 99, [])

    def test_empty_batches_need_offsets(self) -> None:
        with pytest.raises(BadInput, match="empty batch"):
            v2.encode_batch([], base_offset=1)


class TestEncode:
    @pytest.mark.parametrize("fields", [
        {"base_offset": 2**63}, {"last_offset": 10 + 2**31}, {"producer_epoch": 40000}, {"base_sequence": 2**31},
        {"log_append_time": 2**63}, {"leader_epoch": -(2**31) - 1},
    ])  # fmt: skip
    def test_numbers_that_do_not_fit(self, fields: dict[str, int]) -> None:
        with pytest.raises(BadInput):
            v2.encode_batch(PLAIN, **fields)

    def test_record_offsets_that_do_not_fit(self) -> None:
        with pytest.raises(BadInput, match="offset 2147483648"):
            v2.encode_batch(
                [Record(0, 0, CREATE, None, None), Record(2**31, 0, CREATE, None, None)],
                last_offset=5,
            )

    def test_record_timestamps_that_do_not_fit(self) -> None:
        with pytest.raises(BadInput, match="timestamp 9223372036854775808"):
            v2.encode_batch(
                [Record(0, 0, CREATE, None, None), Record(1, 2**63, CREATE, None, None)],
                max_timestamp=5,
            )

    def test_header_keys_that_are_not_text(self) -> None:
        with pytest.raises(BadInput, match="not text"):
            v2.encode_batch([Record(0, 0, CREATE, None, None, (Header("\ud800", None),))])

    def test_unknown_codecs(self) -> None:
        with pytest.raises(BadInput, match="codec 5"):
            v2.encode_batch(PLAIN, codec=5)


class TestControl:
    @pytest.mark.parametrize(
        ("key", "kind"), [("00000000", 0), ("00000001", 1), ("00010006ff", 6), ("00000063", 99)]
    )
    def test_types(self, key: str, kind: int) -> None:
        assert decode_control_type(bytes.fromhex(key)) == kind

    def test_names(self) -> None:
        assert isinstance(decode_control_type(b"\0\0\0\1"), ControlType)

    @pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\0"])
    def test_bad_keys(self, key: bytes | None) -> None:
        with pytest.raises(CorruptBatch, match="control record"):
            decode_control_type(key)

    @pytest.mark.parametrize("value", [None, b"\0\0\0\0\0", b"\xff\xff\0\0\0\0"])
    def test_bad_values(self, value: bytes | None) -> None:
        with pytest.raises(CorruptBatch, match="transaction marker"):
            decode_coordinator_epoch(value)


@pytest.mark.slow(1)
@settings(deadline=2000, max_examples=800)
@given(
    codec=st.sampled_from(Codec),
    count=st.integers(-1, 4),
    damage=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_damage_inside_the_records(codec: Codec, count: int, damage: list[tuple[int, int]]) -> None:
    headers = bytes.fromhex("00 00 02 02 6b 02 76 04 02 68 02 78 02 6e 01")
    area = bytearray(RECORD + record(headers) + RECORD)
    for at, value in damage:
        area[at % len(area)] = value
    log = raw_batch(compress(codec, area), attributes=codec, record_count=count)
    try:
        read(log)
    except CorruptBatch as e:
        assert e.position is not None
        assert 0 <= e.position <= len(log)
