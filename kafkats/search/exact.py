"""The exact answer: the first offset from the log start whose timestamp reaches the target.

All segments are searched. The depth tells how:

    tail    trusts a time index if its structure and the log behind its last entry confirm it;
            then reads one batch
    full    reads every batch header and checksum, once per segment; no index can mislead it;
            the default
    deep    decodes every record; trusts not even the maximum in a header

An unreadable place that the depth needs ends the search with an error, unless the answer lies
before it.
"""

from __future__ import annotations

import numpy as np

from kafkats.errors import UsageError
from kafkats.search.answers import Answer, Target, Word
from kafkats.search.broker import why
from kafkats.search.depths import (
    DEPTHS,
    EVIDENCE,
    LOOK,
    before_1970,
    end_is_quiet,
    evidence,
    has_timestamps,
    newest_of,
)
from kafkats.search.partition import Partition, Segment
from kafkats.segment.search import LOWEST


def find_exact(partition: Partition, target_ms: Target, *, depth: str = "full") -> Answer:
    """Return the first record of `target_ms` or later, or the answer for a word.

    LATEST is the log end. EARLIEST and EARLIEST_LOCAL are the log start. MAX_TIMESTAMP is the first
    record of the largest timestamp. LATEST_TIERED has no offset: tiered data is unknown here. A
    record without a timestamp has -1, as brokers count it.

    Raises UsageError for an unknown depth; CorruptBatch, CorruptFile, Vanished, Changed,
    StorageFailed.
    """
    if depth not in DEPTHS:
        raise UsageError(f"no depth {depth!r} to search at; there are {', '.join(DEPTHS)}")
    if target_ms == Word.LATEST:
        return Answer(
            Word.LATEST,
            partition.log_end_offset,
            reason="exact",
            segment=partition.active_offset,
            evidence="log end",
        )
    if target_ms in (Word.EARLIEST, Word.EARLIEST_LOCAL):
        first = partition.segments[0].base_offset if partition.segments else -1
        return Answer(
            target_ms,
            partition.log_start_offset,
            reason="exact",
            segment=first,
            evidence="log start",
        )
    if target_ms == Word.LATEST_TIERED:
        return Answer(Word.LATEST_TIERED, evidence="nothing is tiered")
    if target_ms == Word.MAX_TIMESTAMP:
        newest = max((newest_of(segment, depth) for segment in served(partition)), default=-1)
        if newest < 0:
            return _newest_before_1970(partition, depth)
        return _exact(partition, newest, depth)._replace(target_ms=Word.MAX_TIMESTAMP)
    assert not isinstance(target_ms, Word)
    return _exact(partition, target_ms, depth)


def find_safe(
    partition: Partition, target_ms: int, margin_ms: int, *, depth: str = "full"
) -> Answer:
    """Return an offset after which no record of `target_ms` or later is missed.

    Records may have come up to `margin_ms` late: this is the exact answer for a time that much
    earlier. Raises as `find_exact`, and UsageError for a margin below 0.
    """
    if margin_ms < 0:
        raise UsageError(f"a margin of {margin_ms} ms: it must not be negative")
    exact = _exact(partition, target_ms, depth)
    early = _exact(partition, max(target_ms - margin_ms, LOWEST), depth)._replace(
        target_ms=target_ms
    )
    if early.offset == exact.offset:
        return exact
    return early._replace(
        reason="out-of-order-window", evidence=f"{early.evidence}; {margin_ms} ms earlier"
    )


def compare(partition: Partition, kafka: Answer, exact: Answer) -> str:
    """Return why Kafka's answer differs from the exact one, "" when they agree.

    taken-for-a-word, mtime, untrusted-index, high-watermark, message-format
    first-segment-only   the first segment that promised a record had none at or above the log start
    coarse               the rule finds index entries, not records
    index                an entry began too late
    """
    if kafka.offset == exact.offset:
        return ""
    if not partition.searchable and kafka.reason == "no-timestamps":
        return "message-format"
    if kafka.reason == "taken-for-a-word":
        return kafka.reason
    if kafka.reason == "coarse":
        return "coarse"
    if kafka.reason == "untrusted-index":
        return "untrusted-index"
    if kafka.reason == "weak-evidence":
        return "mtime"
    if (
        kafka.offset < 0
        and partition.high_watermark is not None
        and exact.offset >= partition.high_watermark
    ):
        return "high-watermark"
    if kafka.offset < 0 and 0 <= kafka.segment < exact.segment:
        return "first-segment-only"
    return "index"


def _exact(partition: Partition, target: int, depth: str) -> Answer:
    timestamps = False
    for segment in served(partition):
        maximum = newest_of(segment, depth)
        if maximum >= target:
            hit = LOOK[depth](segment, target)
            if hit is not None:
                return Answer(
                    target,
                    *hit[:3],
                    why(partition, target, hit),
                    segment.base_offset,
                    evidence(segment, depth),
                )
        end_is_quiet(segment, depth)
        timestamps = timestamps or has_timestamps(segment, maximum)
    if partition.first_record is None:
        return Answer(target, evidence="no records")
    return Answer(
        target, reason="past-end" if timestamps else "no-timestamps", evidence=EVIDENCE[depth]
    )


def _newest_before_1970(partition: Partition, depth: str) -> Answer:
    """Find the newest record before 1970 among all records: headers and indexes start at -1."""
    newest: Answer | None = None
    for segment in served(partition):
        records = before_1970(segment)
        if records is None:
            continue
        at = int(np.argmax(np.where(records.timestamps == -1, LOWEST, records.timestamps)))
        offset, timestamp, epoch = (
            int(c[at]) for c in (records.offsets, records.timestamps, records.epochs)
        )
        if newest is None or timestamp > newest.timestamp:
            newest = Answer(
                Word.MAX_TIMESTAMP,
                offset,
                timestamp,
                epoch,
                "exact",
                segment.base_offset,
                EVIDENCE["deep"],
            )
    return newest or Answer(Word.MAX_TIMESTAMP, reason="no-timestamps", evidence=EVIDENCE[depth])


def served(partition: Partition) -> list[Segment]:
    """Return the segments with records at or above the log start."""
    return [
        s for s in partition.segments if not 0 <= s.next_base_offset <= partition.log_start_offset
    ]
