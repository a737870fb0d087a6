"""Find borders between batches at which one .log can be split into several.

    as_rolled       where a broker with these settings would have rolled: before a batch that would
                    exceed the size limit, or whose timestamp is too far after the first batch's
    unmixed         before the first batch with another kind of timestamp (none, impossible, sound),
                    and before the first batch after which the kind changes no more
    expired_head    before the first batch that time-based retention would keep

The offset of a border is the first offset of the batch after it. It becomes the base offset of the
segment that begins there.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kafkats.errors import CorruptBatch
from kafkats.formats import dispatch
from kafkats.kernels import headers_state as k
from kafkats.segment.headers import batch_headers
from kafkats.segment.reader import Source

NO_LIMIT: Final = 2**62
MOST: Final = 1000
"""Limit of borders in one segment; more suggest wrong settings."""


class Border(NamedTuple):
    """Position and first offset of a batch with which a new segment begins."""

    position: int
    offset: int


class Head(NamedTuple):
    """The part before a border: its largest timestamp, and that of the batch after the border."""

    border: Border
    largest_timestamp: int
    next_timestamp: int


def as_rolled(
    source: Source, *, segment_bytes: int = NO_LIMIT, segment_ms: int = NO_LIMIT, most: int = MOST
) -> list[Border]:
    """Return the borders at which Kafka's rule rolls, batch by batch.

    It rolls when the next batch would exceed `segment_bytes`, or is more than `segment_ms` later
    than the first. A segment whose first batch has no timestamp does not roll by time, because its
    creation time is unknown. The search ends after more than `most` borders. Raises CorruptBatch
    with its position, Changed, StorageFailed.
    """
    borders: list[Border] = []
    start, first_timestamp = 0, -1
    for rows in batch_headers(source):
        ends, timestamps = rows[:, k.AT] + rows[:, k.SIZE], rows[:, k.MAX_TIMESTAMP]
        row = 0
        while row < len(rows):
            if rows[row, k.AT] == start:
                first_timestamp = int(timestamps[row])
                row += 1
            full = int(np.searchsorted(ends, start + segment_bytes, "right"))
            waited = (
                timestamps[row:] > first_timestamp + segment_ms if first_timestamp >= 0 else _NONE
            )
            late = row + int(waited.argmax()) if waited.any() else len(rows)
            row = max(row, min(full, late))
            if row < len(rows):
                start = int(rows[row, k.AT])
                borders.append(_border(source, rows[row].tolist()))
                if len(borders) > most:
                    return borders
    return borders


_NONE: Final = np.zeros(1, bool)


def unmixed(source: Source, *, earliest_ms: int, latest_ms: int) -> list[Border]:
    """Return at most two borders: the first and the last change of the kind of timestamps.

    Timestamps outside `earliest_ms` to `latest_ms` are impossible ones. Raises as `as_rolled`.
    """
    begins: Border | None = None
    last_change: Border | None = None
    kind = -1
    for rows in batch_headers(source):
        timestamps = rows[:, k.MAX_TIMESTAMP]
        kinds = np.where(
            timestamps < 0, 0, np.where((timestamps < earliest_ms) | (timestamps > latest_ms), 1, 2)
        )
        before = np.concatenate(([kinds[0] if kind < 0 else kind], kinds[:-1]))
        kind = int(kinds[-1])
        changes = np.flatnonzero(kinds != before)
        if changes.size:
            begins = begins or _border(source, rows[changes[0]].tolist())
            last_change = _border(source, rows[changes[-1]].tolist())
    return sorted({b for b in (begins, last_change) if b is not None})


def expired_head(source: Source, *, expired_before_ms: int) -> Head | None:
    """Return the head whose timestamps are all before `expired_before_ms`.

    Returns None if there is no such head, or if it is the whole segment. Returns None also for a
    head without timestamps, because Kafka's retention would use the file's mtime for it. Raises as
    `as_rolled`.
    """
    largest = -1
    for rows in batch_headers(source):
        timestamps = rows[:, k.MAX_TIMESTAMP]
        fresh = timestamps >= max(expired_before_ms, 0)
        row = int(fresh.argmax()) if fresh.any() else len(rows)
        largest = max(largest, int(timestamps[:row].max(initial=-1)))
        if row < len(rows):
            border = _border(source, rows[row].tolist())
            return Head(border, largest, int(timestamps[row])) if largest >= 0 else None
    return None


def _border(source: Source, row: list[int]) -> Border:
    position, offset = row[k.AT], row[k.FIRST_OFFSET]
    if offset == k.UNKNOWN:  # a wrapper: only its content tells its first offset
        data = source.read(position, row[k.SIZE])
        try:
            offset = dispatch.first_offset(data, next(dispatch.batches(data, verify=False)))
        except CorruptBatch as e:
            raise CorruptBatch(e.reason, position=position) from e
    return Border(position, offset)
