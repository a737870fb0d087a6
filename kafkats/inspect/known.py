"""Take over the rows of a report that `verify --report` wrote, for files that are still the same.

A row holds as long as the five files of its segment, its place in the partition, the state of the
volume and the settings of its index are those of the report. What other files state against the
segment is looked at again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa

from kafkats.config.settings import TopicSettings
from kafkats.errors import UsageError, is_file
from kafkats.evidence.judging import told_at
from kafkats.findings import KINDS, Finding
from kafkats.generations import SEGMENT_INDEX_BYTES
from kafkats.index.infer import GIVEN
from kafkats.inspect.verify import VerifyOptions, evidence_of
from kafkats.plans.facts import SEGMENTS, read_table, with_findings
from kafkats.plans.rows import FindingRow, SegmentKey, SegmentRow, key_of, segment_rows, source_log
from kafkats.plans.units import Unit, unit_columns
from kafkats.segment.facts import SegmentFacts, StopReason
from kafkats.text import Command

_WHOLE: Final = ("full", "deep")
_FILES: Final = ("log", "index", "timeindex", "txnindex", "snapshot")
_PLACE: Final = (*_FILES, "next_base_offset", "active", "clean", "recovery", "rule")
_EVIDENCE: Final = ("missing-records", "gap-not-flushed", "end-not-flushed", "cannot-be-told")


def read_report(folder: Path) -> pa.Table:
    """Return the facts (facts.SEGMENTS) of a report.

    Raises UsageError for a folder without one, CorruptPlan for a damaged one, StorageFailed.
    """
    table = folder / "segments.parquet"
    if not is_file(table, "looking for the report"):
        raise UsageError(
            "no report here: ",
            Command("verify", ("--report", "FOLDER")),
            " writes one",
            path=folder,
        )
    return read_table(table, SEGMENTS)


def known_rows(
    units: Iterable[Unit], report: pa.Table, options: VerifyOptions
) -> dict[SegmentKey, SegmentRow]:
    """Return the report's rows that still hold for `units`, with the evidence of now."""
    asked = {unit.key: unit for unit in units if unit.base_offset >= 0}
    known: dict[SegmentKey, SegmentRow] = {}
    for batch in report.to_batches(max_chunksize=8192):
        for row in segment_rows(pa.Table.from_batches([batch])):
            unit = asked.get(key_of(row))
            if unit is None or row["depth"] not in _WHOLE or not _is_known(row):
                continue
            settings = options.policy.settings(row["topic"] or "")
            columns = unit_columns(unit, options.rule)
            if _same_place(row, columns) and _same_settings(row, settings):
                found = _findings(unit, row, settings)
                known[unit.key] = with_findings({**row, **columns}, found)
    return known


def _is_known(row: SegmentRow) -> bool:
    """Return whether this version of kafkats knows all of the row's words."""
    return row["stop"] in {"", *StopReason} and all(f["kind"] in KINDS for f in row["findings"])


def _same_place(row: SegmentRow, now: SegmentRow) -> bool:
    """Return whether the files of the segment and its place are those of the report."""
    seen: Mapping[str, object] = row
    listed: Mapping[str, object] = now
    if any(seen[name] != listed[name] for name in _PLACE):
        return False
    # Whether a time index is missing depends on the other files of the directory.
    return bool(now["timeindex"]) or row["directory_ctime_ns"] == now["directory_ctime_ns"]


def _same_settings(row: SegmentRow, settings: TopicSettings) -> bool:
    """Return whether the report's index settings are those that a look of now would use."""
    interval, index_bytes = settings.index_interval_bytes, settings.segment_index_bytes
    if interval is None:
        same = row["settings_from"] != GIVEN
    else:
        same = row["settings_from"] == GIVEN and row["index_interval_bytes"] == interval
    if index_bytes is None:
        sizes = {file["size"] for file in (row["index"], row["timeindex"]) if file}
        return same and row["segment_index_bytes"] in {SEGMENT_INDEX_BYTES, *sizes}
    return same and row["segment_index_bytes"] == index_bytes


def _findings(unit: Unit, row: SegmentRow, settings: TopicSettings) -> list[Finding]:
    """Return the findings of the report, with the evidence of now."""
    kept = [_finding(one) for one in row["findings"] if one["kind"] not in _EVIDENCE]
    return [*kept, *told_at(evidence_of(unit, _facts(row), kept, settings), deep=False)]


def _finding(row: FindingRow) -> Finding:
    return Finding(*(row[name] for name in Finding._fields))  # type: ignore[literal-required]


def _facts(row: SegmentRow) -> SegmentFacts:
    """Return the facts that the evidence reads."""
    base, last, valid_bytes = row["base_offset"], row["last_offset"], row["valid_bytes"]
    return SegmentFacts(
        base,
        str(row["depth"]),
        source_log(row)["size"],
        valid_bytes=-1 if valid_bytes is None else valid_bytes,
        stop=StopReason(row["stop"]) if row["stop"] else None,
        batches=row["batches"],
        last_offset=-1 if last is None else last,
        next_offset=base if last is None or not row["batches"] else last + 1,
    )
