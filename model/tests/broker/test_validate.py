"""A leader's judgement: one row per rule and generation; `scripts/conformance seeds` asks Kafka's own validators."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.appended import draw
from kafkats.errors import UsageError
from kafkats.formats import dispatch, message_set, v0, v1, v2
from kafkats.formats.message_set import encode_message
from kafkats.formats.model import Codec, Record, TimestampType
from kafkats_model.broker.generation import generation
from kafkats_model.broker.settings import Topic, settings_from, topic_of
from kafkats_model.broker.validate import Largest, validate
from kafkats_model.errors import Rejected

NOW = 1_700_000_000_000
HOUR = 3_600_000
APPENDED = "message.timestamp.type"
FORMAT = "message.format.version"
DIFFERENCE = "message.timestamp.difference.max.ms"
BEFORE = "message.timestamp.before.max.ms"
AFTER = "message.timestamp.after.max.ms"


def records(
    *timestamps: int, key: bytes | None = b"k", step: int = 1, first: int = 0
) -> list[Record]:
    return [
        Record(first + n * step, t, TimestampType.CREATE_TIME, key, b"v")
        for n, t in enumerate(timestamps)
    ]


def topic(kafka: str, **config: str | int) -> Topic:
    return topic_of(settings_from(config), generation(kafka))


class Row(NamedTuple):
    says: str
    kafka: str
    config: dict[str, str | int]
    data: bytes
    outcome: str
    """how, or the error."""


def old(magic: int, *timestamps: int, codec: Codec = Codec.NONE, step: int = 1) -> bytes:
    some = records(*timestamps, step=step)
    return v1.encode_batch(some, codec=codec) if magic else v0.encode_batch(some, codec=codec)


def crc_inside() -> bytes:
    inner = bytearray(old(1, NOW))
    inner[-1] ^= 1
    from kafkats.compression import compress

    value = compress(Codec.GZIP, bytes(inner))
    return encode_message(0, bytes((1, Codec.GZIP)) + NOW.to_bytes(8, "big"), None, value)


LIMITED = {DIFFERENCE: 1000, FORMAT: "0.10.2"}
TABLE = (
    Row("within the difference", "2.8", LIMITED, old(1, NOW - 1000, NOW + 1000), "in place"),
    Row("a ms older", "2.8", LIMITED, old(1, NOW, NOW - 1001), "INVALID_TIMESTAMP"),
    Row("a ms newer", "2.8", LIMITED, old(1, NOW, NOW + 1001), "INVALID_TIMESTAMP"),
    Row("KIP-32's own name of the error", "kip", LIMITED, old(1, NOW + 1001), "TimestampExceededThresholdException"),
    Row("no timestamp is in range", "2.8", LIMITED, old(1, -1), "in place"),
    Row("0.10: it is not", "0.10.2", LIMITED, old(1, -1), "INVALID_TIMESTAMP"),
    Row("LogAppendTime: no time is too far", "2.8", {**LIMITED, APPENDED: "LogAppendTime"}, old(1, 5), "in place"),
    Row("3.6: before", "3.6", {BEFORE: 1000}, v2.encode_batch(records(NOW - 1001)), "INVALID_TIMESTAMP"),
    Row("3.6: not after", "3.6", {BEFORE: 1000}, v2.encode_batch(records(NOW + 10**9)), "in place"),
    Row("3.6: the difference, where they are not given", "3.6", {DIFFERENCE: 1000}, v2.encode_batch(records(NOW + 1001)), "INVALID_TIMESTAMP"),
    Row("4.0: an hour after, by default", "4.0", {}, v2.encode_batch(records(NOW + HOUR)), "in place"),
    Row("4.0: a ms more", "4.0", {}, v2.encode_batch(records(NOW + HOUR + 1)), "INVALID_TIMESTAMP"),
    Row("3.9: any time after, by default", "3.9", {}, v2.encode_batch(records(NOW + HOUR + 1)), "in place"),
    Row("marked as the broker's", "2.8", {}, v2.encode_batch(records(NOW), log_append_time=NOW), "INVALID_TIMESTAMP"),
    Row("3.6: taken", "3.6", {}, v2.encode_batch(records(NOW), log_append_time=NOW), "in place"),
    Row("3.6: not under LogAppendTime", "3.6", {APPENDED: "LogAppendTime"}, v2.encode_batch(records(NOW), log_append_time=NOW), "INVALID_TIMESTAMP"),
    Row("a key is missing", "4.0", {"cleanup.policy": "compact"}, v2.encode_batch(records(NOW, key=None)), "INVALID_RECORD"),
    Row("2.3: by its old name", "2.3.1", {"cleanup.policy": "compact"}, v2.encode_batch(records(NOW, key=None)), "CORRUPT_MESSAGE"),
    Row("2.4: by its new name", "2.4.0", {"cleanup.policy": "compact"}, v2.encode_batch(records(NOW, key=None)), "INVALID_RECORD"),
    Row("no key is needed", "4.0", {}, v2.encode_batch(records(NOW, key=None)), "in place"),
    Row("to a newer format", "2.8", {}, old(1, NOW), "converted"),
    Row("to an older format", "2.8", {FORMAT: "0.9.0"}, v2.encode_batch(records(NOW, NOW)), "converted"),
    Row("to another codec", "2.8", {"compression.type": "lz4"}, v2.encode_batch(records(NOW), codec=Codec.GZIP), "recompressed"),
    Row("a wrapper of magic 1 stays", "2.8", {FORMAT: "0.10.2"}, old(1, NOW, NOW, codec=Codec.GZIP), "in place"),
    Row("one of magic 0 does not: absolute offsets", "2.8", {FORMAT: "0.9.0"}, old(0, -1, -1, codec=Codec.GZIP), "recompressed"),
    Row("a wrapper with holes is numbered anew", "2.8", {FORMAT: "0.10.2"}, old(1, NOW, NOW, codec=Codec.GZIP, step=2), "recompressed"),
    Row("KIP-31: likewise", "kip", {}, old(1, NOW, NOW, codec=Codec.GZIP, step=2), "recompressed"),
    Row("a batch with holes is an error", "2.8", {}, v2.encode_batch(records(NOW, NOW, step=2), codec=Codec.GZIP, last_offset=1), "UNKNOWN_SERVER_ERROR"),
    Row("before 2.4 it was numbered anew", "2.3.1", {}, v2.encode_batch(records(NOW, NOW, step=2), codec=Codec.GZIP, last_offset=1), "recompressed"),
    Row("2.4: rejected", "2.4.1", {}, v2.encode_batch(records(NOW, NOW, step=2), codec=Codec.GZIP, last_offset=1), "INVALID_RECORD"),
    Row("2.5.0: rejected, also where it is rebuilt", "2.5.0", {"compression.type": "lz4"}, v2.encode_batch(records(NOW, NOW, step=2), last_offset=1), "INVALID_RECORD"),
    Row("2.5.0: and a wrapper", "2.5.0", {FORMAT: "0.10.2"}, old(1, NOW, NOW, codec=Codec.GZIP, step=2), "INVALID_RECORD"),
    Row("2.5.0: not one of magic 0", "2.5.0", {FORMAT: "0.9.0"}, old(0, -1, -1, codec=Codec.GZIP, step=2), "recompressed"),
    Row("2.5.0: not without a codec", "2.5.0", {FORMAT: "0.10.2"}, old(1, NOW, NOW, step=2), "in place"),
    Row("2.5.1: numbered anew again", "2.5.1", {}, v2.encode_batch(records(NOW, NOW, step=2), codec=Codec.GZIP, last_offset=1), "recompressed"),
    Row("2.6: an error again", "2.6.0", {}, v2.encode_batch(records(NOW, NOW, step=2), codec=Codec.GZIP, last_offset=1), "UNKNOWN_SERVER_ERROR"),
    Row("more offsets than records", "4.0", {}, v2.encode_batch(records(NOW), last_offset=5), "INVALID_RECORD"),
    Row("2.3: likewise", "2.3.1", {}, v2.encode_batch(records(NOW), last_offset=5), "CORRUPT_MESSAGE"),
    Row("0.11: a client counts from 0", "0.11.0", {}, v2.encode_batch(records(NOW, first=3)), "CORRUPT_MESSAGE"),
    Row("1.1: control records are the broker's", "1.1.1", {}, v2.encode_batch(records(NOW), control=True), "CORRUPT_MESSAGE"),
    Row("a client counts from 0", "4.0", {}, v2.encode_batch(records(NOW, first=3)), "INVALID_RECORD"),
    Row("control records are the broker's", "4.0", {}, v2.encode_batch(records(NOW), control=True), "INVALID_RECORD"),
    Row("a producer id needs a sequence", "4.0", {}, v2.encode_batch(records(NOW), producer_id=1, base_sequence=-1), "INVALID_RECORD"),
    Row("a producer id needs magic 2", "2.8", {FORMAT: "0.10.2"}, v2.encode_batch(records(NOW), producer_id=1, base_sequence=0), "UNSUPPORTED_FOR_MESSAGE_FORMAT"),
    Row("two batches", "4.0", {}, v2.encode_batch(records(NOW)) * 2, "INVALID_RECORD"),
    Row("two messages", "2.8", {FORMAT: "0.10.2"}, old(1, NOW) * 2, "in place"),
    Row("two magics", "2.8", {}, old(1, NOW) + old(0, -1), "INVALID_RECORD"),
    Row("2.3: two magics become one", "2.3.1", {}, old(1, NOW) + old(0, -1), "converted"),
    Row("2.3: also the newer one", "2.3.1", {FORMAT: "0.10.2"}, old(1, NOW) + old(0, -1), "recompressed"),
    Row("2.3: two batches", "2.3.1", {}, v2.encode_batch(records(NOW)) * 2, "in place"),
    Row("2.3: two of them become one", "2.3.1", {}, v2.encode_batch(records(NOW), codec=Codec.GZIP) * 2, "recompressed"),
    Row("2.3: and one of each magic", "2.3.1", {}, v2.encode_batch(records(NOW)) + old(1, NOW), "recompressed"),
    Row("2.4: not two batches", "2.4.1", {}, v2.encode_batch(records(NOW)) * 2, "INVALID_RECORD"),
    Row("two wrappers", "2.4.1", {FORMAT: "0.10.2"}, old(1, NOW, codec=Codec.GZIP) * 2, "INVALID_RECORD"),
    Row("2.3: two wrappers become one", "2.3.1", {FORMAT: "0.10.2"}, old(1, NOW, codec=Codec.GZIP) * 2, "recompressed"),
    Row("0.9: two wrappers", "0.9.0", {}, old(0, -1, codec=Codec.GZIP) * 2, "recompressed"),
    Row("a checksum inside", "2.8", {FORMAT: "0.10.2"}, crc_inside(), "CORRUPT_MESSAGE"),
    Row("a checksum outside", "4.0", {}, v2.encode_batch(records(NOW))[:-1] + b"?", "CORRUPT_MESSAGE"),
    Row("a set that is cut", "4.0", {}, v2.encode_batch(records(NOW))[:-1], "CORRUPT_MESSAGE"),
    Row("nothing", "4.0", {}, b"", "INVALID_RECORD"),
    Row("a time before 1970 is stored", "2.8", {FORMAT: "0.10.2"}, old(1, -386_380_800_000, codec=Codec.GZIP), "in place"),
    Row("but not converted", "2.8", {}, old(1, -386_380_800_000), "UNKNOWN_SERVER_ERROR"),
)  # fmt: skip


@pytest.mark.parametrize("row", [pytest.param(row, id=f"{row.kafka}: {row.says}") for row in TABLE])
def test_table(row: Row) -> None:
    try:
        made = validate(
            row.data, topic(row.kafka, **row.config), generation(row.kafka).leader, now_ms=NOW, offset=7, leader_epoch=3
        )  # fmt: skip
    except Rejected as e:
        assert e.error == row.outcome
        assert e.position is not None
        return
    assert made.how == row.outcome
    assert made.first_offset == 7
    offsets = [
        r.offset for b in dispatch.batches(made.data) for r in dispatch.records(made.data, b)
    ]
    assert offsets == list(range(7, made.last_offset + 1))


def test_the_largest_timestamp() -> None:
    """Up to 3.6 it has the offset of its record in an uncompressed set, later that of its batch."""
    data = v2.encode_batch(records(NOW, NOW + 9, NOW))
    packed = v2.encode_batch(records(NOW, NOW + 9, NOW), codec=Codec.GZIP)
    for kafka, sent, offset in (
        ("3.6", data, 501),
        ("3.7", data, 502),
        ("3.6", packed, 502),
        ("2.8", old(1, NOW, NOW + 9, NOW), 502),
    ):
        made = validate(
            sent, topic(kafka), generation(kafka).leader, now_ms=NOW, offset=500, leader_epoch=0
        )
        assert made.largest == Largest(NOW + 9, offset), (kafka, offset)


@given(st.integers(0, 2**32), st.sampled_from(("2.8.2", "4.3.1")), st.data())
def test_bad_input_is_an_error_of_ours(seed: int, kafka: str, data: st.DataObject) -> None:
    """Sound and wrong sets, with any byte changed and cut anywhere: accepted, or rejected with a position."""
    rule = generation(kafka).leader
    asked = draw(Random(seed), rule.magics)
    sent = bytearray(asked.data)
    if data.draw(st.booleans()):
        sent[data.draw(st.integers(0, len(sent) - 1))] ^= data.draw(st.integers(1, 255))
    cut = bytes(sent[: data.draw(st.integers(0, len(sent)))] if data.draw(st.booleans()) else sent)
    try:
        made = validate(cut, asked.topic, rule, now_ms=NOW, offset=asked.offset, leader_epoch=0)
    except Rejected as e:
        assert e.error.replace("_", "").isalpha() and e.position is not None
    else:
        assert made.data and made.last_offset >= asked.offset


@pytest.mark.parametrize(
    ("kafka", "config", "says"),
    [
        ("4.0", {DIFFERENCE: 5}, "has no such setting"),
        ("3.5", {BEFORE: 5}, "has no such setting"),
        ("4.0", {FORMAT: "0.10.2"}, "has no such setting"),
        ("0.9.0", {APPENDED: "LogAppendTime"}, "has no such setting"),
        ("0.10.2", {FORMAT: "0.11.0"}, "writes only magic 0, 1"),
        ("4.0", {"file.delete.delay.ms": 5}, "is not played"),
        ("0.9.0", {"min.compaction.lag.ms": 5}, "has no such setting"),
        ("4.0", {"segment.size": 5}, "segment.size"),
    ],
)
def test_a_setting_that_a_release_does_not_have(
    kafka: str, config: dict[str, str | int], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        topic(kafka, **config)


@pytest.mark.parametrize(("kafka", "inner"), [("0.10.2", {-1}), ("0.11.0", {NOW})])
def test_from_0_11_on_a_rebuilt_wrapper_stamps_its_messages(kafka: str, inner: set[int]) -> None:
    """Readers take the wrapper's time either way."""
    given = topic(kafka, **{APPENDED: "LogAppendTime", FORMAT: "0.10.0"})
    sent = old(0, -1, -1, codec=Codec.GZIP)
    rule = generation(kafka).leader
    made = validate(sent, given, rule, now_ms=NOW, offset=7, leader_epoch=3)
    (wrapper,) = dispatch.batches(made.data)
    payload, frames = message_set.wrapped(made.data, wrapper, broken_lz4=False)
    at = (frame.position + message_set.TIMESTAMP_AT for frame in frames)
    assert {int.from_bytes(payload[one:][:8], "big", signed=True) for one in at} == inner
    assert {record.timestamp for record in dispatch.records(made.data, wrapper)} == {NOW}


@pytest.mark.parametrize(("kafka", "offset"), [("0.10.1", 7), ("0.10.2", 8), ("0.11.0", 7)])
def test_the_largest_timestamp_of_a_converted_set(kafka: str, offset: int) -> None:
    given = topic(kafka, **{APPENDED: "LogAppendTime", FORMAT: "0.10.0"})
    rule = generation(kafka).leader
    for magic, expected in ((0, offset), (1, 7)):
        sent = old(magic, *([-1, -1] if magic == 0 else [NOW, NOW]))
        made = validate(sent, given, rule, now_ms=NOW, offset=7, leader_epoch=3)
        assert made.largest == (NOW, expected)
