"""Conversions to the dialect `enriched` and back: what stays, what is counted as lost, and damaged input."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkats.errors import CorruptBatch, NotConvertible
from kafkats.formats import dispatch
from kafkats.formats.build import Target, build
from kafkats.formats.convert import Converted, add_losses
from kafkats.formats.model import Codec, Header, Record, TimestampType
from kafkats.primitives import Buffer
from kafkats_model.formats import enriched
from kafkats_model.formats.enriched_convert import convert_batch

TO = Target(1, dialect="enriched")
CREATE = TimestampType.CREATE_TIME
CONTENT = st.none() | st.binary(max_size=20)


def to_dialect(log: Buffer, target: Target = TO) -> Converted:
    parts = [convert_batch(log, batch, target) for batch in dispatch.batches(log)]
    return joined(parts)


def from_dialect(log: Buffer, magic: int) -> Converted:
    target = Target(magic, source="enriched")
    return joined([convert_batch(log, batch, target) for batch in enriched.batches(log)])


def joined(parts: list[Converted]) -> Converted:
    return Converted(
        b"".join(part.data for part in parts),
        add_losses(part.losses for part in parts),
        sum(part.records for part in parts),
    )


def shipped(log: bytes) -> list[Record]:
    return [r for batch in dispatch.batches(log) for r in dispatch.records(log, batch)]


def of_dialect(log: bytes) -> list[Record]:
    return [r for batch in enriched.batches(log) for r in enriched.decode_records(log, batch)]


@st.composite
def records(draw: st.DrawFn) -> list[Record]:
    offset, found = draw(st.integers(0, 2**40)), []
    for _ in range(draw(st.integers(1, 5))):
        time = draw(st.integers(-1, 2**45))
        found.append(Record(offset, time, CREATE, draw(CONTENT), draw(CONTENT)))
        offset += draw(st.sampled_from([1, 1, 5]))
    return found


CODECS = st.sampled_from([Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])


@settings(deadline=None)
@given(content=records(), magic=st.integers(0, 2), codec=CODECS, stamped=st.booleans())
def test_there_and_back(content: list[Record], magic: int, codec: Codec, stamped: bool) -> None:
    """Offsets, keys, values and times stay; what the dialect says of times is a loss or true."""
    time = 1_700_000_000_000 if stamped and magic else None
    log = build(content, magic, codec, log_append_time=time)
    made = to_dialect(log)
    before, between = shipped(log), of_dialect(made.data)
    assert [r[:2] + r[3:5] for r in between] == [r[:2] + r[3:5] for r in before]
    own = sum(r.timestamp_type == CREATE and r.timestamp != -1 for r in before)
    assert made.losses.get("timestamps", 0) == own
    back = from_dialect(made.data, magic)
    assert [r[:2] + r[3:5] for r in shipped(back.data)] == [r[:2] + r[3:5] for r in before]
    assert not back.losses
    if magic == 0 and codec == Codec.NONE:
        assert (back.data, made.losses) == (log, {})


@settings(deadline=None)
@given(content=records(), magic=st.integers(1, 2), codec=CODECS)
def test_to_magic_0_times_are_lost(content: list[Record], magic: int, codec: Codec) -> None:
    made = to_dialect(build(content, magic, codec))
    lost = from_dialect(made.data, 0).losses.get("timestamps", 0)
    assert lost == sum(record.timestamp != -1 for record in content)


def test_what_it_cannot_hold_is_counted() -> None:
    one = Record(7, 5, CREATE, b"k", b"v", (Header("h", b"x"),))
    log = build(
        [one], 2, Codec.NONE, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True,
        leader_epoch=3,
    )  # fmt: skip
    assert to_dialect(log).losses == {
        "headers": 1, "timestamps": 1, "transactions": 1, "idempotence": 1, "leader-epochs": 1,
    }  # fmt: skip


def test_zstd_needs_another_codec() -> None:
    log = build([Record(0, -1, CREATE, b"k", b"v")], 2, Codec.ZSTD)
    with pytest.raises(NotConvertible, match="zstd") as caught:
        to_dialect(log)
    assert caught.value.position == 0
    assert of_dialect(to_dialect(log, Target(1, Codec.GZIP, "enriched")).data)[0].key == b"k"


SOUND = to_dialect(
    b"".join(
        build([Record(n, 9, CREATE, b"key", b"value" * 3)], 1, codec)
        for n, codec in enumerate((Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4))
    )
).data


@settings(deadline=None)
@given(at=st.integers(0, len(SOUND) - 1), bits=st.integers(1, 255), magic=st.integers(0, 2))
def test_damaged_bytes_are_refused_with_a_position(at: int, bits: int, magic: int) -> None:
    """Unless they are in an offset, or make the last size too large: no checksum covers those."""
    data = bytearray(SOUND)
    data[at] ^= bits
    hit = next(b for b in enriched.batches(SOUND) if b.position <= at < b.end)
    try:
        from_dialect(bytes(data), magic)
    except (CorruptBatch, NotConvertible) as e:
        assert e.position is not None and hit.position <= e.position <= len(data)
    else:
        assert at < hit.position + 12
