"""The findings that the evidence adds to one segment or to one directory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from kafkats import paths
from kafkats.evidence.borders import empty_findings, end_findings, first_findings, gap_findings
from kafkats.evidence.claims import Claims
from kafkats.evidence.looking import (
    epochs_of,
    highest_end,
    index_witnesses,
    orphan_witnesses,
    was_compacted,
)
from kafkats.findings import Finding
from kafkats.segment.facts import NOTHING_BEHIND, SegmentFacts


def segment_evidence(
    directory: Path,
    claims: Claims,
    facts: SegmentFacts,
    found: Iterable[Finding],
    *,
    next_base_offset: int,
    compacted: bool = False,
) -> Iterator[Finding]:
    """Yield what the files of the partition state against this segment.

    `facts` may have any depth that knows the log's end. `found` are the segment's own findings: its
    index files are read again if one of them is `beyond-end`. `next_base_offset` is -1 for the
    active segment. `compacted` comes from the topic's settings.
    """
    base, log = facts.base_offset, paths.segment_file(facts.base_offset)
    if base == claims.first_base and base > 0:
        yield from first_findings(claims, epochs_of(directory), log)
    # an index entry led the tail look to a wrong position
    not_seen = facts.last_offset < base and facts.valid_bytes > 0
    settled = claims.end_settled if next_base_offset < 0 else not claims.unsettled
    if claims.live or not settled or facts.stop not in NOTHING_BEHIND or not_seen:
        return
    end = max(facts.next_offset, base)
    if next_base_offset < 0:
        beyond = any(finding.kind == "beyond-end" for finding in found)
        indexes = list(index_witnesses(directory, base, end)) if beyond else []
        indexes += orphan_witnesses(directory, end) if claims.orphans else ()
        yield from end_findings(claims, epochs_of(directory), log, end, indexes)
    elif end < next_base_offset:
        cleaned = claims.compacted or compacted or was_compacted(directory)
        yield from gap_findings(claims, log, end, next_base_offset, compacted=cleaned)


def directory_evidence(directory: Path, claims: Claims) -> Iterator[Finding]:
    """Yield what the files of a partition state that has no log, or one whose end a start moves.

    The last segment may give way to a replacement. The log then ends at most where the last log
    and all replacements end. Raises StorageFailed.
    """
    moved = claims.replacing and (not claims.end_settled or claims.first_base < 0)
    log, end = highest_end(directory) if moved and not claims.live else ("", 0)
    settled = claims._replace(unsettled=claims.unsettled and not moved, end_settled=True)
    if log:
        yield from end_findings(settled, epochs_of(directory), log, end)
    elif claims.first_base < 0:
        indexes = [] if claims.live else list(orphan_witnesses(directory, 0))
        yield from empty_findings(settled, epochs_of(directory), directory.name, indexes)


def told_at(findings: Iterable[Finding], *, deep: bool) -> list[Finding]:
    """Drop findings of kind `cannot-be-told` unless `deep`."""
    return [finding for finding in findings if deep or finding.kind != "cannot-be-told"]
