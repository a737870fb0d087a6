"""Rolling: when a broker begins a new segment, under its settings or under others.

Pure functions. A broker checks before each append, and rolls when any of these holds
(`should_roll`, in this order):

    size          the append would make the segment larger than segment.bytes
    time          the segment is not empty, and more than segment.ms minus its jitter has passed
                  (generations.RollRule tells from when to when)
    offset-index  it is full: segment.index.bytes // 8 entries
    time-index    it is full: segment.index.bytes // 12 - 1 entries; one is reserved for closing
    offsets       the append ends 2^31 or more above the base offset, or below it

Time is that of the append's own timestamps. Old records never roll a segment by time, and a record
from the future rolls it at once. So does a transaction marker among old records, since it carries
the broker's clock. Source: LogSegment.shouldRoll, Log.maybeRoll of Kafka 0.8 to 4.3; KIP-33.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kafkats.config.durations import setting_text, span_text
from kafkats.config.settings import TopicSettings
from kafkats.config.values import LONG_MAX
from kafkats.counts import counted
from kafkats.generations import (
    INDEX_INTERVAL_BYTES,
    MAX_RELATIVE_OFFSET,
    SEGMENT_INDEX_BYTES,
    RollRule,
)


class Settings(NamedTuple):
    """Kafka's topic settings, with its defaults."""

    segment_ms: int = 604_800_000
    segment_bytes: int = 2**30
    segment_jitter_ms: int = 0
    segment_index_bytes: int = SEGMENT_INDEX_BYTES
    index_interval_bytes: int = INDEX_INTERVAL_BYTES
    compacted: bool = False
    """Whether cleanup.policy includes compact."""
    max_compaction_lag_ms: int = LONG_MAX

    @property
    def longest_ms(self) -> int:
        """The effective segment.ms. max.compaction.lag.ms limits it in compacted topics (2.3+)."""
        bounded = self.compacted and self.max_compaction_lag_ms > 0
        return min(self.segment_ms, self.max_compaction_lag_ms) if bounded else self.segment_ms


def settings_of(given: TopicSettings) -> Settings:
    """Return a policy's settings, with Kafka's defaults for those not given."""
    known = {
        name: getattr(given, name)
        for name in Settings._fields
        if getattr(given, name, None) is not None
    }
    return Settings(**known, compacted="compact" in (given.cleanup_policy or ()))


class Batch(NamedTuple):
    """One batch of an append; control batches count too.

    For magic 0 and 1, a message or a wrapper.
    """

    first_offset: int
    """-1: unknown, in a wrapper. A follower reads it only in magic 2."""
    last_offset: int
    bytes: int
    max_timestamp: int


class Append(NamedTuple):
    """One append call: the batches of one produce request or one fetch for the partition."""

    batches: tuple[Batch, ...]
    now_ms: int
    """The broker's clock."""

    @property
    def bytes(self) -> int:
        return sum(batch.bytes for batch in self.batches)

    @property
    def max_timestamp(self) -> int:
        return max(batch.max_timestamp for batch in self.batches)

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset


class Active(NamedTuple):
    """The known state of the active segment."""

    base_offset: int
    bytes: int
    first_timestamp: int
    """The largest timestamp of its first batch (or append, see RollRule).

    Up to RollRule.no_timestamp: none.

    After a restart it is always that of the batch.
    """
    largest_timestamp: int
    created_ms: int
    """When the broker opened it. Every restart resets this."""
    offset_entries: int = 0
    time_entries: int = 0
    jitter_ms: int | None = None
    """The jitter that the broker drew for it.

    None: unknown, since it is only in the broker's memory.
    """


class Due(NamedTuple):
    """Whether an append with the current time as its timestamp would begin a new segment."""

    rolls: bool
    reason: str
    """size, time, offset-index, time-index, offsets; "" when it does not roll."""
    explanation: str
    evidence: str
    """The start of the time: timestamp, or created (weak: the broker may know another time)."""
    due_from_ms: int | None
    """When time may first roll it, with the largest jitter possible. None: never."""
    due_until_ms: int | None
    """When time rolls it with any jitter. None: never."""


def should_roll(active: Active, append: Append, settings: Settings, rule: RollRule) -> str:
    """Return why the broker rolls before this append: the first test that holds, else ""."""
    if active.bytes > settings.segment_bytes - append.bytes:
        return "size"
    if active.bytes > 0:
        since, until = _waited(active, append, rule)
        if until - since > settings.longest_ms - (active.jitter_ms or 0):
            return "time"
    if active.offset_entries >= settings.segment_index_bytes // 8:
        return "offset-index"
    if not rule.relative:
        return ""
    if active.time_entries >= settings.segment_index_bytes // 12 - 1:
        return "time-index"
    above = append.last_offset - active.base_offset
    return "" if 0 <= above <= MAX_RELATIVE_OFFSET else "offsets"


def _waited(active: Active, append: Append, rule: RollRule) -> tuple[int, int]:
    if rule.since == "largest" and active.largest_timestamp > rule.no_timestamp:
        return active.largest_timestamp, append.now_ms
    counted = active.first_timestamp > rule.no_timestamp
    if rule.since in {"first-batch", "first-append"} and counted:
        return active.first_timestamp, append.max_timestamp
    return active.created_ms, append.now_ms


def due(active: Active, settings: Settings, rule: RollRule, *, now_ms: int) -> Due:
    """Return whether an append of one byte stamped `now_ms` would certainly roll the segment.

    An unknown jitter counts as none. `created_ms` of a directory without its broker is the caller's
    choice.
    """
    timed = {"largest": active.largest_timestamp, "created": -1}.get(
        rule.since, active.first_timestamp
    ) > rule.no_timestamp
    evidence = "timestamp" if timed else "created"
    if active.bytes == 0:
        return Due(False, "", "it is empty", evidence, None, None)
    end = active.base_offset  # the test for offsets does not apply here
    append = Append((Batch(end, end, 1, now_ms),), now_ms)
    reason = should_roll(active, append, settings, rule)
    since, _ = _waited(active, append, rule)
    longest = settings.longest_ms - (active.jitter_ms or 0)
    until_ms = _time_or_never(since + longest + 1)
    drawn = max(jitter_bound(settings) - 1, 0) if active.jitter_ms is None else 0
    from_ms = _time_or_never(since + longest + 1 - drawn)
    begin = _SINCE[rule.since] if timed else "creation"
    texts = {
        "size": f"{active.bytes} bytes, segment.bytes is {settings.segment_bytes}",
        "time": (
            f"{span_text(now_ms - since)} since its {begin}, allowed are {setting_text(longest)}"
        ),
        "offset-index": f"the offset index is full with {counted(active.offset_entries, 'entry')}",
        "time-index": f"the time index is full with {counted(active.time_entries, 'entry')}",
        "": _by_time(from_ms, until_ms, now_ms),
    }
    return Due(bool(reason), reason, texts[reason], evidence, from_ms, until_ms)


def _time_or_never(ms: int) -> int | None:
    return ms if ms <= LONG_MAX else None


def _by_time(from_ms: int | None, until_ms: int | None, now_ms: int) -> str:
    if from_ms is None:
        return "never by time"
    begin = f"in {span_text(from_ms - now_ms)}" if from_ms > now_ms else "now"
    if from_ms == until_ms:
        return f"by time {begin}"
    end = "never" if until_ms is None else f"in {span_text(until_ms - now_ms)}"
    return f"by time {begin} with the most jitter, {end} without"


_SINCE: Final = {
    "first-batch": "first batch's timestamp",
    "first-append": "first append's timestamp",
    "largest": "largest timestamp",
}


def jitter_bound(settings: Settings) -> int:
    """Return the exclusive bound of the jitter. Brokers draw a positive int."""
    return min(settings.segment_jitter_ms, settings.segment_ms, 2**31)
