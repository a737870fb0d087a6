"""Append the batches of a log again under other settings: the segments that a broker would make.

Pure functions over the rule of `rules`, and over retention's rule for what is left of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kafkats.config.values import LONG_MAX
from kafkats.generations import MAX_RELATIVE_OFFSET, RetentionRule, RollRule
from kafkats.retention.rules import Limits, Segment, decide
from kafkats.rolling.rules import Active, Append, Batch, Settings, jitter_bound, should_roll


class Rolled(NamedTuple):
    """A simulated segment. The last one is active, and its reason is ""."""

    base_offset: int
    end_offset: int
    """Exclusive: the next segment's base offset, or the log end offset."""
    bytes: int
    batches: int
    first_timestamp: int
    largest_timestamp: int
    created_ms: int
    last_append_ms: int
    """The time that the file's mtime would have."""
    offset_entries: int
    time_entries: int
    jitter_ms: int
    reason: str
    """Why the next segment begins."""


class AfterRetention(NamedTuple):
    """The simulated segments that retention keeps, and for how long."""

    segments: tuple[Rolled, ...]
    """The remaining segments, without the empty one that replaces them when all are deleted."""
    open_files: int
    """.log, .index and .timeindex of each, which brokers keep open.

    Transaction indexes are not counted.
    """
    kept_ms: tuple[int | None, ...]
    """Per simulated segment, the time from its first timestamp to its deletion by time.

    It is deleted with all earlier segments. None: never, or without timestamp.
    """


def draw_jitter(settings: Settings, seed: int) -> Iterator[int]:
    """Yield the jitter that a broker draws for each segment, in ms.

    It is uniform from 0 to segment.jitter.ms, exclusive, and at most segment.ms.
    """
    draw = random.Random(seed)  # noqa: S311
    bound = jitter_bound(settings)
    while True:
        yield draw.randrange(2**31) % bound if bound > 0 else 0


@dataclass
class _Open:
    """The active segment of a simulation."""

    base_offset: int
    created_ms: int
    jitter_ms: int
    bytes: int = 0
    batches: int = 0
    first_timestamp: int = -1
    largest_timestamp: int = -1
    last_append_ms: int = -1
    offset_entries: int = 0
    time_entries: int = 0
    last_time_entry: int = -1
    unindexed_bytes: int = 0

    def facts(self) -> Active:
        return Active(**{name: getattr(self, name) for name in Active._fields})

    def take(self, append: Append, settings: Settings, rule: RollRule) -> None:
        if self.bytes == 0:
            first = append.batches[0].max_timestamp
            self.first_timestamp = first if rule.since == "first-batch" else append.max_timestamp
        units = [(b.bytes, b.max_timestamp) for b in append.batches] if rule.batches else None
        for size, timestamp in units or [(append.bytes, append.max_timestamp)]:
            self._index(size, timestamp, settings)
        self.batches += len(append.batches)
        self.last_append_ms = append.now_ms

    def _index(self, size: int, timestamp: int, settings: Settings) -> None:
        self.largest_timestamp = max(self.largest_timestamp, timestamp)
        if self.unindexed_bytes > settings.index_interval_bytes:
            self.offset_entries += 1
            self.unindexed_bytes = 0
            if self.largest_timestamp > self.last_time_entry:
                self.time_entries += 1
                self.last_time_entry = self.largest_timestamp
        self.unindexed_bytes += size
        self.bytes += size

    def closed(self, end_offset: int, reason: str) -> Rolled:
        own = {name: value for name, value in vars(self).items() if name in Rolled._fields}
        return Rolled(**own, end_offset=end_offset, reason=reason)


def simulate(
    appends: Iterable[Append],
    settings: Settings,
    rule: RollRule,
    *,
    base_offset: int = 0,
    jitter: Iterable[int] | None = None,
) -> list[Rolled]:
    """Return the segments that these appends create, starting with an empty one at `base_offset`.

    `jitter` gives one number per segment (default: 0; see `draw_jitter`). An append must not be
    empty. Not simulated: restarts, after which index entries count again from zero, and appends at
    which Kafka itself fails, such as one whose batches overfill an index.
    """
    draws = iter(jitter) if jitter is not None else iter(lambda: 0, None)
    log_end = base_offset
    active: _Open | None = None
    closed: list[Rolled] = []
    for append in appends:
        if active is None:
            active = _Open(base_offset, append.now_ms, next(draws))
        reason = should_roll(active.facts(), append, settings, rule)
        if reason:
            new = new_base_offset(append, log_end, rule)
            if active.bytes or new != active.base_offset:  # else the empty one is replaced
                closed.append(active.closed(new, reason))
            active = _Open(new, append.now_ms, next(draws))
        active.take(append, settings, rule)
        log_end = append.last_offset + 1
    return [*closed, active.closed(log_end, "")] if active is not None else closed


def new_base_offset(append: Append, log_end_offset: int, rule: RollRule) -> int:
    """Return the base offset of the segment that begins with this append.

    From 2.0 on it is the append's first offset, or the lowest possible one if that is unknown, but
    never below the log end offset. In 0.10.2 to 1.1 it is the lowest possible one; before, it is
    always the log end offset.
    """
    if not rule.relative:
        return log_end_offset
    first = append.batches[0].first_offset if rule.begins_at_first else -1
    return max(log_end_offset, first if first >= 0 else append.last_offset - MAX_RELATIVE_OFFSET)


def replay(segments: Iterable[tuple[Sequence[Batch], int]]) -> Iterator[Append]:
    """Yield real segments, (batches, mtime in epoch ms) in order, as appends of one batch each.

    The time of an append is not stored. It is taken to be the batch's timestamp, but not before the
    previous append and not after the segment's mtime. Without a timestamp it is the segment's
    mtime.
    """
    clock = -LONG_MAX
    for batches, mtime_ms in segments:
        for batch in batches:
            stamp = batch.max_timestamp if batch.max_timestamp >= 0 else mtime_ms
            clock = max(clock, min(stamp, mtime_ms))
            yield Append((batch,), clock)


def began(segments: Iterable[tuple[Sequence[Batch], int]]) -> Iterator[int]:
    """Yield when each real segment began, by the times of `replay`: its first append.

    A segment without batches began at its mtime, but not before the previous append.
    """
    clock = -LONG_MAX
    for batches, mtime_ms in segments:
        times = (
            min(batch.max_timestamp, mtime_ms) if batch.max_timestamp >= 0 else mtime_ms
            for batch in batches
        )
        first = max(clock, next(times, mtime_ms))
        yield first
        clock = max(first, max(times, default=first)) if batches else clock


def after_retention(
    segments: Sequence[Rolled],
    limits: Limits,
    retention: RetentionRule,
    rule: RollRule,
    *,
    now_ms: int,
) -> AfterRetention:
    """Return the simulated segments that retention keeps, their open files, and for how long."""
    facts = [
        Segment(s.base_offset, s.end_offset, s.bytes, s.largest_timestamp, s.last_append_ms)
        for s in segments
    ]
    verdicts = decide(facts, limits, retention, now_ms=now_ms).verdicts
    left = tuple(s for s, verdict in zip(segments, verdicts, strict=True) if not verdict.deletes)
    end = segments[-1].end_offset if segments else 0
    untouched = Limits(limits.retention_ms, -1, 0, end)
    timed = decide(facts, untouched, retention, now_ms=-LONG_MAX).verdicts
    kept = tuple(
        verdict.deletable_from_ms - s.first_timestamp
        if verdict.deletable_from_ms is not None and s.first_timestamp >= 0
        else None
        for s, verdict in zip(segments, timed, strict=True)
    )
    files = max(len(left), 1) * (3 if rule.relative else 2)
    return AfterRetention(left, files, kept)
