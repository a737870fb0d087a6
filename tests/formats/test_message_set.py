"""Messages and wrappers of magic 0 and 1: what Kafka's reader accepts, corrects and refuses."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkats.compression import Codec, compress, decompress, limit
from kafkats.errors import BadInput, CorruptBatch
from kafkats.formats import dispatch, v0, v1
from kafkats.formats.model import Header, Record, TimestampType
from tests.formats.logs import nullable, raw_message

NONE, CREATE, APPEND = TimestampType.NONE, TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME


def wrapper(
    offset: int,
    magic: int,
    inner: bytes,
    *,
    codec: int = Codec.GZIP,
    flags: int = 0,
    timestamp: int = 99,
) -> bytes:
    packed = compress(codec, inner, broken_lz4=magic == 0)
    return raw_message(
        offset, magic, attributes=codec | flags, timestamp=timestamp, value=nullable(packed)
    )


def read(log: bytes) -> list[Record]:
    return [record for batch in dispatch.batches(log) for record in dispatch.records(log, batch)]


def offsets(log: bytes) -> list[int]:
    found = [record.offset for record in read(log)]
    (batch,) = dispatch.batches(log)
    assert dispatch.first_offset(log, batch) == found[0]
    return found


def inner(magic: int, at: Sequence[int]) -> bytes:
    return b"".join(raw_message(offset, magic, timestamp=1000 + offset) for offset in at)


def refused(log: bytes, reason: str) -> None:
    for batch in dispatch.batches(log):
        with pytest.raises(CorruptBatch, match=reason) as caught:
            dispatch.records(log, batch)
        assert caught.value.position is not None


class TestOffsets:
    def test_of_v0_are_absolute(self) -> None:
        assert offsets(wrapper(12, 0, inner(0, [10, 11, 12]))) == [10, 11, 12]

    def test_of_v0_do_not_depend_on_the_wrapper(self) -> None:
        assert offsets(wrapper(3, 0, inner(0, [10, 12]))) == [10, 12]

    def test_of_v1_count_back_from_the_wrapper(self) -> None:
        assert offsets(wrapper(12, 1, inner(1, [0, 1, 2]))) == [10, 11, 12]

    def test_of_v1_with_holes(self) -> None:
        assert offsets(wrapper(20, 1, inner(1, [0, 3, 7]))) == [13, 16, 20]

    def test_of_v1_absolute_ones_come_out_the_same(self) -> None:
        assert offsets(wrapper(12, 1, inner(1, [10, 12]))) == [10, 12]

    def test_wrapper_at_0_counts_from_0(self) -> None:
        assert offsets(wrapper(0, 1, inner(1, [0, 1, 2]))) == [0, 1, 2]

    def test_wrapper_below_its_last_message(self) -> None:
        refused(wrapper(1, 1, inner(1, [0, 1, 2])), "offset 1 is below its last message's 2")
        refused(wrapper(-5, 1, inner(1, [0])), "offset -5 is below")

    def test_sums_wrap_as_in_java(self) -> None:
        log = wrapper(2**63 - 2, 1, inner(1, [5, -3]))
        assert [r.offset for r in read(log)] == [-(2**63) + 6, 2**63 - 2]


class TestMixedMagic:
    """The cleaner of 0.10.0 left wrappers around messages of the other magic (KAFKA-4298)."""

    def test_v0_in_v1(self) -> None:
        log = wrapper(12, 1, inner(0, [0, 1]) + inner(1, [2]))
        assert [(r.offset, r.timestamp, r.timestamp_type) for r in read(log)] == [
            (10, -1, NONE), (11, -1, NONE), (12, 1002, CREATE)
        ]  # fmt: skip

    def test_v1_in_v0(self) -> None:
        log = wrapper(12, 0, inner(1, [11, 12]))
        assert [(r.offset, r.timestamp, r.timestamp_type) for r in read(log)] == [
            (11, 1011, NONE),
            (12, 1012, NONE),
        ]

    def test_v0_in_v1_under_log_append_time(self) -> None:
        log = wrapper(1, 1, inner(0, [0]) + inner(1, [1]), flags=8)
        assert [(r.timestamp, r.timestamp_type) for r in read(log)] == [(-1, NONE), (99, APPEND)]

    @pytest.mark.parametrize("magic", [2, 3, 255])
    def test_other_magics(self, magic: int) -> None:
        refused(wrapper(0, 1, raw_message(0, magic)), f"magic {magic} of a message in a wrapper")


class TestTimestamps:
    def test_log_append_time_is_the_wrappers(self) -> None:
        log = wrapper(1, 1, inner(1, [0, 1]), flags=8, timestamp=5000)
        assert [(r.timestamp, r.timestamp_type) for r in read(log)] == [(5000, APPEND)] * 2

    def test_type_is_the_wrappers(self) -> None:
        stamped = raw_message(0, 1, attributes=8, timestamp=-5)
        assert read(wrapper(0, 1, stamped)) == [Record(0, -5, CREATE, None, None)]

    @pytest.mark.parametrize("timestamp", [-(2**63), -5000, -2, -1, 0, 2**63 - 1])
    def test_any_int64(self, timestamp: int) -> None:
        assert read(raw_message(4, 1, timestamp=timestamp)) == [
            Record(4, timestamp, CREATE, None, None)
        ]
        record = Record(4, timestamp, CREATE, b"", b"")
        assert (
            read(v1.encode_batch([record]))
            == read(v1.encode_batch([record], codec=Codec.LZ4))
            == [record]
        )

    def test_in_place_and_rebuilt(self) -> None:
        records = [Record(7, 10, CREATE, None, b"a"), Record(8, 30, CREATE, None, b"b")]
        for stamp_inner in (True, False):
            log = v1.encode_batch(
                records, codec=Codec.GZIP, log_append_time=77, stamp_inner=stamp_inner
            )
            assert [(r.timestamp, r.timestamp_type) for r in read(log)] == [(77, APPEND)] * 2
            plain = decompress(Codec.GZIP, log[34:])
            assert (plain[17], plain[25]) == ((8, 77) if stamp_inner else (0, 10))

    def test_wrapper_carries_the_maximum(self) -> None:
        (batch,) = dispatch.batches(
            v1.encode_batch(
                [Record(i, t, CREATE, None, b"") for i, t in enumerate([5, 9, 3])], codec=Codec.GZIP
            )
        )
        assert batch.max_timestamp == 9
        (batch,) = dispatch.batches(
            v1.encode_batch([Record(0, -7, CREATE, None, b"")], codec=Codec.GZIP)
        )
        assert batch.max_timestamp == -1


class TestTheSetEnds:
    def test_a_partial_last_message_is_dropped(self) -> None:
        whole = inner(1, [0, 1])
        for left in range(1, len(whole) // 2):
            assert len(read(wrapper(0, 1, whole + whole[:left]))) == 2

    @pytest.mark.parametrize("size", [0, 13, -1])
    def test_a_size_below_14_is_corrupt(self, size: int) -> None:
        # 12 bytes are enough to judge it: unlike in a file.
        bad = bytes(8) + size.to_bytes(4, "big", signed=True)
        refused(
            wrapper(1, 1, inner(1, [0, 1]) + bad),
            f"size field {size} of a message .* at byte 68 after decompression",
        )

    def test_no_message_is_corrupt(self) -> None:
        refused(wrapper(1, 1, b""), "without messages")
        refused(wrapper(1, 0, inner(0, [0])[:-1]), "without messages")

    @pytest.mark.parametrize("magic", [0, 1])
    def test_no_value_is_corrupt(self, magic: int) -> None:
        refused(raw_message(1, magic, attributes=Codec.GZIP), "without a value")

    @pytest.mark.parametrize("codec", [4, 5, 6, 7])
    def test_codecs_that_cannot_be(self, codec: int) -> None:
        refused(
            raw_message(1, 1, attributes=codec, value=nullable(b"x")),
            f"codec {codec} cannot be in magic 1",
        )

    @pytest.mark.parametrize("codec", [1, 4, 5])
    def test_compressed_messages_inside(self, codec: int) -> None:
        refused(
            wrapper(0, 1, raw_message(0, 1, attributes=codec)), "a compressed message in a wrapper"
        )

    def test_lz4_of_v1_needs_the_right_header_checksum(self) -> None:
        packed = nullable(compress(Codec.LZ4, inner(1, [0]), broken_lz4=True))
        refused(raw_message(1, 1, attributes=Codec.LZ4, value=packed), "header checksum 0x1a")
        assert len(read(raw_message(1, 0, attributes=Codec.LZ4, value=packed))) == 1

    def test_the_limit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(limit, "_allowed", 9999)
        log = wrapper(0, 1, raw_message(0, 1, value=nullable(bytes(10_000))))
        (batch,) = dispatch.batches(log)
        with pytest.raises(CorruptBatch, match="more than 9999 bytes"):
            dispatch.records(log, batch)
        with pytest.raises(CorruptBatch, match="more than 9999 bytes"):
            dispatch.first_offset(log, batch)


class TestMessages:
    @pytest.mark.parametrize("magic", [0, 1])
    @pytest.mark.parametrize("length", [-1, -2, -(2**31)])
    def test_any_negative_length_is_null(self, magic: int, length: int) -> None:
        null = length.to_bytes(4, "big", signed=True)
        (record,) = read(raw_message(3, magic, key=null, value=null))
        assert (record.key, record.value) == (None, None)

    @pytest.mark.parametrize("magic", [0, 1])
    def test_bytes_after_the_value_are_ignored(self, magic: int) -> None:
        (record,) = read(raw_message(3, magic, value=nullable(b"v") + b"rest"))
        assert record.value == b"v"

    @pytest.mark.parametrize("magic", [0, 1])
    def test_lengths_beyond_the_message(self, magic: int) -> None:
        # Bytes of the next message must not be read as this one's.
        following = raw_message(4, magic)
        for bad in (
            {"key": nullable(b"k")[:-1]},
            {"value": b"\x00\x00\x00\x02v"},
            {"key": b"\x7f\xff\xff\xff"},
        ):
            log = raw_message(3, magic, **bad) + following
            batch = next(dispatch.batches(log))
            with pytest.raises(CorruptBatch, match="expected"):
                dispatch.records(log, batch)

    def test_v1_needs_34_bytes(self) -> None:
        body = b"\x01" + bytes(13)
        log = (
            bytes(8)
            + (4 + len(body)).to_bytes(4, "big")
            + zlib.crc32(body).to_bytes(4, "big")
            + body
        )
        with pytest.raises(CorruptBatch, match="30 bytes, at least 34"):
            list(dispatch.batches(log))

    def test_high_attribute_bits_are_ignored(self) -> None:
        assert read(raw_message(3, 1, attributes=0xF0)) == [Record(3, 7, CREATE, None, None)]
        assert read(raw_message(3, 0, attributes=0xF8)) == [Record(3, -1, NONE, None, None)]

    def test_crc_names_both_numbers(self) -> None:
        damaged = raw_message(3, 1)[:-1] + b"\0"
        with pytest.raises(
            CorruptBatch, match=r"CRC-32 is [0-9a-f]{8}, the message says [0-9a-f]{8}"
        ):
            read(damaged)
        assert len(list(dispatch.batches(damaged, verify=False))) == 1


class TestEncode:
    def test_headers_do_not_fit(self) -> None:
        record = Record(0, 0, CREATE, None, None, (Header("h", b""),))
        for layout in (v0, v1):
            with pytest.raises(BadInput, match="no record headers"):
                layout.encode_batch([record])

    def test_a_wrapper_needs_messages(self) -> None:
        for layout in (v0, v1):
            assert layout.encode_batch([]) == b""
            with pytest.raises(BadInput, match="at least one message"):
                layout.encode_batch([], codec=Codec.GZIP)

    def test_zstd(self) -> None:
        for layout in (v0, v1):
            with pytest.raises(BadInput, match="codec 4"):
                layout.encode_batch([Record(0, 0, CREATE, None, None)], codec=Codec.ZSTD)

    def test_numbers_that_do_not_fit(self) -> None:
        for layout in (v0, v1):
            with pytest.raises(BadInput, match="does not fit"):
                layout.encode_batch([Record(2**63, 0, CREATE, None, None)])
        with pytest.raises(BadInput, match="64 bits"):
            v1.encode_batch([Record(0, 2**63, CREATE, None, None)])


@pytest.mark.slow(1)
@settings(deadline=2000, max_examples=600)
@given(
    magic=st.integers(0, 1),
    codec=st.sampled_from([Codec.GZIP, Codec.SNAPPY, Codec.LZ4]),
    damage=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_damage_inside_a_wrapper(magic: int, codec: Codec, damage: list[tuple[int, int]]) -> None:
    plain = bytearray(
        inner(0, [0, 1])
        + inner(1, [2, 3])
        + raw_message(4, 1, key=nullable(b"k"), value=nullable(b"v"))
    )
    for at, value in damage:
        plain[at % len(plain)] = value
    log = wrapper(100, magic, bytes(plain), codec=codec)
    (batch,) = dispatch.batches(log)
    for decode in (dispatch.records, dispatch.first_offset):
        try:
            decode(log, batch)
        except CorruptBatch as e:
            assert e.position == 0
