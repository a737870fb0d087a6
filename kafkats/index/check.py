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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kafkats.findings import Finding
from kafkats.generations import DEFAULT_RULE, Rule
from kafkats.index.build import Built, IndexBuilder, first_offset_reader, with_first_offset
from kafkats.index.infer import (
    GIVEN,
    contradicted,
    infer_index_bytes,
    infer_interval,
    other_interval,
)
from kafkats.index.structure import Structure, examine_offset_index, examine_time_index
from kafkats.index.verdict import Case, IndexState, OtherRule, judge_offset_index, judge_time_index
from kafkats.paths import OFFSET_INDEX, TIME_INDEX
from kafkats.segment.deep import look_at_records
from kafkats.segment.facts import SegmentFacts
from kafkats.segment.reader import Source, log_base_offset, open_source
from kafkats.segment.soundness import log_findings, record_findings, timestamp_findings
from kafkats.segment.walk import Points, Walked, walk

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


def check_segment(
    log_path: str | os.PathLike[str],
    *,
    rule: Rule = DEFAULT_RULE,
    index_interval_bytes: int | None = None,
    segment_index_bytes: int | None = None,
    deep: bool = False,
    active: bool = False,
    live: bool = False,
    held: bool = False,
    next_base_offset: int | None = None,
) -> SegmentCheck:
    """Check one segment by the path of its .log; its indexes lie beside it.

    `active`: the last segment of its partition. `live`: a broker holds the directory, or was killed
    there; preallocated index files and an unfinished tail of the active segment are then normal,
    not defects. `held`: a lock keeps brokers out, so the log is mapped all the same, which takes
    half as long. Settings that are not given are inferred from the existing files, or else Kafka's
    defaults. `next_base_offset` is for rules with an mtime entry. Raises Vanished, StorageFailed,
    UsageError (not a segment's file name), CorruptBatch (rule first-offset: a wrapper that does not
    decompress).
    """
    path = Path(log_path)
    base_offset, moving = log_base_offset(path), active and live
    # Read the indexes first: every batch that they index is then already in the log.
    offsets = examine_offset_index(path.with_suffix(OFFSET_INDEX))
    times = examine_time_index(path.with_suffix(TIME_INDEX))
    with open_source(path, mapped=held or not live) as source:
        index_bytes = infer_index_bytes(segment_index_bytes, offsets, times, preallocated=moving)
        interval, interval_from = infer_interval(index_interval_bytes, offsets, source, base_offset)
        beside = (
            contradicted(interval, offsets, source, base_offset) if interval_from == GIVEN else None
        )
        first = first_offset_reader(source)
        other = OtherRule(base_offset, rule, offsets, first)
        builder = IndexBuilder(base_offset, rule, index_bytes, first)
        walked = _walk(source, base_offset, interval, offsets, times, [builder.add, other.add])
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
            findings += timestamp_findings(path.name, built.facts, source)
    names = path.with_suffix(OFFSET_INDEX).name, path.with_suffix(TIME_INDEX).name
    case = Case(offsets, names[0], built, walked.offset_entries, other.close(), moving)
    offset_state, of_offsets = judge_offset_index(case)
    case = Case(times, names[1], built, walked.time_entries, False, moving)
    time_state, of_times = judge_time_index(case)
    if beside is not None:
        of_offsets = [_of_interval(finding, interval, beside) for finding in of_offsets]
    every = (*findings, *of_offsets, *of_times)
    sizes = interval, index_bytes, interval_from
    return SegmentCheck(built.facts, built, offset_state, time_state, every, *sizes)


def _walk(
    source: Source,
    base_offset: int,
    interval: int,
    offsets: Structure | None,
    times: Structure | None,
    readers: Sequence[Callable[[Points], None]],
) -> Walked:
    """Walk over the log, check the entries of both indexes, and give all points to `readers`."""

    def on_points(points: Points) -> None:
        for read in readers:
            read(points)

    return walk(
        source,
        base_offset,
        interval=interval,
        offset_entries=offsets.entries if offsets else b"",
        time_entries=times.entries if times else b"",
        on_points=on_points,
    )


def _of_interval(finding: Finding, given: int, beside: int) -> Finding:
    """Return the finding with the reason why a sound index is not what a rebuild gives."""
    return other_interval(finding.file, given, beside) if finding.kind == "sound" else finding


def _blocked_findings(name: str, built: Built) -> Iterator[Finding]:
    if built.blocked in {"index-full", "undecodable"}:
        yield Finding(built.blocked, name, built.blocked_reason)
