"""Where a log can be cut: every split point of real segments, held to the simulation of rolling; odd timestamps by hand."""

from __future__ import annotations

import numpy as np
import pytest

from kafkats.errors import CorruptBatch
from kafkats.formats import dispatch
from kafkats.formats.model import Record, TimestampType
from kafkats.formats.v2 import encode_batch
from kafkats.generations import DEFAULT_ROLL_RULE
from kafkats.rolling.replay import simulate
from kafkats.rolling.rules import Append, Batch, Settings
from kafkats.segment.reader import Source, open_source
from kafkats.split.points import Border, as_rolled, expired_head, unmixed
from kafkats_model.memory_source import array_source
from tests.golden import Case, Segment, Unpacked, cases

KINDS = ("rolling", "transactions", "compaction", "matrix", "upgrade", "retention", "timestamps")
SAMPLE = tuple(
    one
    for one in cases(*KINDS)
    if one.kafka in ("0.8.2.2", "0.10.2.2", "0.9.0.1", "2.8.2", "4.3.1")
)
DAY = 86_400_000


def batches(segment: Segment) -> tuple[list[Batch], list[int]]:
    """The segment's batches by the plain decoders, and their positions."""
    data = segment.log.read_bytes()
    found = list(dispatch.batches(data, verify=False))
    firsts = [dispatch.first_offset(data, b) for b in found]
    return [
        Batch(first, b.last_offset, b.size, b.max_timestamp)
        for first, b in zip(firsts, found, strict=True)
    ], [b.position for b in found]


def rolled(segment: Segment, **settings: int) -> list[Border]:
    """What rolling makes of these batches, one append each, at a clock that stands still."""
    found, positions = batches(segment)
    if not found:
        return []
    simulated = simulate(
        [Append((batch,), 0) for batch in found],
        Settings(
            **{"segment_bytes": 2**40, "segment_ms": 2**62} | settings, segment_index_bytes=2**40
        ),
        DEFAULT_ROLL_RULE,
        base_offset=segment.base_offset,
    )
    at = {batch.first_offset: position for batch, position in zip(found, positions, strict=True)}
    return [Border(at[one.base_offset], one.base_offset) for one in simulated[1:]]


@pytest.mark.parametrize("one", SAMPLE, ids=str)
def test_as_a_broker_would_have_rolled(
    one: Case, golden: Unpacked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkats.segment.headers.ROWS_AT_ONCE", 5)
    borders = every = 0
    for segment in golden.segments_in(one, one.states[-1]):
        if segment.partition.name.rsplit("-", 1)[0] not in one.info["topics"]:
            continue
        found, positions = batches(segment)
        with open_source(segment.log) as source:
            for settings in (
                {"segment_bytes": 700},
                {"segment_ms": 3000},
                {"segment_bytes": 2000, "segment_ms": 500},
            ):
                cut = as_rolled(source, **settings)
                assert cut == rolled(segment, **settings), (segment, settings)
                borders += len(cut)
            each = as_rolled(source, segment_bytes=1)
        assert [(b.position, b.offset) for b in each] == list(
            zip(positions[1:], (batch.first_offset for batch in found[1:]), strict=True)
        )
        every += len(each)
    assert every > 30 and borders > 10


def a_log(*timestamps: int) -> bytes:
    """One batch of two records each."""
    return b"".join(
        encode_batch([Record(2 * i + n, t, TimestampType.CREATE_TIME, None, b"v") for n in (0, 1)])
        for i, t in enumerate(timestamps)
    )


def source(*timestamps: int) -> Source:
    return array_source(np.frombuffer(a_log(*timestamps), np.uint8))


def offsets(borders: list[Border]) -> list[int]:
    """Numbers of the batches; positions must be theirs."""
    size = len(a_log(0))
    assert all(b.position * 2 == b.offset * size for b in borders)
    return [b.offset // 2 for b in borders]


@pytest.mark.parametrize("rows", [1, 2, 3, 100])
@pytest.mark.parametrize(
    ("timestamps", "expected"),
    [
        ((), []),
        ((5,), []),
        ((5, 6, 7), []),
        ((-1, -1, 5, 6), [2]),
        ((5, 6, -1, -1), [2]),
        ((5, 999, 6, 7), [1, 2]),
        ((-1, 5, -1, 5, 6), [1, 3]),
        ((999, 5, 6), [1]),
        ((5, 6, 999), [2]),
        ((0, 5, 6), [1]),
        ((0, -1, 999, 5), [1, 3]),
        ((-1, -1), []),
        ((999, 999), []),
    ],
)
def test_where_timestamps_stop_being_mixed(
    timestamps: tuple[int, ...], expected: list[int], rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkats.segment.headers.ROWS_AT_ONCE", rows)
    timestamps = tuple(t if t < 0 else t * 1000 for t in timestamps)  # sound: 1000 to 900 000
    assert offsets(unmixed(source(*timestamps), earliest_ms=1000, latest_ms=900_000)) == expected


@pytest.mark.parametrize("rows", [1, 2, 100])
@pytest.mark.parametrize(
    ("timestamps", "expected"),
    [
        ((), None),
        ((1, 2, 3), None),
        ((10, 1), None),
        ((1, 9, 10, 2), 2),
        ((1, 11, 12), 1),
        ((-1, 1, 10), 2),
        ((1, -1, 10), 2),
        ((-1, -1, 10), None),
        ((-1, -1), None),
        ((9, 2**62), 1),
    ],
)
def test_the_first_batch_that_has_not_expired(
    timestamps: tuple[int, ...], expected: int | None, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkats.segment.headers.ROWS_AT_ONCE", rows)
    head = expired_head(source(*timestamps), expired_before_ms=10)
    assert (offsets([head.border])[0] if head else None) == expected
    assert head is None or head.largest_timestamp == max(timestamps[:expected])


def test_timestamps_at_the_ends_of_the_range() -> None:
    assert offsets(as_rolled(source(0, 2**63 - 1, 5), segment_ms=1)) == [1]
    assert offsets(as_rolled(source(2**63 - 1, 5, 2**63 - 1), segment_ms=1)) == []
    assert offsets(as_rolled(source(-1, 5, 10**15), segment_ms=1)) == [], (
        "when it was created is not known"
    )


def test_not_more_than_anybody_can_want() -> None:
    assert len(as_rolled(source(*range(20)), segment_bytes=1, most=4)) == 5


def test_a_wrapper_that_does_not_decompress_is_named(golden: Unpacked) -> None:
    segment = golden.segments_of("matrix-2.8.2-v1", "data", "gzip-ct-0")[0]
    data = bytearray(segment.log.read_bytes())
    positions = batches(segment)[1]
    data[positions[1] + 40 : positions[1] + 60] = bytes(20)
    with pytest.raises(CorruptBatch) as caught:
        as_rolled(array_source(np.frombuffer(bytes(data), np.uint8)), segment_bytes=1)
    assert caught.value.position == positions[1]
