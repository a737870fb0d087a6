"""One row's share of the evidence: what a look at a segment, or at a directory, adds to its findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from kafkats import paths
from kafkats.evidence.borders import empty_findings, end_findings, first_findings, gap_findings
from kafkats.evidence.claims import Claims
from kafkats.evidence.looking import epochs_of, index_witnesses, was_compacted
from kafkats.findings import Finding
from kafkats.segment.facts import SegmentFacts, StopReason

_NOTHING_BEHIND: Final = (None, StopReason.TORN_TAIL, StopReason.ZERO_TAIL)
"""Where reading stops otherwise, bytes follow that may be the records: they are damaged, not missing."""


def segment_evidence(
    directory: Path,
    claims: Claims,
    facts: SegmentFacts,
    found: Iterable[Finding],
    *,
    next_base_offset: int,
    compacted: bool = False,
) -> Iterator[Finding]:
    """What the files of the partition say against this segment; `facts` of any depth that knows the log's end.

    `found` are the segment's own findings: index files are read once more where one of them is `beyond-end`. `next_base_offset` is
    -1 for the active segment, `compacted` what the topic's settings say.
    """
    base, log = facts.base_offset, paths.segment_file(facts.base_offset, paths.LOG)
    if base == claims.first_base and base > 0:
        yield from first_findings(claims, epochs_of(directory), log)
    not_seen = facts.last_offset < base and facts.valid_bytes > 0  # an index entry led the look at the tail astray
    if claims.live or claims.unsettled or facts.stop not in _NOTHING_BEHIND or not_seen:
        return
    end = max(facts.next_offset, base)
    if next_base_offset < 0:
        beyond = any(finding.kind == "beyond-end" for finding in found)
        indexes = tuple(index_witnesses(directory, base, end)) if beyond else ()
        yield from end_findings(claims, epochs_of(directory), log, end, indexes)
    elif end < next_base_offset:
        cleaned = claims.compacted or compacted or was_compacted(directory)
        yield from gap_findings(claims, log, end, next_base_offset, compacted=cleaned)


def directory_evidence(directory: Path, claims: Claims) -> Iterator[Finding]:
    """What the files of the partition say where there is no log at all."""
    if claims.first_base < 0:
        yield from empty_findings(claims, epochs_of(directory), directory.name)


def told_at(findings: Iterable[Finding], *, deep: bool) -> list[Finding]:
    """Without `deep`, what cannot be told is left out."""
    return [finding for finding in findings if deep or finding.kind != "cannot-be-told"]
