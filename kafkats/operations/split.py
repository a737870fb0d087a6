"""Split: cut a segment that should have been several, so that what goes by whole segments works again.

    look         (kafkats.parts) where a segment can be cut: too large, too long, mixed timestamps, an expired head
    plan_split   the families of files that it would become
    stage        the head and the new families from copied parts, indexes by recovery's rule, producers at each new base

Batches move between files, byte for byte; offsets, order and mtime stay. What a broker sees: more segments, the same log start and
end. Only retention, rolling and searches by time, which go by whole segments, answer otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kafkats import paths
from kafkats.errors import Changed, CorruptPlan
from kafkats.generations import RULES
from kafkats.logdir.changeset import Change, Replace
from kafkats.logdir.families import Building, Part, good_snapshot_stays, refuse_unclean, stage_families
from kafkats.logdir.identity import FileIdentity, identity_of
from kafkats.logdir.lease import Lease
from kafkats.logdir.partition import UNFINISHED, scan_partition, unfinished_swaps
from kafkats.parts import SplitOptions, check_options
from kafkats.plan import ITEMS, Plan, item_of, make_plan
from kafkats.report import swapping
from kafkats.run import PartitionWork, Staged, refuse_full_disk

OPERATION: Final = "split"


def plan_split(segments: pa.Table, parts: pa.Table, options: SplitOptions) -> Plan:
    """Decide from facts (report.SEGMENTS, depth full) and PARTS which segments to cut.

    Raises UsageError for options that say nothing.
    """
    check_options(options)
    by_segment: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for row in parts.to_pylist():
        by_segment.setdefault((row["log_dir"], row["partition_dir"], row["base_offset"]), []).append(row)
    items: list[dict[str, Any]] = []
    swaps = swapping(segments)
    for segment in segments.filter(pc.greater_equal(segments["base_offset"], 0)).to_pylist():
        chain = by_segment.pop((segment["log_dir"], segment["partition_dir"], segment["base_offset"]), None)
        if chain:
            why = swaps.get((segment["log_dir"], segment["partition_dir"]), "") or _why_not(segment, chain)
            items += [_blocked(segment, why, options)] if why else _split_items(segment, chain, options)
    table = pa.Table.from_pylist(items, schema=ITEMS)
    return make_plan(OPERATION, asdict(options), _totals(table, segments), table)


def _blocked(segment: Mapping[str, Any], why: str, options: SplitOptions) -> dict[str, Any]:
    log = paths.segment_file(segment["base_offset"], paths.LOG)
    columns = {"action": "blocked", "reason": why, "before": segment["log"], "log_valid_bytes": -1}
    return item_of(segment, segment["base_offset"], log, options.rule) | columns


def _split_items(
    segment: Mapping[str, Any], chain: Sequence[Mapping[str, Any]], options: SplitOptions
) -> Iterator[dict[str, Any]]:
    following = [row["part_offset"] for row in chain[1:]] + [segment["next_base_offset"]]
    words = f"{_FOR[options.split]}: becomes {len(chain)} segments"
    for row, next_offset in zip(chain, following, strict=True):
        base, size = row["part_offset"], row["end"] - row["start"]
        common = {"next_base_offset": next_offset, "log_valid_bytes": size}
        head = row is chain[0]
        kinds = [paths.LOG, paths.OFFSET_INDEX]
        kinds += [paths.TIME_INDEX] if segment["timeindex"] else []
        # Brokers without time indexes know no producers either.
        kinds += [paths.SNAPSHOT] if segment["timeindex"] and not head else []
        kinds += [paths.TXN_INDEX] if row["aborted"] or (head and segment["txnindex"]) else []
        for kind in kinds:
            before = segment[kind.removeprefix(".")] if head else None
            gone = kind == paths.TXN_INDEX and not row["aborted"]
            yield (
                item_of(segment, base, paths.segment_file(base, kind), options.rule)
                | common
                | {
                    "action": "remove" if gone else "replace" if before else "add",
                    "reason": words if kind == paths.LOG else _WHY[kind],
                    "before": before,
                    "after_bytes": size if kind == paths.LOG else 0 if gone else -1,
                }
            )


_FOR: Final = {
    "rolled": "larger or longer than segment.bytes and segment.ms allow",
    "mixed": "its timestamps are mixed",
    "expired": "its head has expired",
}
_WHY: Final = {
    paths.OFFSET_INDEX: "must be true of the new log",
    paths.TIME_INDEX: "must be true of the new log",
    paths.TXN_INDEX: "aborted transactions go with their markers",
    paths.SNAPSHOT: "producers known at the new base offset",
}


def _why_not(segment: Mapping[str, Any], chain: Sequence[Mapping[str, Any]]) -> str:
    """Why a segment is left as it is, "" when it is not."""
    if chain[0]["action"] == "blocked":
        return str(chain[0]["reason"])
    if segment["log"] is None or segment["log"]["size"] != chain[-1]["end"]:
        return "came or went while it was looked at; plan anew"
    if segment["stop"] or segment["valid_bytes"] != segment["log"]["size"]:
        return f"the log is corrupt at byte {segment['valid_bytes']} ({segment['stop']}): kafkats verify names it"
    overlaps = [f["reason"] for f in segment["findings"] if f["kind"] == "overlap"]
    return str(segment["blocked"] or (overlaps[0] if overlaps else ""))


def _totals(items: pa.Table, segments: pa.Table) -> dict[str, Any]:
    writes = items.filter(pc.not_equal(items["action"], "blocked"))
    logs = writes.filter(pc.ends_with(writes["file"], paths.LOG))
    added = logs.filter(pc.equal(logs["action"], "add"))
    return {
        "files": writes.num_rows,
        "blocked": items.num_rows - writes.num_rows,
        "segments_seen": segments.filter(pc.greater_equal(segments["base_offset"], 0)).num_rows,
        "segments": logs.num_rows - added.num_rows,
        "segments_added": added.num_rows,
        "read_bytes": pc.sum(logs.filter(pc.equal(logs["action"], "replace"))["log_valid_bytes"]).as_py() or 0,
        "partitions": len(writes.group_by(["log_dir", "partition_dir"]).aggregate([])),
        "write_bytes": pc.sum(logs["after_bytes"]).as_py() or 0,
    }


def check_item(item: Mapping[str, Any]) -> None:
    """Raise CorruptPlan for what `plan_split` does not plan."""
    name = paths.parse_segment_file(item["file"])
    if name is None or item["file"] != paths.segment_file(item["base_offset"], name.kind):
        raise CorruptPlan(f"not a file of segment {item['base_offset']}: {item['file']!r}")
    if item["log"] is None or (item["action"] == "remove" and name.kind != paths.TXN_INDEX):
        raise CorruptPlan(f"{item['file']}: action {item['action']!r} is unknown here")
    if name.kind == paths.LOG and not 0 <= item["after_bytes"] <= item["log"]["size"]:
        raise CorruptPlan(f"{item['file']}: not a part of its log")
    known = item["rule"] in RULES and RULES[item["rule"]].for_brokers
    if not known or item["index_interval_bytes"] < 0 or item["segment_index_bytes"] <= 0:
        raise CorruptPlan(f"{item['file']}: no index can be built with such settings")


def stage_partition(work: PartitionWork, lease: Lease) -> Staged:
    """Build the partition's new families beside it.

    Raises Changed when a log is not as planned, Refused for an active segment without a clean stop, NotEqual when a new log
    does not read to its end, DiskFull, StorageFailed.
    """
    if any(item["next_base_offset"] < 0 for item in work.items):
        refuse_unclean(work.log_dir)
    refuse_full_disk(work)
    directory = Path(work.log_dir, work.partition_dir)
    for name in unfinished_swaps(finding.file for finding in scan_partition(directory).findings):
        raise Changed(UNFINISHED, path=directory / name)
    by_log: dict[int, list[Mapping[str, Any]]] = {}
    for item in sorted(work.items, key=lambda item: item["base_offset"]):
        by_log.setdefault(item["log"]["inode"], []).append(item)
    changes: list[Change] = []
    unchanged: dict[str, FileIdentity] = {}
    for items in by_log.values():
        changes += _stage_segment(directory, items, unchanged, lease)
    notes = {
        change.name: {"sha256": change.sha256, "after_bytes": change.staged.stat().st_size}
        for change in changes
        if isinstance(change, Replace)
    }
    return Staged(changes, unchanged, notes)


def _stage_segment(
    directory: Path, items: Sequence[Mapping[str, Any]], unchanged: dict[str, FileIdentity], lease: Lease
) -> list[Change]:
    logs = [item for item in items if item["file"].endswith(paths.LOG)]
    source, size = logs[0]["base_offset"], logs[0]["log"]["size"]
    if not logs[0]["before"] or any(item["before"] for item in logs[1:]) or sum(i["after_bytes"] for i in logs) != size:
        raise CorruptPlan("the parts of a log are not the whole of it", path=directory / logs[0]["file"])
    parts: dict[Part, dict[str, FileIdentity | None]] = {}
    start = 0
    for item in logs:
        base, end = item["base_offset"], start + item["after_bytes"]
        part = Part(source, start, end, base, None if item["next_base_offset"] < 0 else item["next_base_offset"])
        files = parts[part] = {i["file"]: identity_of(i["before"]) for i in items if i["base_offset"] == base}
        good_snapshot_stays(directory, files, unchanged)
        start = end
    building = Building(RULES[logs[0]["rule"]], logs[0]["index_interval_bytes"], logs[0]["segment_index_bytes"])
    return stage_families(directory, parts, building, lease)
