"""Whatever log, whatever pair of magics, codec and timestamp type: what a conversion keeps, and what it says it lost."""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkats.compression import Codec
from kafkats.formats import dispatch, v0, v1, v2
from kafkats.formats.build import Target
from kafkats.formats.convert import convert_segment
from kafkats.formats.model import NO_TIMESTAMP, Batch, Header, Record, TimestampType

LAYOUTS = (v0, v1, v2)
OLD_CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]
TIMESTAMPS = st.sampled_from([-1, -1, 0, -5000]) | st.integers(1_600_000_000_000, 1_600_000_100_000)
CONTENT = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.builds(Header, st.text(max_size=4), CONTENT), max_size=2).map(tuple)


class Log(NamedTuple):
    """A segment of some batches, all of one magic or mixed."""

    data: bytes
    base_offset: int


@st.composite
def logs(draw: st.DrawFn, magics: st.SearchStrategy[int]) -> Log:
    """Up to four batches at growing offsets with holes between and inside."""
    base = draw(st.sampled_from([0, 7, 2**40]))
    offset, parts = base + draw(st.integers(0, 3)), []
    for _ in range(draw(st.integers(1, 4))):
        records = []
        for _ in range(draw(st.integers(1, 4))):
            records.append(
                Record(
                    offset,
                    draw(TIMESTAMPS),
                    TimestampType.CREATE_TIME,
                    draw(CONTENT),
                    draw(CONTENT),
                )
            )
            offset += draw(st.sampled_from([1, 1, 1, 2, 50]))
        layout = LAYOUTS[draw(magics)]
        parts.append(draw(batches(layout, records)))
    return Log(b"".join(parts), base)


@st.composite
def batches(draw: st.DrawFn, layout: ModuleType, records: list[Record]) -> bytes:
    """These records in one batch, or one message each."""
    log: bytes
    appended = draw(st.none() | st.integers(0, 2**41))
    if layout is v2:
        plain = draw(st.booleans())
        log = v2.encode_batch(
            [r if plain else r._replace(headers=draw(HEADERS)) for r in records],
            codec=draw(st.sampled_from(Codec)),
            base_offset=records[0].offset - draw(st.sampled_from([0, 0, 1]))
            if records[0].offset % 2**40 > 9
            else None,
            log_append_time=appended,
            leader_epoch=-1 if plain else draw(st.integers(-1, 3)),
            producer_id=-1 if plain else draw(st.integers(-1, 3)),
            transactional=not plain and draw(st.booleans()),
            delete_horizon_ms=None if plain else draw(st.none() | st.integers(0, 2**41)),
        )
        return log
    codec = draw(st.sampled_from(OLD_CODECS))
    if layout is v0:
        return v0.encode_batch(records, codec=codec)
    return v1.encode_batch(
        records, codec=codec, log_append_time=appended, stamp_inner=draw(st.booleans())
    )


def read(log: bytes) -> list[Record]:
    return [record for batch in dispatch.batches(log) for record in dispatch.records(log, batch)]


def known(record: Record, magic: int) -> Record:
    """What `magic` can say of a record; NONE counts as CREATE_TIME."""
    if magic == 0:
        return record._replace(
            timestamp=NO_TIMESTAMP, timestamp_type=TimestampType.CREATE_TIME, headers=()
        )
    created = record.timestamp_type != TimestampType.LOG_APPEND_TIME
    kind = TimestampType.CREATE_TIME if created else record.timestamp_type
    return record._replace(timestamp_type=kind, headers=record.headers if magic == 2 else ())


MAGICS = st.integers(0, 2)
CODECS = st.sampled_from(OLD_CODECS)


@pytest.mark.slow(2)
@settings(deadline=4000, max_examples=300)
@given(log=logs(MAGICS), magic=MAGICS, codec=CODECS)
def test_every_record_comes_through(log: Log, magic: int, codec: Codec) -> None:
    converted = convert_segment(log.data, log.base_offset, Target(magic, codec))
    assert [known(r, magic) for r in read(converted.data)] == [
        known(r, magic) for r in read(log.data)
    ]
    assert {(b.magic, b.codec) for b in dispatch.batches(converted.data)} == {(magic, codec)}
    again = convert_segment(converted.data, log.base_offset, Target(magic, codec))
    assert (again.data, again.losses, again.records) == (converted.data, {}, 0)


@settings(deadline=4000, max_examples=400)
@given(log=MAGICS.flatmap(lambda m: logs(st.just(m))), magic=MAGICS, there=CODECS, back=CODECS)
def test_there_and_back_is_identity_without_a_loss(
    log: Log, magic: int, there: Codec, back: Codec
) -> None:
    first = next(dispatch.batches(log.data)).magic
    away = convert_segment(log.data, log.base_offset, Target(magic, there))
    home = convert_segment(away.data, log.base_offset, Target(first, back))
    assert (
        home.losses == {} or first < magic
    )  # what magic 2 added of itself is nothing; what was lost is lost on the way
    assert home.losses == {}
    if not away.losses:
        assert read(home.data) == read(log.data)
    else:
        assert first > magic


@pytest.mark.slow(1)
@settings(deadline=4000, max_examples=200)
@given(log=MAGICS.flatmap(lambda m: logs(st.just(m))), magic=MAGICS)
def test_every_loss_is_said_and_counted(log: Log, magic: int) -> None:
    records, before = read(log.data), list(dispatch.batches(log.data))
    down = before[0].magic == 2 > magic

    def batches_with(fact: object) -> int:
        return sum(bool(fact(b)) for b in before) if down else 0  # type: ignore[operator]

    expected = {
        "headers": sum(bool(r.headers) for r in records) if down else 0,
        "timestamps": sum(r.timestamp != NO_TIMESTAMP for r in records) if magic == 0 else 0,
        "transactions": batches_with(lambda b: b.transactional),
        "idempotence": batches_with(lambda b: b.producer_id >= 0),
        "delete-horizon": batches_with(lambda b: b.delete_horizon_ms is not None),
        "leader-epochs": batches_with(lambda b: b.leader_epoch >= 0),
    }
    found = convert_segment(log.data, log.base_offset, Target(magic, Codec.GZIP)).losses
    assert found == {word: count for word, count in expected.items() if count}


def _facts(batch: Batch) -> tuple[object, ...]:
    return (
        batch.base_offset, batch.last_offset, batch.timestamp_type, batch.base_timestamp, batch.max_timestamp,
        batch.leader_epoch, batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.count,
        batch.attributes & ~7,
    )  # fmt: skip


@pytest.mark.slow(2)
@settings(deadline=4000, max_examples=150)
@given(log=logs(st.just(2)), codec=st.sampled_from(Codec))
def test_another_codec_alone_changes_nothing_else(log: Log, codec: Codec) -> None:
    packed = convert_segment(log.data, log.base_offset, Target(2, codec))
    assert [_facts(b) for b in dispatch.batches(packed.data)] == [
        _facts(b) for b in dispatch.batches(log.data)
    ]
    assert read(packed.data) == read(log.data)


@settings(deadline=4000, max_examples=150)
@given(log=logs(MAGICS), codec=st.none() | st.sampled_from(Codec))
def test_upward_one_batch_in_is_one_batch_out(log: Log, codec: Codec | None) -> None:
    converted = convert_segment(log.data, log.base_offset, Target(2, codec))
    before, after = list(dispatch.batches(log.data)), list(dispatch.batches(converted.data))
    assert [b.last_offset for b in after] == [b.last_offset for b in before]
    firsts = [dispatch.first_offset(log.data, b) for b in before]
    assert [b.base_offset for b in after] == firsts
    assert converted.losses == {}
