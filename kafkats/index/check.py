"""Check whether the index files of a segment are correct, and whether they equal a rebuild.

One pass answers both. An index is *equal* to the rebuild, or *sound*, or defective. It is sound if
every entry holds:

    offset entry (o, p)    a batch begins at p, and every batch before p ends below o: a lookup that
                           starts here skips nothing
    time entry (T, o)      every batch that ends below o is older than T: a search by time that
                           starts here skips nothing
    last time entry        T is the segment's maximum: retention and searches by time need it

Sound but not equal is normal. The entries that a broker writes while it appends depend on its
version, on the batching of producers, and on restarts (its byte counter starts at 0). A follower's
entries depend on its fetches.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from kafkats.errors import UsageError
from kafkats.findings import Finding
from kafkats.generations import DEFAULT_RULE, Rule
from kafkats.index.build import Built, IndexBuilder, first_offset_reader, with_first_offset
from kafkats.index.infer import GIVEN, contradicted, infer_index_bytes, infer_interval
from kafkats.index.structure import examine_offset_index, examine_time_index
from kafkats.index.verdict import IndexState, OtherRule, judge_offset_index, judge_time_index
from kafkats.paths import LOG, OFFSET_INDEX, TIME_INDEX, parse_segment_file
from kafkats.segment.deep import look_at_records
from kafkats.segment.facts import SegmentFacts
from kafkats.segment.reader import open_source
from kafkats.segment.soundness import log_findings, record_findings
from kafkats.segment.walk import Points, walk

__all__ = ["IndexState", "SegmentCheck", "check_segment"]


@dataclass(frozen=True)
class SegmentCheck:
    """The result of one pass over a segment and its two indexes."""

    facts: SegmentFacts
    built: Built
    offset_index: IndexState
    time_index: IndexState
    findings: tuple[Finding, ...]
    index_interval_bytes: int
    segment_index_bytes: int
    interval_from: str
    """Source of the interval: given, inferred (from the existing index) or default."""
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

    `active`: the last segment of its partition. `live`: a broker holds the directory, or was killed
    there; preallocated index files and an unfinished tail of the active segment are then normal,
    not defects. Settings that are not given are inferred from the existing files, or else Kafka's
    defaults. `next_base_offset` is for rules with an mtime entry. Raises Vanished, StorageFailed,
    UsageError (not a segment's file name), CorruptBatch (rule first-offset: a wrapper that does not
    decompress).
    """
    path = Path(log_path)
    name = parse_segment_file(path.name)
    if name is None or name.kind != LOG:
        raise UsageError("not the name of a segment's .log", path=path)
    base_offset, moving = name.base_offset, active and live
    # Read the indexes first: every batch that they index is then already in the log.
    offsets = examine_offset_index(path.with_suffix(OFFSET_INDEX))
    times = examine_time_index(path.with_suffix(TIME_INDEX))
    with open_source(path, mapped=not live) as source:
        index_bytes, index_bytes_from = infer_index_bytes(
            segment_index_bytes, offsets, times, preallocated=moving
        )
        interval, interval_from = infer_interval(index_interval_bytes, offsets, source, base_offset)
        beside = (
            contradicted(interval, offsets, source, base_offset) if interval_from == GIVEN else None
        )
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
        built = builder.close(
            with_first_offset(walked.facts, first), source.mtime_ms, next_base_offset
        )
        findings = [
            *log_findings(path.name, built.facts, source, moving=moving),
            *_blocked_findings(path.name, built),
        ]
        if deep:
            looked = look_at_records(source, built.facts)
            built = replace(built, facts=looked.facts)
            findings += record_findings(path.name, looked)
    offset_state, found = judge_offset_index(
        offsets,
        path.with_suffix(OFFSET_INDEX).name,
        built,
        walked.offset_entries,
        other.close(),
        moving,
    )
    findings += [
        _of_interval(f, interval, beside) if f.kind == "sound" and beside is not None else f
        for f in found
    ]
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


def _of_interval(finding: Finding, given: int, beside: int) -> Finding:
    """Why the index is not what a rebuild gives."""
    reason = (
        "true, and denser than the index.interval.bytes that is given: its entries are"
        f" those of {beside}, not {given}"
    )
    return finding._replace(
        kind="other-interval", reason=reason, expected=str(given), found=str(beside)
    )


def _blocked_findings(name: str, built: Built) -> Iterator[Finding]:
    if built.blocked in {"index-full", "undecodable"}:
        yield Finding(built.blocked, name, built.blocked_reason)
