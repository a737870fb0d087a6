"""Stage a retention in one partition: remove files of whole segments and update checkpoints."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from kafkats import paths
from kafkats.errors import CorruptPlan, Vanished
from kafkats.logdir.checkpoints import (
    encode_epochs,
    encode_offsets,
    read_epochs,
    read_offsets,
)
from kafkats.logdir.epochs import after
from kafkats.logdir.families import noted, stage_bytes
from kafkats.logdir.identity import FileIdentity, identify
from kafkats.logdir.lease import Lease
from kafkats.logdir.partition import log_bases
from kafkats.logdir.staging import Change, Remove
from kafkats.logdir.workarea import ROOT
from kafkats.plans.rows import Item, replaced_file
from kafkats.plans.run import PartitionWork, Staged, refuse_early, refuse_full_disk
from kafkats.retention.preconditions import check_prefix
from kafkats.split.stage import check_planned, stage_parts

NEW_FAMILY: Final = (paths.LOG, paths.OFFSET_INDEX, paths.TIME_INDEX)
"""The files of an empty segment at the log end, if all others are deleted."""


def check_item(item: Item) -> None:
    """Raise CorruptPlan for items that neither `plan_retain` nor `heads.plan_inside` plans."""
    if item["log"] is not None:
        if item["action"] != "add":
            raise CorruptPlan(
                f"{item['file']}: action {item['action']!r}, but a file from a log is added"
            )
        return check_planned(item)
    name = paths.parse_segment_file(item["file"])
    if item["action"] == "update":
        if item["file"] != (
            paths.LOG_START if item["partition_dir"] == ROOT else paths.LEADER_EPOCH
        ):
            raise CorruptPlan(f"{item['file']}: a retention does not update this file")
        return
    if (
        name is None
        or name.suffix
        or name.base_offset != item["base_offset"]
        or item["partition_dir"] == ROOT
    ):
        raise CorruptPlan(f"not a file of segment {item['base_offset']}: {item['file']!r}")
    if item["action"] == "replace" or (item["action"] == "add" and name.kind not in NEW_FAMILY):
        raise CorruptPlan(f"{item['file']}: a retention does not {item['action']} this file")


def stage_partition(work: PartitionWork, lease: Lease) -> Staged:
    """Return the changes: files of whole segments removed, checkpoints updated.

    Raises Refused before the moment that the plan decides for; CorruptPlan, Changed, Refused as
    `check_prefix`; CorruptFile for a checkpoint that cannot be read, StorageFailed.
    """
    refuse_early(work)
    directory = work.directory
    changes: list[Change] = []
    unchanged: dict[str, FileIdentity] = {}
    rest: list[Change] = []
    if work.partition_dir != ROOT:
        planned = check_prefix(Path(work.log_dir), directory, work.items)
        if planned.rest:
            refuse_full_disk(work)
            rest = stage_parts(directory, max(planned.removed), planned.rest, unchanged, lease)
    for item in work.items:
        if item["action"] == "remove":
            changes.append(Remove(item["file"], replaced_file(item)))
        elif item["log"] is not None:
            continue
        elif item["action"] == "add":
            changes.append(stage_bytes(item["file"], b"", None, lease))
        elif (content := _updated(work, item)) is not None:
            changes.append(
                stage_bytes(item["file"], content, identify(directory / item["file"]), lease)
            )
    return Staged([*changes, *rest], unchanged, noted(rest))


def _updated(work: PartitionWork, item: Item) -> bytes | None:
    """Return the new content of a checkpoint, None when it is correct or missing."""
    path = work.directory / item["file"]
    try:
        return (
            _log_starts(path, work)
            if item["file"] == paths.LOG_START
            else _epochs(path, item["base_offset"])
        )
    except Vanished:
        return None


def _epochs(path: Path, start: int) -> bytes | None:
    """As LeaderEpochFileCache.truncateFromStart: the epoch of the new start begins there."""
    entries = read_epochs(path)
    kept = after(entries, start)
    return encode_epochs(kept) if kept != entries else None


def _log_starts(path: Path, work: PartitionWork) -> bytes | None:
    """Return the content as brokers write it.

    It has only partitions that begin above their first segment's base offset.
    """
    offsets = read_offsets(path)
    left = {
        name: offset
        for name, offset in offsets.items()
        if offset > _first_base(Path(work.log_dir), str(name))
    }
    return encode_offsets(left) if left != offsets else None


def _first_base(root: Path, partition: str) -> int:
    with suppress(Vanished):  # brokers handle deleted topics
        return min(log_bases(root / partition), default=-1)
    return -1
