"""The reports of operations: Arrow tables with stable column names, and JSON made from them.

    SEGMENTS    one row per segment with its findings; findings about a directory as a whole have
                rows of their own, with base_offset -1
    ACTIONS     one row per file that a run changed or refused to change

Record timestamps are epoch milliseconds (-1: none), sizes are bytes, mtime and ctime are
nanoseconds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypedDict, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafkats import paths
from kafkats.errors import CorruptPlan, storage
from kafkats.findings import DEFECTS, SEVERITIES, Finding, worst
from kafkats.logdir.identity import FileRow
from kafkats.logdir.partition import UNFINISHED, unfinished_swaps
from kafkats.plans.columns import schema_of, struct_of
from kafkats.plans.files import make_folder, whole, write_json
from kafkats.plans.rows import (
    ActionRow,
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

FILE: Final = struct_of(FileRow)
"""The identity of a file between planning and applying. null: the file is missing."""
FINDING: Final = struct_of(FindingRow)
SEGMENTS: Final = schema_of(SegmentRow)
ACTIONS: Final = schema_of(ActionRow)


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
    return {
        partition_of(row): f"{finding['file']} was not looked at: {finding['reason']}"
        for row, finding in rows_with(segments, ("stray", "unreadable", "vanished"))
        if _LOG_NAME.fullmatch(finding["file"])
    }


_LOG_NAME: Final = re.compile(rf"[0-9]{{20}}\{paths.LOG}")


def rows_with(
    segments: pa.Table, kinds: Sequence[str], columns: Sequence[str] = PartitionKey._fields
) -> Iterator[tuple[SegmentRow, FindingRow]]:
    """Yield each finding of these kinds in a SEGMENTS table, with columns of its row."""
    flat = pc.list_flatten(segments["findings"])
    ours = pc.is_in(pc.struct_field(flat, "kind"), pa.array(kinds))
    rows = pc.list_parent_indices(segments["findings"]).filter(ours)
    found = segments.select(columns).take(rows)
    return zip(segment_rows(found), flat.filter(ours).to_pylist(), strict=True)


def finding_rows(findings: Iterable[Finding]) -> list[FindingRow]:
    """Return findings as rows of the FINDING struct."""
    return [cast("FindingRow", f._asdict() | {"severity": f.severity}) for f in findings]


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


def with_findings(row: SegmentRow, findings: Sequence[Finding]) -> SegmentRow:
    """Return a row with the findings of its segment."""
    return {**row, "worst": worst(findings), "findings": finding_rows(findings)}


def with_facts(row: SegmentRow, facts: SegmentFacts) -> SegmentRow:
    """Return a row with the columns that the bytes of the segment fill."""
    return {
        **row,
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
    return segments.filter(pc.is_in(segments["worst"], pa.array(DEFECTS)))


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
