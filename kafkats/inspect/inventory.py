"""Inventory: the contents of the disks by segment, partition or topic.

It reads only the ends of index files and logs (depth tail), so a whole disk takes seconds.
Contradictions at these ends are findings. The census tells the message formats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from kafkats import paths
from kafkats.errors import KafkatsError
from kafkats.evidence.judging import directory_evidence, segment_evidence, told_at
from kafkats.findings import SEVERITIES, Finding, failure
from kafkats.generations import DEFAULT_RULE
from kafkats.index.tail import read_tail
from kafkats.inspect.sound import sound_inventory
from kafkats.inspect.torn_tails import MARKED_CLEAN, is_marked_clean
from kafkats.logdir.identity import FileRow
from kafkats.plans.columns import batch_of
from kafkats.plans.facts import SEGMENTS, with_facts
from kafkats.plans.rows import SegmentRow, grouped, segment_rows
from kafkats.plans.settling import settled_row
from kafkats.plans.units import Unit, unit_columns

Row = dict[str, str | int | None]
_KEYS: Final = {"partition": ["log_dir", "partition_dir"], "topic": ["log_dir", "topic"]}


def inventory_units(units: Iterable[Unit]) -> pa.RecordBatch:
    """Return rows of facts.SEGMENTS for `units`, depth tail.

    A directory has a row if it has findings.
    """
    units = tuple(units)
    sound = sound_inventory(units)
    done = set(sound.numbers.tolist())
    rows: list[SegmentRow] = []
    numbers: list[int] = []
    for number, unit in enumerate(units):
        if number not in done:
            found = settled_row(unit, _seen, _of_directory)
            rows += found
            numbers += [number] * len(found)
    return sound.among(numbers, batch_of(rows, SEGMENTS), sound.rows)


def _seen(unit: Unit) -> tuple[SegmentRow, Sequence[Finding]]:
    """Return the row of facts.SEGMENTS without findings, and the findings."""
    row = unit_columns(unit, DEFAULT_RULE.name)
    try:
        facts, findings = read_tail(unit.log, active=unit.active, live=unit.live or not unit.clean)
    except KafkatsError as e:
        findings = (failure(unit.log.name, e),)
    else:
        row = with_facts(row, facts)
        # Brokers without time indexes wrote magic 0, which has no timestamps.
        expected = unit.time_index_expected or max(facts.first_timestamp, facts.max_timestamp) >= 0
        findings = tuple(
            f._replace(kind=MARKED_CLEAN) if is_marked_clean(unit, f, facts) else f
            for f in findings
            if expected or not f.file.endswith(paths.TIME_INDEX) or f.kind != "missing-index"
        )
        if unit.claims:
            directory = Path(unit.log_dir, unit.partition_dir)
            evidence = segment_evidence(
                directory, unit.claims, facts, findings, next_base_offset=unit.next_base_offset
            )
            findings = (*findings, *told_at(evidence, deep=False))
    return row, findings


def _of_directory(unit: Unit) -> list[Finding]:
    evidence = (
        directory_evidence(Path(unit.log_dir, unit.partition_dir), unit.claims)
        if unit.claims
        else ()
    )
    return told_at((*unit.findings, *evidence), deep=False)


def group(segments: pa.Table, by: str) -> list[Row]:
    """Return one row per segment, partition or topic."""
    real = segments.filter(pc.greater_equal(segments["base_offset"], 0))
    if by == "segment":
        return [_segment(row) for row in segment_rows(real)]
    return _grouped(real, _KEYS[by])


def sum_of_groups(groups: Iterable[Sequence[Row]]) -> list[Row]:
    """Return the rows by topic of parts that have no partition in common, from theirs."""
    found: dict[tuple[object, ...], Row] = {}
    for row in chain.from_iterable(groups):
        where = tuple(row[key] for key in _KEYS["topic"])
        found[where] = _together(found[where], row) if where in found else row
    return list(found.values())


_JOINED: Final[Mapping[str, Callable[[list[int]], int]]] = {
    "count": sum, "count_distinct": sum, "sum": sum, "min": min, "max": max
}  # fmt: skip


def _together(one: Row, other: Row) -> Row:
    joined = dict(one)
    for name, (_, how) in _TOTALS.items():
        known = [value for row in (one, other) if isinstance(value := row[name], int)]
        joined[name] = _JOINED[how](known) if known else None
    joined["worst"] = max(
        (str(row["worst"]) for row in (one, other) if row["worst"]),
        key=SEVERITIES.index,
        default="",
    )
    return joined


def _segment(row: SegmentRow) -> Row:
    def size(file: FileRow | None) -> int:
        return file["size"] if file else -1

    return {
        "log_dir": row["log_dir"],
        "partition_dir": row["partition_dir"],
        "base_offset": row["base_offset"],
        "log_bytes": size(row["log"]),
        "index_bytes": size(row["index"]),
        "timeindex_bytes": size(row["timeindex"]),
        "last_offset": row["last_offset"],
        "first_timestamp": row["first_timestamp"],
        "max_timestamp": row["max_timestamp"],
        "active": row["active"],
        "depth": row["depth"],
        "worst": row["worst"],
    }


_TOTALS: Final = {
    "partitions": ("partition_dir", "count_distinct"),
    "segments": ("base_offset", "count"),
    "log_bytes": ("log_bytes", "sum"),
    "index_bytes": ("index_bytes", "sum"),
    "log_start_offset": ("base_offset", "min"),
    "last_offset": ("last_offset", "max"),
    "first_timestamp": ("first_timestamp", "min"),
    "max_timestamp": ("max_timestamp", "max"),
}
"""The columns of a group: which column of its segments is put together, and how."""


def _grouped(real: pa.Table, keys: list[str]) -> list[Row]:
    flat = pa.table({
        **{key: real[key] for key in keys},
        "partition_dir": real["partition_dir"],
        "log_bytes": _size(real["log"]),
        "index_bytes": pc.add(_size(real["index"]), _size(real["timeindex"])),
        "base_offset": real["base_offset"],
        "last_offset": real["last_offset"],
        "first_timestamp": _timestamps(real["first_timestamp"]),
        "max_timestamp": _timestamps(real["max_timestamp"]),
        "rank": pc.index_in(real["worst"], pa.array(SEVERITIES)),
    })  # fmt: skip
    groups = grouped(flat, keys, [*_TOTALS.values(), ("rank", "max")])
    return [
        {key: row[key] for key in keys}
        | {name: row[f"{column}_{how}"] for name, (column, how) in _TOTALS.items()}
        | {"worst": "" if row["rank_max"] is None else SEVERITIES[row["rank_max"]]}
        for row in groups.to_pylist()
    ]


def _size(files: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.fill_null(pc.struct_field(files, "size"), 0)


def _timestamps(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Replace -1, "none", by null, so that it is neither the smallest nor the largest."""
    return pc.if_else(pc.equal(values, -1), None, values)
