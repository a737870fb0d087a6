"""Stage the recovery of one partition, and of a log directory's recovery points."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from kafkats import paths
from kafkats.errors import Changed, CorruptFile, CorruptPlan, Refused, Vanished, storage
from kafkats.hashes import EMPTY_SHA256
from kafkats.logdir.checkpoints import encode_offsets, read_offsets
from kafkats.logdir.disk import DISK
from kafkats.logdir.families import noted, stage_bytes
from kafkats.logdir.identity import FileIdentity, identify, identity_of
from kafkats.logdir.lease import Lease
from kafkats.logdir.partition import log_bases, scan_partition
from kafkats.logdir.root import (
    LogDir,
    first_recovered,
    read_root,
    recovered_segments,
    recovery_point_of,
)
from kafkats.logdir.snapshot import NO_PRODUCERS
from kafkats.logdir.staging import Change, Remove, Replace, Truncate
from kafkats.logdir.text import read_small
from kafkats.logdir.workarea import ROOT, ROOT_FIRST
from kafkats.paths import PartitionName, SegmentFile
from kafkats.plans.plan import check_settings, kind_of
from kafkats.plans.planned_indexes import build_planned, stage_checked
from kafkats.plans.rows import Item, replaced_file, source_log
from kafkats.plans.run import PartitionWork, Staged, refuse_full_disk
from kafkats.recovery.loading import SWAP
from kafkats.recovery.mending import stage_mended
from kafkats.recovery.small_files import Log, Wanted, contents, epochs_there, read_snapshots, remake
from kafkats.segment.copying import copy_range
from kafkats.segment.reader import open_segment, open_source

_INDEXES: Final = paths.INDEX_KINDS[:2]
_NO_PRODUCERS_SHA256: Final = hashlib.sha256(NO_PRODUCERS).hexdigest()


def check_item(item: Item) -> None:
    """Raise CorruptPlan for an item that `plan_recover` does not plan."""
    name, action = paths.parse_segment_file(item["file"]), item["action"]
    check_settings(item)
    if item["file"] == paths.RECOVERY_POINT:
        if action != "update" or (item["log"] is None) != (item["partition_dir"] == ROOT):
            raise CorruptPlan(f"{item['file']}: a recovery updates it, and does not {action} it")
        return
    if item["file"] == paths.CLEAN_SHUTDOWN:
        if action != "remove" or item["partition_dir"] != ROOT:
            raise CorruptPlan(f"{item['file']}: a recovery removes it from a log directory's root")
        return
    if item["file"] == paths.LEADER_EPOCH and action in ("add", "replace") and item["log"]:
        return
    if name is None or item["partition_dir"] == ROOT or action == "update" or not item["log"]:
        raise CorruptPlan(f"{item['file']}: a recovery does not {action} this file")
    if action == "truncate" and (name.kind != paths.LOG or item["before"] != item["log"]):
        raise CorruptPlan(f"{item['file']}: a recovery truncates only logs")
    if action != "remove":
        kind_of(item)


def stage_partition(work: PartitionWork, lease: Lease) -> Staged:
    """Build the partition's new files, and flush those that stay.

    Raises Changed when the logs are not as planned, StorageFailed.
    """
    if work.partition_dir == ROOT_FIRST:
        return Staged([Remove(item["file"], replaced_file(item)) for item in work.items], {})
    if work.partition_dir == ROOT:
        return _stage_checkpoint(work, lease)
    directory = work.directory
    refuse_full_disk(work)
    point = _point_of(work)
    if point is not None:
        _check_logs(directory, point, {item["file"] for item in work.items})
    changes = [*_staged(directory, work, lease)]
    changed = {change.name for change in changes}
    unchanged = _unchanged(directory, work, changed)
    _flush(work, changed)
    return Staged(changes, unchanged, noted(changes))


def _point_of(work: PartitionWork) -> Item | None:
    """Return the item of the partition's recovery point, None if nothing is to be recovered."""
    return next((item for item in work.items if item["file"] == paths.RECOVERY_POINT), None)


def _check_logs(directory: Path, point: Item, planned: Collection[str]) -> None:
    """Raise Changed unless the last log that the plan keeps is as it was, and no other came."""
    wanted = FileIdentity(**source_log(point))
    names = {name: file for name in DISK.names(directory) if (file := _log_or_swap(name))}
    for name, file in names.items():
        if not file.suffix and file.base_offset > point["base_offset"] and name not in planned:
            raise Changed(
                "a segment that the plan does not know: make a new one", path=directory / name
            )
    kept = [name for name, file in names.items() if file.base_offset <= point["base_offset"]]
    if not kept:
        raise Changed("every log is gone since the plan: make a new plan", path=directory)
    if wanted not in [identify(directory / name) for name in kept]:
        raise Changed(
            "the log has changed since the plan: make a new plan", path=directory / max(kept)
        )


def _log_or_swap(name: str) -> SegmentFile | None:
    """Return the parts of the name of a `.log` or a `.log.swap`, None for another file."""
    file = paths.parse_segment_file(name)
    wanted = file is not None and file.kind == paths.LOG and file.suffix in ("", SWAP)
    return file if wanted else None


def _staged(directory: Path, work: PartitionWork, lease: Lease) -> Iterator[Change]:
    swapped = {i["file"]: swap for i in work.items if (swap := _swap_of(directory, i))}
    small = _small_contents(directory, work, swapped)
    indexes: dict[Path, Mapping[str, bytes]] = {}
    for item in work.items:
        name = paths.parse_segment_file(item["file"])
        before = identity_of(item["before"])
        if item["action"] == "remove":
            yield Remove(item["file"], replaced_file(item))
        elif item["action"] == "truncate":
            yield _cut(directory / item["file"], item)
        elif item["file"] in small and item["file"] not in swapped:
            yield stage_checked(directory / item["file"], item, small[item["file"]], lease)
        elif name is None:
            continue  # the recovery point, which the log directory's own file holds
        elif not item["after_bytes"] and item["after_sha256"] == EMPTY_SHA256:
            yield stage_bytes(item["file"], b"", before, lease)
        else:
            log = directory / paths.segment_file(item["base_offset"])
            source = swapped.get(item["file"], log)
            if name.kind == paths.LOG:
                stage = stage_mended if item["after_sha256"] else _copy
                yield stage(source, item, lease)
                continue
            if source not in indexes:
                indexes[source] = _build(source, item)
            yield stage_checked(source, item, indexes[source][name.kind], lease)


def _swap_of(directory: Path, item: Item) -> Path | None:
    """Return the `.log.swap` from which an item's file is made, None for all other items."""
    swap = directory / (paths.segment_file(item["base_offset"]) + SWAP)
    there = identify(swap) if item["log"] and item["log_valid_bytes"] > 0 else None
    return swap if there is not None and there == identity_of(item["log"]) else None


def _build(log: Path, item: Item) -> Mapping[str, bytes]:
    with open_source(log, mapped=True) as source:
        built = build_planned(source, item)
    contents = {paths.OFFSET_INDEX: built.offset_index, paths.TIME_INDEX: built.time_index}
    transactions = log.with_name(paths.segment_file(item["base_offset"], paths.TXN_INDEX) + SWAP)
    if log.name.endswith(SWAP) and transactions.exists():
        contents[paths.TXN_INDEX] = read_small(transactions)
    return contents


def _cut(log: Path, item: Item) -> Truncate:
    """Return the cut of a log in place. Raises Changed."""
    end, was = item["log_valid_bytes"], FileIdentity(**source_log(item))
    if identify(log) != was or end != item["after_bytes"] or end >= was.size:
        raise Changed("the log has changed since the plan: make a new plan", path=log)
    return Truncate(item["file"], was, end)


def _copy(log: Path, item: Item, lease: Lease) -> Replace:
    """Stage the good part of a log. The old file is kept for undo, with the bytes that are cut."""
    end, was = item["log_valid_bytes"], FileIdentity(**source_log(item))
    if identify(log) != was or end != item["after_bytes"]:
        raise Changed("the log has changed since the plan: make a new plan", path=log)
    staged = lease.staged(item["file"])
    copy_range(log, 0, end, staged)
    with open_segment(log) as view:
        sha256 = hashlib.sha256(view[:end].data).hexdigest()
    return Replace(item["file"], staged, identity_of(item["before"]), sha256, was.mtime_ns)


def _small_contents(
    directory: Path, work: PartitionWork, swapped: Mapping[str, Path]
) -> Mapping[str, bytes]:
    """Build the planned snapshots, transaction indexes and epochs from the logs again.

    The logs are not read for snapshots without producers: the approved hash says all of them.
    """
    kinds = (paths.SNAPSHOT, paths.TXN_INDEX, paths.LEADER_EPOCH)
    items = [
        item
        for item in work.items
        if item["file"].endswith(kinds)
        and item["action"] != "remove"
        and item["file"] not in swapped
    ]
    named = {item["file"] for item in items}
    known = {item["file"]: NO_PRODUCERS for item in items if _without_producers(item)}
    items = [item for item in items if item["file"] not in known]
    if not items:
        return known
    gone = {item["file"] for item in work.items if item["action"] == "remove"}
    cut = {
        item["base_offset"]: item["log_valid_bytes"]
        for item in work.items
        if item["file"].endswith(paths.LOG) and item["log"] == item["before"]
    }
    point = _point_of(work)
    if point is None:
        raise CorruptPlan("it rebuilds small files without a recovery point", path=directory)
    log_end = point["base_offset"]
    names = [n for n in DISK.names(directory) if n not in gone]
    logs = []
    replacing = {base for file in swapped if (base := _base_of_log(file)) >= 0}
    for base in sorted({*log_bases(directory), *replacing}):
        name = paths.segment_file(base)
        if base >= log_end or name in gone:
            continue
        log = swapped.get(name, directory / name)
        size = DISK.identify(log)
        logs.append(Log(base, log, cut.get(base, size.size if size else 0)))
    bases = [log.base_offset for log in logs]
    partition = paths.partition_name(work.partition_dir)
    begin = first_recovered(bases, recovery_point_of(_root_of(work.log_dir), partition))
    read = [n for n in names if n not in named and not _is_stray(n, bases, begin)]
    snapshots = read_snapshots(directory, read)
    offsets = {item["base_offset"] for item in items if item["file"].endswith(paths.SNAPSHOT)}
    others = [i["base_offset"] for i in items if i["file"].endswith(paths.TXN_INDEX)]
    epochs = [i["base_offset"] for i in items if i["file"] == paths.LEADER_EPOCH]
    below = [max((base for base in bases if base < at), default=at) for at in offsets]
    first = max(begin, min([*others, *below], default=log_end))
    # The plan believed those that agree, with the order of their producers.
    believed = {at for at in snapshots.readable if at in bases and first < at < log_end}
    wanted = Wanted(log_end, frozenset(offsets | believed), first, min(epochs, default=log_end))
    return {**contents(remake(logs, snapshots, epochs_there(directory), wanted)), **known}


def _is_stray(name: str, bases: Sequence[int], begin: int) -> bool:
    """Return whether a snapshot above the offset `begin` lies at no segment's base.

    A cleaner that merges segments leaves such. A broker whose recovery begins there deletes it, and
    the plan's replay did not begin at it.
    """
    file = paths.parse_segment_file(name)
    if file is None or file.kind != paths.SNAPSHOT or file.base_offset in bases:
        return False
    return file.base_offset > begin


def _without_producers(item: Item) -> bool:
    return item["file"].endswith(paths.SNAPSHOT) and item["after_sha256"] == _NO_PRODUCERS_SHA256


def _base_of_log(file: str) -> int:
    """Return the base offset of a `.log`, -1 for another file."""
    name = paths.parse_segment_file(file)
    return name.base_offset if name is not None and name.kind == paths.LOG else -1


def _unchanged(directory: Path, work: PartitionWork, changed: set[str]) -> dict[str, FileIdentity]:
    """Return the files that must stay as planned: logs, and indexes beside a changed log."""
    kept: dict[str, FileIdentity] = {}
    bases = {item["base_offset"] for item in work.items if item["file"].endswith(paths.LOG)}
    for base in bases:
        for kind in paths.INDEX_KINDS:
            name = paths.segment_file(base, kind)
            there = identify(directory / name)
            if name not in changed and there is not None:
                kept[name] = there
    for item in work.items:
        log = paths.segment_file(item["base_offset"])
        if log not in changed and item["file"].endswith(_INDEXES) and item["action"] != "remove":
            kept[log] = FileIdentity(**source_log(item))
    return kept


def _flush(work: PartitionWork, changed: set[str]) -> None:
    """Flush every file of the segments above the recovery point, so that it may be raised."""
    directory = work.directory
    recovered = recovered_segments(_root_of(work.log_dir), scan_partition(directory))
    for segment in recovered:
        for file in segment.files.values():
            if file.name not in changed:
                with storage(directory / file.name, "flushing it"):
                    DISK.sync_file(directory / file.name)
    if recovered:
        with storage(directory, "flushing it"):
            DISK.sync_dir(directory)


def _root_of(log_dir: str) -> LogDir:
    """Return the log directory's own files; they are read once for all of its partitions."""
    names = (paths.RECOVERY_POINT, paths.CLEAN_SHUTDOWN)
    with storage(log_dir, "looking at the recovery points"):
        state = tuple(DISK.identify(Path(log_dir, name)) for name in names)
    return _read_root(log_dir, state)


@lru_cache(maxsize=4)
def _read_root(log_dir: str, _state: tuple[FileIdentity | None, ...]) -> LogDir:
    return read_root(log_dir)


def _stage_checkpoint(work: PartitionWork, lease: Lease) -> Staged:
    """Stage the checkpoint with the log ends of all partitions that the plan recovers.

    Raises Refused while one of them is not recovered: its recovery point must not be raised. A plan
    that credits leaves it out instead. An empty last segment does not show that this run has
    flushed a partition: a broker that was killed may have rolled it.
    """
    planned = log_ends(work)
    ends = {
        partition: end
        for partition, end in planned.items()
        if str(partition) not in work.unfinished
        and ends_empty(Path(work.log_dir, str(partition)), end)
    }
    if not work.options.get("credit"):
        for partition in planned.keys() - ends.keys():
            raise Refused(
                f"{partition} is not recovered, so no recovery point was raised",
                path=work.log_dir,
            )
    path = Path(work.log_dir, paths.RECOVERY_POINT)
    try:
        offsets = dict(read_offsets(path))
    except (Vanished, CorruptFile):
        offsets = {}
    if all(offsets.get(partition) == end for partition, end in ends.items()):
        return Staged([], {})
    content = encode_offsets({**offsets, **ends})
    return Staged([stage_bytes(path.name, content, identify(path), lease)], {})


def log_ends(work: PartitionWork) -> dict[PartitionName, int]:
    """Return the log end of each partition that the plan recovers in the work's log directory."""
    ends = {}
    for item in work.beside:
        name = paths.parse_partition(item["partition_dir"])
        if name is None or name.state:
            raise CorruptPlan(f"not a partition to recover: {item['partition_dir']!r}")
        ends[name] = item["base_offset"]
    return ends


def ends_empty(directory: Path, log_end: int) -> bool:
    """Return whether the partition's last segment is empty and begins at the log end."""
    try:
        bases = log_bases(directory)
    except Vanished:
        return False
    there = identify(directory / paths.segment_file(log_end))
    return bool(bases) and bases[-1] == log_end and there is not None and there.size == 0
