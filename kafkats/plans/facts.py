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
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict, cast

import pyarrow as pa
import pyarrow.compute as pc

from kafkats import paths
from kafkats.errors import CorruptPlan, is_file, storage
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

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile, ParquetWriter, RowGroupMetaData

DIRECTORY: Final = (("log_dir", pa.string()), ("partition_dir", pa.string()))
"""The columns that name a partition directory."""

FILE: Final = struct_of(FileRow)
"""The identity of a file between planning and applying. null: the file is missing."""
FINDING: Final = struct_of(FindingRow)
SEGMENTS: Final = schema_of(SegmentRow)
REBUILT: Final = ("missing", "defective")
"""States of an index that a rebuild writes."""
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


def telling(segments: pa.Table) -> pa.Table:
    """Return the rows that have findings, whose indexes a rebuild writes, or that are unflushed."""
    built = [pc.is_in(segments[name], pa.array(REBUILT)) for name in ("offset_index", "time_index")]
    planned = pc.or_(pc.or_(*built), unflushed(segments))
    return segments.filter(pc.or_(pc.not_equal(segments["worst"], ""), planned))


def unflushed(segments: pa.Table) -> pa.ChunkedArray:
    """Return which rows are of segments with records that a broker's next start recovers."""
    filled = pc.greater(pc.struct_field(segments["log"], "size"), 0)
    return pc.fill_null(pc.and_(segments["recovery"], filled), False)


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


def sum_of_summaries(summaries: Sequence[Summary]) -> Summary:
    """Return the summary of tables that have no partition in common, from theirs."""
    severities, kinds = Counter[str](), Counter[str]()
    for one in summaries:
        severities.update(one["severities"])
        kinds.update(one["kinds"])
    return {
        "segments": sum(one["segments"] for one in summaries),
        "partitions": sum(one["partitions"] for one in summaries),
        "log_bytes": sum(one["log_bytes"] for one in summaries),
        "severities": dict(sorted(severities.items())),
        "kinds": dict(sorted(kinds.items())),
        "worst": max(
            (one["worst"] for one in summaries if one["worst"]), key=SEVERITIES.index, default=""
        ),
    }


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


class Summed:
    """The summary of SEGMENTS tables that are pieces of one. A partition may be in several."""

    def __init__(self) -> None:
        self._summaries: list[Summary] = []
        self._partitions: set[PartitionKey] = set()

    def add(self, table: pa.Table) -> None:
        """Add a piece."""
        real = table.filter(pc.greater_equal(table["base_offset"], 0))
        self._partitions |= partitions_of(real)
        self._summaries.append(summary(table))

    @property
    def summary(self) -> Summary:
        """The summary of what was added."""
        found = sum_of_summaries(self._summaries)
        return {**found, "partitions": len(self._partitions)}


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table as Parquet (zstd) atomically. Raises StorageFailed."""
    write_tables(path, (table,))


def write_tables(path: Path, tables: Iterable[pa.Table]) -> None:
    """Write tables of one schema, at least one, as one. No two of them are in memory at a time.

    Raises StorageFailed.
    """
    following = iter(tables)
    first = next(following)
    with table_writer(path, first.schema) as writer:
        writer.write_table(first)
        for table in following:
            writer.write_table(table)


@contextmanager
def table_writer(path: Path, schema: pa.Schema) -> Generator[ParquetWriter]:
    """Yield a writer of a table, whose file is there when all was written. Raises StorageFailed."""
    import pyarrow.parquet as pq  # most commands write and read no table

    # Arrow accepts only UTF-8 names, so it gets an open file.
    with whole(path) as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
        yield writer


_ROWS_FOR_THREADS: Final = 100_000


@contextmanager
def opened(path: Path) -> Generator[ParquetFile]:
    """Yield a table that `write_table` wrote, to be read in the body.

    Raises CorruptPlan for other files and for what the body cannot read of it, StorageFailed.
    """
    import pyarrow.parquet as pq

    if not is_file(path, "reading"):
        raise CorruptPlan("is missing", path=path)
    try:
        with storage(path, "reading"), path.open("rb") as file:
            yield pq.ParquetFile(file)  # pq.read_table imports pyarrow.dataset
    except (pa.ArrowException, KeyError) as e:
        raise CorruptPlan(f"not a readable table: {e}", path=path) from e


def read_table(
    path: Path, schema: pa.Schema, *, later: Sequence[str] = (), rows: int | None = None
) -> pa.Table:
    """Read a table that `write_table` wrote. `later` are text columns that earlier versions did not
    write: they are empty then. Raises CorruptPlan for other files, and for a table that has not as
    many rows as it is to have; StorageFailed.
    """
    with opened(path) as source:
        if rows not in (None, source.metadata.num_rows):  # a small file may stand for very many
            raise CorruptPlan(
                f"has {source.metadata.num_rows} rows, not {rows}: it was edited or damaged",
                path=path,
            )
        # Threads of Arrow may hold the file a little longer; a process that ends then aborts.
        table = source.read(use_threads=source.metadata.num_rows > _ROWS_FOR_THREADS)
        return _as(table, schema, later)


def _as(table: pa.Table, schema: pa.Schema, later: Sequence[str] = ()) -> pa.Table:
    """Return the columns of a schema; `later` as in `read_table`.

    Raises KeyError for a column that is missing, ArrowException for other types and for damage that
    no checksum detects, such as broken UTF-8.
    """
    for name in set(later) - set(table.column_names):
        table = table.append_column(name, pa.array([""] * table.num_rows, pa.string()))
    table = table.select(schema.names).cast(schema)
    table.validate(full=True)
    return table


_ROWS_AT_ONCE: Final = 65_536


def read_in_pieces(
    path: Path, schema: pa.Schema, *, later: Sequence[str] = ()
) -> Iterator[pa.Table]:
    """Yield the columns of a schema from a table that `write_table` wrote, some rows at a time.

    `later` as in `read_table`. Raises as it does.
    """
    with opened(path) as source:
        names = source.schema_arrow.names
        wanted = [name for name in schema.names if name in names or name not in later]
        for batch in source.iter_batches(_ROWS_AT_ONCE, columns=wanted, use_threads=False):
            yield _as(pa.Table.from_batches([batch]), schema, later)


def read_near(path: Path, schema: pa.Schema, places: Iterable[PartitionKey]) -> pa.Table:
    """Return rows of a table that `write_tables` wrote: those of `places`, and of others beside.

    Of each log directory the row groups from the first of `places` to the last are read. Raises as
    `read_table`.
    """
    between: dict[str, tuple[str, str]] = {}
    for log_dir, name in places:
        first, last = between.get(log_dir, (name, name))
        between[log_dir] = min(first, name), max(last, name)
    with opened(path) as source:
        numbers = [
            number
            for number in range(source.num_row_groups)
            if _may_have(source.metadata.row_group(number), between)
        ]
        return _as(source.read_row_groups(numbers, columns=schema.names, use_threads=False), schema)


def _may_have(group: RowGroupMetaData, between: Mapping[str, tuple[str, str]]) -> bool:
    """Return whether the smallest and largest names of a row group overlap with those `between`."""
    log_dirs, names = (bounds_in(group, name) for name, _ in DIRECTORY)
    if log_dirs is None or names is None:
        return True
    return any(
        log_dirs[0] <= where <= log_dirs[1] and names[0] <= last and first <= names[1]
        for where, (first, last) in between.items()
    )


def bounds_in(group: RowGroupMetaData, name: str) -> tuple[str, str] | None:
    """Return the smallest and the largest text of a column in a row group, None if unknown."""
    for number in range(group.num_columns):
        column = group.column(number)
        if column.path_in_schema == name and (known := column.statistics) is not None:
            least, most = (known.min, known.max) if known.has_min_max else (None, None)
            if isinstance(least, str) and isinstance(most, str):
                return least, most
    return None


def write_segments(
    folder: Path, segments: Iterable[pa.Table], report: Mapping[str, object]
) -> None:
    """Write a SEGMENTS table in pieces, and its summary, into `folder`: `segments.parquet`,
    `report.json`. Raises StorageFailed.
    """
    make_folder(folder, "the report")
    write_tables(folder / "segments.parquet", segments)
    write_json(folder / "report.json", report)
