"""KIP-228's dialect as bytes: any timestamp round-trips, old batches are read by its rule, damage is our error."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkats.compression import Codec
from kafkats.errors import BadInput, CorruptBatch, NotConvertible
from kafkats.formats import dispatch, v1, v2
from kafkats.formats.build import Target
from kafkats.formats.model import Batch, Record, TimestampType
from kafkats_model.formats import kip228
from kafkats_model.formats.produce import Assigned, MessageSet

LONG_MIN: Final = -(2**63)
TIMES = st.lists(
    st.one_of(
        st.sampled_from([LONG_MIN, LONG_MIN + 1, -2, -1, 0, 1, 2**63 - 1]),
        st.integers(LONG_MIN, 2**63 - 1),
    ),
    min_size=1,
    max_size=6,
)
CODECS = st.sampled_from([Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])


def records_of(times: list[int], first: int = 0) -> list[Record]:
    return [
        Record(first + n, time, TimestampType.CREATE_TIME, b"k", b"v")
        for n, time in enumerate(times)
    ]


def one_batch(data: bytes) -> Batch:
    (batch,) = kip228.batches(data)
    assert batch.end == len(data)
    return batch


@given(TIMES, CODECS)
def test_any_timestamp_comes_back(times: list[int], codec: Codec) -> None:
    data = kip228.encode_batch(records_of(times, 7), codec=codec)
    batch = one_batch(data)
    assert kip228.is_extended(batch) and batch.delete_horizon_ms is None
    assert batch.max_timestamp == max(times)
    assert kip228.records(data, batch) == records_of(times, 7)
    (shipped,) = dispatch.batches(data)
    assert dispatch.records(data, shipped) == records_of(times, 7), "the bit changes no record"
    assert shipped.delete_horizon_ms == times[0]


@given(TIMES, CODECS)
def test_a_batch_without_the_bit(times: list[int], codec: Codec) -> None:
    """-1 is none there, and Long.MIN_VALUE is what a reader of the dialect has for it."""
    data = v2.encode_batch(records_of(times), codec=codec)
    batch = one_batch(data)
    read = [record.timestamp for record in kip228.records(data, batch)]
    assert read == [LONG_MIN if time == -1 else time for time in times]
    assert batch.max_timestamp == (max(times) if max(times) > -1 else LONG_MIN)
    older = [record.timestamp for record in kip228.records_before(data, batch)]
    assert older == [-1 if time == LONG_MIN else time for time in times]


def assigned(data: bytes, stamped: int | None = None, codec: Codec | None = None) -> Assigned:
    batches = list(kip228.batches(data))
    sent = MessageSet(data, batches, [kip228.records(data, batch) for batch in batches])
    kind = TimestampType.CREATE_TIME if stamped is None else TimestampType.LOG_APPEND_TIME
    return kip228.assign(
        sent, Target(2, codec), timestamp_type=kind, now_ms=stamped or 0, offset=100, leader_epoch=3
    )


@given(TIMES, CODECS, st.sampled_from(["new", "old", "magic 1"]), st.sampled_from([None, Codec.LZ4]))  # fmt: skip
def test_what_a_leader_appends(
    times: list[int], codec: Codec, sender: str, wanted: Codec | None
) -> None:
    """Each record keeps its timestamp or gets the dialect's none. What it appends stays in place when it is sent again."""
    encode = {"new": kip228.encode_batch, "old": v2.encode_batch, "magic 1": v1.encode_batch}
    data = encode[sender](records_of(times), codec=codec)
    made = assigned(data, codec=wanted)
    batch = one_batch(made.data)
    none = -1 if sender != "new" else LONG_MIN
    meant = [LONG_MIN if time == none else time for time in times]
    assert kip228.is_extended(batch) and batch.max_timestamp == max(meant)
    assert (batch.base_offset, batch.leader_epoch) == (100, 3)
    assert [r.timestamp for r in kip228.records(made.data, batch)] == meant
    stays = sender != "magic 1" and codec == (wanted if wanted else codec)
    assert made.in_place == (stays and (sender == "new" or not {-1, LONG_MIN} & set(times)))
    again = v2.BatchHeader._make(v2.HEADER.unpack_from(made.data))._replace(base_offset=0)
    client = v2.seal(again, made.data[v2.HEADER_BYTES :])
    assert assigned(client) == Assigned(made.data, True)


@given(TIMES, CODECS)
def test_log_append_time(times: list[int], codec: Codec) -> None:
    made = assigned(v2.encode_batch(records_of(times), codec=codec), stamped=5)
    batch = one_batch(made.data)
    assert made.in_place and batch.timestamp_type == TimestampType.LOG_APPEND_TIME
    assert {record.timestamp for record in kip228.records(made.data, batch)} == {5}


@given(TIMES, CODECS, st.data())
def test_damage_is_our_error(times: list[int], codec: Codec, data: st.DataObject) -> None:
    sound = kip228.encode_batch(records_of(times), codec=codec)
    at = data.draw(st.integers(0, len(sound) - 1))
    cut = data.draw(st.integers(0, len(sound)))
    damaged = bytearray(sound)
    damaged[at] ^= data.draw(st.integers(1, 255))
    for given_bytes, verify in ((bytes(damaged), True), (bytes(damaged), False), (sound[:cut], True)):  # fmt: skip
        try:
            for batch in kip228.batches(given_bytes, verify=verify):
                kip228.records(given_bytes, batch)
        except CorruptBatch as e:
            assert e.position is not None


def test_it_has_no_delete_horizon() -> None:
    with pytest.raises(BadInput, match="no delete horizon"):
        kip228.encode_batch(records_of([1]), delete_horizon_ms=5)


def test_a_field_out_of_range() -> None:
    data = kip228.encode_batch(records_of([1]))
    sent = MessageSet(data, [one_batch(data)], [records_of([1])])
    with pytest.raises(NotConvertible) as e:
        kip228.assign(
            sent,
            Target(2),
            timestamp_type=TimestampType.CREATE_TIME,
            now_ms=0,
            offset=2**63 - 1,
            leader_epoch=0,
        )
    assert e.value.position == 0
