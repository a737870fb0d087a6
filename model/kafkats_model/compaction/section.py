"""The section of a log that a cleaning compacts, and the groups of segments that become one.

Pure: facts of the segments and the topic's settings give the plan. Source: LogCleanerManager.
cleanableOffsets, Cleaner.groupSegmentsBySize of Kafka 0.9 to 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kafkats.generations import MAX_RELATIVE_OFFSET
from kafkats_model.broker.compaction_rules import CleaningRule
from kafkats_model.broker.settings import Topic

NOTHING: Final = "nothing to clean"
CLEAN_ENOUGH: Final = "clean enough"


class SegmentFacts(NamedTuple):
    """One segment, the active one too."""

    base_offset: int
    bytes: int
    """The size of its log."""
    offset_index_bytes: int
    time_index_bytes: int
    mtime_ms: int
    largest_ms: int
    """The largest timestamp; the mtime if it has none."""
    first_ms: int
    """The largest timestamp of its first batch, -1 if it has none."""


class Ends(NamedTuple):
    """The offsets that bound what a cleaning may read."""

    log_start: int
    log_end: int
    last_stable: int
    """No transaction is open below it, and all replicas have what is below it."""
    cleaned_to: int | None
    """The cleaner's checkpoint."""


class Section(NamedTuple):
    """The dirty section: from the first offset that was never cleaned to the first that may not.

    It ends where a segment begins.
    """

    first_offset: int
    end_offset: int
    why_not: str
    """"" or why nothing is cleaned."""


def section(
    segments: Sequence[SegmentFacts], ends: Ends, topic: Topic, rule: CleaningRule, *, now_ms: int
) -> Section:
    """Return the section that a cleaning at `now_ms` would compact. Offsets are in order."""
    first = ends.log_start if ends.cleaned_to is None else ends.cleaned_to
    if not ends.log_start <= first <= ends.log_end:
        first = ends.log_start
    end = segments[-1].base_offset
    if rule.transactions:
        end = min(end, ends.last_stable)
    dirty = [s for s in _reaching(segments, first) if s.base_offset < segments[-1].base_offset]
    lag = topic.compaction.min_lag_ms
    if rule.lag and lag > 0:
        young = (s.base_offset for s in dirty if s.largest_ms > now_ms - lag)
        end = min(end, next(young, end))
    # A segment is cleaned as a whole, or not at all.
    end = max(s.base_offset for s in segments if s.base_offset <= max(first, end))
    cleanable = sum(s.bytes for s in _reaching(segments, min(first, end)) if s.base_offset < end)
    if not cleanable:
        return Section(first, end, NOTHING)
    clean = sum(s.bytes for s in segments if s.base_offset < first)
    ratio = cleanable / (clean + cleanable)
    waited = rule.oldest and any(
        0 < s.first_ms < now_ms - topic.compaction.max_lag_ms for s in dirty
    )
    enough = ratio > topic.compaction.dirty_ratio or waited
    return Section(first, end, "" if enough else CLEAN_ENOUGH)


def _reaching(segments: Sequence[SegmentFacts], offset: int) -> list[SegmentFacts]:
    """Return the segments from the one with `offset` on."""
    below = [s for s in segments if s.base_offset <= offset]
    return [*below[-1:], *(s for s in segments if s.base_offset > offset)]


def groups(
    segments: Sequence[SegmentFacts], end_offset: int, cleanable_to: int, topic: Topic
) -> list[list[SegmentFacts]]:
    """Return the segments that begin below `end_offset`, in groups that become one segment each.

    A group is bounded by segment.bytes, by segment.index.bytes for each index, and by the offsets
    that an index can hold. `cleanable_to` is the end of the section.
    """
    settings = topic.rolling
    below = [s for s in segments if s.base_offset < end_offset]
    nexts = [*(s.base_offset for s in below[1:]), cleanable_to]
    made: list[list[SegmentFacts]] = []
    for one, following in zip(below, nexts, strict=True):
        group = made[-1] if made else []
        joined = [*group, one]
        if (
            group
            and sum(s.bytes for s in joined) <= settings.segment_bytes
            and sum(s.offset_index_bytes for s in joined) <= settings.segment_index_bytes
            and sum(s.time_index_bytes for s in joined) <= settings.segment_index_bytes
            and (one.bytes == 0 or following - 1 - group[0].base_offset <= MAX_RELATIVE_OFFSET)
        ):
            group.append(one)
        else:
            made.append([one])
    return made
