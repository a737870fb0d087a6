"""Look at segments by depth: at their ends first, at the whole segment where that is not enough.

`look_at_tails` checks what other files state and the ends of each segment. A row with a `doubt`
tells nothing else: `look_whole` reads that segment from its first byte to its last.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

import pyarrow as pa

from kafkats import paths
from kafkats.config.settings import TopicSettings
from kafkats.errors import KafkatsError
from kafkats.evidence.judging import told_at
from kafkats.findings import Finding
from kafkats.index.tail_check import check_tail
from kafkats.inspect.verify import VerifyOptions, evidence_of, overlap_of, verify_unit
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

    settings = cache(options.policy.settings)
    rows: list[_LookedRow] = []
    before = read_so_far()
    for unit in units:
        if unit.base_offset < 0:
            whole: list[SegmentRow] = verify_unit(unit, options).to_pylist()
            looked = [(row, "") for row in whole]
        else:
            topic = paths.partition_name(unit.partition_dir).topic
            looked = [_segment(unit, options, settings(topic))]
        if not looked:  # a directory without findings: its row would say nothing else
            continue
        now = read_so_far()
        read, before = now - before, now
        rows += [{**row, "doubt": doubt, "read_bytes": read} for row, doubt in looked]
    return pa.RecordBatch.from_pylist(rows, schema=LOOKED)


def look_whole(unit: Unit, options: VerifyOptions) -> pa.RecordBatch:
    """Look at one unit as `verify_unit` does. Return its row of LOOKED, without a doubt."""
    before = read_so_far()
    batch = verify_unit(unit, options)
    rows = batch.num_rows
    doubts, read = [""] * rows, [read_so_far() - before] * rows
    columns = [*batch.columns, pa.array(doubts, pa.string()), pa.array(read, pa.int64())]
    return pa.RecordBatch.from_arrays(columns, schema=LOOKED)


def _segment(unit: Unit, options: VerifyOptions, settings: TopicSettings) -> tuple[SegmentRow, str]:
    """Return the row of facts.SEGMENTS, and the doubt."""
    row = unit_columns(unit, options.rule)
    if unit.recovery:
        return row, AFTER_UNCLEAN_STOP
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
