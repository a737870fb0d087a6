"""The exact answer: the first offset from the log start whose timestamp reaches the target.

All segments are searched. The depth tells how:

    tail    trusts a time index if its structure and the log behind its last entry confirm it;
            then reads one batch
    full    reads every batch header and checksum, once per segment; no index can mislead it;
            the default
    deep    decodes every record; trusts not even the maximum in a header

An unreadable place that the depth needs ends the search with an error, unless the answer lies
before it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkats.errors import CorruptBatch, CorruptIndex, UsageError
from kafkats.search.answers import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    Answer,
    Target,
    Word,
)
from kafkats.search.broker import why
from kafkats.search.partition import Partition, Segment
from kafkats.segment.columns import columns
from kafkats.segment.facts import SegmentFacts, StopReason
from kafkats.segment.search import LOWEST, Hit
from kafkats.segment.walk import Points, walk

DEPTHS: Final = ("tail", "full", "deep")
_EVERY_BATCH: Final = -1
_QUIET: Final = (None, StopReason.TORN_TAIL, StopReason.ZERO_TAIL)


def find_exact(partition: Partition, target_ms: Target, *, depth: str = "full") -> Answer:
    """Return the first record of `target_ms` or later, or the answer for a word.

    LATEST is the log end. EARLIEST and EARLIEST_LOCAL are the log start. MAX_TIMESTAMP is the first
    record of the largest timestamp. LATEST_TIERED has no offset: tiered data is unknown here. A
    record without a timestamp has -1, as brokers count it.

    Raises UsageError for an unknown depth; CorruptBatch, CorruptFile, Vanished, Changed,
    StorageFailed.
    """
    if depth not in DEPTHS:
        raise UsageError(f"no depth {depth!r} to search at; there are {', '.join(DEPTHS)}")
    if target_ms == LATEST:
        return Answer(
            LATEST,
            partition.log_end_offset,
            reason="exact",
            segment=_last(partition),
            evidence="log end",
        )
    if target_ms in (EARLIEST, EARLIEST_LOCAL):
        first = partition.segments[0].base_offset if partition.segments else -1
        return Answer(
            target_ms,
            partition.log_start_offset,
            reason="exact",
            segment=first,
            evidence="log start",
        )
    if target_ms == LATEST_TIERED:
        return Answer(LATEST_TIERED, evidence="nothing is tiered")
    if target_ms == MAX_TIMESTAMP:
        newest = max((newest_of(segment, depth) for segment in served(partition)), default=-1)
        if newest < 0:
            return _newest_before_1970(partition, depth)
        return _exact(partition, newest, depth)._replace(target_ms=MAX_TIMESTAMP)
    assert not isinstance(target_ms, Word)
    return _exact(partition, target_ms, depth)


def find_safe(
    partition: Partition, target_ms: int, margin_ms: int, *, depth: str = "full"
) -> Answer:
    """Return an offset after which no record of `target_ms` or later is missed.

    Records may have come up to `margin_ms` late: this is the exact answer for a time that much
    earlier. Raises as `find_exact`, and UsageError for a margin below 0.
    """
    if margin_ms < 0:
        raise UsageError(f"a margin of {margin_ms} ms: it must not be negative")
    exact = _exact(partition, target_ms, depth)
    early = _exact(partition, max(target_ms - margin_ms, LOWEST), depth)._replace(
        target_ms=target_ms
    )
    if early.offset == exact.offset:
        return exact
    return early._replace(
        reason="out-of-order-window", evidence=f"{early.evidence}; {margin_ms} ms earlier"
    )


def compare(partition: Partition, kafka: Answer, exact: Answer) -> str:
    """Return why Kafka's answer differs from the exact one, "" when they agree.

    taken-for-a-word, mtime, untrusted-index, high-watermark, message-format
    first-segment-only   the first segment that promised a record had none at or above the log start
    coarse               the rule finds index entries, not records
    index                an entry began too late
    """
    if kafka.offset == exact.offset:
        return ""
    if not partition.searchable and kafka.reason == "no-timestamps":
        return "message-format"
    if kafka.reason == "taken-for-a-word":
        return kafka.reason
    if kafka.reason == "coarse":
        return "coarse"
    if kafka.reason == "untrusted-index":
        return "untrusted-index"
    if kafka.reason == "weak-evidence":
        return "mtime"
    if (
        kafka.offset < 0
        and partition.high_watermark is not None
        and exact.offset >= partition.high_watermark
    ):
        return "high-watermark"
    if kafka.offset < 0 and 0 <= kafka.segment < exact.segment:
        return "first-segment-only"
    return "index"


# ---------------------------------------------------------------- segment by segment

_EVIDENCE: Final = {
    "tail": "time index and tail",
    "full": "every batch header",
    "deep": "every record",
}


def _exact(partition: Partition, target: int, depth: str) -> Answer:
    timestamps = False
    for segment in served(partition):
        maximum = newest_of(segment, depth)
        if maximum >= target:
            hit = _LOOK[depth](segment, target)
            if hit is not None:
                return Answer(
                    target,
                    *hit[:3],
                    why(partition, target, hit),
                    segment.base_offset,
                    _evidence(segment, depth),
                )
        end_is_quiet(segment, depth)
        timestamps = timestamps or has_timestamps(segment, maximum)
    if partition.first_record is None:
        return Answer(target, evidence="no records")
    return Answer(
        target, reason="past-end" if timestamps else "no-timestamps", evidence=_EVIDENCE[depth]
    )


def _newest_before_1970(partition: Partition, depth: str) -> Answer:
    """Find the newest record before 1970 among all records: headers and indexes start at -1."""
    found: Answer | None = None
    for segment in served(partition):
        records = _before_1970(segment)
        if records is None:
            continue
        at = int(np.argmax(np.where(records.timestamps == -1, LOWEST, records.timestamps)))
        offset, timestamp, epoch = (
            int(c[at]) for c in (records.offsets, records.timestamps, records.epochs)
        )
        if found is None or timestamp > found.timestamp:
            found = Answer(
                MAX_TIMESTAMP,
                offset,
                timestamp,
                epoch,
                "exact",
                segment.base_offset,
                _EVIDENCE["deep"],
            )
    return found or Answer(MAX_TIMESTAMP, reason="no-timestamps", evidence=_EVIDENCE[depth])


def has_timestamps(segment: Segment, maximum: int) -> bool:
    """Whether a record of the segment has a timestamp. `maximum` is the result of `newest_of`."""
    return maximum >= 0 or _before_1970(segment) is not None


def _before_1970(segment: Segment) -> _Records | None:
    """Return the records of a segment whose times all lie before 1970.

    Returns None if no record has a timestamp. Raises as `end_is_quiet`.
    """
    if not any(headers_of(segment).facts.magics[1:]):
        return None
    records = _deep(segment)
    if records.error is not None:
        raise records.error
    return records if (records.timestamps != -1).any() else None


def served(partition: Partition) -> list[Segment]:
    """Return the segments with records at or above the log start."""
    return [
        s for s in partition.segments if not 0 <= s.next_base_offset <= partition.log_start_offset
    ]


def _last(partition: Partition) -> int:
    return partition.segments[-1].base_offset if partition.segments else -1


def newest_of(segment: Segment, depth: str) -> int:
    """Return the largest timestamp in the segment at this depth, -1 for none (deep: -2^63)."""
    if depth == "deep":
        return _deep(segment).newest
    if depth == "tail":
        tail = tail_of(segment)
        if tail is not None:
            return tail.max_timestamp
    return headers_of(segment).newest


def _evidence(segment: Segment, depth: str) -> str:
    if depth == "tail" and tail_of(segment) is None:
        return f"{_EVIDENCE['full']}: {segment.unsound or 'no time index to go by'}"
    return _EVIDENCE[depth]


def end_is_quiet(segment: Segment, depth: str) -> None:
    """Raise CorruptBatch if the wanted record may be in an unreadable part of the segment."""
    if depth == "deep":
        error = _deep(segment).error
        if error is not None:
            raise error
    tail = tail_of(segment) if depth == "tail" else None
    facts = tail.facts if tail is not None else headers_of(segment).facts
    # Before another segment an unwritten tail hides records, unless the offsets continue without a
    # gap.
    whole = segment.next_base_offset < 0 or facts.next_offset == segment.next_base_offset
    if facts.stop not in _QUIET or (facts.stop is not None and not whole):
        reason = f"{facts.stop}: records behind it cannot be read, and none before it is that late"
        raise CorruptBatch(
            reason,
            path=segment.log.path,
            position=facts.stop_position,
            base_offset=segment.base_offset,
        )


# ---------------------------------------------------------------- tail


class _Tail(NamedTuple):
    max_timestamp: int
    facts: SegmentFacts


def tail_of(segment: Segment) -> _Tail | None:
    """Return the largest timestamp and the tail's facts, from the indexes and the log behind them.

    Returns None if the indexes have no entries, are not in order, or disagree with that log.
    """
    known: dict[str, _Tail | None] = segment.__dict__
    if "_tail" not in known:
        known["_tail"] = _look_at_tail(segment)
    return known["_tail"]


def _look_at_tail(segment: Segment) -> _Tail | None:
    timestamp, offset = segment.last_time
    if timestamp < 0 or segment.unsound or offset < segment.base_offset:
        return None
    facts = segment.walked_from(offset)
    if not facts.batches or offset > facts.last_offset or facts.stop not in _QUIET:
        return None
    return _Tail(max(timestamp, facts.max_timestamp), facts)


def _look_by_index(segment: Segment, target: int) -> Hit | None:
    tail, start = tail_of(segment), segment.partition.log_start_offset
    if tail is None:
        return _look_by_headers(segment, target)
    try:
        position = segment.lookup(target, start, warm=True).position
        hit = segment.first_record(position, target, start_offset=start)
    except CorruptIndex:  # the headers do not need the index
        hit = None
    if hit is None:
        hit = _look_by_headers(segment, target)
    if hit is None:
        end_is_quiet(segment, "full")  # the tail was readable, but the headers before it may not be
    return hit


# ---------------------------------------------------------------- full


class _Headers(NamedTuple):
    """The position of each batch, and the largest timestamp up to and including it."""

    positions: NDArray[np.int64]
    maxima: NDArray[np.int64]
    facts: SegmentFacts

    @property
    def newest(self) -> int:
        return int(self.maxima[-1]) if len(self.maxima) else -1


def headers_of(segment: Segment) -> _Headers:
    """Return the headers of all batches, walked once.

    Raises CorruptBatch for offsets out of order.
    """
    known: dict[str, _Headers] = segment.__dict__
    if "_full" not in known:
        known["_full"] = _walk_headers(segment)
    return known["_full"]


def _walk_headers(segment: Segment) -> _Headers:
    """Begin at the batch with the log start offset, if it lies in the segment."""
    points, facts = _points(segment, 0)
    start = segment.partition.log_start_offset
    if start > segment.base_offset and len(points):
        first = int(np.searchsorted(points[:, 2], start))
        if first == len(points):
            points = points[:0]
        elif first:
            points, facts = _points(segment, int(points[first, 0]))
    for position, reason in (
        (
            facts.not_increasing_position,
            "offsets do not increase from here on: there is no first one",
        ),
        (facts.out_of_range_position, "offsets that cannot be in this segment"),
    ):
        if position >= 0:
            raise CorruptBatch(reason, path=segment.log.path, position=position)
    return _Headers(points[:, 0].copy(), points[:, 3].copy(), facts)


def _points(segment: Segment, position: int) -> tuple[Points, SegmentFacts]:
    parts: list[Points] = [np.empty((0, 5), np.int64)]
    facts = walk(
        segment.log.source,
        segment.base_offset,
        interval=_EVERY_BATCH,
        start=position,
        on_points=lambda points: parts.append(points.copy()),
    ).facts
    return np.concatenate(parts), facts


def _look_by_headers(segment: Segment, target: int) -> Hit | None:
    headers = headers_of(segment)
    first = int(np.searchsorted(headers.maxima, target))
    if first == len(headers.maxima):
        return None
    start = segment.partition.log_start_offset
    return segment.first_record(int(headers.positions[first]), target, start_offset=start)


# ---------------------------------------------------------------- deep


class _Records(NamedTuple):
    """Columns of all records at or above the log start, and the largest timestamp so far."""

    offsets: NDArray[np.int64]
    timestamps: NDArray[np.int64]
    epochs: NDArray[np.int32]
    maxima: NDArray[np.int64]
    error: CorruptBatch | None

    @property
    def newest(self) -> int:
        return int(self.maxima[-1]) if len(self.maxima) else -(2**63)


def _deep(segment: Segment) -> _Records:
    known: dict[str, _Records] = segment.__dict__
    if "_deep" not in known:
        known["_deep"] = _decode(segment)
    return known["_deep"]


def _decode(segment: Segment) -> _Records:
    parts: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]] = []
    error = None
    try:
        for chunk in columns(segment.log.source, key=False, value=False, headers=False, batch=True):
            assert chunk.batch is not None
            parts.append((
                chunk.offset.copy(),
                chunk.timestamp.copy(),
                chunk.batch.leader_epoch.copy(),
            ))
    except CorruptBatch as e:
        # end_is_quiet handles an unwritten tail.
        if not segment.log.source.only_zeros(e.position or 0):
            error = CorruptBatch(
                e.reason,
                path=segment.log.path,
                position=e.position,
                base_offset=segment.base_offset,
            )
    offsets, timestamps = (
        np.concatenate([np.empty(0, np.int64), *(part[n] for part in parts)]) for n in (0, 1)
    )
    epochs = np.concatenate([np.empty(0, np.int32), *(part[2] for part in parts)])
    kept = offsets >= segment.partition.log_start_offset
    offsets, timestamps, epochs = offsets[kept], timestamps[kept], epochs[kept]
    return _Records(offsets, timestamps, epochs, np.maximum.accumulate(timestamps), error)


def _look_at_records(segment: Segment, target: int) -> Hit | None:
    found = _deep(segment)
    first = int(np.searchsorted(found.maxima, target))
    if first == len(found.maxima):
        return None
    return Hit(
        int(found.offsets[first]), int(found.timestamps[first]), int(found.epochs[first]), -1
    )


_LOOK: Final = {"tail": _look_by_index, "full": _look_by_headers, "deep": _look_at_records}
