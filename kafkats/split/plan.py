"""Split: cut a segment that should have been several, for operations on whole segments.

    look         (kafkats.split.parts) where to cut: too large or long, mixed timestamps, or an
                 expired head
    plan_split   the files of the new segments
    stage        copies the parts of the log, builds indexes by recovery's rule, and the producer
                 snapshot at each new base offset

Batches move between files byte for byte. Offsets, order and mtime are kept. A broker sees more
segments with the same log start and log end. Only retention, rolling and searches by time give
other results, since they work on whole segments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from kafkats import paths
from kafkats.counts import counted
from kafkats.errors import CorruptPlan
from kafkats.logdir.families import noted, refuse_unclean
from kafkats.logdir.identity import FileIdentity
from kafkats.logdir.lease import Lease
from kafkats.logdir.partition import refuse_unfinished_swaps, scan_partition
from kafkats.logdir.staging import Change
from kafkats.plans.facts import swapping
from kafkats.plans.missing import missing_records, options_of, with_blocked
from kafkats.plans.plan import ITEMS, Plan, make_plan, sum_of, totals_of
from kafkats.plans.rows import (
    Item,
    SegmentKey,
    SegmentRow,
    Totals,
    key_of,
    segment_rows,
    source_log,
)
from kafkats.plans.run import PartitionWork, Staged, refuse_full_disk
from kafkats.split.items import blocked_item, part_items, why_not
from kafkats.split.parts import PartRow, SplitOptions, check_options
from kafkats.split.stage import check_planned, stage_parts

OPERATION: Final = "split"


def plan_split(segments: pa.Table, parts: pa.Table, options: SplitOptions) -> Plan:
    """Decide from facts (facts.SEGMENTS, depth full) and PARTS which segments to cut.

    Raises UsageError for incomplete options.
    """
    check_options(options)
    by_segment: dict[SegmentKey, list[PartRow]] = {}
    for row in parts.to_pylist():
        by_segment.setdefault(key_of(row), []).append(row)
    items: list[Item] = []
    missing = missing_records(segments, options.accept_loss)
    unsettled = {**swapping(segments), **missing}
    for segment in segment_rows(segments.filter(pc.greater_equal(segments["base_offset"], 0))):
        where = key_of(segment)
        chain = by_segment.pop(where, None)
        if not chain:
            continue
        if why := unsettled.get(where.partition) or why_not(segment, chain):
            items.append(blocked_item(segment, why, options.rule))
        else:
            items += _split_items(segment, chain, options)
    table = with_blocked(pa.Table.from_pylist(items, schema=ITEMS), segments, missing, options.rule)
    return make_plan(OPERATION, options_of(options), _totals(table, segments), table)


def _split_items(
    segment: SegmentRow, chain: Sequence[PartRow], options: SplitOptions
) -> Iterator[Item]:
    following = [row["part_offset"] for row in chain[1:]] + [segment["next_base_offset"]]
    words = f"{_FOR[options.split]}: becomes {counted(len(chain), 'segment')}"
    for row, next_offset in zip(chain, following, strict=True):
        yield from part_items(segment, row, next_offset, options.rule, words)


_FOR: Final = {
    "rolled": "larger or longer than segment.bytes and segment.ms allow",
    "mixed": "its timestamps are mixed",
    "expired": "its head has expired",
}


def _totals(items: pa.Table, segments: pa.Table) -> Totals:
    logs = items.filter(pc.ends_with(items["file"], paths.LOG))
    heads, added = (logs.filter(pc.equal(logs["action"], action)) for action in ("replace", "add"))
    read, written = sum_of(heads["log_valid_bytes"]), sum_of(heads["after_bytes"])
    written += sum_of(added["after_bytes"])
    totals = totals_of(
        items, segments, changed=heads.num_rows, read_bytes=read, write_bytes=written
    )
    return {**totals, "segments_added": added.num_rows}


def check_item(item: Item) -> None:
    """Raise CorruptPlan for an item that `plan_split` does not plan."""
    check_planned(item)


def stage_partition(work: PartitionWork, lease: Lease) -> Staged:
    """Build the files of the partition's new segments.

    Raises Changed when a log is not as planned, Refused for an active segment without a clean stop,
    NotEqual when a new log does not read to its end, DiskFull, StorageFailed.
    """
    if any(item["next_base_offset"] < 0 for item in work.items):
        refuse_unclean(work.log_dir)
    refuse_full_disk(work)
    directory = work.directory
    refuse_unfinished_swaps(scan_partition(directory))
    by_log: dict[int, list[Item]] = {}
    for item in sorted(work.items, key=lambda item: item["base_offset"]):
        by_log.setdefault(source_log(item)["inode"], []).append(item)
    changes: list[Change] = []
    unchanged: dict[str, FileIdentity] = {}
    for items in by_log.values():
        changes += _stage_segment(directory, items, unchanged, lease)
    return Staged(changes, unchanged, noted(changes))


def _stage_segment(
    directory: Path,
    items: Sequence[Item],
    unchanged: dict[str, FileIdentity],
    lease: Lease,
) -> list[Change]:
    logs = [item for item in items if item["file"].endswith(paths.LOG)]
    size = source_log(logs[0])["size"]
    if (
        not logs[0]["before"]
        or any(item["before"] for item in logs[1:])
        or sum(i["after_bytes"] for i in logs) != size
    ):
        raise CorruptPlan(
            "the parts of a log are not the whole of it", path=directory / logs[0]["file"]
        )
    return stage_parts(directory, logs[0]["base_offset"], items, unchanged, lease)
