"""Findings about a predicted start: what it loses, moves back or forgets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kafkats import paths
from kafkats.counts import counted
from kafkats.evidence.borders import end_findings, gap_findings
from kafkats.evidence.claims import Claims
from kafkats.findings import Finding, unknown_magic
from kafkats.logdir.checkpoints import EpochStart
from kafkats.recovery.facts import PartitionStart, Recovered
from kafkats.recovery.reading import End


class Seen(NamedTuple):
    """Observations of the load besides its result."""

    claims: Claims
    end: End
    stops: Mapping[int, str]
    """By base offset of recovered segments: why the log was cut."""
    emptied: bool
    """Producer state began empty."""
    gaps: Sequence[tuple[int, int, int]]
    """Base offset and end of each recovered segment that does not reach the next one, and the base
    offset of that one."""
    compacted: bool | None
    """Whether the cleaner removed offsets; None if it cannot be determined, or without gaps."""
    unknown_formats: Mapping[int, int]
    """By base offset of segments that keep batches of a format which the broker does not know: the
    newest magic of their batches."""
    unknown_magics: Mapping[int, int]
    """By base offset of recovered segments that keep a batch with a magic above 2: its position."""


def start_findings(
    start: PartitionStart, seen: Seen, log: str, epochs: Sequence[EpochStart]
) -> Iterator[Finding]:
    """Yield the findings of one partition's start. `log` is the name of its last log."""
    name = paths.parse_partition(start.partition_dir)
    if name is not None and name.state in ("delete", "stray"):
        return
    if seen.unknown_formats:
        yield _unknown_format(seen.unknown_formats)
    for base, position in seen.unknown_magics.items():
        yield unknown_magic(paths.segment_file(base, paths.LOG), position)
    yield from _cuts(start, seen)
    if start.deleted:
        first = start.deleted[0]
        segments = counted(len(start.deleted), "segment")
        reason = f"deleted from offset {first} on: {segments}, {start.deleted_bytes} bytes"
        yield Finding("segments-deleted", paths.segment_file(first, paths.LOG), reason)
    if seen.end.readable_to > seen.end.offset:
        reason = (
            f"the log end will be {seen.end.offset}, but the log has batches up to offset"
            f" {seen.end.readable_to - 1}: these offsets are given out twice"
        )
        yield Finding("end-moved-back", log, reason)
    elif seen.end.bytes_behind:
        reason = (
            f"{seen.end.bytes_behind} bytes behind the last readable batch stay in the file: new"
            " batches are appended behind them, where no reader finds them"
        )
        yield Finding("torn-tail-marked-clean", log, reason)
    if seen.emptied and start.log_end_offset > start.log_start_offset:
        reason = f"no snapshot in {start.partition_dir}: producer state begins empty"
        yield Finding("producers-forgotten", log, reason)
    for base, end, behind in seen.gaps:
        between = paths.segment_file(base, paths.LOG)
        # The start flushes what it keeps, so that no later start can explain the gap.
        claims = seen.claims._replace(recovery_point=start.log_end_offset)
        found = gap_findings(claims, between, end, behind, compacted=seen.compacted)
        yield from (finding for finding in found if finding.kind != "cannot-be-told")
    if name is None or not name.state:
        yield from end_findings(seen.claims, epochs, log, max(start.log_end_offset, 0))


def _unknown_format(formats: Mapping[int, int]) -> Finding:
    magic, first = max(formats.values()), min(formats)
    segments = "1 segment has" if len(formats) == 1 else f"{len(formats)} segments have"
    reason = f"{segments} batches of magic {magic}, a format that cannot be read by this release"
    return Finding("bad-magic", paths.segment_file(first, paths.LOG), reason)


def _cuts(start: PartitionStart, seen: Seen) -> Iterator[Finding]:
    last = max((one.base_offset for one in start.recovered), default=-1)
    for one in start.recovered:
        stop = seen.stops.get(one.base_offset, "")
        if not one.cut_bytes or one.base_offset in start.deleted:
            continue
        file = paths.segment_file(one.base_offset, paths.LOG)
        if stop == "zero-tail" and one.base_offset == last:
            yield Finding("preallocated", file, _cut(one, "zeros"), one.cut_to)
        elif one.why in ("missing-index", "corrupt-index") and one.base_offset < last:
            yield Finding("hole-cut", file, _cut(one, "bytes"), one.cut_to)
        elif stop == "torn-tail" and _is_harmless(one, start):
            yield Finding("moving-tail", file, _cut(one, "bytes"), one.cut_to)
        else:
            yield Finding(stop or "torn-tail", file, _cut(one, "bytes"), one.cut_to)


def _is_harmless(cut: Recovered, start: PartitionStart) -> bool:
    """Return whether an unclean stop left no more than a part of a batch behind the log's end.

    Nothing names an offset in it, and no whole batch lies behind its beginning.
    """
    return cut.why == "unflushed" and not start.deleted and start.lost_offsets == 0


def _cut(one: Recovered, what: str) -> str:
    return (
        f"{one.cut_bytes} {what} are cut from byte {one.cut_to} on: the segment ends at offset"
        f" {one.next_offset}"
    )
