"""Look at segments by depth: at their ends first, at the whole segment where that is not enough.

`look_at_tails` checks what other files state and the ends of each segment. A row with a `doubt`
tells nothing else: `look_whole` reads that segment from its first byte to its last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from kafkats.errors import KafkatsError
from kafkats.evidence.judging import told_at
from kafkats.findings import Finding
from kafkats.index.tail_check import check_tail
from kafkats.inspect.sound import sound_segments
from kafkats.inspect.verify import (
    VerifyOptions,
    evidence_of,
    overlap_of,
    verified_rows,
)
from kafkats.plans.columns import batch_of
from kafkats.plans.facts import SEGMENTS, with_facts, with_findings
from kafkats.plans.rows import SegmentRow
from kafkats.plans.units import Unit, unit_columns
from kafkats.segment.reader import read_so_far

LOOKED: Final = SEGMENTS.append(pa.field("doubt", pa.string())).append(
    pa.field("read_bytes", pa.int64())
)
"""facts.SEGMENTS; why the segment must be read whole, or ""; and the bytes read for the row."""
AFTER_UNCLEAN_STOP: Final = "above the recovery point after an unclean stop"


class _LookedRow(SegmentRow):
    doubt: str
    read_bytes: int


def look_at_tails(units: Sequence[Unit], options: VerifyOptions) -> pa.RecordBatch:
    """Look at the ends of segments. Return a row of LOOKED per segment and directory."""

    sound = sound_segments(units, options)
    done = set(sound.numbers.tolist())
    rows: list[_LookedRow] = []
    numbers: list[int] = []
    before = read_so_far()
    for number, unit in enumerate(units):
        if number in done:
            continue
        if unit.base_offset < 0:
            looked = [(row, "") for row in verified_rows(unit, options)]
        else:
            looked = [_segment(unit, options)]
        if not looked:  # a directory without findings: its row would say nothing else
            continue
        now = read_so_far()
        read, before = now - before, now
        rows += [{**row, "doubt": doubt, "read_bytes": read} for row, doubt in looked]
        numbers += [number] * len(looked)
    others = batch_of(rows, LOOKED)
    columns = [*sound.rows.columns, pa.array([""] * len(sound.read)), pa.array(sound.read)]
    return sound.among(numbers, others, pa.RecordBatch.from_arrays(columns, schema=LOOKED))


def look_whole(unit: Unit, options: VerifyOptions) -> pa.RecordBatch:
    """Look at one unit as `verify_unit` does. Return its row of LOOKED, without a doubt."""
    before = read_so_far()
    rows = verified_rows(unit, options)
    read = read_so_far() - before
    return batch_of([{**row, "doubt": "", "read_bytes": read} for row in rows], LOOKED)


def _segment(unit: Unit, options: VerifyOptions) -> tuple[SegmentRow, str]:
    """Return the row of facts.SEGMENTS, and the doubt."""
    row = unit_columns(unit, options.rule)
    if unit.recovery:
        return row, AFTER_UNCLEAN_STOP
    settings = options.settings(unit.partition_dir)
    try:
        check = check_tail(
            unit.log,
            active=unit.active,
            live=unit.live or not unit.clean,
            time_index_expected=unit.time_index_expected,
            index_interval_bytes=settings.index_interval_bytes,
        )
        if check.doubt:
            return row, check.doubt
        evidence = evidence_of(unit, check.facts, check.findings, settings)
        findings = told_at(
            (*check.findings, *overlap_of(unit, check.facts), *evidence), deep=options.deep
        )
    except KafkatsError as e:  # reading the whole segment says what it means
        return row, f"it could not be read: {e.reason}"
    doubt = _doubt_of(unit, findings)
    if doubt:
        return row, doubt
    return with_findings(with_facts(row, check.facts), findings), ""


def _doubt_of(unit: Unit, findings: Sequence[Finding]) -> str:
    """Return the first finding that reading the whole segment may explain, or ""."""
    for finding in findings:
        unfinished = finding.kind == "moving-tail" and not unit.live
        if finding.severity in ("damage", "danger") or unfinished:
            return f"{finding.file}: {finding.kind}"
    return ""
