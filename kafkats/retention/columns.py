"""The kernel of rules.decide: what a broker would delete, for all partitions at once, in columns.

Read rules.decide first; property tests hold this module to it. A pass deletes a prefix of a
partition's rows, so this module only has to find the first row at which it stops.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkats.config.durations import rounded
from kafkats.config.values import LONG_MAX
from kafkats.generations import RetentionRule
from kafkats.retention.reasons import CODES, Code, Ints, Reasons

Flags = NDArray[np.bool_]

_EVIDENCE: Final = ("timestamp", "mtime", "offset", "size")


class Rows(NamedTuple):
    """The rows of partitions, as `starts` and `ends` (exclusive).

    `of` is the partition number of each row.
    """

    starts: Ints
    ends: Ints
    of: Ints

    def first(self, flags: Flags) -> Ints:
        """Return the first flagged row of each partition, or its end."""
        return np.minimum.reduceat(
            np.where(flags, np.arange(len(self.of)), self.ends[self.of]), self.starts
        )

    def running_sum(self, values: Ints) -> Ints:
        """Return the sums within each partition, including the row's own value."""
        sums = np.cumsum(values)
        return sums - (sums - values)[self.starts][self.of]


class Segments(NamedTuple):
    """Columns of retention.Segment."""

    base_offset: Ints
    end_offset: Ints
    bytes: Ints
    largest_timestamp: Ints
    mtime_ms: Ints
    trusted: Flags


class Limits(NamedTuple):
    """Columns of retention.Limits, one row per partition. -1: unknown high watermark."""

    retention_ms: Ints
    retention_bytes: Ints
    log_start_offset: Ints
    high_watermark: Ints


class Verdicts(NamedTuple):
    """Columns of retention.Verdict."""

    deletes: Flags
    by: pa.Array
    reason: Reasons
    evidence: pa.Array
    deletable_from_ms: pa.Array
    blocked_by: pa.Array


def rows_of(starts: Ints, count: int) -> Rows:
    ends = np.append(starts[1:], count)[: len(starts)]
    return Rows(starts, ends, np.repeat(np.arange(len(starts)), ends - starts))


class _View(NamedTuple):
    """The values that passes and reasons need, one per row."""

    retention_ms: Ints
    retention_bytes: Ints
    log_start_offset: Ints
    high_watermark: Ints
    replicated: Ints
    last: Flags
    empty: Flags
    timed: Flags
    since: Ints
    expires: Ints
    known: Flags
    """Whether there is such a time."""
    remain: Ints
    """Bytes of the later rows of its partition."""
    free: Ints
    """The first row of its partition that may not be deleted at all."""


def decide(
    rows: Rows, segments: Segments, limits: Limits, rule: RetentionRule, *, now_ms: int
) -> Verdicts:
    """Return rules.decide for each partition. No partition may be empty."""
    view, of, row = _view(rows, segments, limits, rule), rows.of, np.arange(len(rows.of))
    by = _deleted_by(rows, segments, view, rule, now_ms)
    deletes = by > 0
    by_time = by == _number("time", rule)

    may = view.known & (row < view.free)
    expired = ~deletes & may & (view.expires <= now_ms)
    pin = rows.first(~deletes & ~expired)[of]
    blocked = expired & (row > pin)
    pinned_at = segments.base_offset[np.minimum(pin, len(row) - 1)]
    chain = by_time | (~deletes & (row < rows.first(~deletes & ~may)[of]))
    earliest = running_max(np.where(chain, view.expires, -LONG_MAX), 2 * of + ~deletes)
    begins = np.where(deletes & ~by_time, now_ms, earliest)
    offset, sized = (by == _number(name, rule) for name in ("start-offset", "size"))
    weak = np.where(view.timed, 0, 1)
    return Verdicts(
        deletes,
        pa.array(("", *rule.passes)).take(pa.array(by)),
        _reasons(segments, view, rule, by, np.where(blocked, pinned_at, -1), now_ms),
        pa.array(_EVIDENCE).take(pa.array(np.where(offset, 2, np.where(sized, 3, weak)))),
        pa.array(begins, mask=~(deletes | chain)),
        pa.array(pinned_at, mask=~blocked),
    )


def _view(rows: Rows, segments: Segments, limits: Limits, rule: RetentionRule) -> _View:
    row, of = np.arange(len(rows.of)), rows.of
    ms, size, log_start, mark = (column[of] for column in limits)
    replicated = np.maximum(np.maximum(mark, 0), log_start)
    last = row == rows.ends[of] - 1
    empty = last & (segments.bytes == 0)
    timed = (segments.largest_timestamp >= 0) & rule.timestamps
    since = np.where(timed, segments.largest_timestamp, segments.mtime_ms)
    expires, known = _expiries(since, ms, segments.trusted)
    sums = rows.running_sum(segments.bytes)
    free = rows.first(empty | ((segments.end_offset > replicated) & rule.high_watermark))
    return _View(
        ms,
        size,
        log_start,
        mark,
        replicated,
        last,
        empty,
        timed,
        since,
        expires,
        known,
        sums[rows.ends - 1][of] - sums,
        free[of],
    )


def _number(name: str, rule: RetentionRule) -> int:
    """Return the number of a pass, from 1 on, -1 if the rule has no such pass."""
    return rule.passes.index(name) + 1 if name in rule.passes else -1


def _deleted_by(
    rows: Rows, segments: Segments, view: _View, rule: RetentionRule, now_ms: int
) -> Ints:
    """Return the number of the pass that deletes each row, 0 for none."""
    row, of = np.arange(len(rows.of)), rows.of
    stops = {
        "start-offset": view.last | (segments.end_offset > view.log_start_offset),
        "size": (view.retention_bytes < 0) | (view.remain < view.retention_bytes),
        "time": ~view.known | (now_ms < view.expires),
    }
    left, by = rows.starts[of], np.zeros(len(row), np.int64)
    for number, name in enumerate(rule.passes, 1):
        begin = left
        left = np.minimum(rows.first(stops[name] & (row >= begin))[of], view.free)
        by[(row >= begin) & (row < left)] = number
    return by


def _reasons(
    segments: Segments, view: _View, rule: RetentionRule, by: Ints, pin: Ints, now_ms: int
) -> Reasons:
    """Return the reasons. `pin` is the base offset of the segment that keeps an expired one, or -1.

    Times are rounded to what the sentences show.
    """
    ms, kept = view.retention_ms, by == 0
    beyond = kept & (segments.end_offset > view.replicated) & rule.high_watermark
    by_time = by == _number("time", rule)
    age = rounded(now_ms - view.since)
    cases: list[tuple[Flags, Code, Ints | int, Ints | int]] = [
        (by == _number("start-offset", rule), Code.BELOW_START, view.log_start_offset, 0),
        (by == _number("size", rule), Code.SIZE, view.remain, view.retention_bytes),
        (by_time & view.timed, Code.OLD_BY_TIMESTAMP, age, ms),
        (by_time, Code.OLD_BY_MTIME, age, ms),
        (pin >= 0, Code.PINNED, pin, 0),
        (kept & view.empty, Code.EMPTY, 0, 0),
        (kept & (ms >= 0) & ~segments.trusted, Code.UNTRUSTED, 0, 0),
        (view.known & (now_ms < view.expires), Code.NOT_EXPIRED, rounded(view.expires - now_ms), 0),
        ((ms >= 0) & ~view.known, Code.NEVER_EXPIRES, ms, 0),
        (beyond & (view.high_watermark >= 0), Code.BEYOND_MARK, view.replicated, 0),
        (beyond, Code.NO_MARK, 0, 0),
        (~view.known, Code.NO_LIMIT, 0, 0),
        (kept, Code.NEXT_RUN, 0, 0),
    ]
    flags, codes, first, second = zip(*cases, strict=True)
    numbers = (
        np.select(flags, values, 0) for values in ([*map(CODES.index, codes)], first, second)
    )
    return Reasons(*numbers)


def _expiries(since: Ints, ms: Ints, trusted: Flags) -> tuple[Ints, Flags]:
    """Return retention.expires_at, and where such a time exists."""
    known = (ms >= 0) & trusted & (since <= LONG_MAX - 1 - np.maximum(ms, 0))
    return np.where(known, since, 0) + np.where(known, ms, 0) + 1, known


def running_max(values: Ints, groups: Ints) -> Ints:
    """Return the largest value so far in the row's group. `groups` must not decrease."""
    known, ranks = np.unique(values, return_inverse=True)
    return known[np.maximum.accumulate(groups * len(known) + ranks) - groups * len(known)]
