"""The judge of many sets says what `validate` says of each: bytes, offsets, largest timestamp, and what was done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, product
from random import Random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conformance.appended import NOW, draw, encoded
from kafkats.compression import compress
from kafkats.formats import v1, v2
from kafkats.formats.build import Target
from kafkats.formats.message_set import encode_message
from kafkats.formats.model import Codec, Header, Record, TimestampType
from kafkats.primitives import INT64, encode_varint
from kafkats.rolling.rules import Settings
from kafkats.segment import convert
from kafkats_model.broker import set_judge
from kafkats_model.broker.leader_rules import LEADER_RULES, LeaderRule
from kafkats_model.broker.set_judge import SetJudge
from kafkats_model.broker.settings import Topic
from kafkats_model.broker.validate import validate
from kafkats_model.errors import Rejected

RULES = [rule for rule in LEADER_RULES.values() if rule.dialect is None]
LEGACY = list(Codec)[:4]
TARGETS = [
    *(Target(magic, codec) for magic in (0, 1) for codec in (None, *LEGACY)),
    *(Target(2, codec) for codec in (None, *Codec)),
]
SENT = [*product((0, 1), LEGACY), *product((2,), Codec)]
CREATED, APPENDED = TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME


def topic_with(target: Target, kind: TimestampType = CREATED) -> Topic:
    return Topic(target, kind, 2**63 - 1, 2**63 - 1, Settings(), -1, -1, True)


def records(random: Random, count: int, *, magic: int = 2, headers: bool = False) -> list[Record]:
    found = []
    for n in range(count):
        late = random.randrange(-5_000, 5_000) if random.random() < 0.9 else -NOW - 1
        key = random.choice((b"key", b"k" * 90, b"", None))
        value = random.choice((b"value", b"v" * 300, b"", None))
        more = (Header("h", b"x"), Header("n" * 70, None)) if headers else ()
        found.append(Record(n, NOW + late if magic else -1, CREATED, key, value, more))
    return found


def sound(random: Random, magic: int, codec: int, *, headers: bool = False) -> bytes:
    count = random.choice((1, 2, 3, 200))
    return encoded(magic, codec, records(random, count, magic=magic, headers=headers))


def compare(topic: Topic, rule: LeaderRule, sets: Sequence[bytes], offset: int = 7) -> int:
    """Return how many of the sets were not left to `validate`."""
    judge, number, taken = SetJudge(topic, rule), 0, 0
    while number < len(sets):
        left = sets[number:]
        data = np.frombuffer(bytearray().join(left), np.uint8)
        ends = np.array([*accumulate(map(len, left))], np.int64)
        judged = judge.judge(data, ends, now_ms=NOW, offset=offset, leader_epoch=3)
        at, outcomes = 0, Counter[str]()
        for row, sent in zip(judged.rows.tolist(), left, strict=False):
            first, last, size, *largest = row
            wanted = validate(sent, topic, rule, now_ms=NOW, offset=offset, leader_epoch=3)
            assert judged.data[at : at + size].tobytes() == wanted.data
            assert (first, last) == (wanted.first_offset, wanted.last_offset)
            assert largest == list(wanted.largest)
            outcomes[wanted.how] += 1
            at, offset = at + size, last + 1
        assert +Counter(judged.outcomes) == outcomes
        assert at == len(judged.data)
        number, taken = number + len(judged.rows), taken + len(judged.rows)
        if not len(judged.rows):
            assert data.tobytes() == b"".join(left), "what is left to validate is not changed"
            try:
                made = validate(left[0], topic, rule, now_ms=NOW, offset=offset, leader_epoch=3)
                offset = made.last_offset + 1
            except Rejected:
                pass
            number += 1
    return taken


@pytest.mark.slow(9)
@given(st.integers(0, 2**32), st.sampled_from(RULES), st.sampled_from(TARGETS))
@example(1, RULES[0], Target(2, Codec.ZSTD))
def test_sets_of_all_kinds(seed: int, rule: LeaderRule, target: Target) -> None:
    """Sound and wrong sets of all magics and codecs, some with a byte changed, at all offsets."""
    random = Random(seed)
    topic = replace(draw(random, (0, 1, 2)).topic, target=target)
    sets = []
    for _ in range(random.randrange(1, 12)):
        sent = draw(random, (0, 1, 2)).data
        if random.random() < 0.7:
            magic, codec = random.choice(SENT)
            sent = sound(random, magic, codec, headers=magic == 2 and random.random() < 0.3)
        if random.random() < 0.1:
            at = random.randrange(len(sent))
            sent = sent[:at] + bytes([sent[at] ^ 1 << random.randrange(8)]) + sent[at + 1 :]
        sets.append(sent)
    compare(topic, rule, sets, random.choice((0, 1, 5, 2**31 - 2, 2**62 - 1, 2**62 + 1)))


@pytest.mark.slow(1)
@pytest.mark.examples(8)
@pytest.mark.parametrize("kind", [CREATED, APPENDED])
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_common_sets_are_left_to_the_kernels(target: Target, kind: TimestampType) -> None:
    """Of all magics and codecs, but zstd, which no older magic can hold."""
    random = Random(str((target, kind)))
    rules = (LEADER_RULES[name] for name in ("0.10.2", "2.6", "3.7"))
    for rule, (magic, codec) in product(rules, SENT):
        if max(magic, target.magic) not in rule.magics:
            continue
        headers = magic == target.magic == 2
        sets = [sound(random, magic, codec, headers=headers) for _ in range(5)]
        impossible = target.magic < 2 and codec == Codec.ZSTD and target.codec is None
        assert compare(topic_with(target, kind), rule, sets) == (0 if impossible else 5)


def inner(magic: int, *messages: bytes, offset: int = 0) -> bytes:
    """A wrapper of these messages."""
    value = compress(Codec.GZIP, b"".join(messages), broken_lz4=magic == 0)
    stamp = INT64.pack(NOW) if magic else b""
    return encode_message(offset, bytes((magic, Codec.GZIP)) + stamp, None, value)


def moved(magic: int, *offsets: int) -> list[bytes]:
    some = [r._replace(offset=n) for r, n in zip(records(Random(1), len(offsets)), offsets)]  # noqa: B905
    return [encoded(magic, Codec.NONE, [r._replace(timestamp=NOW)]) for r in some]


def raw(area: bytes, count: int, **fields: int) -> bytes:
    """A batch with these records."""
    header = v2.BatchHeader._make(
        v2.HEADER.unpack_from(encoded(2, 0, records(Random(1), count)))
    )._replace(base_timestamp=NOW, max_timestamp=NOW, **fields)
    return v2.seal(header, area)


def field(length: int, data: bytes, *, longer: bool = False) -> bytes:
    """A length and its bytes; the length takes a byte more than it has to if `longer`."""
    shortest = encode_varint(length)
    if longer:
        shortest = shortest[:-1] + bytes([shortest[-1] | 0x80, 0])
    return shortest + data


def record(*parts: bytes, attributes: int = 0, longer: bool = False) -> bytes:
    body = bytes([attributes]) + b"".join(parts)
    return field(len(body), body, longer=longer)


KEY, VALUE, NUMBERS = field(1, b"k"), field(1, b"v"), b"\0\0"
UNCOMMON = {
    "the length of a record": raw(record(NUMBERS, KEY, VALUE, b"\0", longer=True), 1),
    "the attributes of a record": raw(record(NUMBERS, KEY, VALUE, b"\0", attributes=1), 1),
    "a timestamp delta": raw(record(b"\x80\0\0", KEY, VALUE, b"\0"), 1),
    "an offset delta": raw(record(b"\0\x80\0", KEY, VALUE, b"\0"), 1),
    "the length of a key": raw(record(NUMBERS, field(1, b"k", longer=True), VALUE, b"\0"), 1),
    "the length of a value": raw(record(NUMBERS, KEY, field(1, b"v", longer=True), b"\0"), 1),
    "the number of headers": raw(record(NUMBERS, KEY, VALUE, b"\x80\0"), 1),
    "the length of a header's key": raw(
        record(NUMBERS, KEY, VALUE, b"\x02", field(1, b"h", longer=True), VALUE), 1
    ),
    "the length of a header's value": raw(
        record(NUMBERS, KEY, VALUE, b"\x02", KEY, field(1, b"v", longer=True)), 1
    ),
    "a header's key": raw(record(NUMBERS, KEY, VALUE, b"\x02", field(1, b"\xff"), VALUE), 1),
    "a null key": raw(record(NUMBERS, field(-2, b""), VALUE, b"\0"), 1),
    "a null value": raw(record(NUMBERS, KEY, field(-2, b""), b"\0"), 1),
    "a header's null value": raw(record(NUMBERS, KEY, VALUE, b"\x02", KEY, field(-2, b"")), 1),
    "the first timestamp": raw(record(b"\x02\0", KEY, VALUE, b"\0"), 1),
    "a delta with bits that are dropped": raw(
        record(NUMBERS, KEY, VALUE, b"\0")
        + record(b"\xff" * 9 + b"\x7f\x02", KEY, VALUE, b"\0"), 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", UNCOMMON)
def test_records_in_other_bytes_than_a_brokers_are_left(what: str) -> None:
    """A broker writes them in the shortest form; kernels take over the bytes of the records."""
    rule, topic = LEADER_RULES["2.6"], topic_with(Target(2, Codec.ZSTD), APPENDED)
    sent = UNCOMMON[what]
    made = validate(sent, topic_with(Target(2)), rule, now_ms=NOW, offset=7, leader_epoch=3)
    assert made.how == "in place"
    assert compare(topic, rule, [sent]) == 0
    assert compare(topic, rule, [raw(record(NUMBERS, KEY, VALUE, b"\0"), 1)]) == 1


@pytest.mark.parametrize("rule", [LEADER_RULES["2.4"], LEADER_RULES["2.6"]], ids=str)
def test_offsets_that_are_not_0_1_2_are_left(rule: LeaderRule) -> None:
    for magic, offsets in product((0, 1), ((0, 0), (1, 2), (0, 2))):
        sets = [b"".join(moved(magic, *offsets)), inner(magic, *moved(magic, *offsets), offset=2)]
        for target in (Target(2), Target(1, Codec.LZ4)):
            assert compare(topic_with(target), rule, sets) == 0
    assert compare(topic_with(Target(2)), rule, [inner(1, *moved(1, 0, 1), offset=9)]) == 0


def test_headers_and_producers_cannot_be_in_an_older_magic() -> None:
    random, rule = Random(1), LEADER_RULES["2.6"]
    with_header = sound(random, 2, Codec.LZ4, headers=True)
    with_producer = v2.encode_batch(records(random, 3), producer_id=5, producer_epoch=0, base_sequence=0)  # fmt: skip
    for target in (Target(0), Target(1), Target(1, Codec.GZIP)):
        assert compare(topic_with(target), rule, [with_header]) == 0
        assert compare(topic_with(target), rule, [with_producer]) == 0
        assert compare(topic_with(target), rule, [sound(random, 2, Codec.LZ4)] * 3) == 3
    assert compare(topic_with(Target(2, Codec.GZIP)), rule, [with_producer]) == 1


@pytest.mark.slow(1)
@given(st.integers(0, 2**32), st.integers(1, 400), st.sampled_from(TARGETS))
def test_small_buffers(seed: int, room: int, target: Target) -> None:
    """Sets that find no room in them have it at the next call, or in larger ones."""
    random = Random(seed)
    sets = [sound(random, *random.choice(SENT)) for _ in range(6)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(convert, "_ROOM", room)
        patch.setattr(convert, "_AREA", room)
        patch.setattr(set_judge, "_ROOM", room)
        compare(topic_with(target), LEADER_RULES["2.6"], sets)


def test_a_set_that_grows_above_a_segment_is_left() -> None:
    """Its append is rejected, as a set of that size is."""
    some = [Record(n, NOW, CREATED, b"k", b"v" * 1000) for n in range(50)]
    topic = topic_with(Target(2, Codec.NONE))
    small = replace(topic, rolling=Settings(segment_bytes=20_000))
    sent = v1.encode_batch(some, codec=Codec.LZ4)
    assert compare(topic, LEADER_RULES["2.6"], [sent]) == 1
    assert compare(small, LEADER_RULES["2.6"], [sent]) == 0


def test_only_magics_and_codecs_of_the_request_are_judged() -> None:
    random = Random(1)
    for magics, last, taken in (((0, 1), 4, 0), ((2,), 1, 0), ((2,), 2, 1)):
        judge = SetJudge(topic_with(Target(2, Codec.GZIP)), LEADER_RULES["2.6"], magics, last)
        sent = sound(random, 2, Codec.SNAPPY)
        data, ends = np.frombuffer(bytearray(sent), np.uint8), np.array([len(sent)])
        judged = judge.judge(data, ends, now_ms=NOW, offset=0, leader_epoch=0)
        assert len(judged.rows) == taken


@pytest.mark.slow(3)
@pytest.mark.parametrize(("count", "taken"), [(2**20, 1), (2**20 + 1, 0)])
def test_a_set_with_too_many_records_is_left(count: int, taken: int) -> None:
    """A produce refuses it by its header (`broker.requests`)."""
    numbers = (encode_varint(n) for n in range(count))
    area = b"".join(record(b"\0", number, b"\1\1\0") for number in numbers)
    data = np.frombuffer(bytearray(raw(area, 1, record_count=count, last_offset_delta=count - 1)), np.uint8)  # fmt: skip
    judge = SetJudge(topic_with(Target(2, Codec.LZ4)), LEADER_RULES["2.6"])
    judged = judge.judge(data, np.array([len(data)]), now_ms=NOW, offset=0, leader_epoch=0)
    assert len(judged.rows) == taken
