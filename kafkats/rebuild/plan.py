"""Rebuild wrong `.index` and `.timeindex` files from the `.log`, which is never written.

The contract is byte identity with what that Kafka generation's own recovery would build
(`generations.RULES`). Sound indexes that merely differ from a rebuild are kept unless `all` is set.
If the log itself is corrupt, nothing is done unless `valid_prefix` is set: then indexes are built
for the part before the corruption.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from kafkats import paths
from kafkats.config.topics import topic_filter
from kafkats.counts import counted
from kafkats.errors import CorruptPlan, Refused, UsageError
from kafkats.findings import DEFECTS
from kafkats.generations import RULES
from kafkats.logdir.identity import FileIdentity, FileRow
from kafkats.logdir.lease import Lease
from kafkats.logdir.staging import Replace
from kafkats.paths import OFFSET_INDEX, TIME_INDEX, segment_file
from kafkats.plans.columns import batch_of
from kafkats.plans.depths import depth_totals
from kafkats.plans.facts import REBUILT, damaged
from kafkats.plans.missing import (
    Accepting,
    Missing,
    blocked_row,
    missing_records,
    options_of,
    with_blocked,
)
from kafkats.plans.plan import ITEMS, Plan, check_settings, item_of, make_plan, sum_of, totals_of
from kafkats.plans.planned_indexes import build_planned, stage_checked
from kafkats.plans.rows import (
    Item,
    PartitionKey,
    SegmentKey,
    SegmentRow,
    Totals,
    grouped,
    partition_of,
    segment_rows,
    source_log,
)
from kafkats.plans.run import PartitionWork, Staged, by_segment
from kafkats.rebuild.options import Rebuild
from kafkats.segment.reader import open_source
from kafkats.text import Flag

OPERATION: Final = "rebuild"
_ROWS_AT_ONCE: Final = 8192
"""How many rows of facts are Python objects at a time: they take 50 times the memory of a table."""

_Later: TypeAlias = dict[PartitionKey, list[tuple[int, int]]]
"""Base offset and bytes of every segment in partitions with a corrupt log."""


_DEFAULT: Final = Rebuild.model_construct()


@dataclass(frozen=True)
class RebuildOptions(Accepting):
    """Options of a rebuild.

    `topics` is a filter; `not_for_a_broker` allows a rule that would mislead one.
    """

    rule: str = _DEFAULT.rule
    topics: str = "*"
    all: bool = _DEFAULT.all
    valid_prefix: bool = _DEFAULT.valid_prefix
    only_after_unclean_stop: bool = _DEFAULT.only_after_unclean_stop
    not_for_a_broker: bool = _DEFAULT.not_for_a_broker


def check_options(options: RebuildOptions) -> None:
    """Raise UsageError for an unknown rule, Refused for a rule that would mislead a broker."""
    rule = RULES.get(options.rule)
    if rule is None:
        raise UsageError(f"unknown rule {options.rule!r}; known are {', '.join(RULES)}")
    if not rule.for_brokers and not options.not_for_a_broker:
        raise Refused(
            f"rule {rule.name} would mislead a broker; if none ever reads these files: ",
            Flag("--not-for-a-broker"),
        )


def plan_rebuild(segments: pa.Table, options: RebuildOptions) -> Plan:
    """Decide from facts (facts.SEGMENTS) which index files to write.

    Nothing is written for a segment of depth tail: it raised no doubt. Raises UsageError for an
    unknown rule, Refused for a rule that would mislead brokers.
    """
    check_options(options)
    chosen = _chosen(segments, options)
    missing = missing_records(segments, options.accept_loss)
    later = _later_segments(segments)
    table = pa.Table.from_batches(
        (
            batch_of(
                [
                    item
                    for row in segment_rows(rows)
                    for item in _items(row, later, missing, options)
                ],
                ITEMS,
            )
            for rows in chosen.to_batches(max_chunksize=_ROWS_AT_ONCE)
        ),
        schema=ITEMS,
    )
    unread = pa.Table.from_pylist(list(_unread_items(segments, missing, options)), schema=ITEMS)
    table = pa.concat_tables([table, unread])
    table = with_blocked(table, _of_topics(segments, options), missing, options.rule)
    return make_plan(OPERATION, options_of(options), _totals(table, segments), table)


def _unread_items(segments: pa.Table, missing: Missing, options: RebuildOptions) -> Iterator[Item]:
    """Yield a blocked row for each file that could not be read: the segment is not known."""
    unknown = pc.and_(
        pc.greater_equal(segments["base_offset"], 0), pc.is_null(segments["valid_bytes"])
    )
    for row in segment_rows(_of_topics(segments.filter(unknown), options)):
        if partition_of(row) in missing or (options.only_after_unclean_stop and row["clean"]):
            continue
        for finding in row["findings"]:
            if finding["kind"] == "unreadable":
                yield blocked_row(
                    row, finding["file"], f"it could not be read: {finding['reason']}", options.rule
                )


def _wanted(options: RebuildOptions) -> tuple[str, ...]:
    """Return the states of an index that require a rebuild."""
    return (*REBUILT, "sound") if options.all else REBUILT


def _chosen(segments: pa.Table, options: RebuildOptions) -> pa.Table:
    values = pa.array(_wanted(options))
    mask = pc.or_(
        pc.is_in(segments["offset_index"], values), pc.is_in(segments["time_index"], values)
    )
    chosen = _of_topics(segments.filter(mask), options)
    if options.only_after_unclean_stop:
        chosen = chosen.filter(pc.invert(chosen["clean"]))
    return chosen


def _of_topics(segments: pa.Table, options: RebuildOptions) -> pa.Table:
    if options.topics == "*":
        return segments
    wanted = topic_filter(options.topics)
    directories = [
        directory
        for directory in pc.unique(segments["partition_dir"]).to_pylist()
        if (name := paths.parse_partition(directory)) and wanted.matches(name.topic)
    ]
    return segments.filter(pc.is_in(segments["partition_dir"], pa.array(directories, pa.string())))


def _later_segments(segments: pa.Table) -> _Later:
    partitions = list(PartitionKey._fields)
    corrupt = grouped(segments.filter(pc.not_equal(segments["stop"], "")), partitions)
    sizes = pa.table({
        **{name: segments[name] for name in SegmentKey._fields},
        "bytes": pc.struct_field(segments["log"], "size"),
    }).join(corrupt, partitions, join_type="left semi")  # fmt: skip
    later: _Later = {}
    for row in sizes.to_pylist():
        later.setdefault(partition_of(row), []).append((row["base_offset"], row["bytes"] or 0))
    return later


class _Index(NamedTuple):
    """The facts about one index file of a segment."""

    state: str | None
    file: str
    before: FileRow | None
    rebuilt_bytes: int
    rebuilt_sha256: str


def _indexes(row: SegmentRow) -> tuple[_Index, _Index]:
    offset_index, time_index = _names(row["base_offset"])
    return (
        _Index(
            row["offset_index"],
            offset_index,
            row["index"],
            row["rebuilt_index_bytes"],
            row["rebuilt_index_sha256"],
        ),
        _Index(
            row["time_index"],
            time_index,
            row["timeindex"],
            row["rebuilt_timeindex_bytes"],
            row["rebuilt_timeindex_sha256"],
        ),
    )


def _names(base_offset: int) -> tuple[str, str]:
    return segment_file(base_offset, OFFSET_INDEX), segment_file(base_offset, TIME_INDEX)


def _items(
    row: SegmentRow, later: _Later, missing: Missing, options: RebuildOptions
) -> Iterator[Item]:
    wanted = _wanted(options)
    blocked = missing.get(partition_of(row)) or _blocked(row, later, options)
    for index in _indexes(row):
        kinds = _kinds(row, index.file)
        if index.state not in wanted or (index.state == "missing" and not kinds):
            continue
        action = "blocked" if blocked else "replace" if index.before else "add"
        item = item_of(row, index.file, row["rule"], action, blocked or ", ".join(kinds))
        yield item | {
            "before": index.before,
            "log_valid_bytes": row["valid_bytes"] or 0,
            "after_bytes": index.rebuilt_bytes,
            "after_sha256": index.rebuilt_sha256,
        }


def _kinds(row: SegmentRow, file: str) -> list[str]:
    """Return the kinds of findings about one file, [] for a missing one that is not expected."""
    return list(dict.fromkeys(f["kind"] for f in row["findings"] if f["file"] == file))


def _blocked(row: SegmentRow, later: _Later, options: RebuildOptions) -> str:
    """Return why nothing may be written for this segment, or ""."""
    if row["blocked"]:
        return row["blocked"]
    if not row["stop"] or options.valid_prefix:
        return ""
    valid_bytes = row["valid_bytes"] or 0
    lost = (row["log"]["size"] if row["log"] else 0) - valid_bytes
    beside = later[partition_of(row)]
    deleted = [size for base_offset, size in beside if base_offset > row["base_offset"]]
    said = (
        f"the log itself is corrupt at byte {valid_bytes} ({row['stop']}):"
        f" Kafka's recovery would cut {counted(lost, 'byte')}"
    )
    if not deleted:
        return said
    segments, size = counted(len(deleted), "later segment"), counted(sum(deleted), "byte")
    return f"{said} and delete {segments} ({size})"


def _totals(items: pa.Table, segments: pa.Table) -> Totals:
    writes = items.filter(pc.not_equal(items["action"], "blocked"))
    logs = grouped(writes, [*SegmentKey._fields, "log_valid_bytes"])
    recovery = segments.filter(pc.equal(segments["recovery"], True))
    origins = grouped(writes, "settings_from", [("file", "count")])
    totals = totals_of(
        items,
        segments,
        changed=logs.num_rows,
        read_bytes=sum_of(logs["log_valid_bytes"]),
        write_bytes=sum_of(writes["after_bytes"]),
    )
    return {
        **totals,
        "segments_damaged": damaged(segments).num_rows,
        "not_repaired": _not_repaired(writes, segments),
        "settings_from": {row["settings_from"]: row["file_count"] for row in origins.to_pylist()},
        "recovery_segments": recovery.num_rows,
        "recovery_bytes": sum_of(pc.struct_field(recovery["log"], "size")),
        **depth_totals(segments),
    }


def _not_repaired(writes: pa.Table, segments: pa.Table) -> dict[str, int]:
    """Count findings of danger and damage in files that the plan does not write."""
    findings = segments["findings"].combine_chunks()
    flat = pc.list_flatten(findings)
    where = segments.select(["log_dir", "partition_dir"]).take(pc.list_parent_indices(findings))
    bad = pc.is_in(pc.struct_field(flat, "severity"), pa.array(DEFECTS))
    written = _paths(writes["log_dir"], writes["partition_dir"], writes["file"])
    files = _paths(where["log_dir"], where["partition_dir"], pc.struct_field(flat, "file"))
    repaired = pc.is_in(files, written)
    left = pc.struct_field(flat, "severity").filter(pc.and_not(bad, repaired))
    counts = {row["values"]: row["counts"] for row in pc.value_counts(left).to_pylist()}
    return {severity: counts.get(severity, 0) for severity in ("danger", "damage")}


def _paths(*columns: pa.Array | pa.ChunkedArray) -> pa.Array:
    parts = [c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in columns]
    return pc.binary_join_element_wise(*parts, "/")


def check_item(item: Item) -> None:
    """Raise CorruptPlan for an item that `plan_rebuild` does not plan."""
    if item["file"] not in _names(item["base_offset"]):
        raise CorruptPlan(f"not an index file of segment {item['base_offset']}: {item['file']!r}")
    if item["action"] not in ("add", "replace") or item["log"] is None or item["rule"] not in RULES:
        raise CorruptPlan(
            f"{item['file']}: action {item['action']!r} by rule {item['rule']!r} is unknown"
        )
    check_settings(item, for_brokers=False)


def stage_partition(work: PartitionWork, lease: Lease) -> Staged:
    """Build the partition's new files beside it, from logs that must not change meanwhile.

    Raises Changed when a file would differ from the approved one, StorageFailed.
    """
    changes = [
        change for items in by_segment(work) for change in _stage_segment(work, items, lease)
    ]
    logs = {
        segment_file(item["base_offset"]): FileIdentity(**source_log(item)) for item in work.items
    }
    return Staged(changes, logs)


def _stage_segment(work: PartitionWork, items: Sequence[Item], lease: Lease) -> Iterator[Replace]:
    """Build one segment's indexes again, and compare them with the approved ones."""
    first = items[0]
    log = Path(work.log_dir, work.partition_dir, segment_file(first["base_offset"]))
    with open_source(log, mapped=True) as source:  # under the lock no broker truncates it
        built = build_planned(source, first)
    for item in items:
        content = built.time_index if item["file"].endswith(TIME_INDEX) else built.offset_index
        yield stage_checked(log, item, content, lease)
