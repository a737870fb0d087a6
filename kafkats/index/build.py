"""Build both indexes of a segment, byte for byte as a Kafka generation's recovery writes them.

The source of the rules is LogSegment.recover.

A batch gets an offset entry when it begins more than `index.interval.bytes` after the last batch
with an entry (for the first entry: after the start of the segment). It also gets a time entry if
the largest timestamp so far exceeds that of the last time entry. One more time entry closes the
time index. Only the part of the log before a bad batch counts, because recovery truncates the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kafkats.errors import CorruptBatch
from kafkats.formats import dispatch
from kafkats.generations import (
    MAX_RELATIVE_OFFSET,
    Rule,
)
from kafkats.index import offset_index, time_index
from kafkats.segment.facts import SegmentFacts, StopReason
from kafkats.segment.reader import Source
from kafkats.segment.walk import Points, walk

_UNKNOWN: Final = -(2**63)
_LAST: Final = 2  # columns of Points
_MAX: Final = 3
_OF_MAX: Final = 4


@dataclass(frozen=True)
class Built:
    """The result of rebuilding the indexes of one segment.

    `blocked` is "" or the kind of a finding: recovery itself would fail or empty the segment. The
    bytes are then not a valid rebuild.
    """

    facts: SegmentFacts
    offset_index: bytes
    time_index: bytes
    blocked: str = ""
    blocked_reason: str = ""


class IndexBuilder:
    """Converts index points, chunk by chunk, to the bytes of both index files."""

    def __init__(
        self,
        base_offset: int,
        rule: Rule,
        segment_index_bytes: int,
        first_offset: Callable[[int], int],
        *,
        timed: bool = True,
    ) -> None:
        """`timed`: a full time index counts; brokers before 0.10.1 have none."""
        self.base_offset = base_offset
        self.rule = rule
        self.first_offset = first_offset
        self.offset_index = bytearray()
        self.time_index = bytearray()
        self.blocked = ""
        self.blocked_reason = ""
        self.last_timestamp = -1
        self.last_position = -1
        self._most_offset = segment_index_bytes // offset_index.ENTRY_SIZE
        most_time = segment_index_bytes // time_index.ENTRY_SIZE - 1
        self._most_time = most_time if timed else segment_index_bytes

    def add(self, points: Points) -> None:
        """Add the next index points; see `segment.walk.Points`."""
        if self.blocked:
            return
        # KIP-33 stores the log end offset at that moment; Kafka stores the last offset of the batch
        # that holds the maximum.
        column, plus = (_LAST, 1) if self.rule.next_offset else (_OF_MAX, 0)
        rises = points[:, _MAX] > np.concatenate(([self.last_timestamp], points[:-1, _MAX]))
        timed = points[rises]
        entries = len(self.offset_index) // offset_index.ENTRY_SIZE + len(points)
        time_entries = len(self.time_index) // time_index.ENTRY_SIZE + len(timed)
        if entries > self._most_offset or time_entries - int(rises[-1]) >= self._most_time:
            self.blocked = "index-full"
            self.blocked_reason = (
                f"a rebuild needs more than {self._most_offset} offset or"
                f" {self._most_time} time entries"
            )
            return
        offsets = points[:, _LAST]
        if self.rule.first_offset:
            try:
                offsets = first_offsets(points, self.first_offset)
            except CorruptBatch as e:
                self.blocked, self.blocked_reason = "undecodable", str(e)
                return
        self.offset_index += offset_bytes(offsets - self.base_offset, points[:, 0])
        self.time_index += time_bytes(timed[:, _MAX], timed[:, column] + plus - self.base_offset)
        self.last_timestamp = int(points[-1, _MAX])
        self.last_position = int(points[-1, 0])

    def close(self, facts: SegmentFacts, mtime_ms: int, next_base_offset: int | None) -> Built:
        """Add the closing time entry and return the result, with the reason if it is blocked."""
        following = facts.next_offset if next_base_offset is None else next_base_offset
        if facts.max_timestamp > self.last_timestamp:
            closing = following if self.rule.next_offset else facts.offset_of_max_timestamp
            self.time_index += self._closing_bytes(facts.max_timestamp, closing)
        elif self.rule.mtime_entry and next_base_offset is not None and not facts.has_timestamps:
            self.time_index += self._closing_bytes(mtime_ms, following)
        blocked = self.blocked
        # recovery continues after it and reports a negative log end offset
        if facts.stop == StopReason.BAD_OFFSET:
            blocked = "bad-offset"
        elif facts.out_of_range_position >= 0 or self.last_position > MAX_RELATIVE_OFFSET:
            blocked = "offset-out-of-range"
        elif facts.not_increasing_position >= 0:
            blocked = "offsets-not-increasing"
        return Built(
            facts, bytes(self.offset_index), bytes(self.time_index), blocked, self.blocked_reason
        )

    def _closing_bytes(self, timestamp: int, offset: int) -> bytes:
        return time_bytes(
            [timestamp], [min(max(offset - self.base_offset, 0), MAX_RELATIVE_OFFSET)]
        )


def build_from(
    source: Source,
    base_offset: int,
    rule: Rule,
    index_interval_bytes: int,
    segment_index_bytes: int,
    next_base_offset: int | None = None,
    *,
    timed: bool = True,
) -> Built:
    """Rebuild both indexes from a source, window by window.

    Only rule kip33 uses `next_base_offset` (None: this is the active segment) and the source's
    mtime. `timed`: see IndexBuilder.
    """
    first = first_offset_reader(source)
    builder = IndexBuilder(base_offset, rule, segment_index_bytes, first, timed=timed)
    walked = walk(source, base_offset, interval=index_interval_bytes, on_points=builder.add)
    return builder.close(with_first_offset(walked.facts, first), source.mtime_ms, next_base_offset)


def with_first_offset(facts: SegmentFacts, first_offset: Callable[[int], int]) -> SegmentFacts:
    """Return `facts` with the first offset of a log that begins with a wrapper.

    The first offset stays unknown if the wrapper does not decompress.
    """
    if facts.first_offset >= 0 or not facts.batches:
        return facts
    try:
        return facts._replace(first_offset=max(first_offset(0), -1))
    except CorruptBatch:
        return facts


def first_offsets(points: Points, first_offset: Callable[[int], int]) -> NDArray[np.int64]:
    """Return the first offset of each point's batch; wrappers are decompressed to find it."""
    offsets = points[:, 1].copy()
    for i in np.flatnonzero(offsets == _UNKNOWN):
        offsets[i] = first_offset(int(points[i, 0]))
    return offsets


def first_offset_reader(source: Source) -> Callable[[int], int]:
    """Return a function from the position of a batch to the offset of its first record."""

    def first_offset(position: int) -> int:
        size = 12 + int.from_bytes(source.read(position + 8, 4), "big")
        data = source.read(position, size)
        try:
            batch = next(dispatch.batches(data, verify=False), None)
            if batch is None:
                raise CorruptBatch("cut off meanwhile")
            return dispatch.first_offset(data, batch)
        except CorruptBatch as e:
            raise CorruptBatch(e.reason, position=position) from e

    return first_offset


def offset_bytes(
    relative: Iterable[int] | NDArray[np.int64], positions: Iterable[int] | NDArray[np.int64]
) -> bytes:
    """Return the entries of an offset index as bytes."""
    relative, positions = np.asarray(relative), np.asarray(positions)
    entries = np.empty(len(relative), offset_index.ENTRY)
    entries["relative_offset"], entries["position"] = relative, positions
    return entries.tobytes()


def time_bytes(
    timestamps: Iterable[int] | NDArray[np.int64], relative: Iterable[int] | NDArray[np.int64]
) -> bytes:
    """Return the entries of a time index as bytes."""
    timestamps, relative = np.asarray(timestamps), np.asarray(relative)
    entries = np.empty(len(timestamps), time_index.ENTRY)
    entries["timestamp"], entries["relative_offset"] = timestamps, relative
    return entries.tobytes()
