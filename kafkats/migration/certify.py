"""Certify "nothing below magic N on this volume", or above.

The statement covers every batch header and checksum. If any byte of a log is unreadable or corrupt,
there are findings and no certificate. While a broker writes, the statement covers what was on the
disk: the row of each active segment gives the end offset. The magic is that of the batch or
wrapper, as for brokers; messages inside a wrapper are not examined (KAFKA-4298).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafkats import paths
from kafkats.counts import counted
from kafkats.errors import KafkatsError, Vanished
from kafkats.findings import SEVERITIES, Finding, failure, worst
from kafkats.migration.census import look_at_formats
from kafkats.migration.certificate import (
    MAGICS,
    ROWS,
    Certificate,
    CertifiedRow,
    CertifyOptions,
    Totals,
    seal,
)
from kafkats.plans.columns import batch_of, schema_of
from kafkats.plans.facts import all_findings, finding_rows
from kafkats.plans.rows import FindingRow, LocatedFinding, SegmentKey, grouped
from kafkats.plans.settling import settled
from kafkats.plans.units import Unit, list_again, unseen
from kafkats.segment.census import Census


class SeenRow(CertifiedRow, total=False):
    """One segment, or with base_offset -1 what could not be read of a directory."""

    prefix_fingerprint: str  # in a re-check, of the bytes that the certificate covers
    compacted: bool  # whether a log cleaner rewrites segments of this partition
    # time of the look; a segment that was replaced meanwhile has two rows, and the later one counts
    looked_ns: int
    worst: str
    findings: list[FindingRow]


SEEN: Final = schema_of(SeenRow)

_ORDER: Final = [(name, "ascending") for name in ("log_dir", "partition_dir", "base_offset")]


Upto = int | Mapping[SegmentKey, int]


def certify_unit(unit: Unit, *, deep: bool = False, upto: Upto = 0) -> pa.RecordBatch:
    """Return rows of SEEN for one unit. `upto` adds the fingerprint of the first `upto` bytes.

    `upto` by segment (`certified_bytes`) also holds for segments that are looked at in place of
    this one.

    A segment that a running broker deleted meanwhile has no row. If the broker merged it into
    another segment, the row is that segment's. An unreadable file becomes a finding, not an error.
    Any process that sees the files may call this.
    """
    return batch_of(_rows(unit, deep, upto), SEEN)


def _rows(unit: Unit, deep: bool, upto: Upto) -> list[SeenRow]:
    others = 0 if isinstance(upto, int) else upto
    if unit.base_offset < 0:
        return _directory_rows(unit, deep, others)
    covered = upto if isinstance(upto, int) else upto.get(unit.key, 0)
    seen = settled(unit, lambda now: _look(now, deep, covered))
    if seen.gone:
        rows = _rows_instead(unit, deep, others)
        return [_with_findings(seen.seen, seen.findings)] if rows is None else rows
    return [_with_findings(seen.seen, seen.findings)]


def _directory_rows(unit: Unit, deep: bool, upto: Upto) -> list[SeenRow]:
    seen = settled(unit, lambda now: (None, tuple(unseen(now))))
    name = paths.parse_partition(unit.partition_dir)
    if seen.gone and name and name.state != "future":  # else its segments are elsewhere now
        return []
    rows = [_with_findings(_row(unit), [finding]) for finding in seen.findings]
    if seen.unit is not unit and not rows:  # not all of its segments were listed before
        rows = [
            row
            for one in list_again(unit)
            if one.base_offset >= 0
            for row in _rows(one, deep, upto)
        ]
    return rows


def _rows_instead(unit: Unit, deep: bool, upto: Upto) -> list[SeenRow] | None:
    """Return rows for the replacement of a segment, None if no broker seems to have replaced it."""
    name = paths.parse_partition(unit.partition_dir)
    try:
        units = [one for one in list_again(unit) if one.base_offset >= 0]
    except Vanished:
        return [] if name and name.state != "future" else None
    except KafkatsError:
        return None
    before = [one for one in units if one.base_offset < unit.base_offset]
    if not before:  # retention deletes from the front
        return []
    log = before[-1].files[0]
    # unchanged since: nothing was merged into it
    if log is None or log.ctime_ns <= unit.directory_ctime_ns:
        return None
    return _rows(before[-1], deep, upto)


def _look(unit: Unit, deep: bool, upto: int) -> tuple[SeenRow, tuple[Finding, ...]]:
    """Return the row of SEEN without findings, and the findings."""
    try:
        census = look_at_formats(unit, deep=deep, upto=upto)
    except KafkatsError as e:
        return _row(unit), (failure(unit.log.name, e),)
    return _with_counts(_row(unit), census), census.findings


def _row(unit: Unit) -> SeenRow:
    file = unit.files[0]
    return {
        "log_dir": unit.log_dir,
        "partition_dir": unit.partition_dir,
        "base_offset": unit.base_offset,
        "active": unit.active,
        "live": unit.live and unit.active,
        "mtime_ns": file.mtime_ns if file else -1,
        "inode": file.inode if file else -1,
        "looked_ns": time.time_ns(),
        "compacted": unit.claims is not None and unit.claims.compacted,
    }


def _with_findings(row: SeenRow, findings: Sequence[Finding]) -> SeenRow:
    return {**row, "worst": worst(findings), "findings": finding_rows(findings)}


def _with_counts(row: SeenRow, census: Census) -> SeenRow:
    batches = [
        sum(cell.batches for cell in census.cells if cell.magic == magic) for magic in MAGICS
    ]
    return {
        **row,
        "next_offset": census.facts.next_offset,
        "log_bytes": census.facts.log_bytes,
        "bytes": census.facts.valid_bytes,
        "batches": census.facts.batches,
        "magic_bytes": census.facts.magics,
        "magic_batches": batches,
        "fingerprint": f"{census.fingerprint:016x}",
        "prefix_fingerprint": f"{census.prefix_fingerprint:016x}",
    }


def make_certificate(pieces: Iterable[pa.Table], options: CertifyOptions) -> Certificate:
    """Decide from rows of SEEN, which may come from several processes in any order.

    They come in pieces with whole partitions; what is kept of a piece is a row of ROWS per segment.
    """
    refused: list[LocatedFinding] = []
    rows = [ROWS.empty_table()]
    for seen in map(latest, pieces):
        refused += [
            one
            for one in all_findings(seen)
            if one["severity"] in SEVERITIES[2:] or one["kind"] == "vanished"
        ]
        real = pc.and_(pc.greater_equal(seen["base_offset"], 0), pc.is_valid(seen["fingerprint"]))
        rows.append(seen.filter(real).select(ROWS.names))
    refusals = tuple(refused)
    segments = pa.concat_tables(rows).sort_by(_ORDER).combine_chunks()
    names = ["log_dir", "partition_dir", "base_offset", "magic_batches", "magic_bytes"]
    outside = _by_magic(segments["magic_batches"])[
        :, [not options.allows(magic) for magic in MAGICS]
    ].any(axis=1)
    exceptions = tuple(segments.select(names).filter(pa.array(outside)).to_pylist())
    totals = _totals(segments)
    statement = _statement(options, totals, segments, exceptions, refusals)
    return replace(
        seal(statement, options, totals, segments), exceptions=exceptions, refusals=refusals
    )


def latest(seen: pa.Table) -> pa.Table:
    """Drop the rows of segments that were looked at again later."""
    keys = [name for name, _ in _ORDER]
    real = pc.greater_equal(seen["base_offset"], 0)
    segments = seen.filter(real).select([*keys, "looked_ns"]).combine_chunks()
    newest = grouped(segments, keys, [("looked_ns", "max")])
    if newest.num_rows == segments.num_rows:
        return seen
    columns = [newest[name].to_pylist() for name in (*keys, "looked_ns_max")]
    known = set(zip(*columns, strict=True))
    rows = zip(*(seen[name].to_pylist() for name in (*keys, "looked_ns")), strict=True)
    return seen.filter(pa.array([row[2] < 0 or row in known for row in rows]))


def _totals(segments: pa.Table) -> Totals:
    return {
        "segments": segments.num_rows,
        "partitions": len(grouped(segments, ["log_dir", "partition_dir"])),
        "bytes": pc.sum(segments["bytes"]).as_py() or 0,
        "batches": pc.sum(segments["batches"]).as_py() or 0,
        "magic_bytes": _by_magic(segments["magic_bytes"]).sum(axis=0).tolist(),
        "magic_batches": _by_magic(segments["magic_batches"]).sum(axis=0).tolist(),
        "live_segments": pc.sum(segments["live"]).as_py() or 0,
    }


def _by_magic(lists: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return the lists as an array of shape (segments, 3)."""
    return np.asarray(pc.list_flatten(lists).to_numpy(), np.int64).reshape(-1, len(MAGICS))


def _statement(
    options: CertifyOptions,
    totals: Totals,
    segments: pa.Table,
    exceptions: Sequence[CertifiedRow],
    refusals: Sequence[LocatedFinding],
) -> str:
    seen = (
        f"{counted(totals['batches'], 'batch')} ({totals['bytes']} bytes) in"
        f" {counted(totals['segments'], 'segment')} of {counted(totals['partitions'], 'partition')}"
    )
    if refusals:
        return (
            f"refused because of {counted(len(refusals), 'finding')}: the statement"
            f" {options.claim!r};"
            f" read: {seen}"
        )
    if exceptions:
        batches = sum(options.breaks(row["magic_batches"]) for row in exceptions)
        return (
            f"not so: {options.claim}; against it: {counted(batches, 'batch')} in"
            f" {counted(len(exceptions), 'segment')}; read: {seen}"
        )
    return f"{options.claim}: {seen}{_reach(segments)}"


def _reach(segments: pa.Table) -> str:
    """Return the end of the statement while a broker was writing, or ""."""
    live = segments.filter(segments["live"])
    if not live.num_rows:
        return ""
    if live.num_rows == 1:
        row = live.to_pylist()[0]
        return (
            f", of {row['partition_dir']} up to offset {row['next_offset']}, which a"
            " broker was writing"
        )
    return (
        f", of {live.num_rows} partitions that a broker was writing up to the next_offset"
        " of their last segment"
    )
