"""Take the census of one .log: batches per magic, codec and timestamp type, and unreadable parts.

One pass verifies checksums. With `deep` a second pass decodes every record; only this counts the
records in wrappers, because no header of magic 0 and 1 holds that number. Bytes that no cell counts
lie after the last good batch; a finding gives the reason.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kafkats.findings import Finding
from kafkats.segment.deep import Deep, look_at_records
from kafkats.segment.facts import Cell, SegmentFacts
from kafkats.segment.reader import Source, open_source
from kafkats.segment.soundness import log_findings, record_findings
from kafkats.segment.walk import Walked, walk


class Census(NamedTuple):
    """The census of one .log.

    `prefix_fingerprint` covers its first `upto` bytes; it is 0 if `upto` is 0.
    """

    facts: SegmentFacts
    cells: tuple[Cell, ...]
    fingerprint: int
    prefix_fingerprint: int
    findings: tuple[Finding, ...]


def take_census(
    log_path: str | os.PathLike[str],
    base_offset: int,
    *,
    active: bool = False,
    clean: bool = True,
    live: bool = False,
    deep: bool = False,
    upto: int = 0,
) -> Census:
    """Take the census of one .log.

    `active`: it is the partition's last. `clean`: the broker stopped cleanly. `live`: a broker
    holds the directory. Raises Vanished, StorageFailed, BadInput (not a regular file).
    """
    name = Path(log_path).name
    with open_source(log_path, mapped=clean and not live) as source:
        walked = walk(source, base_offset)
        prefix = (
            walked.fingerprint
            if upto == walked.facts.valid_bytes
            else _fingerprint(source, base_offset, upto)
        )
        looked = look_at_records(source, walked.facts) if deep else None
        findings = list(_findings(name, walked, source, active and (live or not clean), live))
    if looked is None:
        return Census(walked.facts, walked.cells, walked.fingerprint, prefix, tuple(findings))
    findings += [f for f in record_findings(name, looked) if f.kind != "wrong-maximum"]
    cells = tuple(_counted(cell, looked) for cell in walked.cells)
    return Census(looked.facts, cells, walked.fingerprint, prefix, tuple(findings))


def _fingerprint(source: Source, base_offset: int, upto: int) -> int:
    return walk(source, base_offset, end=upto).fingerprint if upto > 0 else 0


def _findings(
    name: str, walked: Walked, source: Source, moving: bool, live: bool
) -> Iterator[Finding]:
    if walked.cut_to < source.size:
        yield Finding(
            "unreadable", name, f"cut from {source.size} to {walked.cut_to} bytes while it was read"
        )
    for finding in log_findings(name, walked.facts, source, moving=moving):
        if finding.kind == "moving-tail" and not live:
            # No broker is writing: a killed broker left this tail, and its recovery will truncate
            # it.
            yield finding._replace(kind=str(walked.facts.stop))
        else:
            yield finding


def _counted(cell: Cell, looked: Deep) -> Cell:
    if cell.records >= 0 or looked.undecodable:
        return cell
    return cell._replace(records=looked.wrapped.get(cell[:3], 0))
