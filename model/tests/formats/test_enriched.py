"""The enriched message: written and read by name only, byte by byte, and what its proposal wanted to do with it."""

from __future__ import annotations

import re
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkats.compression import compress
from kafkats.errors import BadInput, CorruptBatch
from kafkats.formats import dispatch, framing, v1
from kafkats.formats.model import Batch, Codec, Header, Record, TimestampType
from kafkats_model.formats import enriched
from kafkats_model.formats.enriched import MessageType, Tags
from tests.formats.logs import NULL, nullable

T = 1700000000123
APPEND = TimestampType.LOG_APPEND_TIME
RECORDS = [
    Record(100, T, APPEND, b"a", b"1"),
    Record(103, T + 1, APPEND, None, None),
    Record(104, -1, APPEND, b"", b""),
]
CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4]


def batches(log: bytes) -> list[Batch]:
    return [enriched.decode_batch(log, frame) for frame in framing.frames(log)]


def only(log: bytes) -> Batch:
    (batch,) = batches(log)
    return batch


def read(log: bytes) -> list[Record]:
    found = []
    for batch in batches(log):
        enriched.check_crc(log, batch)
        found += enriched.decode_records(log, batch)
    return found


def raw(
    offset: int, attributes: int, seconds: int, tags: bytes, content: bytes, magic: int = 1
) -> bytes:
    """A message with a right size and CRC around any tags (with their length) and content."""
    body = struct.pack(">bBi", magic, attributes, seconds) + tags + content
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def test_the_bytes_of_a_message() -> None:
    log = enriched.encode_batch(RECORDS[:1])
    crc = zlib.crc32(log[16:]).to_bytes(4, "big")
    assert log == bytes.fromhex("0000000000000064 00000021") + crc + bytes.fromhex(
        "01 00 6553f100"  # magic, attributes, seconds
        "00000009 00 0000018bcfe5687b"  # tags: 0, the time in ms
        "00000001 61 00000001 31"
    )


def test_without_tags_it_is_eight_bytes_longer_than_magic_0() -> None:
    log = enriched.encode_message(5, MessageType.NORMAL, b"a", b"1", Tags())
    assert log == raw(5, 0, -1, b"\xff\xff\xff\xff", nullable(b"a") + nullable(b"1"))
    assert len(log) == 12 + 14 + 2 + 8


@pytest.mark.parametrize("codec", CODECS)
def test_a_wrapper_lies_at_its_first_record(codec: Codec) -> None:
    log = enriched.encode_batch(RECORDS, codec=codec)
    batch = only(log)
    assert (batch.base_offset, batch.last_offset, batch.codec, batch.count) == (100, -1, codec, 3)
    assert enriched.decode_tags(log, batch) == Tags(messages=3)
    assert read(log) == RECORDS


TIMES = st.sampled_from([-1, 0, T, -5000, 2**40]) | st.integers(-(2**63), 2**63 - 1)
CONTENT = st.none() | st.binary(max_size=30)


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    offset, records = draw(st.integers(0, 2**62)), []
    for _ in range(draw(st.integers(1, 5))):
        records.append(Record(offset, draw(TIMES), APPEND, draw(CONTENT), draw(CONTENT)))
        offset += draw(st.sampled_from([1, 1, 7]))
    return records


@settings(deadline=2000)
@given(
    records=record_lists(), codec=st.sampled_from([Codec.NONE, *CODECS]), now_ms=st.none() | TIMES
)
def test_what_is_written_is_read(records: list[Record], codec: Codec, now_ms: int | None) -> None:
    log = enriched.encode_batch(records, codec=codec, append_time_ms=now_ms)
    stamped = now_ms is not None and (now_ms != -1 or codec == Codec.NONE)
    assert read(log) == [r._replace(timestamp=now_ms) if stamped else r for r in records]


TAGS = st.builds(
    Tags, TIMES, st.integers(-1, 2**31 - 1), st.booleans(), st.booleans(), st.just(b"") | st.binary(min_size=1).map(lambda b: b"\x07" + b)
)  # fmt: skip


@given(tags=TAGS)
def test_tags_come_back_unknown_ones_too(tags: Tags) -> None:
    log = enriched.encode_message(5, MessageType.NORMAL, b"a", b"1", tags)
    assert enriched.decode_tags(log, only(log)) == tags
    assert [(r.key, r.value) for r in read(log)] == [(b"a", b"1")]


class TestTime:
    def test_the_tag_goes_before_the_header(self) -> None:
        log = enriched.encode_message(
            5, MessageType.NORMAL, None, None, Tags(timestamp_ms=T), timestamp_s=7
        )
        assert only(log).max_timestamp == T

    def test_the_header_is_in_seconds(self) -> None:
        log = enriched.encode_message(5, MessageType.NORMAL, None, None, Tags(), timestamp_s=7)
        assert [(r.timestamp, r.timestamp_type) for r in read(log)] == [(7000, APPEND)]

    def test_after_2038_the_tag_alone_tells(self) -> None:
        log = enriched.encode_batch([RECORDS[0]._replace(timestamp=2**31 * 1000)])
        assert log[18:22] == b"\xff\xff\xff\xff"
        assert read(log)[0].timestamp == 2**31 * 1000

    def test_a_wrappers_time_is_that_of_its_records(self) -> None:
        log = enriched.encode_batch(RECORDS, codec=Codec.GZIP, append_time_ms=T + 9)
        assert [r.timestamp for r in read(log)] == [T + 9] * 3


class TestWhatItWasFor:
    def test_a_leader_assigns_an_offset_and_opens_nothing(self) -> None:
        sent = enriched.encode_batch(
            [r._replace(offset=i) for i, r in enumerate(RECORDS)], codec=Codec.LZ4
        )
        log = enriched.assign(sent, only(sent), 500)
        with pytest.raises(BadInput):
            enriched.assign(sent, only(sent), 2**63)
        assert (log[:8], log[8:]) == ((500).to_bytes(8, "big"), sent[8:])
        assert [r.offset for r in read(log)] == [500, 501, 502]

    def test_a_mirror_clears_the_flag_and_holes_close(self) -> None:
        log = enriched.encode_batch(RECORDS, codec=Codec.LZ4)
        batch = only(log)
        tags = enriched.decode_tags(log, batch)._replace(honored=False)
        mirrored = enriched.with_tags(log, batch, tags)
        assert [r.offset for r in read(log)] == [100, 103, 104]
        assert [r.offset for r in read(mirrored)] == [100, 101, 102]
        assert only(mirrored).last_offset == 102
        assert enriched.with_tags(mirrored, only(mirrored), tags._replace(honored=True)) == log

    def test_a_broker_stamps_a_wrapper_it_does_not_open(self) -> None:
        log = enriched.encode_batch(RECORDS, codec=Codec.GZIP)
        tags = enriched.decode_tags(log, only(log))._replace(timestamp_ms=T + 9)
        assert enriched.with_tags(log, only(log), tags) == enriched.encode_batch(
            RECORDS, codec=Codec.GZIP, append_time_ms=T + 9
        )

    def test_a_new_tag_keeps_the_headers_time(self) -> None:
        log = enriched.encode_message(5, MessageType.NORMAL, None, None, Tags(), timestamp_s=7)
        told = enriched.with_tags(log, only(log), Tags(unknown=b"\x63x"))
        assert read(told) == read(log)

    def test_a_mirror_knows_when_no_record_has_a_key(self) -> None:
        unkeyed = [r._replace(key=None) for r in RECORDS]
        log = enriched.encode_batch(unkeyed, codec=Codec.GZIP)
        assert enriched.decode_tags(log, only(log)) == Tags(messages=3, unkeyed=True)

    def test_a_cleaner_merges_and_holes_stay(self) -> None:
        more = [r._replace(offset=r.offset + 50) for r in RECORDS]
        log = enriched.encode_batch(RECORDS, codec=Codec.GZIP) + enriched.encode_batch(more)
        assert len(batches(log)) == 4
        merged = enriched.merge(log, batches(log), Codec.LZ4)
        assert read(merged) == RECORDS + more
        assert enriched.merge(merged, batches(merged), Codec.NONE) == enriched.encode_batch(
            RECORDS + more
        )

    def test_of_a_mirrored_wrapper_it_counts(self) -> None:
        log = enriched.encode_batch(RECORDS, codec=Codec.GZIP, honored=False)
        merged = enriched.merge(log, batches(log), Codec.GZIP)
        assert [r.offset for r in read(merged)] == [100, 101, 102]
        assert enriched.decode_tags(merged, only(merged)).honored

    def test_control_messages(self) -> None:
        log = enriched.encode_message(9, MessageType.ABORT_TRANSACTION, b"k", None, Tags())
        epoch = enriched.encode_message(9, MessageType.LEADER_EPOCH, None, None, Tags())
        assert [(b.control, b.transactional) for b in batches(log + epoch)] == [
            (True, True),
            (True, False),
        ]
        with pytest.raises(BadInput, match="control"):
            enriched.merge(log, batches(log), Codec.GZIP)

    def test_what_cannot_be_merged(self) -> None:
        log = enriched.encode_batch(RECORDS) + enriched.encode_batch(RECORDS)
        with pytest.raises(BadInput, match="increase"):
            enriched.merge(log, batches(log), Codec.GZIP)
        with pytest.raises(BadInput, match="at least one"):
            enriched.merge(log, [], Codec.GZIP)


def test_it_is_never_guessed() -> None:
    """The same bytes are a sound message of the magic 1 that shipped, with other content."""
    log = enriched.encode_message(5, MessageType.NORMAL, b"a", b"1", Tags(), timestamp_s=7)
    (batch,) = dispatch.batches(log)
    assert [(r.key, r.value, r.timestamp) for r in dispatch.records(log, batch)] == [
        (b"a", b"1", 2**35 - 1)
    ]
    shipped = v1.encode_batch([Record(5, 2**35 - 1, TimestampType.CREATE_TIME, b"a", b"1")])
    assert shipped == log


END = nullable(b"a") + nullable(b"1")


class TestRefused:
    @pytest.mark.parametrize(
        ("log", "why"),
        [
            pytest.param(raw(5, 0, -1, NULL, NULL), "at least 34", id="short"),
            pytest.param(raw(5, 0, -1, NULL, END, magic=0), "magic 0", id="magic"),
            pytest.param(raw(5, 4, -1, NULL, END), "type 4", id="type"),
            pytest.param(raw(5, 12, -1, NULL, END), "type 12", id="control type"),
            pytest.param(raw(5, 0, -1, b"\x00\x00\x00\x7f", END), "127 bytes", id="tags too long"),
            pytest.param(raw(5, 0, -1, b"\xff\xff\xff\xfe", END), "tags of -2 bytes", id="tags below -1"),
            pytest.param(raw(5, 0, -1, nullable(b"\x00\x01"), END), "tag 0", id="tag cut"),
            pytest.param(raw(5, 0, -1, NULL, b"\x00\x00\x00\x7fxxxx"), "127 bytes", id="key too long"),
            pytest.param(raw(5, 1, -1, NULL, NULL + NULL), "without a value", id="no value"),
            pytest.param(raw(5, 1, -1, NULL, NULL + nullable(b"junkjunk")), "gzip", id="not gzip"),
            pytest.param(
                raw(5, 1, -1, NULL, NULL + nullable(compress(Codec.GZIP, b""))), "without messages", id="no messages"
            ),
            pytest.param(
                raw(5, 1, -1, nullable(b"\x20\x00\x00\x00\x02"),
                    NULL + nullable(compress(Codec.GZIP, enriched.encode_batch(RECORDS)))),
                "tag says 2", id="count",
            ),
            pytest.param(
                raw(5, 1, -1, NULL,
                    NULL + nullable(compress(Codec.GZIP, enriched.encode_batch(RECORDS, codec=Codec.GZIP)))),
                "compressed message", id="twice",
            ),
        ],
    )  # fmt: skip
    def test_corrupt(self, log: bytes, why: str) -> None:
        before = enriched.encode_batch(RECORDS)
        with pytest.raises(CorruptBatch, match=why) as caught:
            read(before + log)
        assert caught.value.position is not None
        assert caught.value.position >= len(before)

    def test_crc(self) -> None:
        log = bytearray(enriched.encode_batch(RECORDS[:1]))
        log[-1] ^= 1
        with pytest.raises(CorruptBatch, match="CRC-32"):
            read(bytes(log))

    @pytest.mark.parametrize(
        "call",
        [
            pytest.param(lambda: enriched.encode_batch(RECORDS, codec=Codec.ZSTD), id="zstd"),
            pytest.param(lambda: enriched.encode_batch([], codec=Codec.GZIP), id="empty wrapper"),
            pytest.param(
                lambda: enriched.encode_batch([RECORDS[0]._replace(headers=(Header("h", b""),))]),
                id="headers",
            ),
            pytest.param(
                lambda: enriched.encode_batch([RECORDS[0]._replace(offset=2**63)]), id="offset"
            ),
            pytest.param(
                lambda: enriched.encode_batch([RECORDS[0]._replace(timestamp=2**63)]), id="time"
            ),
            pytest.param(
                lambda: enriched.encode_message(0, MessageType.NORMAL, None, None, Tags(), 2**31),
                id="seconds",
            ),
        ],
    )
    def test_what_cannot_be_written(self, call: object) -> None:
        with pytest.raises(BadInput):
            call()  # type: ignore[operator]


def test_the_page_has_the_layout() -> None:
    page = (Path(__file__).parents[2] / "docs" / "formats" / "enriched.md").read_text(
        encoding="utf-8"
    )
    types = {"int64": "q", "int32": "i", "uint32": "I", "int8": "b", "uint8": "B"}
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| (\d+) \| (\w+) \|", page, re.MULTILINE)
    assert tuple(name for _, name, _, _ in rows) == enriched.MessageHeader._fields
    assert ">" + "".join(types[kind] for _, _, _, kind in rows) == enriched.HEADER.format
    assert [int(at) for at, *_ in rows] == [0, 8, 12, 16, 17, 18, 22]
