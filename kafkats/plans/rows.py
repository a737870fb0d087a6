"""The rows of reports and plans. plans.facts and plans.plan have the schemas that they give.

A row of a table has every key. A row that is being made may lack the keys that are not required;
they are null in the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, NamedTuple, Required, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import TypedDict  # pydantic reads these; on 3.11 it takes no others

from kafkats.errors import CorruptPlan
from kafkats.logdir.identity import FileIdentity, FileRow
from kafkats.logdir.strict_json import Json

Options: TypeAlias = dict[str, Json]
"""A plan's options, as they are in `plan.json`."""
Int32: TypeAlias = Annotated[int, pa.int32()]
ByMagic: TypeAlias = Annotated[Sequence[int], pa.list_(pa.int64(), 3)]
"""A number for each of magic 0, 1 and 2."""


class PartitionKey(NamedTuple):
    """A partition directory in a log dir."""

    log_dir: str
    partition_dir: str


class SegmentKey(NamedTuple):
    """A segment in a partition directory."""

    log_dir: str
    partition_dir: str
    base_offset: int

    @property
    def partition(self) -> PartitionKey:
        return PartitionKey(self.log_dir, self.partition_dir)


class PartitionRow(TypedDict):
    """Columns that every row has."""

    log_dir: str
    partition_dir: str


class KeyRow(PartitionRow):
    """Columns that every row about a segment has."""

    base_offset: int


class FindingRow(TypedDict):
    """facts.FINDING. `position` is in bytes, `entry` the number of an index entry; -1: none."""

    kind: str
    severity: str
    file: str
    position: int
    entry: int
    expected: str
    found: str
    reason: str


class LocatedFinding(FindingRow, KeyRow):
    """A finding with its directory and segment."""


class SegmentRow(TypedDict, total=False):
    """facts.SEGMENTS. None: there is no such file, or the segment was not looked at so far."""

    log_dir: Required[str]
    partition_dir: Required[str]
    directory_ctime_ns: int  # changes whenever a file is added or removed
    topic: str | None
    partition: Int32
    base_offset: Required[int]
    next_base_offset: int  # of the next segment; -1 for the active one
    active: bool
    clean: bool  # the root has a clean-shutdown marker
    recovery: bool  # an unclean start of the broker would recover this segment
    depth: str  # stat, tail, full, deep
    log: FileRow | None
    index: FileRow | None
    timeindex: FileRow | None
    txnindex: FileRow | None
    snapshot: FileRow | None
    log_start_offset: int  # the partition's in the root's checkpoints; -1: none
    high_watermark: int
    valid_bytes: int | None  # up to the end of the last good batch; -1: unknown at this depth
    stop: str | None  # why reading stopped before the end of the file, or ""
    batches: int
    records: int  # -1 where wrappers were not decompressed
    first_offset: int
    last_offset: int | None
    first_timestamp: int | None
    max_timestamp: int | None
    offset_of_max_timestamp: int | None
    magic_bytes: ByMagic
    codec_batches: Annotated[Sequence[int], pa.list_(pa.int64(), 5)]
    offset_index: str | None  # equal, sound, defective, missing; "" not examined
    time_index: str | None
    rule: str
    index_interval_bytes: int | None
    segment_index_bytes: int | None
    settings_from: str | None  # of both: given, inferred (from index files), default
    blocked: str | None  # why nothing can be rebuilt, or ""
    rebuilt_index_bytes: int
    rebuilt_index_sha256: str
    rebuilt_timeindex_bytes: int
    rebuilt_timeindex_sha256: str
    worst: str
    findings: list[FindingRow]


class Item(PartitionRow):
    """plan.ITEMS: one file that a plan changes, or does not change for a reason."""

    # without it the plan after a repeated loss of a file would equal the earlier plan
    directory_ctime_ns: int
    base_offset: int
    next_base_offset: int  # -1: the active segment
    file: str
    action: str  # replace, add, remove, update, or blocked with a reason
    reason: str
    before: FileRow | None  # the file to replace; None if missing
    log: FileRow | None  # the .log from which it is built, which must not change; None: none
    log_valid_bytes: int
    after_bytes: int  # -1: known after the build
    after_sha256: str  # a hash of kafkats.hashes; "": known after the build
    rule: str
    index_interval_bytes: int
    segment_index_bytes: int
    settings_from: str  # given, inferred, default


class ActionRow(PartitionRow):
    """facts.ACTIONS: what a run did to one file."""

    file: str
    base_offset: int
    action: str  # replace, add, remove, update
    reason: str
    outcome: str  # done, already, nothing (to do), refused, failed
    error: str
    before_bytes: int  # -1: there was no file
    after_bytes: int
    read_bytes: int  # of the .log
    seconds: float
    sha256: str  # hash of the new bytes, see kafkats.hashes
    records: int  # compared before and after; -1: none were
    parity_before: str  # digest of what a consumer reads from the old log
    parity_after: str
    kind: str  # of the error: its class in kafkats.errors


class Totals(TypedDict, total=False):
    """The totals of a plan. Those that are not required are one operation's."""

    files: Required[int]
    blocked: Required[int]
    segments: Required[int]
    partitions: Required[int]
    read_bytes: Required[int]
    write_bytes: Required[int]
    segments_seen: Required[int]
    segments_added: int
    segments_damaged: int
    not_repaired: dict[str, int]
    settings_from: dict[str, int]
    recovery_segments: int
    recovery_bytes: int
    depths: dict[str, int]
    indexes_not_compared: int
    batches_before: int
    batches_after: int
    records: int
    losses: dict[str, int]
    heads: int
    freed_bytes: int
    kafka_segments: int
    kafka_bytes: int
    vetoes: dict[str, int]
    blocked_segments: int
    blocked_bytes: int
    cut_bytes: int
    zero_bytes: int
    dropped_segments: int
    dropped_bytes: int
    copied_bytes: int
    behind_high_watermark: int
    markers_removed: int


class Header(TypedDict):
    """`plan.json` without the digest."""

    operation: str
    format: int
    kafkats: str
    options: Options
    totals: Totals


def partition_of(row: PartitionRow) -> PartitionKey:
    """Return the partition directory that a row is about."""
    return PartitionKey(row["log_dir"], row["partition_dir"])


def key_of(row: KeyRow) -> SegmentKey:
    """Return the segment that a row is about."""
    return SegmentKey(row["log_dir"], row["partition_dir"], row["base_offset"])


def source_log(row: Item | SegmentRow) -> FileRow:
    """Return the segment's .log, or that from which an item's file is built.

    Raises CorruptPlan without one.
    """
    if row["log"] is None:
        raise CorruptPlan(f"segment {row['base_offset']} of {row['partition_dir']} has no log")
    return row["log"]


def replaced_file(item: Item) -> FileIdentity:
    """Return the identity of the file to replace or remove. Raises CorruptPlan without one."""
    if item["before"] is None:
        raise CorruptPlan(f"{item['file']}: the plan does not say which file it was")
    return FileIdentity(**item["before"])


def segment_rows(table: pa.Table) -> list[SegmentRow]:
    """Return the rows of facts.SEGMENTS, or of some of its columns."""
    rows: list[SegmentRow] = table.to_pylist()
    return rows


def item_rows(table: pa.Table) -> list[Item]:
    """Return the rows of plan.ITEMS."""
    rows: list[Item] = table.to_pylist()
    return rows


def keys_of(table: pa.Table) -> list[SegmentKey]:
    """Return the segment that each row of a table is about."""
    return list(map(SegmentKey, *(table[name].to_pylist() for name in SegmentKey._fields)))


def grouped(
    table: pa.Table, keys: str | Sequence[str], sums: Sequence[tuple[str, str]] = ()
) -> pa.Table:
    """Return one row per combination of the keys, in the order in which they first occur.

    `sums` are columns with Arrow's aggregations of them: ("bytes", "sum") gives `bytes_sum`.
    """
    keys = [keys] if isinstance(keys, str) else list(keys)
    return table.group_by(keys, use_threads=False).aggregate(list(sums))


def whole_partitions(pieces: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows of pieces in which partitions follow each other, none of which is divided."""
    rest: list[pa.Table] = []
    for piece in pieces:
        rows = pa.concat_tables([*rest, piece])
        if not rows.num_rows:
            continue
        last = [pc.equal(rows[name], rows[name][-1]) for name in PartitionKey._fields]
        ended = rows.num_rows - (pc.sum(pc.and_(*last)).as_py() or 0)
        if ended:
            yield rows.slice(0, ended)
        rest = [rows.slice(ended)]
    yield from rest


def partitions_of(table: pa.Table) -> set[PartitionKey]:
    """Return the partition directories that a table has rows about."""
    named = grouped(table, PartitionKey._fields)
    return set(map(partition_of, named.to_pylist()))
