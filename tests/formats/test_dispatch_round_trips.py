"""Whatever records, whatever magic, codec and timestamp type: what was written is read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkats.compression import Codec
from kafkats.formats import dispatch, v0, v1, v2
from kafkats.formats.model import Header, Record, TimestampType

INT64 = st.integers(-(2**63), 2**63 - 1)
TIMESTAMPS = (
    st.sampled_from([-1, 0, -5000]) | st.integers(1_600_000_000_000, 1_600_000_100_000) | INT64
)
CONTENT = st.none() | st.binary(max_size=60)
HEADERS = st.lists(st.builds(Header, st.text(max_size=8), CONTENT), max_size=3).map(tuple)
BASES = st.sampled_from([0, 1, 100, 2**31, 2**62])


@st.composite
def record_lists(
    draw: st.DrawFn, headers: st.SearchStrategy[tuple[Header, ...]] = HEADERS
) -> list[Record]:
    """One record or more at increasing offsets with holes."""
    offset = draw(BASES)
    records = []
    for _ in range(draw(st.integers(1, 6))):
        time, key, value = draw(TIMESTAMPS), draw(CONTENT), draw(CONTENT)
        records.append(Record(offset, time, TimestampType.CREATE_TIME, key, value, draw(headers)))
        offset += draw(st.sampled_from([1, 1, 1, 2, 900]))
    return records


def _expected(records: list[Record], append_time: int | None) -> list[Record]:
    if append_time is None:
        return records
    return [
        r._replace(timestamp=append_time, timestamp_type=TimestampType.LOG_APPEND_TIME)
        for r in records
    ]


def _read(log: bytes) -> list[Record]:
    buf = np.frombuffer(b"before" + log, np.uint8)
    batches = list(dispatch.batches(buf, 6))
    assert sum(batch.size for batch in batches) == len(log)
    return [record for batch in batches for record in dispatch.records(buf, batch)]


@settings(deadline=2000)
@given(
    records=record_lists(st.just(())),
    codec=st.sampled_from([Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]),
)
def test_v0(records: list[Record], codec: Codec) -> None:
    expected = [r._replace(timestamp=-1, timestamp_type=TimestampType.NONE) for r in records]
    assert _read(v0.encode_batch(records, codec=codec)) == expected


@settings(deadline=2000)
@given(
    records=record_lists(st.just(())),
    codec=st.sampled_from([Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]),
    append_time=st.none() | INT64,
    stamp_inner=st.booleans(),
)
def test_v1(
    records: list[Record], codec: Codec, append_time: int | None, stamp_inner: bool
) -> None:
    log = v1.encode_batch(
        records, codec=codec, log_append_time=append_time, stamp_inner=stamp_inner
    )
    assert _read(log) == _expected(records, append_time)


@pytest.mark.slow(1)
@settings(deadline=2000, max_examples=300)
@given(
    records=record_lists(),
    codec=st.sampled_from(Codec),
    append_time=st.none() | INT64,
    delete_horizon_ms=st.none() | INT64,
    before=st.integers(0, 50),
    after=st.integers(0, 50),
)
def test_v2(
    records: list[Record],
    codec: Codec,
    append_time: int | None,
    delete_horizon_ms: int | None,
    before: int,
    after: int,
) -> None:
    base, last = records[0].offset - before, records[-1].offset + after
    log = v2.encode_batch(
        records,
        codec=codec,
        base_offset=base,
        last_offset=last,
        log_append_time=append_time,
        delete_horizon_ms=delete_horizon_ms,
        leader_epoch=3,
    )
    assert _read(log) == _expected(records, append_time)
    (batch,) = dispatch.batches(log)
    assert (batch.base_offset, batch.last_offset, batch.count, batch.codec) == (
        base,
        last,
        len(records),
        codec,
    )
    assert batch.delete_horizon_ms == delete_horizon_ms


@settings(deadline=2000)
@given(
    pieces=st.lists(st.tuples(record_lists(st.just(())), st.sampled_from([v0, v1, v2])), max_size=5)
)
def test_all_magics_in_one_log(pieces: list[tuple[list[Record], object]]) -> None:
    log = b"".join(layout.encode_batch(records, codec=Codec.LZ4) for records, layout in pieces)
    assert [b.magic for b in dispatch.batches(log)] == [layout.MAGIC for _, layout in pieces]
    found = [[r.offset for r in dispatch.records(log, batch)] for batch in dispatch.batches(log)]
    assert found == [[r.offset for r in records] for records, _ in pieces]
