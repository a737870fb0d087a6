"""What a broker would delete in all partitions at once: retention.decide in columns.

Read retention.decide first. A pass deletes a prefix of a partition's rows, so this module only has
to find the first row at which it stops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkats.config.durations import rounded
from kafkats.generations import RetentionRule
from kafkats.retention import rules as words  # the same sentences

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

_LARGEST: Final = 2**63 - 1
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
    reason: pa.Array
    evidence: pa.Array
    deletable_from_ms: pa.Array
    blocked_by: pa.Array


def rows_of(starts: Ints, count: int) -> Rows:
    ends = np.append(starts[1:], count)[: len(starts)]
    return Rows(starts, ends, np.repeat(np.arange(len(starts)), ends - starts))


def decide(
    rows: Rows, segments: Segments, limits: Limits, rule: RetentionRule, *, now_ms: int
) -> Verdicts:
    """Return retention.decide for each partition. No partition may be empty."""
    row, of = np.arange(len(rows.of)), rows.of
    ms, size, log_start, mark = (column[of] for column in limits)
    replicated = np.maximum(np.maximum(mark, 0), log_start)
    last = row == rows.ends[of] - 1
    empty = last & (segments.bytes == 0)
    timed = (segments.largest_timestamp >= 0) & rule.timestamps
    since = np.where(timed, segments.largest_timestamp, segments.mtime_ms)
    expires, known = _expiries(since, ms, segments.trusted)

    free = rows.first(empty | ((segments.end_offset > replicated) & rule.high_watermark))
    remain = (rows.running_sum(segments.bytes)[rows.ends - 1])[of] - rows.running_sum(
        segments.bytes
    )
    stops = {
        "start-offset": last | (segments.end_offset > log_start),
        "size": (size < 0) | (remain < size),
        "time": ~known | (now_ms < expires),
    }
    left, by = rows.starts, np.zeros(len(row), np.int64)
    for number, name in enumerate(rule.passes, 1):
        begin, left = left, np.minimum(rows.first(stops[name] & (row >= left[of])), free)
        by[(row >= begin[of]) & (row < left[of])] = number
    deletes = row < left[of]
    named = {name: by == number for number, name in enumerate(rule.passes, 1)}

    may = known & (row < free[of])
    goes = ~deletes & may & (expires <= now_ms)
    pin = rows.first(~deletes & ~goes)[of]
    blocked = goes & (row > pin)
    pinned_at = segments.base_offset[np.minimum(pin, len(row) - 1)]
    chain = named["time"] | (~deletes & (row < rows.first(~deletes & ~may)[of]))
    earliest = running_max(np.where(chain, expires, -_LARGEST), 2 * of + ~deletes)
    begins = np.where(deletes & ~named["time"], now_ms, earliest)

    weak = np.where(timed, 0, 1)
    none = np.zeros(len(row), bool)
    offset, sized = named.get("start-offset", none), named["size"]
    reason = Said(len(row))
    reason.where(offset, words.below_the_start, log_start)
    reason.where(sized, words.leaves_enough, remain, size)
    reason.where(
        named["time"],
        lambda age, w, limit: words.is_old(age, _EVIDENCE[w], limit),
        rounded(now_ms - since),
        weak,
        ms,
    )
    reason.where(blocked, words.pinned_by, pinned_at)
    reason.where(~deletes & empty, lambda: words.EMPTY)
    reason.where(~deletes & (ms >= 0) & ~segments.trusted, lambda: words.UNTRUSTED)
    reason.where(~deletes & known & (now_ms < expires), words.expires_in, rounded(expires - now_ms))
    reason.where(~deletes & (ms >= 0) & ~known, words.never_expires, ms)
    if rule.high_watermark:
        reason.where(
            ~deletes & (segments.end_offset > replicated) & (mark >= 0), words.beyond, replicated
        )
        reason.where(~deletes & (segments.end_offset > replicated), lambda: words.NO_MARK)
    reason.where(~deletes & ~known, lambda: words.NO_LIMIT)
    reason.where(~deletes, lambda: words.NEXT_RUN)
    return Verdicts(
        deletes,
        pa.array(("", *rule.passes)).take(pa.array(by)),
        reason.texts(),
        pa.array(_EVIDENCE).take(pa.array(np.where(offset, 2, np.where(sized, 3, weak)))),
        pa.array(begins, mask=~(deletes | chain)),
        pa.array(pinned_at, mask=~blocked),
    )


def _expiries(since: Ints, ms: Ints, trusted: Flags) -> tuple[Ints, Flags]:
    """Return retention.expires_at, and where such a time exists."""
    known = (ms >= 0) & trusted & (since <= _LARGEST - 1 - np.maximum(ms, 0))
    return np.where(known, since, 0) + np.where(known, ms, 0) + 1, known


def running_max(values: Ints, groups: Ints) -> Ints:
    """Return the largest value so far in the row's group. `groups` must not decrease."""
    known, ranks = np.unique(values, return_inverse=True)
    return known[np.maximum.accumulate(groups * len(known) + ranks) - groups * len(known)]


class Said:
    """A column of sentences: the first sentence for a row counts.

    Rows of equal values share one call.
    """

    def __init__(self, count: int) -> None:
        self._open = np.ones(count, bool)
        self._rows: list[Ints] = []
        self._texts: list[pa.Array] = []

    def where(self, flags: Flags, say: Callable[..., str], *columns: NDArray[Any]) -> None:
        """Set the text of the flagged rows to `say` of their values of `columns`."""
        chosen = np.flatnonzero(flags & self._open)
        if not len(chosen):
            return
        self._open[chosen] = False
        code = np.zeros(len(chosen), np.int64)
        for column in columns:
            known, found = np.unique(column[chosen], return_inverse=True)
            code = code * len(known) + found
        _, first, which = np.unique(code, return_index=True, return_inverse=True)
        texts = [say(*(int(column[chosen[n]]) for column in columns)) for n in first]
        self._rows.append(chosen)
        self._texts.append(pa.array(texts, pa.string()).take(pa.array(which)))

    def texts(self) -> pa.Array:
        rows = np.concatenate([np.zeros(0, np.int64), *self._rows])
        place = np.empty(len(rows), np.int64)
        place[rows] = np.arange(len(rows))
        return pa.concat_arrays([pa.array([], pa.string()), *self._texts]).take(pa.array(place))
