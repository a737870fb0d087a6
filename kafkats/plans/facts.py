"""The reports of operations: Arrow tables with stable column names, and JSON made from them.

    SEGMENTS    one row per segment with its findings; findings about a directory as a whole have
                rows of their own, with base_offset -1
    ACTIONS     one row per file that a run changed or refused to change

Record timestamps are epoch milliseconds (-1: none), sizes are bytes, mtime and ctime are
nanoseconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypedDict

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafkats import paths
from kafkats.errors import CorruptPlan, storage
from kafkats.findings import SEVERITIES, Finding, worst
from kafkats.logdir.partition import UNFINISHED, unfinished_swaps
from kafkats.plans.files import make_folder, whole, write_json
from kafkats.plans.rows import (
    FactsRow,
    FindingRow,
    LocatedFinding,
    PartitionKey,
    SegmentKey,
    SegmentRow,
    partition_of,
    partitions_of,
    segment_rows,
)
from kafkats.segment.facts import SegmentFacts

DIRECTORY: Final = (("log_dir", pa.string()), ("partition_dir", pa.string()))
"""The columns that name a partition directory."""

FILE: Final = pa.struct([
    ("size", pa.int64()),
    ("mtime_ns", pa.int64()),
    ("ctime_ns", pa.int64()),
    ("inode", pa.int64()),
])
"""The identity of a file between planning and applying. null: the file is missing."""

FINDING: Final = pa.struct([
    ("kind", pa.string()),
    ("severity", pa.string()),
    ("file", pa.string()),
    ("position", pa.int64()),
    ("entry", pa.int64()),
    ("expected", pa.string()),
    ("found", pa.string()),
    ("reason", pa.string()),
])  # fmt: skip

SEGMENTS: Final = pa.schema([
    *DIRECTORY,
    # of the partition directory: changes whenever a file is added or removed
    ("directory_ctime_ns", pa.int64()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("base_offset", pa.int64()),
    ("next_base_offset", pa.int64()),  # of the next segment; -1 for the active one
    ("active", pa.bool_()),
    ("clean", pa.bool_()),             # the root has a clean-shutdown marker
    ("recovery", pa.bool_()),          # an unclean start of the broker would recover this segment
    ("depth", pa.string()),            # stat, tail, full, deep
    ("log", FILE),
    ("index", FILE),
    ("timeindex", FILE),
    ("txnindex", FILE),
    ("snapshot", FILE),
    ("log_start_offset", pa.int64()),  # the partition's in the root's checkpoints; -1: none
    ("high_watermark", pa.int64()),
    ("valid_bytes", pa.int64()),  # up to the end of the last good batch; -1: unknown at this depth
    ("stop", pa.string()),             # why reading stopped before the end of the file, or ""
    ("batches", pa.int64()),
    ("records", pa.int64()),           # -1 where wrappers were not decompressed
    ("first_offset", pa.int64()),
    ("last_offset", pa.int64()),
    ("first_timestamp", pa.int64()),
    ("max_timestamp", pa.int64()),
    ("offset_of_max_timestamp", pa.int64()),
    ("magic_bytes", pa.list_(pa.int64(), 3)),
    ("codec_batches", pa.list_(pa.int64(), 5)),
    ("offset_index", pa.string()),     # equal, sound, defective, missing; "" not examined
    ("time_index", pa.string()),
    ("rule", pa.string()),
    ("index_interval_bytes", pa.int64()),
    ("segment_index_bytes", pa.int64()),
    # origin of both settings: given, inferred (from index files), default
    ("settings_from", pa.string()),
    ("blocked", pa.string()),          # why nothing can be rebuilt, or ""
    ("rebuilt_index_bytes", pa.int64()),
    ("rebuilt_index_sha256", pa.string()),
    ("rebuilt_timeindex_bytes", pa.int64()),
    ("rebuilt_timeindex_sha256", pa.string()),
    ("worst", pa.string()),
    ("findings", pa.list_(FINDING)),
])  # fmt: skip

ACTIONS: Final = pa.schema([
    *DIRECTORY,
    ("file", pa.string()),
    ("base_offset", pa.int64()),
    ("action", pa.string()),         # replace, add, remove, update
    ("reason", pa.string()),
    ("outcome", pa.string()),        # done, already, nothing (to do), refused, failed
    ("error", pa.string()),
    ("before_bytes", pa.int64()),    # -1: there was no file
    ("after_bytes", pa.int64()),
    ("read_bytes", pa.int64()),      # of the .log
    ("seconds", pa.float64()),
    ("sha256", pa.string()),         # hash of the new bytes, see kafkats.hashes
    ("records", pa.int64()),         # compared before and after; -1: none were
    ("parity_before", pa.string()),  # digest of what a consumer reads from the old log
    ("parity_after", pa.string()),
])  # fmt: skip


def swapping(segments: pa.Table) -> dict[PartitionKey, str]:
    """Return directories where the next broker start restores deleted segments, with the reason."""
    rows = segments.filter(pc.less(segments["base_offset"], 0))
    return {
        partition_of(row): f"{swaps[0]}: {UNFINISHED}"
        for row in segment_rows(rows.select([*PartitionKey._fields, "findings"]))
        if (swaps := unfinished_swaps(finding["file"] for finding in row["findings"]))
    }


def unseen_logs(segments: pa.Table) -> dict[PartitionKey, str]:
    """Return partitions with a `.log` that a broker may read and kafkats did not, with the reason.

    The `.log` is a link, or could not be listed or read. So neither the last segment nor the log
    end is known.
    """
    flat = pc.list_flatten(segments["findings"])
    kinds = pc.is_in(pc.struct_field(flat, "kind"), pa.array(["stray", "unreadable", "vanished"]))
    logs = pc.and_(kinds, pc.match_substring_regex(pc.struct_field(flat, "file"), _LOG_NAME))
    rows = segments.select(PartitionKey._fields).take(
        pc.list_parent_indices(segments["findings"]).filter(logs)
    )
    findings: list[FindingRow] = flat.filter(logs).to_pylist()
    return {
        partition_of(row): f"{finding['file']} was not looked at: {finding['reason']}"
        for row, finding in zip(rows.to_pylist(), findings, strict=True)
    }


_LOG_NAME: Final = rf"^[0-9]{{20}}\{paths.LOG}$"


def finding_rows(findings: Iterable[Finding]) -> list[FindingRow]:
    """Return findings as rows of the FINDING struct."""
    return [
        {
            "kind": f.kind,
            "severity": f.severity,
            "file": f.file,
            "position": f.position,
            "entry": f.entry,
            "expected": f.expected,
            "found": f.found,
            "reason": f.reason,
        }
        for f in findings
    ]


def directory_row(log_dir: str, partition_dir: str, findings: Sequence[Finding]) -> SegmentRow:
    """Return a SEGMENTS row for findings that belong to no single segment."""
    return {
        "log_dir": log_dir,
        "partition_dir": partition_dir,
        "topic": "",
        "partition": -1,
        "base_offset": -1,
        "worst": worst(findings),
        "findings": finding_rows(findings),
    }


def facts_columns(facts: SegmentFacts) -> FactsRow:
    """Return the columns of facts.SEGMENTS that SegmentFacts fill."""
    return {
        "depth": facts.depth,
        "valid_bytes": facts.valid_bytes,
        "stop": facts.stop or "",
        "batches": facts.batches,
        "records": facts.records,
        "first_offset": facts.first_offset,
        "last_offset": facts.last_offset,
        "first_timestamp": facts.first_timestamp,
        "max_timestamp": facts.max_timestamp,
        "offset_of_max_timestamp": facts.offset_of_max_timestamp,
        "magic_bytes": facts.magics,
        "codec_batches": facts.codecs,
    }


def damaged(segments: pa.Table) -> pa.Table:
    """Return the rows whose worst finding is damage or danger."""
    return segments.filter(pc.is_in(segments["worst"], pa.array(SEVERITIES[2:])))


def all_findings(segments: pa.Table) -> list[LocatedFinding]:
    """Return every finding as a flat row, with its directory and segment."""
    rows = segments.filter(pc.not_equal(segments["worst"], ""))
    return [
        {
            "log_dir": row["log_dir"],
            "partition_dir": row["partition_dir"],
            "base_offset": row["base_offset"],
            **finding,
        }
        for row in segment_rows(rows.select([*SegmentKey._fields, "findings"]))
        for finding in row["findings"]
    ]


class Summary(TypedDict):
    """Counts and bytes of a SEGMENTS table, and its findings by severity and by kind."""

    segments: int
    partitions: int
    log_bytes: int
    severities: dict[str, int]
    kinds: dict[str, int]
    worst: str


def summary(segments: pa.Table) -> Summary:
    """Return the summary of a SEGMENTS table."""
    findings = all_findings(segments)
    real = segments.filter(pc.greater_equal(segments["base_offset"], 0))
    return {
        "segments": real.num_rows,
        "partitions": len(partitions_of(real)),
        "log_bytes": pc.sum(pc.struct_field(real["log"], "size")).as_py() or 0,
        "severities": dict(sorted(Counter(row["severity"] for row in findings).items())),
        "kinds": dict(sorted(Counter(row["kind"] for row in findings).items())),
        "worst": max((row["severity"] for row in findings), key=SEVERITIES.index, default=""),
    }


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table as Parquet (zstd) atomically. Raises StorageFailed."""
    with whole(path) as file:  # Arrow accepts only UTF-8 names, so it gets an open file
        pq.write_table(table, file, compression="zstd")


_ROWS_FOR_THREADS: Final = 100_000


def read_table(path: Path, schema: pa.Schema) -> pa.Table:
    """Read a table that `write_table` wrote. Raises CorruptPlan for other files, StorageFailed."""
    if not path.is_file():
        raise CorruptPlan("is missing", path=path)
    try:
        with storage(path, "reading"), path.open("rb") as file:
            source = pq.ParquetFile(file)  # pq.read_table imports pyarrow.dataset
            # Threads of Arrow may hold the file a little longer; a process that ends then aborts.
            table = source.read(use_threads=source.metadata.num_rows > _ROWS_FOR_THREADS)
        table = table.select(schema.names).cast(schema)
        table.validate(full=True)  # damage that no checksum detects, such as broken UTF-8
    except (pa.ArrowException, KeyError) as e:
        raise CorruptPlan(f"not a readable table: {e}", path=path) from e
    return table


def write_report(folder: Path, segments: pa.Table, report: Mapping[str, object]) -> None:
    """Write a SEGMENTS table and its summary into `folder`: `segments.parquet`, `report.json`.

    Raises StorageFailed.
    """
    make_folder(folder, "the report")
    write_table(folder / "segments.parquet", segments)
    write_json(folder / "report.json", report)
