"""Carrying out a retention in one partition: whole families go, checkpoints are brought up to date with what is left."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from kafkats import paths
from kafkats.errors import Changed, CorruptPlan, Vanished, storage
from kafkats.logdir.changeset import Change, Remove, Replace
from kafkats.logdir.checkpoints import EpochStart, encode_epochs, encode_offsets, read_epochs, read_offsets
from kafkats.logdir.families import check_planned, noted, refuse_unclean, stage_planned
from kafkats.logdir.identity import FileIdentity, identify
from kafkats.logdir.lease import Lease
from kafkats.logdir.partition import UNFINISHED, scan_partition, unfinished_swaps
from kafkats.logdir.workarea import ROOT
from kafkats.run import PartitionWork, Staged, refuse_early, refuse_full_disk

NEW_FAMILY: Final = (paths.LOG, paths.OFFSET_INDEX, paths.TIME_INDEX)
"""What begins an empty segment at the log end, where all others go."""


def check_item(item: Mapping[str, Any]) -> None:
    """Raise CorruptPlan for what neither `plan_retain` nor `heads.plan_inside` plans."""
    if item["log"] is not None and item["action"] == "add":
        return check_planned(item)
    name = paths.parse_segment_file(item["file"])
    if item["action"] == "update":
        if item["file"] != (paths.LOG_START if item["partition_dir"] == ROOT else paths.LEADER_EPOCH):
            raise CorruptPlan(f"{item['file']} is not brought up to date here")
        return
    if name is None or name.suffix or name.base_offset != item["base_offset"] or item["partition_dir"] == ROOT:
        raise CorruptPlan(f"not a file of segment {item['base_offset']}: {item['file']!r}")
    if item["action"] == "replace" or (item["action"] == "add" and name.kind not in NEW_FAMILY):
        raise CorruptPlan(f"{item['file']}: retention deletes, and begins an empty segment; not {item['action']}")


def stage_partition(work: PartitionWork, lease: Lease) -> Staged:
    """Whole families go; checkpoints are brought up to date with what is left.

    Raises Refused before the time that was decided for, and to rewrite an active segment without a clean stop; Changed where not all
    that goes lies before all that stays, or a broker has begun to replace segments; CorruptFile for a checkpoint that cannot be read,
    StorageFailed.
    """
    refuse_early(work)
    directory = Path(work.log_dir, work.partition_dir)
    if work.partition_dir != ROOT:
        _refuse_changed(work, directory)
    changes: list[Change] = []
    unchanged: dict[str, FileIdentity] = {}
    rest = _stage_rest(work, directory, unchanged, lease)
    for item in work.items:
        if item["action"] == "remove":
            changes.append(Remove(item["file"], FileIdentity(**item["before"])))
        elif item["log"] is not None:
            continue
        elif item["action"] == "add":
            changes.append(_staged(item["file"], b"", None, lease))
        elif (made := _updated(work, item)) is not None:
            changes.append(_staged(item["file"], made, identify(directory / item["file"]), lease))
    return Staged([*changes, *rest], unchanged, noted(rest))


def _stage_rest(work: PartitionWork, directory: Path, unchanged: dict[str, FileIdentity], lease: Lease) -> list[Change]:
    """Where the head of a segment goes: the family of its rest, which ends the log that goes."""
    items = [item for item in work.items if item["log"] is not None]
    if not items:
        return []
    refuse_full_disk(work)
    if any(item["next_base_offset"] < 0 for item in items):
        refuse_unclean(work.log_dir)
    old = (item for item in work.items if item["action"] == "remove" and item["before"] == items[0]["log"])
    if (log := next(old, None)) is None:
        raise CorruptPlan("the rest of a log that does not go", path=directory / items[0]["file"])
    return stage_planned(directory, log["base_offset"], items, unchanged, lease)


def _refuse_changed(work: PartitionWork, directory: Path) -> None:
    """A log with a hole in it would be what no broker makes: only its oldest segments go."""
    partition = scan_partition(directory)
    gone = {item["base_offset"] for item in work.items if item["action"] == "remove"}
    for segment in partition.segments:
        if segment.base_offset < max(gone, default=-1) and segment.base_offset not in gone:
            raise Changed("an older segment than some that would go; plan anew", path=directory / segment.log.name)
    for name in unfinished_swaps(finding.file for finding in partition.findings):
        raise Changed(UNFINISHED, path=directory / name)


def _staged(name: str, content: bytes, before: FileIdentity | None, lease: Lease) -> Replace:
    staged = lease.staged(name)
    with storage(staged, "writing the new file"):
        staged.write_bytes(content)
    return Replace(name, staged, before, hashlib.sha256(content).hexdigest())


def _updated(work: PartitionWork, item: Mapping[str, Any]) -> bytes | None:
    """The new content of a checkpoint, None when it is right as it is, or not there."""
    path = Path(work.log_dir, work.partition_dir, item["file"])
    try:
        return _log_starts(path, work) if item["file"] == paths.LOG_START else _epochs(path, item["base_offset"])
    except Vanished:
        return None


def _epochs(path: Path, start: int) -> bytes | None:
    """LeaderEpochFileCache.truncateFromStart: the epoch that covers the new start begins there."""
    entries = read_epochs(path)
    covering = [entry for entry in entries if entry.start_offset <= start]
    if not covering or (len(covering) == 1 and covering[0].start_offset == start):
        return None
    later = [entry for entry in entries if entry.start_offset > start]
    return encode_epochs([EpochStart(covering[-1].epoch, start), *later])


def _log_starts(path: Path, work: PartitionWork) -> bytes | None:
    """As brokers write it: only partitions that begin above their first segment's base offset."""
    offsets = read_offsets(path)
    left = {name: offset for name, offset in offsets.items() if offset > _first_base(Path(work.log_dir), str(name))}
    return encode_offsets(left) if left != offsets else None


def _first_base(root: Path, partition: str) -> int:
    with storage(root / partition, "listing the partition directory"):
        logs = [paths.parse_segment_file(p.name) for p in (root / partition).glob(f"*{paths.LOG}")]
    return min((log.base_offset for log in logs if log), default=-1)
