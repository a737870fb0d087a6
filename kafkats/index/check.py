"""Is what a segment's index files say true of its .log, and is it what a rebuild would say?

One pass answers both. An index is *equal* to the rebuild, or *sound*, or defective:

    offset entry (o, p)    p is where a batch begins, and every batch before p ends below o: no lookup that lands here skips anything
    time entry (T, o)      every batch that ends below o is older than T: no search by time that lands here skips anything
    last time entry        its T is the segment's maximum: retention and rolling go by it

Sound but not equal is normal: what a broker writes while it appends depends on its version, on how producers batched and on
restarts (its byte counter starts at 0), a follower's on its fetches.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from kafkats.errors import UsageError
from kafkats.findings import Finding
from kafkats.generations import DEFAULT_RULE, MAX_RELATIVE_OFFSET, Rule
from kafkats.index.build import Built, IndexBuilder, first_offset_reader, with_first_offset
from kafkats.index.infer import infer_index_bytes, infer_interval
from kafkats.index.structure import examine_offset_index, examine_time_index
from kafkats.index.verdict import IndexState, OtherRule, judge_offset_index, judge_time_index
from kafkats.paths import LOG, OFFSET_INDEX, TIME_INDEX, parse_segment_file
from kafkats.segment.deep import Deep, look_at_records
from kafkats.segment.facts import SegmentFacts, StopReason
from kafkats.segment.reader import Source, open_source
from kafkats.segment.walk import Points, walk

__all__ = ["IndexState", "SegmentCheck", "check_segment"]


@dataclass(frozen=True)
class SegmentCheck:
    """Everything one pass over a segment and its two indexes found."""

    facts: SegmentFacts
    built: Built
    offset_index: IndexState
    time_index: IndexState
    findings: tuple[Finding, ...]
    index_interval_bytes: int
    segment_index_bytes: int
    interval_from: str
    """Where the interval is from: given, inferred (from the existing index) or default."""
    index_bytes_from: str


def check_segment(
    log_path: str | os.PathLike[str],
    *,
    rule: Rule = DEFAULT_RULE,
    index_interval_bytes: int | None = None,
    segment_index_bytes: int | None = None,
    deep: bool = False,
    active: bool = False,
    live: bool = False,
    next_base_offset: int | None = None,
) -> SegmentCheck:
    """Check one segment by the path of its .log; its indexes lie beside it.

    `active`: the last of its partition. `live`: a broker holds the directory, or was killed there; then preallocated index
    files and an unfinished tail of the active segment are its state, not defects. Settings that are not given are inferred
    from the existing files, else Kafka's defaults. `next_base_offset` is for rules with an mtime entry.
    Raises Vanished, StorageFailed, UsageError (not a segment's name), CorruptBatch (rule first-offset: a wrapper that does
    not decompress).
    """
    path = Path(log_path)
    name = parse_segment_file(path.name)
    if name is None or name.kind != LOG:
        raise UsageError("not the name of a segment's .log", path=path)
    base_offset, moving = name.base_offset, active and live
    # The indexes first: what they say was in the log before.
    offsets = examine_offset_index(path.with_suffix(OFFSET_INDEX))
    times = examine_time_index(path.with_suffix(TIME_INDEX))
    with open_source(path, mapped=not live) as source:
        index_bytes, index_bytes_from = infer_index_bytes(segment_index_bytes, offsets, times, preallocated=moving)
        interval, interval_from = infer_interval(index_interval_bytes, offsets, source, base_offset)
        first = first_offset_reader(source)
        builder = IndexBuilder(base_offset, rule, index_bytes, first)
        other = OtherRule(base_offset, rule, offsets, first)

        def on_points(points: Points) -> None:
            builder.add(points)
            other.add(points)

        walked = walk(
            source,
            base_offset,
            interval=interval,
            offset_entries=offsets.entries if offsets else b"",
            time_entries=times.entries if times else b"",
            on_points=on_points,
        )
        built = builder.close(with_first_offset(walked.facts, first), source.mtime_ms, next_base_offset)
        findings = list(_log_findings(path.name, built, source, moving))
        if deep:
            looked = look_at_records(source, built.facts)
            built = replace(built, facts=looked.facts)
            findings += _record_findings(path.name, looked)
    offset_state, found = judge_offset_index(
        offsets, path.with_suffix(OFFSET_INDEX).name, built, walked.offset_entries, other.close(), moving
    )
    findings += found
    time_state, found = judge_time_index(
        times, path.with_suffix(TIME_INDEX).name, built, walked.time_entries, False, moving
    )
    findings += found
    return SegmentCheck(
        facts=built.facts,
        built=built,
        offset_index=offset_state,
        time_index=time_state,
        findings=tuple(findings),
        index_interval_bytes=interval,
        segment_index_bytes=index_bytes,
        interval_from=interval_from,
        index_bytes_from=index_bytes_from,
    )


def _log_findings(name: str, built: Built, source: Source, moving: bool) -> Iterator[Finding]:
    facts = built.facts
    if facts.stop is not None:
        yield _stop_finding(name, facts, source, moving)
    elif facts.log_bytes > MAX_RELATIVE_OFFSET:
        yield Finding("offset-out-of-range", name, f"{facts.log_bytes} bytes: Kafka opens no log above 2^31-1 bytes")
    places = (
        ("offsets-not-increasing", facts.not_increasing_position, "begins at or below an offset before it"),
        ("offset-out-of-range", facts.out_of_range_position, "has offsets below the base or more than 2^31-1 above it"),
        ("bad-header", facts.bad_header_position, "has a negative count or span, or more records than offsets"),
        ("undecodable", facts.unknown_codec_position, "has a codec that its format does not know"),
    )
    for kind, position, what in places:
        if position >= 0:
            yield Finding(kind, name, f"the batch at byte {position} {what}", position)
    if built.blocked in {"index-full", "undecodable"}:
        yield Finding(built.blocked, name, built.blocked_reason)


def _record_findings(name: str, looked: Deep) -> Iterator[Finding]:
    if looked.undecodable:
        more = f" (and {looked.undecodable - 1} more)" if looked.undecodable > 1 else ""
        why = looked.undecodable_reason or "its records do not fit into it"
        reason = f"the batch at byte {looked.undecodable_position}{more}: {why}"
        yield Finding("undecodable", name, reason, looked.undecodable_position)
    if looked.wrong_maximum:
        more = f" (and {looked.wrong_maximum - 1} more)" if looked.wrong_maximum > 1 else ""
        found = str(looked.wrong_maximum_found)
        reason = (
            f"the batch at byte {looked.wrong_maximum_position}{more}: the largest timestamp of its records is {found}"
        )
        yield Finding("wrong-maximum", name, reason, looked.wrong_maximum_position, expected=found)


def _stop_finding(name: str, facts: SegmentFacts, source: Source, moving: bool) -> Finding:
    stop, position = facts.stop, facts.stop_position
    assert stop is not None
    left = facts.log_bytes - position
    reason = f"nothing valid from byte {position} on; {left} of {facts.log_bytes} bytes are left"
    kind = str(stop)
    if moving and stop == StopReason.ZERO_TAIL:
        kind = "preallocated"
    elif moving and (stop == StopReason.TORN_TAIL or _reaches_end(facts, source)):
        kind = "moving-tail"
    return Finding(kind, name, reason, position)


def _reaches_end(facts: SegmentFacts, source: Source) -> bool:
    """Whether the bad batch is the file's last, as one that is being written."""
    if facts.stop != StopReason.BAD_CRC:
        return False
    size = 12 + int.from_bytes(source.read(facts.stop_position + 8, 4), "big")
    return facts.stop_position + size >= facts.log_bytes
