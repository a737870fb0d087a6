"""Check that a retention deletes the oldest segments of a log, whole, and nothing else.

A digest proves that a plan was approved, not that it is sound, and the directory may have changed
since. So both are checked again before anything is staged.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kafkats import paths
from kafkats.errors import Changed, CorruptPlan
from kafkats.index.tail import read_tail
from kafkats.logdir.families import refuse_unclean
from kafkats.logdir.partition import (
    PartitionDir,
    log_bases,
    refuse_unfinished_swaps,
    scan_partition,
)
from kafkats.plans.rows import Item


class Prefix(NamedTuple):
    """The items of one partition by their purpose."""

    removed: dict[int, set[str]]
    """Files to delete, by the base offset of their segment."""
    rest: list[Item]
    """The new files for the rest of the last deleted segment."""
    start: int
    """The new begin of the log."""
    following: int
    """The first segment that is kept unchanged, -1 for none."""


def check_prefix(log_dir: Path, directory: Path, items: Sequence[Item]) -> Prefix:
    """Check and classify the items of one partition.

    Raises CorruptPlan for items that are no plan of a retention, Changed when the partition is not
    as planned, Refused when its active segment would be deleted without a clean stop,
    StorageFailed.
    """
    try:
        prefix = _sorted_out(items)
    except CorruptPlan as e:
        e.path = str(directory)
        raise
    if prefix.following < 0:
        refuse_unclean(log_dir)
    partition = scan_partition(directory)
    refuse_unfinished_swaps(partition)
    _check_logs(directory, prefix)
    _check_families(partition, prefix)
    if prefix.following < 0 and not prefix.rest:
        last = max(prefix.removed)
        end = max(read_tail(directory / paths.segment_file(last)).facts.last_offset + 1, last)
        if end != prefix.start:
            raise Changed(
                f"the log ends at {end}, not at {prefix.start} as planned; make a new plan",
                path=directory,
            )
    return prefix


def _sorted_out(items: Sequence[Item]) -> Prefix:
    new = [item for item in items if item["action"] == "add"]
    rest = [item for item in new if item["log"] is not None]
    removed = _families([item for item in items if item["action"] == "remove"])
    if not removed:
        raise CorruptPlan(
            "it adds the rest of a log that it does not delete" if rest else "it deletes no segment"
        )
    last = next(item for item in items if item["file"] == paths.segment_file(max(removed)))
    following = last["next_base_offset"]
    if bool(new) != (following < 0 or bool(rest)) or len(rest) not in (0, len(new)):
        raise CorruptPlan("it must add an empty segment if it deletes all others, and only then")
    start = new[0]["base_offset"] if new else following
    if rest:
        if rest[0]["log"] != last["before"]:
            raise CorruptPlan("it adds the rest of a log that it does not delete")
        if start != following:
            raise CorruptPlan(f"the rest should begin at {following}, not at {start}")
        following = rest[0]["next_base_offset"]
    if start <= max(removed):
        raise CorruptPlan(
            f"the log would begin at {start}, which is not behind the deleted segments"
        )
    _check_start(items, start)
    _families(new)
    return Prefix(removed, rest, start, following)


def _families(items: Sequence[Item]) -> dict[int, set[str]]:
    families: dict[int, set[str]] = {}
    for item in items:
        families.setdefault(item["base_offset"], set()).add(item["file"])
    for base, files in families.items():
        if paths.segment_file(base) not in files:
            raise CorruptPlan(f"only a part of segment {base}, without its log")
    return families


def _check_start(items: Sequence[Item], start: int) -> None:
    for item in items:
        if item["action"] != "remove" and item["base_offset"] != start:
            raise CorruptPlan(
                f"{item['file']}: the log would begin at {start}, not at {item['base_offset']}"
            )


def _check_logs(directory: Path, prefix: Prefix) -> None:
    """Raise Changed unless exactly the oldest logs are deleted, so that the log gets no gap."""
    there = log_bases(directory)
    older, kept = there[: len(prefix.removed)], there[len(prefix.removed) :]
    for why, bases in (
        (
            "the plan deletes it, but it is gone already; make a new plan",
            prefix.removed.keys() - set(there),
        ),
        (
            "the plan keeps it and deletes younger segments; make a new plan",
            set(older) - prefix.removed.keys(),
        ),
    ):
        for base in sorted(bases):
            raise Changed(why, path=directory / paths.segment_file(base))
    if (first := kept[0] if kept else -1) != prefix.following:
        wanted, seen = ("none" if base < 0 else str(base) for base in (prefix.following, first))
        raise Changed(
            f"the first kept segment should be {wanted}, but it is {seen}; make a new plan",
            path=directory,
        )


def _check_families(partition: PartitionDir, prefix: Prefix) -> None:
    """Raise Changed if the plan lacks files of deleted segments: they would become orphans."""
    for segment in partition.segments:
        for file in segment.files.values():
            if file.name not in prefix.removed.get(segment.base_offset, {file.name}):
                raise Changed(
                    "the plan deletes its segment, but not this file; make a new plan",
                    path=partition.path / file.name,
                )
