"""Retention: which segments of a partition a broker would delete now, by which limit, and from when on the others.

Pure functions over facts. Each pass deletes a prefix of the segments that the passes before it have left: it stops at the first
one that does not qualify, so one unexpired segment protects all behind it. Strictly older than retention.ms goes; by size, what
leaves at least retention.bytes. If everything goes, an empty segment at the log end takes its place; an empty last
segment stays. Source: Log, UnifiedLog.deleteOldSegments of Kafka 0.8 to 4.3; KIP-33.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from kafkats.generations import RetentionRule

NEVER: Final = None


class Segment(NamedTuple):
    """Facts of one segment; times in epoch ms."""

    base_offset: int
    end_offset: int
    """Exclusive: the next segment's base offset, or the log end offset."""
    bytes: int
    """Of the .log, as retention.bytes counts."""
    largest_timestamp: int
    """Negative: it has none."""
    mtime_ms: int
    trusted: bool = True
    """The largest timestamp is believed: the time index does not contradict the log."""


class Limits(NamedTuple):
    """-1 switches a limit off. Without a high watermark nothing is known to be replicated."""

    retention_ms: int = -1
    retention_bytes: int = -1
    log_start_offset: int = 0
    high_watermark: int | None = None


class Verdict(NamedTuple):
    """What becomes of one segment."""

    base_offset: int
    deletes: bool
    by: str
    """The pass that deletes it, "" when none does."""
    reason: str
    evidence: str
    """What its age was told from: timestamp, mtime (weak: copies and moves change it), or "" when it has none."""
    deletable_from_ms: int | None
    """When time alone will have made it deletable, those before it included; None: never by time."""
    blocked_by: int | None
    """Base offset of the earlier segment that keeps it, though it qualifies by itself."""


class Decision(NamedTuple):
    """One verdict per segment in order; `rolls`: all go, and an empty segment is made at the log end."""

    verdicts: tuple[Verdict, ...]
    rolls: bool
    log_start_offset: int


def decide(segments: Sequence[Segment], limits: Limits, rule: RetentionRule, *, now_ms: int) -> Decision:
    """What a broker of that generation would delete at `now_ms`. `segments` are sorted; the last one is active."""
    left = list(segments)
    gone: dict[int, tuple[str, str]] = {}
    for name in rule.passes:
        for segment, why in _PASSES[name](left, limits, rule, now_ms):
            gone[segment.base_offset] = name, why
        left = [segment for segment in left if segment.base_offset not in gone]
    start = left[0].base_offset if left else (segments[-1].end_offset if segments else 0)
    verdicts = _verdicts(segments, gone, limits, rule, now_ms)
    return Decision(verdicts, bool(segments) and not left, max(start, limits.log_start_offset))


def age_of(segment: Segment, rule: RetentionRule) -> tuple[int | None, str]:
    """The time (epoch ms) that a segment's age is counted from, None when it has none, and the evidence."""
    if rule.timestamps and segment.largest_timestamp >= 0:
        return segment.largest_timestamp, "timestamp"
    if rule.mtime_fallback:
        return segment.mtime_ms, "mtime"
    return None, ""


_Gone = list[tuple[Segment, str]]


def _prefix(
    left: Sequence[Segment], limits: Limits, rule: RetentionRule, why: Callable[[Segment, Segment | None], str]
) -> _Gone:
    """The first segments for which `why` has a reason, as far as the rule lets them go."""
    found: _Gone = []
    for segment, following in zip(left, [*left[1:], None], strict=True):
        if rule.high_watermark and (limits.high_watermark is None or segment.end_offset > limits.high_watermark):
            break
        reason = why(segment, following)
        if not reason or (following is None and segment.bytes == 0):
            break
        found.append((segment, reason))
    return found


def _by_start_offset(left: Sequence[Segment], limits: Limits, rule: RetentionRule, now_ms: int) -> _Gone:
    start = limits.log_start_offset

    def why(segment: Segment, following: Segment | None) -> str:
        below = following is not None and following.base_offset <= start
        return f"ends at or below the log start offset {start}" if below else ""

    return _prefix(left, limits, rule, why)


def _by_size(left: Sequence[Segment], limits: Limits, rule: RetentionRule, now_ms: int) -> _Gone:
    total = sum(segment.bytes for segment in left)
    if limits.retention_bytes < 0 or total < limits.retention_bytes:
        return []
    over = [total - limits.retention_bytes]

    def why(segment: Segment, following: Segment | None) -> str:
        if over[0] - segment.bytes < 0:
            return ""
        over[0] -= segment.bytes
        return (
            f"{over[0] + limits.retention_bytes} bytes are left without it, retention.bytes is {limits.retention_bytes}"
        )

    return _prefix(left, limits, rule, why)


def _by_time(left: Sequence[Segment], limits: Limits, rule: RetentionRule, now_ms: int) -> _Gone:
    if limits.retention_ms < 0:
        return []

    def why(segment: Segment, following: Segment | None) -> str:
        since, evidence = age_of(segment, rule)
        if since is None or not segment.trusted or now_ms - since <= limits.retention_ms:
            return ""
        return f"{now_ms - since} ms old by {evidence}, retention.ms is {limits.retention_ms}"

    return _prefix(left, limits, rule, why)


_PASSES: Final = {"start-offset": _by_start_offset, "size": _by_size, "time": _by_time}


def _verdicts(
    segments: Sequence[Segment],
    gone: dict[int, tuple[str, str]],
    limits: Limits,
    rule: RetentionRule,
    now_ms: int,
) -> tuple[Verdict, ...]:
    found = []
    pin: int | None = None
    earliest: int | None = 0
    for segment in segments:
        since, evidence = age_of(segment, rule)
        if segment.base_offset in gone:
            by, reason = gone[segment.base_offset]
            found.append(Verdict(segment.base_offset, True, by, reason, evidence, now_ms, None))
            continue
        own = None if since is None or limits.retention_ms < 0 else since + limits.retention_ms + 1
        earliest = None if own is None or earliest is None else max(own, earliest)
        expired = own is not None and own <= now_ms and segment.trusted
        reason = _why_kept(segment, limits, rule, own, pin if expired else None, now_ms)
        found.append(Verdict(segment.base_offset, False, "", reason, evidence, earliest, pin if expired else None))
        if pin is None:
            pin = segment.base_offset
    return tuple(found)


def _why_kept(
    segment: Segment, limits: Limits, rule: RetentionRule, own: int | None, pin: int | None, now_ms: int
) -> str:
    if rule.high_watermark and limits.high_watermark is None:
        return "no high watermark is known"
    if rule.high_watermark and limits.high_watermark is not None and segment.end_offset > limits.high_watermark:
        return f"reaches beyond the high watermark {limits.high_watermark}"
    if pin is not None:
        return f"expired, but kept by the segment at {pin} before it"
    if not segment.trusted:
        return "its time index is wrong or missing: kafkats plan rebuild"
    if own is None:
        return "no limit by time" if limits.retention_ms < 0 else "it has no timestamp to go by"
    if own <= now_ms:
        return "an empty last segment stays"
    return f"expires in {own - now_ms} ms"
