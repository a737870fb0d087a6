"""Roll: begin a new active segment where one is due, as a broker would for a message stamped now.

    plan_roll    which active segments are due, from facts; only after a clean stop
    stage        the closing time entry if missing, an empty segment at the log end, its snapshot

No record is touched. A broker that starts on the directory takes the empty segment as its active
one. So retention can delete the segment before, which no new message would ever have closed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from kafkats import paths
from kafkats.config.policy import Policy
from kafkats.config.settings import TopicSettings
from kafkats.errors import Changed, CorruptPlan, UsageError, storage
from kafkats.findings import DEFECTS
from kafkats.generations import (
    DEFAULT_RULE,
    OFFSETS_LOSS,
    ROLL_RULES,
)
from kafkats.index import time_index
from kafkats.index.build import time_bytes
from kafkats.index.offset_index import ENTRY_SIZE as OFFSET_ENTRY_SIZE
from kafkats.index.tail import read_tail
from kafkats.logdir.families import good_snapshot_stays, noted, refuse_unclean, stage_bytes
from kafkats.logdir.identity import FileIdentity, identify, identity_of
from kafkats.logdir.lease import Lease
from kafkats.logdir.producers import snapshot_at
from kafkats.plans.columns import schema_of
from kafkats.plans.facts import swapping, unseen_logs
from kafkats.plans.missing import KIND as MISSING_RECORDS
from kafkats.plans.missing import Accepting, missing_records, options_of, with_blocked
from kafkats.plans.plan import ITEMS, Plan, item_of, kind_of, make_plan, sum_of, totals_of
from kafkats.plans.rows import (
    FindingRow,
    Item,
    PartitionKey,
    PartitionRow,
    SegmentKey,
    SegmentRow,
    Totals,
    grouped,
    key_of,
    keys_of,
    partition_of,
    segment_rows,
    source_log,
)
from kafkats.plans.run import PartitionWork, Staged, refuse_early
from kafkats.rolling.options import Roll
from kafkats.rolling.rules import Active, Due, due, settings_of
from kafkats.segment.facts import SegmentFacts
from kafkats.split.items import blocked_item
from kafkats.text import PLAN_A_REBUILD

OPERATION: Final = "roll"


class DueRow(PartitionRow):
    """One active segment."""

    topic: str | None
    base_offset: int
    bytes: int
    first_timestamp: int | None
    rolls: bool  # at an append stamped now
    by: str  # size, time, offset-index, time-index, offsets
    reason: str
    evidence: str  # timestamp, created (weak)
    due_from_ms: int | None  # by time, with the largest possible segment.jitter.ms; None: never
    due_until_ms: int | None  # by time without jitter: certainly due
    veto: str  # why kafkats does not roll although a broker would


DUE: Final = schema_of(DueRow)


@dataclass(frozen=True)
class RollOptions(Accepting):
    """`now_ms` is the timestamp of the assumed append, `rule` a word of generations.ROLL_RULES."""

    now_ms: int
    rule: str = Roll.model_construct().rule


def plan_roll(
    segments: pa.Table,
    policy: Policy,
    options: RollOptions,
    damaged: Mapping[SegmentKey, str] = MappingProxyType({}),
) -> tuple[Plan, pa.Table]:
    """Decide from facts (facts.SEGMENTS, depth tail) which active segments to close.

    `damaged` has the reasons for which segments are not closed (`damaged_in`). Return the plan, and
    DUE of all active segments. Raises UsageError for an unknown rule.
    """
    rule = ROLL_RULES.get(options.rule)
    if rule is None:
        raise UsageError(f"unknown rule {options.rule!r}; known are {', '.join(ROLL_RULES)}")
    real = segments.filter(
        pc.and_(pc.greater_equal(segments["base_offset"], 0), pc.is_valid(segments["log"]))
    )
    written_before = _written_before(real)
    missing = missing_records(segments, options.accept_loss)
    unsettled = {**swapping(segments), **unseen_logs(segments), **missing}
    items: list[Item] = []
    rows: list[DueRow] = []
    for segment in segment_rows(real.filter(pc.less(real["next_base_offset"], 0))):
        where, log = partition_of(segment), source_log(segment)
        created_ms = written_before.get(where, log["mtime_ns"]) // 1_000_000
        settings = policy.settings(segment["topic"] or "")
        active = _active(segment, log["size"], created_ms)
        result = due(active, settings_of(settings), rule, now_ms=options.now_ms)
        veto = ""
        if result.rolls:
            veto = (
                unsettled.get(where)
                or _why_not_rolled(segment, options.accept_loss)
                or damaged.get(key_of(segment), "")
            )
        rows.append(_due_row(segment, log["size"], result, veto))
        if veto:
            items.append(blocked_item(segment, veto, DEFAULT_RULE.name))
        elif result.rolls:
            items += _roll_items(segment, result, settings)
    table = with_blocked(
        pa.Table.from_pylist(items, schema=ITEMS), segments, missing, DEFAULT_RULE.name
    )
    plan = make_plan(OPERATION, options_of(options), _totals(table, segments), table)
    return plan, pa.Table.from_pylist(rows, schema=DUE)


def rolled(due_rows: pa.Table) -> set[SegmentKey]:
    """Return the segments that a plan closes, from its DUE."""
    closes = pc.and_(due_rows["rolls"], pc.equal(due_rows["veto"], ""))
    return set(keys_of(due_rows.filter(closes)))


def damaged_in(verified: pa.Table, accepted: Collection[str]) -> dict[SegmentKey, str]:
    """Return which segments are not closed, and why, from facts (facts.SEGMENTS, depth full).

    The ends of a log do not show damage before them, and the proof would find it too late.
    """
    found = {}
    for segment in segment_rows(verified):
        if segment["stop"]:
            found[key_of(segment)] = (
                f"the log is corrupt at byte {segment['valid_bytes']} ({segment['stop']}): kafkats"
                " verify names it"
            )
        elif why := _why_not_rolled(segment, accepted):
            found[key_of(segment)] = why
    return found


def _written_before(real: pa.Table) -> dict[PartitionKey, int]:
    """Return the mtime (ns) of the last inactive .log by partition.

    The active segment began about then.
    """
    inactive = real.filter(pc.greater_equal(real["next_base_offset"], 0))
    flat = pa.table({
        "log_dir": inactive["log_dir"],
        "partition_dir": inactive["partition_dir"],
        "mtime_ns": pc.struct_field(inactive["log"], "mtime_ns"),
    })  # fmt: skip
    newest = grouped(flat, PartitionKey._fields, [("mtime_ns", "max")])
    return {partition_of(row): row["mtime_ns_max"] for row in newest.to_pylist()}


def _active(segment: SegmentRow, size: int, created_ms: int) -> Active:
    return Active(
        segment["base_offset"],
        size,
        _or_none(segment["first_timestamp"]),
        _or_none(segment["max_timestamp"]),
        created_ms,
        (segment["index"] or {"size": 0})["size"] // OFFSET_ENTRY_SIZE,
        (segment["timeindex"] or {"size": 0})["size"] // time_index.ENTRY_SIZE,
    )


def _or_none(timestamp: int | None) -> int:
    return -1 if timestamp is None else timestamp


def _due_row(segment: SegmentRow, size: int, result: Due, veto: str) -> DueRow:
    return {
        "log_dir": segment["log_dir"],
        "partition_dir": segment["partition_dir"],
        "topic": segment["topic"],
        "base_offset": segment["base_offset"],
        "bytes": size,
        "first_timestamp": segment["first_timestamp"],
        "rolls": result.rolls,
        "by": result.reason,
        "reason": result.explanation,
        "evidence": result.evidence,
        "due_from_ms": result.due_from_ms,
        "due_until_ms": result.due_until_ms,
        "veto": veto,
    }


def _why_not_rolled(segment: SegmentRow, accepted: Collection[str]) -> str:
    """Return why kafkats does not roll although a broker would, "" if it rolls."""
    if not segment["clean"]:
        return "only after a clean stop: there is no clean-shutdown marker"
    for finding in segment["findings"]:
        if finding["kind"] == MISSING_RECORDS and OFFSETS_LOSS in accepted:
            continue
        if finding["severity"] in DEFECTS and not _only_not_closed(segment, finding):
            return f"{finding['file']}: {finding['reason']}; {PLAN_A_REBUILD}"
    if segment["last_offset"] is None or segment["last_offset"] < segment["base_offset"]:
        return "its log end is not known"
    return ""


def _only_not_closed(segment: SegmentRow, finding: FindingRow) -> bool:
    """Return whether the time index lacks only its closing entry."""
    if not finding["file"].endswith(paths.TIME_INDEX):
        return False
    # the whole log was read
    unindexed = segment["index"] is not None and segment["index"]["size"] == 0
    return finding["kind"] == "below-maximum" or (finding["kind"] == "empty-index" and unindexed)


def _roll_items(segment: SegmentRow, result: Due, given: TopicSettings) -> Iterator[Item]:
    base, end = segment["base_offset"], _or_none(segment["last_offset"]) + 1
    origin = "default" if given.segment_ms is None and given.segment_bytes is None else "given"
    if any(
        f["file"].endswith(paths.TIME_INDEX) and f["severity"] == "damage"
        for f in segment["findings"]
    ):
        file, reason = paths.segment_file(base, paths.TIME_INDEX), "its closing entry is missing"
        closed = item_of(segment, file, DEFAULT_RULE.name, "replace", reason)
        yield closed | {"before": segment["timeindex"], "settings_from": origin}
    # Brokers without time indexes have no producer state either.
    kinds = (paths.TIME_INDEX, paths.SNAPSHOT) if segment["timeindex"] else ()
    reasons = {
        paths.LOG: f"{result.reason}: {result.explanation}",
        paths.SNAPSHOT: "producers known at the log end",
    }
    for kind in (paths.LOG, paths.OFFSET_INDEX, *kinds):
        reason = reasons.get(kind, "of the new active segment")
        added = item_of(segment, paths.segment_file(end, kind), DEFAULT_RULE.name, "add", reason)
        yield added | {
            "base_offset": end,
            "settings_from": origin,
            "after_bytes": -1 if kind == paths.SNAPSHOT else 0,
        }


def _totals(items: pa.Table, segments: pa.Table) -> Totals:
    logs = items.filter(pc.ends_with(items["file"], paths.LOG))
    added = sum_of(pc.equal(logs["action"], "add"))
    totals = totals_of(items, segments, changed=added, read_bytes=0, write_bytes=0)
    return {**totals, "segments_added": added}


def check_item(item: Item) -> None:
    """Raise CorruptPlan for an item that `plan_roll` does not plan."""
    kind = kind_of(item)
    closing = item["action"] == "replace" and kind == paths.TIME_INDEX
    adds = item["action"] == "add" and kind != paths.TXN_INDEX
    if item["log"] is None or not (closing or adds):
        raise CorruptPlan(f"{item['file']}: action {item['action']!r} is unknown here")


def stage_partition(work: PartitionWork, lease: Lease) -> Staged:
    """Build the files that the partition's roll adds.

    Raises Changed when the log is not as planned, Refused without a clean-shutdown marker and
    before the moment that the plan decides for, StorageFailed.
    """
    refuse_early(work)
    refuse_unclean(work.log_dir)
    directory = work.directory
    end = max(item["base_offset"] for item in work.items)
    log = directory / paths.segment_file(_segment_before(directory, end))
    tail = read_tail(log).facts
    if identify(log) != FileIdentity(**source_log(work.items[0])) or tail.last_offset + 1 != end:
        raise Changed(f"offset {end} is not its log end any more", path=log)
    unchanged = {log.name: FileIdentity(**source_log(work.items[0]))}
    files = {item["file"]: identity_of(item["before"]) for item in work.items}
    good_snapshot_stays(directory, files, unchanged)
    changes = [
        stage_bytes(
            name, _content(directory, name, end, tail), before, lease, before and before.mtime_ns
        )
        for name, before in files.items()
    ]
    return Staged(changes, unchanged, noted(changes))


def _content(directory: Path, name: str, end: int, tail: SegmentFacts) -> bytes:
    if name.endswith(paths.SNAPSHOT):
        return snapshot_at(directory, end, mapped=True)
    return b"" if name.startswith(paths.segment_file(end, "")) else _closed(directory / name, tail)


def _segment_before(directory: Path, offset: int) -> int:
    with storage(directory, "listing the partition directory"):
        logs = [
            name
            for log in directory.glob(f"*{paths.LOG}")
            if (name := paths.parse_segment_file(log.name))
        ]
    below = [name.base_offset for name in logs if name.base_offset < offset]
    if not below:
        raise Changed("the segment to roll is gone", path=directory)
    return max(below)


def _closed(path: Path, tail: SegmentFacts) -> bytes:
    """Return a time index with the entry that it gets when its segment becomes inactive."""
    entries = time_index.read(path)
    last = int(entries["timestamp"][-1]) if len(entries) else -1
    if tail.max_timestamp <= last:
        return entries.tobytes()
    return entries.tobytes() + time_bytes(
        [tail.max_timestamp], [tail.offset_of_max_timestamp - tail.base_offset]
    )
