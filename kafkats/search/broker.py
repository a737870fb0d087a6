"""Kafka's own answers: the offset that a broker of a generation returns for a time.

A broker searches only the first segment whose largest timestamp is not below the target. For a
segment without timestamps it takes the file's mtime instead. Source: Log and UnifiedLog
(fetchOffsetByTimestamp, legacyFetchOffsetsBefore), LogSegment (findOffsetByTimestamp), Partition
(fetchOffsetForTimestamp) of Kafka 0.8 to 4.3; KIP-33 for its text.
"""

from __future__ import annotations

from typing import Final

from kafkats.errors import UsageError
from kafkats.generations import DEFAULT_SEARCH_RULE, SEARCH_RULES, SearchRule
from kafkats.index import time_index
from kafkats.index.log_end import find_log_end
from kafkats.search.answers import Answer, Target, Word, taken_for_a_word
from kafkats.search.partition import Partition, Segment
from kafkats.segment.search import LOWEST, Hit

FOREVER: Final = 2**63 - 1


def find(
    partition: Partition,
    target_ms: Target,
    rule: SearchRule | str = DEFAULT_SEARCH_RULE,
    *,
    now_ms: int = FOREVER,
) -> Answer:
    """Return what a broker answers a consumer that reads uncommitted records.

    `now_ms` is the broker's clock, for rule 0.8 only. A generation treats a word that it does not
    know as a time. It cannot search for the instants -6 to -1.

    Raises UsageError for an unknown rule; CorruptBatch, CorruptIndex, CorruptFile where needed
    parts of the files are damaged; Vanished, Changed, StorageFailed.
    """
    rule = SEARCH_RULES.get(rule, rule) if isinstance(rule, str) else rule
    if isinstance(rule, str):
        raise UsageError(f"no search rule {rule!r}; there are {', '.join(SEARCH_RULES)}")
    if taken_for_a_word(target_ms):
        evidence = f"brokers take {target_ms} for a word: they cannot be asked for this instant"
        return Answer(target_ms, reason="taken-for-a-word", evidence=evidence)
    if rule.unit == "segment":
        return _by_segments(partition, target_ms, now_ms)
    if isinstance(target_ms, Word):
        if target_ms.value in rule.specials:
            return _SPECIALS[target_ms](partition, rule)
        return _find(partition, target_ms.value, rule)._replace(target_ms=target_ms)
    return _find(partition, target_ms, rule)


def _find(partition: Partition, target_ms: int, rule: SearchRule) -> Answer:
    if not partition.searchable:
        evidence = (
            "the topic's message.format.version is below 0.10: brokers up to 3.x"
            " refuse to search by time"
        )
        return Answer(target_ms, reason="no-timestamps", evidence=evidence)
    if rule.unit == "entry":
        return _coarse(partition, target_ms)
    return _by_records(partition, target_ms, rule)


def offsets_before(
    partition: Partition, target_ms: Target, *, now_ms: int = FOREVER, most: int = 1000
) -> list[int]:
    """Return the offsets of ListOffsets v0, the newest first, at most `most`.

    These are the base offsets of the segments whose files are not newer than `target_ms`, preceded
    by the log end if `now_ms` is not newer either. LATEST returns all of them, EARLIEST the first.
    Raises as `find`.
    """
    entries = [
        (max(s.base_offset, partition.log_start_offset), s.mtime_ms) for s in partition.segments
    ]
    if partition.segments and not partition.segments[-1].empty:
        entries.append((_broker_log_end(partition), now_ms))
    if target_ms == Word.LATEST:
        count = len(entries)
    elif target_ms == Word.EARLIEST:
        count = 1
    else:
        latest = target_ms.value if isinstance(target_ms, Word) else target_ms
        count = max((n for n, (_, time) in enumerate(entries, 1) if time <= latest), default=0)
    offsets = sorted((offset for offset, _ in entries[:count][-most:]), reverse=True)
    limit = FOREVER if partition.high_watermark is None else partition.high_watermark
    above = [offset for offset in offsets if offset > limit]
    return [limit, *offsets[len(above) :]] if above else offsets


def _by_segments(partition: Partition, target_ms: Target, now_ms: int) -> Answer:
    offsets = offsets_before(partition, target_ms, now_ms=now_ms)
    if not offsets:
        return Answer(target_ms, evidence="mtime: every file is newer", reason="weak-evidence")
    words: dict[Target, str] = {Word.LATEST: "log end", Word.EARLIEST: "log start"}
    evidence = words.get(
        target_ms, "mtime: the newest segment whose file is not newer, or the log end"
    )
    reason = "exact" if target_ms in words else "weak-evidence"
    bases = [s.base_offset for s in partition.segments if s.base_offset <= offsets[0]]
    return Answer(
        target_ms, offsets[0], reason=reason, segment=bases[-1] if bases else -1, evidence=evidence
    )


# ---------------------------------------------------------------- times


def _by_records(partition: Partition, target: int, rule: SearchRule) -> Answer:
    skipped = _Skipped()
    for segment in partition.segments:
        largest = segment.largest
        if largest.timestamp < target:
            skipped.add(segment)
            continue
        start = partition.log_start_offset if rule.log_start else LOWEST
        at = segment.lookup(target, start, warm=rule.warm_section)
        hit = segment.first_record(at.position, target, start_offset=start, strict=rule.strict)
        if hit is None:
            beyond = bool(at.position) and at.position >= segment.log.size
            return _nothing_in(segment, target, untrusted=beyond or not at.in_order)
        if not _visible(partition, hit.offset, rule):
            return _above(partition, target, hit.offset, segment)
        reason = (
            "untrusted-index" if not at.in_order else skipped.reason or why(partition, target, hit)
        )
        evidence = "mtime chose the segment" if largest.by_mtime else "time index"
        return Answer(target, *hit[:3], reason, segment.base_offset, evidence)
    return _nothing(partition, target, skipped)


class _Skipped:
    """Segments before the answer, and whether an mtime was the reason to skip one."""

    def __init__(self) -> None:
        self.reason = ""
        self.timestamps = False
        self.records = False

    def add(self, segment: Segment) -> None:
        by_mtime = segment.largest.by_mtime
        self.timestamps = self.timestamps or not by_mtime
        if by_mtime and not segment.empty:
            self.records = True
            if segment.could_have_timestamps:
                self.reason = "weak-evidence"


def _nothing_in(segment: Segment, target: int, *, untrusted: bool) -> Answer:
    """Return the answer when the first segment that should have the record has none.

    Kafka tries no further segment.
    """
    largest = segment.largest
    if largest.by_mtime:
        evidence = (
            f"mtime {largest.timestamp} of a segment without time index entries ended the search"
        )
        return Answer(
            target, reason="weak-evidence", segment=segment.base_offset, evidence=evidence
        )
    evidence = (
        f"the time index promises {largest.timestamp}, no such record from there on;"
        " later segments are not tried"
    )
    reason = "untrusted-index" if untrusted else "past-end"
    return Answer(target, reason=reason, segment=segment.base_offset, evidence=evidence)


def _nothing(partition: Partition, target: int, skipped: _Skipped) -> Answer:
    if skipped.reason:
        return Answer(target, reason="weak-evidence", evidence="mtime: every segment ends earlier")
    if skipped.records and not skipped.timestamps:
        return Answer(target, reason="no-timestamps", evidence="no segment has time index entries")
    return Answer(
        target,
        evidence="time index: every segment ends earlier" if partition.segments else "no segments",
    )


def why(partition: Partition, target: int, hit: Hit) -> str:
    """Return the reason for a record that answers a time."""
    if hit.timestamp == target:
        return "exact"
    first = partition.first_record
    if first is None or first.offset != hit.offset:
        return "first-after"
    return "deleted" if partition.log_start_offset > 0 else "before-start"


def _visible(partition: Partition, offset: int, rule: SearchRule) -> bool:
    if partition.high_watermark is None:
        return True
    # 0.10 also returns the offset at the high watermark
    return offset < partition.high_watermark + (not rule.log_start)


def _above(partition: Partition, target: Target, offset: int, segment: Segment) -> Answer:
    evidence = f"offset {offset} is not below the high watermark, {partition.high_watermark}"
    return Answer(
        target, reason="above-high-watermark", segment=segment.base_offset, evidence=evidence
    )


def _coarse(partition: Partition, target: int) -> Answer:
    """KIP-33's search: the first segment whose last entry is later than the target.

    The answer is its closest entry that is not later. All records after the target follow it, and
    some records before the target.
    """
    for segment in partition.segments:
        largest = segment.largest
        if largest.timestamp <= target:
            continue
        entry = _closest(segment, target)
        offset = max(entry[1], partition.log_start_offset)
        evidence = "mtime chose the segment" if largest.by_mtime else "time index"
        reason = "coarse" if not segment.unsound else "untrusted-index"
        return Answer(target, offset, entry[0], -1, reason, segment.base_offset, evidence)
    return Answer(target, evidence="time index: every segment ends earlier")


def _closest(segment: Segment, target: int) -> tuple[int, int]:
    data, count = segment.times
    slot = time_index.lookup(data, count, target, warm=False)
    return (
        (slot.key, segment.base_offset + slot.value)
        if slot.number >= 0
        else (-1, segment.base_offset)
    )


# ---------------------------------------------------------------- words


def _latest(partition: Partition, rule: SearchRule) -> Answer:
    end = _broker_log_end(partition)
    if partition.high_watermark is not None:
        end = min(end, partition.high_watermark)
    epoch = partition.epochs[-1].epoch if partition.epochs else -1
    return Answer(Word.LATEST, end, -1, epoch, "exact", partition.active_offset, "log end")


def _earliest(partition: Partition, rule: SearchRule) -> Answer:
    offset = partition.log_start_offset
    if not rule.log_start:
        offset = partition.segments[0].base_offset if partition.segments else 0
    epochs = partition.epochs
    epoch = epochs[0].epoch if epochs and epochs[0].start_offset <= offset else -1
    segment = partition.segments[0].base_offset if partition.segments else -1
    return Answer(Word.EARLIEST, offset, -1, epoch, "exact", segment, "log start")


def _earliest_local(partition: Partition, rule: SearchRule) -> Answer:
    return _earliest(partition, rule)._replace(target_ms=Word.EARLIEST_LOCAL)


def _latest_tiered(partition: Partition, rule: SearchRule) -> Answer:
    return Answer(Word.LATEST_TIERED, evidence="nothing is tiered")


def _max_timestamp(partition: Partition, rule: SearchRule) -> Answer:
    if not partition.segments:
        return Answer(Word.MAX_TIMESTAMP, reason="no-timestamps")
    if not partition.searchable:
        evidence = "message.format.version is below 0.10"
        return Answer(Word.MAX_TIMESTAMP, reason="no-timestamps", evidence=evidence)
    maxima = [
        (s.last_time[0] if s.largest.by_mtime else s.largest.timestamp, s.largest.offset, s)
        for s in partition.segments
    ]
    timestamp, offset, segment = max(maxima, key=lambda one: one[0])
    reason = "exact" if timestamp >= 0 else "no-timestamps"
    if rule.record_of_maximum:
        hit = segment.first_record(segment.position_of(offset), timestamp, equal=True)
        if hit is None or (timestamp < 0 and _magic_at(segment, hit.position) == 0):
            return Answer(
                Word.MAX_TIMESTAMP,
                reason="no-timestamps" if timestamp < 0 else "untrusted-index",
                segment=segment.base_offset,
            )
        answer = Answer(
            Word.MAX_TIMESTAMP, *hit[:3], reason, segment.base_offset, "time index, then the batch"
        )
    else:
        epoch = partition.epochs[-1].epoch if partition.epochs else -1
        answer = Answer(
            Word.MAX_TIMESTAMP, offset, timestamp, epoch, reason, segment.base_offset, "time index"
        )
    if not _visible(partition, answer.offset, rule):
        return _above(partition, Word.MAX_TIMESTAMP, answer.offset, segment)
    return answer


def _magic_at(segment: Segment, position: int) -> int:
    return segment.log.source.read(position + 16, 1)[0]


_SPECIALS: Final = {
    Word.LATEST: _latest,
    Word.EARLIEST: _earliest,
    Word.MAX_TIMESTAMP: _max_timestamp,
    Word.EARLIEST_LOCAL: _earliest_local,
    Word.LATEST_TIERED: _latest_tiered,
}


def _broker_log_end(partition: Partition) -> int:
    """Return the log end that a broker finds after a clean stop.

    After an unclean stop it is the end of the last whole batch. A running one knows it.
    """
    if partition.known_end >= 0:
        return partition.known_end
    if not partition.segments:
        return partition.log_start_offset
    active = partition.segments[-1]
    if active.moving:
        return partition.log_end_offset
    log, base_offset = active.log.source, active.base_offset
    return find_log_end(log, *active.offsets, base_offset, warm=True).offset
