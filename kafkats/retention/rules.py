"""Retention: which segments of a partition a broker would delete now, and which later.

Pure functions over facts. Each pass deletes a prefix of the remaining segments: it stops at the
first segment that does not qualify, so one unexpired segment protects all later ones. The time pass
deletes segments strictly older than retention.ms. The size pass deletes segments while at least
retention.bytes remain. The start-offset pass deletes segments that end at or below the log start
offset. An empty last segment is kept. If all segments are deleted, an empty one replaces them at
the log end. Source: Log and UnifiedLog (deleteOldSegments, deletableSegments), LogManager
(cleanupLogs) of Kafka 0.8 to 4.3; KIP-33.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from kafkats.config.values import LONG_MAX
from kafkats.generations import RetentionRule
from kafkats.retention.reasons import Code, Reason


class Segment(NamedTuple):
    """Facts of one segment. Times are in epoch ms."""

    base_offset: int
    end_offset: int
    """Exclusive: the next segment's base offset, or the log end offset."""
    bytes: int
    """The size of the .log, as retention.bytes counts it."""
    largest_timestamp: int
    """Up to RetentionRule.no_timestamp: none. 0 is a time."""
    mtime_ms: int
    trusted: bool = True
    """Whether the largest timestamp is trusted: the time index does not contradict the log."""


class Limits(NamedTuple):
    """The limits of a partition. -1 disables a limit; a compact-only topic has neither.

    Without a high watermark only offsets below the log start are known to be replicated.
    """

    retention_ms: int = -1
    retention_bytes: int = -1
    log_start_offset: int = 0
    high_watermark: int | None = None


class Verdict(NamedTuple):
    """The decision on one segment."""

    base_offset: int
    deletes: bool
    by: str
    """The pass that deletes it, "" when none does."""
    reason: Reason
    evidence: str
    """What decided: offset, size, timestamp, or mtime (weak: copies and moves change it)."""
    deletable_from_ms: int | None
    """When it expired or will expire, together with all earlier segments.

    It is `now_ms` for segments that other limits delete, None if time alone never deletes it.
    """
    blocked_by: int | None
    """The base offset of the earlier segment that keeps this expired one."""


class Decision(NamedTuple):
    """One verdict per segment in order.

    `rolls`: all are deleted, and an empty one is created at the end.
    """

    verdicts: tuple[Verdict, ...]
    rolls: bool
    log_start_offset: int
    """The log start offset afterwards: the first remaining base offset, never lower than before."""


def decide(
    segments: Sequence[Segment], limits: Limits, rule: RetentionRule, *, now_ms: int
) -> Decision:
    """Return what one retention run of that generation deletes at `now_ms`.

    `segments` are sorted; the last one is active. Time never deletes an untrusted segment. In
    generations that apply time before size ("0.11" and older) the next run can delete more: size
    may have deleted the segment that stopped the time pass.
    """
    free = _free(segments, limits, rule)
    deleted: list[tuple[str, Reason]] = []
    for name in rule.passes:
        reasons = _PASSES[name](segments[len(deleted) :], limits, rule, now_ms)
        deleted += [(name, reason) for reason in islice(reasons, free - len(deleted))]
    left = segments[len(deleted) :]
    start = left[0].base_offset if left else segments[-1].end_offset if segments else 0
    verdicts = (
        *_deleted(segments, deleted, limits, rule, now_ms),
        *_kept(left, free - len(deleted), limits, rule, now_ms),
    )
    return Decision(verdicts, bool(segments) and not left, max(start, limits.log_start_offset))


def age_of(segment: Segment, rule: RetentionRule) -> tuple[int, str]:
    """Return the time (epoch ms) from which age counts, and the evidence: timestamp or mtime."""
    if rule.timestamps and segment.largest_timestamp > rule.no_timestamp:
        return segment.largest_timestamp, "timestamp"
    return segment.mtime_ms, "mtime"


def expires_at(segment: Segment, limits: Limits, rule: RetentionRule) -> int | None:
    """Return the first millisecond at which it is strictly older than retention.ms.

    None: never, or unknown.
    """
    if limits.retention_ms < 0 or not segment.trusted:
        return None
    expires = age_of(segment, rule)[0] + limits.retention_ms + 1
    return expires if expires <= LONG_MAX else None


def _free(segments: Sequence[Segment], limits: Limits, rule: RetentionRule) -> int:
    """Return how many of the first segments may be deleted at all."""
    count = len(segments)
    if count and segments[-1].bytes == 0:
        count -= 1
    if not rule.high_watermark:
        return count
    end = _replicated(limits)
    return next(
        (n for n, segment in enumerate(segments[:count]) if segment.end_offset > end), count
    )


def _replicated(limits: Limits) -> int:
    """Return the offset below which all is replicated.

    Brokers take the high watermark as at least the log start offset, even where the checkpoint has
    a lower one or none.
    """
    return max(limits.high_watermark or 0, limits.log_start_offset)


def _by_start_offset(
    left: Sequence[Segment], limits: Limits, rule: RetentionRule, now_ms: int
) -> Iterator[Reason]:
    for segment in left[:-1]:
        if segment.end_offset > limits.log_start_offset:
            return
        yield Reason(Code.BELOW_START, limits.log_start_offset)


def _by_size(
    left: Sequence[Segment], limits: Limits, rule: RetentionRule, now_ms: int
) -> Iterator[Reason]:
    remain = sum(segment.bytes for segment in left)
    if limits.retention_bytes < 0:
        return
    for segment in left:
        remain -= segment.bytes
        if remain < limits.retention_bytes:
            return
        yield Reason(Code.SIZE, remain, limits.retention_bytes)


def _by_time(
    left: Sequence[Segment], limits: Limits, rule: RetentionRule, now_ms: int
) -> Iterator[Reason]:
    for segment in left:
        expires = expires_at(segment, limits, rule)
        if expires is None or now_ms < expires:
            return
        since, evidence = age_of(segment, rule)
        code = Code.OLD_BY_TIMESTAMP if evidence == "timestamp" else Code.OLD_BY_MTIME
        yield Reason(code, now_ms - since, limits.retention_ms)


_PASSES: Final = {"start-offset": _by_start_offset, "size": _by_size, "time": _by_time}


def _deleted(
    segments: Sequence[Segment],
    deleted: list[tuple[str, Reason]],
    limits: Limits,
    rule: RetentionRule,
    now_ms: int,
) -> Iterator[Verdict]:
    since = -LONG_MAX
    for segment, (by, reason) in zip(segments, deleted, strict=False):
        evidence, begin = ("offset" if by == "start-offset" else by), now_ms
        if by == "time":
            evidence = age_of(segment, rule)[1]
            begin = since = max(since, expires_at(segment, limits, rule) or since)
        yield Verdict(segment.base_offset, True, by, reason, evidence, begin, None)


def _kept(
    left: Sequence[Segment], free: int, limits: Limits, rule: RetentionRule, now_ms: int
) -> Iterator[Verdict]:
    earliest: int | None = -LONG_MAX
    pin: int | None = None
    for n, segment in enumerate(left):
        expires = expires_at(segment, limits, rule)
        earliest = (
            max(earliest, expires)
            if earliest is not None and expires is not None and n < free
            else None
        )
        expired = expires is not None and expires <= now_ms and n < free
        reason = _why_kept(
            segment, n == len(left) - 1, expires, pin if expired else None, limits, rule, now_ms
        )
        evidence = age_of(segment, rule)[1]
        yield Verdict(
            segment.base_offset, False, "", reason, evidence, earliest, pin if expired else None
        )
        if pin is None and not expired:
            pin = segment.base_offset


def _why_kept(
    segment: Segment,
    last: bool,
    expires: int | None,
    pin: int | None,
    limits: Limits,
    rule: RetentionRule,
    now_ms: int,
) -> Reason:
    replicated = _replicated(limits)
    if pin is not None:
        return Reason(Code.PINNED, pin)
    if last and segment.bytes == 0:
        return Reason(Code.EMPTY)
    if limits.retention_ms >= 0 and not segment.trusted:
        return Reason(Code.UNTRUSTED)
    if expires is not None and now_ms < expires:
        return Reason(Code.NOT_EXPIRED, expires - now_ms)
    if limits.retention_ms >= 0 and expires is None:
        return Reason(Code.NEVER_EXPIRES, limits.retention_ms)
    if rule.high_watermark and segment.end_offset > replicated:
        known = limits.high_watermark is not None
        return Reason(Code.BEYOND_MARK, replicated) if known else Reason(Code.NO_MARK)
    return Reason(Code.NO_LIMIT if expires is None else Code.NEXT_RUN)
