"""Tell what a search may trust in a segment, by depth, and find its first record of a time.

tail    the time index, if its structure and the log behind its last entry confirm it
full    every batch header and checksum
deep    every record
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkats.errors import CorruptBatch, CorruptIndex
from kafkats.search.partition import Segment
from kafkats.segment.columns import columns
from kafkats.segment.facts import NOTHING_BEHIND, SegmentFacts
from kafkats.segment.search import Hit
from kafkats.segment.walk import Points, walk_points

DEPTHS: Final = ("tail", "full", "deep")
_EVERY_BATCH: Final = -1
EVIDENCE: Final = {
    "tail": "time index and tail",
    "full": "every batch header",
    "deep": "every record",
}


def newest_of(segment: Segment, depth: str) -> int:
    """Return the largest timestamp in the segment at this depth, -1 for none (deep: -2^63)."""
    if depth == "deep":
        return _deep(segment).newest
    if depth == "tail":
        tail = tail_of(segment)
        if tail is not None:
            return tail.max_timestamp
    return headers_of(segment).newest


def evidence(segment: Segment, depth: str) -> str:
    """Return what an answer from the segment at this depth rests on, as text."""
    if depth == "tail" and tail_of(segment) is None:
        return f"{EVIDENCE['full']}: {segment.unsound or 'no time index to go by'}"
    return EVIDENCE[depth]


def has_timestamps(segment: Segment, maximum: int) -> bool:
    """Return whether a record of the segment has a timestamp.

    `maximum` is the result of `newest_of`.
    """
    return maximum >= 0 or before_1970(segment) is not None


def before_1970(segment: Segment) -> Records | None:
    """Return the records of a segment whose times all lie before 1970.

    Returns None if no record has a timestamp. Raises as `end_is_quiet`.
    """
    if not any(headers_of(segment).facts.magics[1:]):
        return None
    records = _deep(segment)
    if records.error is not None:
        raise records.error
    return records if (records.timestamps != -1).any() else None


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
    if facts.stop not in NOTHING_BEHIND or (facts.stop is not None and not whole):
        reason = f"{facts.stop}: records behind it cannot be read, and none before it is that late"
        raise CorruptBatch(
            reason,
            path=segment.log.path,
            position=facts.stop_position,
            base_offset=segment.base_offset,
        )


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
    if not facts.batches or offset > facts.last_offset or facts.stop not in NOTHING_BEHIND:
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
    points, walked = walk_points(
        segment.log.source, segment.base_offset, interval=_EVERY_BATCH, start=position
    )
    return points, walked.facts


def _look_by_headers(segment: Segment, target: int) -> Hit | None:
    headers = headers_of(segment)
    first = int(np.searchsorted(headers.maxima, target))
    if first == len(headers.maxima):
        return None
    start = segment.partition.log_start_offset
    return segment.first_record(int(headers.positions[first]), target, start_offset=start)


class Records(NamedTuple):
    """Columns of all records at or above the log start, and the largest timestamp so far."""

    offsets: NDArray[np.int64]
    timestamps: NDArray[np.int64]
    epochs: NDArray[np.int32]
    maxima: NDArray[np.int64]
    error: CorruptBatch | None

    @property
    def newest(self) -> int:
        return int(self.maxima[-1]) if len(self.maxima) else -(2**63)


def _deep(segment: Segment) -> Records:
    known: dict[str, Records] = segment.__dict__
    if "_deep" not in known:
        known["_deep"] = _decode(segment)
    return known["_deep"]


def _decode(segment: Segment) -> Records:
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
    return Records(offsets, timestamps, epochs, np.maximum.accumulate(timestamps), error)


def _look_at_records(segment: Segment, target: int) -> Hit | None:
    records = _deep(segment)
    first = int(np.searchsorted(records.maxima, target))
    if first == len(records.maxima):
        return None
    return Hit(
        int(records.offsets[first]), int(records.timestamps[first]), int(records.epochs[first]), -1
    )


LOOK: Final = {"tail": _look_by_index, "full": _look_by_headers, "deep": _look_at_records}
"""The search for the first record of a time in a segment, by depth."""
