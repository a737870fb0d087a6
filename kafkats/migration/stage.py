"""Write the new files of a planned migration beside the old ones, and prove that they are equal.

Each log is converted, its indexes are built by recovery's rule, and both logs are read back and
compared.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from kafkats import paths
from kafkats.errors import (
    Changed,
    CorruptFile,
    CorruptPlan,
    NotEqual,
    Refused,
    UsageError,
    exists,
    storage,
)
from kafkats.formats.build import Target
from kafkats.generations import ENRICHED
from kafkats.hashes import algorithm_of
from kafkats.logdir.families import stage_bytes
from kafkats.logdir.identity import FileIdentity, identify, identity_of
from kafkats.logdir.journal import Note
from kafkats.logdir.lease import Lease
from kafkats.logdir.partition import refuse_unfinished_swaps, scan_partition
from kafkats.logdir.staging import Change, Remove, Replace
from kafkats.migration.forecast import target_of
from kafkats.plans.dialect_hook import migration_of
from kafkats.plans.dialects import refuse_broker
from kafkats.plans.plan import check_settings, kind_of
from kafkats.plans.planned_indexes import build_planned
from kafkats.plans.rows import Item, replaced_file
from kafkats.plans.run import PartitionWork, Staged, about, by_segment, refuse_full_disk
from kafkats.segment.convert import convert_source
from kafkats.segment.parity import Parity, digest_records, first_difference
from kafkats.segment.reader import Source, open_source


def check_item(item: Item) -> None:
    """Raise CorruptPlan for an item that `decide_migrate` does not plan."""
    kind = kind_of(item)
    removed = kind in (paths.TXN_INDEX, paths.SNAPSHOT)
    if kind == paths.TIME_INDEX and item["action"] == "remove":
        removed = True  # stage_partition checks that a dialect is written
    if (item["action"] == "remove") != removed or (not removed and item["log"] is None):
        raise CorruptPlan(f"{item['file']}: action {item['action']!r} is unknown here")
    if kind == paths.LOG and (item["action"] != "replace" or not item["after_sha256"]):
        raise CorruptPlan(f"{item['file']}: a log is replaced by known bytes")
    try:
        algorithm_of(item["after_sha256"])
    except CorruptFile as e:
        raise CorruptPlan(f"{item['file']}: {e.reason}") from e
    check_settings(item)


def stage_partition(work: PartitionWork, lease: Lease) -> Staged:
    """Convert the partition's segments beside it, build indexes, and prove equal records.

    Raises Changed when the partition is not as approved, NotEqual when the proof fails, Refused
    when the new files cannot be put in place, CorruptPlan, DiskFull, StorageFailed.
    """
    target = _target(work)
    directory = work.directory
    _refuse_changed(work, directory)
    if target.dialect:
        refuse_broker(Path(work.log_dir), target.dialect)
    elif any(
        kind_of(item) == paths.TIME_INDEX and item["action"] == "remove" for item in work.items
    ):
        raise CorruptPlan("a time index is deleted only where a dialect is written", path=directory)
    if dialect := target.dialect or target.source:
        migration_of(dialect)
    refuse_full_disk(work)
    changes: list[Change] = []
    unchanged: dict[str, FileIdentity] = {}
    notes: dict[str, Note] = {}
    for items in by_segment(work):
        by_file = {item["file"]: item for item in items}
        for item in items:
            if item["action"] == "remove":
                changes.append(Remove(item["file"], replaced_file(item)))
        log = paths.segment_file(items[0]["base_offset"])
        if log in by_file:
            changes += _stage_segment(directory, by_file, log, target, lease, notes)
            txn_index = paths.segment_file(items[0]["base_offset"], paths.TXN_INDEX)
            stays = None if txn_index in by_file else identify(directory / txn_index)
            if stays is not None:
                unchanged[txn_index] = stays  # it contains only offsets, which do not change
        elif any(item["action"] != "remove" for item in items):
            raise CorruptPlan(f"an index would be written anew, but not {log}", path=directory)
    return Staged(changes, unchanged, notes)


def _target(work: PartitionWork) -> Target:
    magic, codec = (work.options.get(name) for name in ("to_magic", "compression_type"))
    if type(magic) is not int or not isinstance(codec, str):
        raise CorruptPlan("its options name no magic, or no compression type")
    dialects = {name: work.options.get(name) for name in ("to", "dialect")}
    if any(word not in (None, ENRICHED) for word in dialects.values()):
        raise CorruptPlan("its options name an unknown dialect")
    if all(dialects.values()):
        raise CorruptPlan("its options convert from a dialect to the same")
    to, source = (str(word) if word else None for word in dialects.values())
    try:
        return target_of(magic, codec, to, source)
    except UsageError as e:
        raise CorruptPlan(f"its options are not those of a migration: {e}") from e


def _refuse_changed(work: PartitionWork, directory: Path) -> None:
    """Raise Changed before hours of conversion, for changes that commit refuses or does not check.

    Whether a segment is the last one decides whether its last batch may be dropped. And a broker
    that ran meanwhile may have left a segment to recover, or an unfinished swap.
    """
    partition = scan_partition(directory)
    bases = [segment.base_offset for segment in partition.segments]
    following = dict(pairwise([*bases, -1]))
    stopped_cleanly = exists(
        Path(work.log_dir, paths.CLEAN_SHUTDOWN), "looking for the clean-shutdown marker"
    )
    for item in work.items:
        path = directory / item["file"]
        if identify(path) != identity_of(item["before"]):
            raise Changed("changed since it was looked at", path=path)
        if (
            item["log"] is not None
            and following.get(item["base_offset"]) != item["next_base_offset"]
        ):
            raise Changed(
                "segments have come or gone behind this one since it was looked at", path=path
            )
        if item["log"] is not None and item["next_base_offset"] < 0 and not stopped_cleanly:
            raise Changed(
                "the log's last segment, and no clean-shutdown marker any more: a broker has run",
                path=path,
            )
    refuse_unfinished_swaps(partition)


class _Converted(NamedTuple):
    """A converted log: its indexes, and what both logs say."""

    indexes: Mapping[str, bytes]
    before: Parity
    after: Parity


def _convert(log: Path, item: Item, target: Target, staged: Path) -> _Converted:
    """Write the converted log to `staged`, read it back, and build its indexes."""
    base, active = item["base_offset"], item["next_base_offset"] < 0
    # The old log is mapped: no broker truncates it under the lock. The new file is private until
    # commit sets its attributes.
    with about(log), open_source(log, mapped=True) as old:
        with storage(staged, "writing the new log"), open(staged, "xb", opener=_private) as file:
            _write(old, base, target, file.write, active)
        with open_source(staged, mapped=True) as new:
            before, after = _prove(old, new, target, log)
            if target.dialect:
                interval = item["index_interval_bytes"]
                build = migration_of(target.dialect).build_index
                index = build(new, base, index_interval_bytes=interval)
                return _Converted({paths.OFFSET_INDEX: index}, before, after)
            built = build_planned(new, item)
    if built.facts.stop:
        raise NotEqual("the converted log does not read to its end", path=log)
    if built.blocked:  # a larger log may need more entries than a broker's index can hold
        reason = (
            f"no broker could index the converted log ({built.blocked}): {built.blocked_reason}"
        ).rstrip(": ")
        raise Refused(reason, path=log)
    indexes = {paths.OFFSET_INDEX: built.offset_index, paths.TIME_INDEX: built.time_index}
    return _Converted(indexes, before, after)


def _write(
    old: Source, base: int, target: Target, write: Callable[[memoryview], object], log_end: bool
) -> None:
    if dialect := target.dialect or target.source:
        migration_of(dialect).convert(old, base, target, write, log_end=log_end)
    else:
        convert_source(old, base, target, write, log_end=log_end, digest=False)


def _stage_segment(
    directory: Path,
    by_file: Mapping[str, Item],
    log: str,
    target: Target,
    lease: Lease,
    notes: dict[str, Note],
) -> Iterator[Replace]:
    item, staged = by_file[log], lease.staged(log)
    old = replaced_file(item)
    converted = _convert(directory / log, item, target, staged)
    notes[log] = {
        "records": converted.before.records,
        "parity_before": converted.before.digest,
        "parity_after": converted.after.digest,
    }
    # mtime is data: retention and searches of segments without timestamps use it. commit reads the
    # new file back, and refuses bytes that the plan does not say.
    yield Replace(log, staged, old, item["after_sha256"], old.mtime_ns)
    for kind, content in converted.indexes.items():
        name = paths.segment_file(item["base_offset"], kind)
        if name in by_file:
            before = identity_of(by_file[name]["before"])
            change = stage_bytes(name, content, before, lease, old.mtime_ns)
            notes[name] = {"after_bytes": len(content), "sha256": change.sha256}
            yield change


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _prove(old: Source, new: Source, target: Target, log: Path) -> tuple[Parity, Parity]:
    """Read both logs and compare what the target can express. Raises NotEqual.

    This covers offsets, order, keys, values and, depending on the target, timestamps, headers and
    control records.
    """
    if dialect := target.dialect or target.source:
        return migration_of(dialect).prove(old, new, target)
    kept = {
        "timestamps": target.magic > 0,
        "headers": target.magic == 2,
        "control": target.magic == 2,
    }
    before, after = digest_records(old, **kept), digest_records(new, **kept)
    if before != after:
        raise NotEqual(
            "the converted log tells a consumer something else:"
            f" {first_difference(old, new, **kept)}",
            path=log,
        )
    return before, after
