"""The digest says whether records are the same: not how they are batched, and nothing else is left out."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from blake3 import blake3
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kafkats.errors import BadInput, CorruptBatch
from kafkats.formats import dispatch, v0, v1, v2
from kafkats.formats.build import Target
from kafkats.formats.convert import convert_segment
from kafkats.formats.model import Codec, Header, Record, TimestampType
from kafkats.segment.parity import Difference, Parity, digest_records, first_difference
from kafkats.segment.reader import Source
from kafkats_model.memory_source import array_source
from tests.golden import Unpacked
from tests.index.generated import BASE, logs

EVERYTHING = {"timestamps": True, "headers": True, "control": True}
NOTHING = {"timestamps": False, "headers": False, "control": False}
CREATED = TimestampType.CREATE_TIME


def source(log: bytes) -> Source:
    return array_source(np.frombuffer(log, np.uint8))


def digest(log: bytes, **profile: bool) -> Parity:
    return digest_records(source(log), **EVERYTHING | profile)


def difference(old: bytes, new: bytes, **profile: bool) -> Difference | None:
    found = first_difference(source(old), source(new), **EVERYTHING | profile)
    one, other = digest(old, **profile), digest(new, **profile)
    assert (one == other) == (found is None)
    return found


bodies = st.none() | st.binary(max_size=6) | st.sampled_from([b"", b"x" * 90])


@st.composite
def some_records(draw: st.DrawFn, *, headers: bool = True) -> list[Record]:
    offset, found = 100, []
    for _ in range(draw(st.integers(1, 12))):
        offset += draw(st.sampled_from([1, 1, 4]))
        some = (
            tuple(draw(st.lists(st.builds(Header, st.text(max_size=2), bodies), max_size=2)))
            if headers
            else ()
        )
        time = draw(st.sampled_from([-1, 0, 7, 2**62]))
        found.append(Record(offset, time, CREATED, draw(bodies), draw(bodies), some))
    return found


@st.composite
def batched(draw: st.DrawFn, records: list[Record], magics: list[int], **fields: Any) -> bytes:
    """The records in batches of these magics, cut anywhere, with any codec."""
    cuts = sorted({0, len(records), *draw(st.lists(st.integers(0, len(records)), max_size=4))})
    parts = []
    for start, end in pairwise(cuts):
        magic = draw(st.sampled_from(magics))
        codec = draw(st.sampled_from(list(Codec)[: 5 if magic == 2 else 4]))
        layout: Any = (v0, v1, v2)[magic]
        parts.append(layout.encode_batch(records[start:end], codec=codec, **fields))
    return b"".join(parts)


@pytest.mark.slow(2)
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_batches_do_not_matter(data: st.DataObject) -> None:
    records = data.draw(some_records())
    old, new = data.draw(batched(records, [2])), data.draw(batched(records, [2]))
    assert difference(old, new) is None
    assert digest(old).records == len(records)


@pytest.mark.slow(1)
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_formats_do_not_matter(data: st.DataObject) -> None:
    records = data.draw(some_records(headers=False))
    assert (
        difference(data.draw(batched(records, [1, 2])), data.draw(batched(records, [1, 2]))) is None
    )
    timeless = [record._replace(timestamp=-1) for record in records]
    assert (
        difference(data.draw(batched(timeless, [0, 1, 2])), data.draw(batched(timeless, [0, 2])))
        is None
    )
    assert (
        difference(data.draw(batched(records, [1, 2])), data.draw(batched(records, [0])), **NOTHING)
        is None
    )


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_append_time_does_not_care_for_batches(data: st.DataObject) -> None:
    records = data.draw(some_records(headers=False))
    stamped = {"log_append_time": 55}
    one, other = (
        data.draw(batched(records, [1, 2], **stamped)),
        data.draw(batched(records, [1, 2], **stamped)),
    )
    assert difference(one, other) is None
    created = v2.encode_batch([record._replace(timestamp=55) for record in records])
    found = difference(one, created)
    assert found is not None
    assert (found.what, found.old, found.new) == ("timestamp type", "LogAppendTime", "CreateTime")
    assert difference(one, created, timestamps=False) is None


CHANGES = {
    "offset": lambda r: r._replace(offset=r.offset + 1000),
    "timestamp": lambda r: r._replace(timestamp=r.timestamp + 1),
    "key": lambda r: r._replace(key=b"" if r.key is None else None),
    "value": lambda r: r._replace(
        value=b"" if r.value is None else r.value[:-1] + b"\0" + r.value[-1:]
    ),
    "headers": lambda r: r._replace(headers=(*r.headers, Header("", None))),
}


@pytest.mark.slow(2)
@settings(max_examples=200, deadline=None)
@given(st.data(), st.sampled_from(sorted(CHANGES)))
def test_every_change_shows(data: st.DataObject, what: str) -> None:
    records = data.draw(some_records())
    at = data.draw(st.integers(0, len(records) - 1))
    changed = [*records[:at], CHANGES[what](records[at]), *records[at + 1 :]]
    old, new = data.draw(batched(records, [2])), data.draw(batched(changed, [2]))
    found = difference(old, new)
    assert found is not None
    assert (found.offset, found.what) == (records[at].offset, what)
    assert found.old != found.new


@pytest.mark.slow(1)
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_any_two_lists_of_records(data: st.DataObject) -> None:
    records, others = data.draw(some_records()), data.draw(some_records())
    found = difference(data.draw(batched(records, [2])), data.draw(batched(others, [2])))
    assert (found is None) == (records == others)
    if found is not None and found.what != "record":
        first = next(a for a, b in zip(records, others, strict=False) if a != b)
        assert found.offset == first.offset


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_byte_that_moves_between_fields_shows(data: st.DataObject) -> None:
    """The same bytes in the same order, cut differently into keys, values and records."""
    text = data.draw(st.binary(min_size=2, max_size=12))
    cuts = [
        data.draw(st.lists(st.integers(0, len(text)), min_size=3, max_size=3).map(sorted))
        for _ in range(2)
    ]
    assume(cuts[0] != cuts[1])
    logs = []
    for a, b, c in cuts:
        records = [
            Record(1, 1, CREATED, text[:a], text[a:b]),
            Record(2, 1, CREATED, text[b:c], text[c:]),
        ]
        logs.append(v2.encode_batch(records))
    assert difference(*logs) is not None


def test_order_shows() -> None:
    one, two = Record(1, 5, CREATED, b"a", b"x"), Record(2, 5, CREATED, b"b", b"y")
    assert difference(v1.encode_batch([one, two]), v1.encode_batch([two, one])) is not None


def test_a_record_more_or_less() -> None:
    records = [Record(i, 5, CREATED, None, b"v") for i in range(4, 9)]
    all_of_them, fewer = v2.encode_batch(records), v1.encode_batch(records[:-1])
    assert difference(all_of_them, fewer) == Difference(8, "record", "offset 8", "none")
    assert difference(fewer, all_of_them) == Difference(8, "record", "none", "offset 8")
    assert difference(b"", fewer) == Difference(4, "record", "none", "offset 4")
    assert difference(b"", b"") is None


def test_what_a_profile_leaves_out() -> None:
    records = [Record(i, 5, CREATED, None, b"v", (Header("h", b"1"),)) for i in range(3)]
    plain = [record._replace(headers=()) for record in records]
    marker = v2.encode_batch(
        [Record(3, 5, CREATED, b"\0\0\0\1", b"\0" * 6)], control=True, transactional=True
    )
    old, new = v2.encode_batch(records) + marker, v0.encode_batch(plain)
    assert difference(old, new, **NOTHING) is None
    for word in NOTHING:
        assert difference(old, new, **NOTHING | {word: True}) is not None, word
    assert (
        len(
            {digest(new, **NOTHING | {word: True}).digest for word in NOTHING}
            | {digest(new, **NOTHING).digest}
        )
        == 4
    )


def test_differences_in_words() -> None:
    base = Record(7, 5, CREATED, b"key", b"v" * 100, (Header("h", None),))
    old = v2.encode_batch([base])

    def said(**fields: Any) -> tuple[str, str, str]:
        found = difference(old, v2.encode_batch([base._replace(**fields)]))
        assert found is not None
        return found[1:]

    assert said(key=None) == ("key", "3 bytes 6b6579", "null")
    assert said(key=b"") == ("key", "3 bytes 6b6579", "0 bytes")
    assert said(timestamp=6) == ("timestamp", "5", "6")
    assert said(headers=()) == ("headers", "1 bytes 68: null", "none")
    what, long, other = said(value=b"v" * 99 + b"w")
    assert what == "value"
    assert long.startswith("100 bytes 7676")
    assert len(long) < 120
    assert long != other


def test_corruption_is_never_a_digest() -> None:
    good = v1.encode_batch([Record(1, 5, CREATED, b"k", b"v")])
    bad = bytearray(good)
    bad[-1] ^= 1
    with pytest.raises(CorruptBatch, match="CRC") as caught:
        digest(good + bytes(bad))
    assert caught.value.position == len(good)
    with pytest.raises(CorruptBatch):
        difference(good + bytes(bad), good)


def plain_digest(records: list[Record], profile: dict[str, bool]) -> Parity:
    """The same recipe over the records of the plain decoders."""
    headers = [header for record in records for header in record.headers]

    def lengths(data: list[bytes | None]) -> bytes:
        return np.array([-1 if one is None else len(one) for one in data], "<i4").tobytes()

    columns = {"offset": np.array([r.offset for r in records], "<i8").tobytes()}
    fields: list[tuple[str, list[bytes | None]]] = [
        ("key", [r.key for r in records]),
        ("value", [r.value for r in records]),
    ]
    if profile["headers"]:
        fields += [
            ("header key", [h.key.encode() for h in headers]),
            ("header value", [h.value for h in headers]),
        ]
    for name, data in fields:
        columns |= {f"{name} lengths": lengths(data), name: b"".join(one or b"" for one in data)}
    if profile["timestamps"]:
        columns["timestamp"] = np.array([r.timestamp for r in records], "<i8").tobytes()
        columns["timestamp type"] = bytes(
            r.timestamp_type == TimestampType.LOG_APPEND_TIME for r in records
        )
    if profile["headers"]:
        columns["headers"] = np.array([len(r.headers) for r in records], "<i4").tobytes()
    order = [name for name in ORDER if name in columns]
    lines = [
        f"records {' '.join(f'{name}={flag:d}' for name, flag in profile.items())} {len(records)}"
    ]
    lines += [f"{name} blake3:{blake3(columns[name]).hexdigest()}" for name in order]
    return Parity(len(records), "blake3:" + blake3("\n".join(lines).encode()).hexdigest())


ORDER = (
    "offset", "key lengths", "key", "value lengths", "value", "timestamp", "timestamp type",
    "headers", "header key lengths", "header key", "header value lengths", "header value",
)  # fmt: skip


def test_the_digest_by_hand() -> None:
    """What the module's docstring promises, so that digests in old reports stay comparable."""
    records = [
        Record(1, 5, CREATED, None, b"ab", (Header("h", None),)),
        Record(3, -1, CREATED, b"", b"c"),
    ]
    columns = [
        ("offset", np.array([1, 3], "<i8")),
        ("key lengths", np.array([-1, 0], "<i4")),
        ("key", b""),
        ("value lengths", np.array([2, 1], "<i4")),
        ("value", b"abc"),
        ("timestamp", np.array([5, -1], "<i8")),
        ("timestamp type", bytes(2)),
        ("headers", np.array([1, 0], "<i4")),
        ("header key lengths", np.array([1], "<i4")),
        ("header key", b"h"),
        ("header value lengths", np.array([-1], "<i4")),
        ("header value", b""),
    ]
    lines = ["records timestamps=1 headers=1 control=1 2"]
    lines += [f"{name} blake3:{blake3(bytes(data)).hexdigest()}" for name, data in columns]
    expected = Parity(2, "blake3:" + blake3("\n".join(lines).encode()).hexdigest())
    assert digest(v2.encode_batch(records)) == plain_digest(records, EVERYTHING) == expected


@pytest.mark.slow(2)
def test_golden_directories(golden: Unpacked) -> None:
    """The digest of what real brokers left, from columns and from the plain decoders."""
    compared = 0
    for segment in golden.segments("matrix", "timestamps", "transactions", "upgrade", "content"):
        log = segment.log.read_bytes()
        batches = list(dispatch.batches(log))
        for profile in (EVERYTHING, NOTHING):
            kept = [batch for batch in batches if profile["control"] or not batch.control]
            records = [record for batch in kept for record in dispatch.records(log, batch)]
            assert digest(log, **profile) == plain_digest(records, profile), segment
            compared += len(records)
    assert compared > 50_000


@pytest.mark.slow(3)
@settings(max_examples=150, deadline=None)
@given(logs(), st.integers(0, 2), st.sampled_from([None, *Codec]))
def test_a_converted_log_proves_equal(log: bytes, magic: int, codec: Codec | None) -> None:
    try:
        made = convert_segment(log, BASE, Target(magic, codec)).data
    except BadInput:
        return
    profile = {"timestamps": magic > 0, "headers": magic == 2, "control": magic == 2}
    assert difference(log, made, **profile) is None


def test_several_at_once() -> None:
    """The kernels run without the GIL, each reader with buffers and contexts of its own."""
    records = [Record(n, n, CREATED, b"%d" % n, b"v" * (n % 300)) for n in range(4000)]
    made = [
        b"".join(v2.encode_batch(records[at : at + 50], codec=codec) for at in range(0, 4000, 50))
        for codec in Codec
    ]
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(digest, made * 4))
    assert found == {plain_digest(records, EVERYTHING)}
