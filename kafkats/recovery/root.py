"""Predict what a broker finds in its log directories before it loads a partition.

    names              a directory that is not named like a partition stops it
    .lock              held by another process: it stops
                       on a read-only file system: the log directory goes offline
    meta.properties    not readable, see `meta_properties`
                       a link into a directory that is not there: the log directory goes offline
    checkpoints        unreadable: they count as empty, or the log directory goes offline
    the marker         its broker epoch is what the controller is told (3.7 and later)
                       a directory of its name is deleted as a file is, if it is empty (2.8 and
                       later); otherwise the log directory goes offline

Source: LogManager.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from kafkats import paths
from kafkats.errors import BadInput, ReadOnly, Vanished, storage
from kafkats.evidence.root import gone_findings, is_stale
from kafkats.logdir.identity import refuse_unread
from kafkats.logdir.lock import lock_state
from kafkats.logdir.mounts import READ_ONLY, is_read_only
from kafkats.logdir.properties import read_clean_shutdown
from kafkats.logdir.root import LogDir, RootNames, list_root, present_in, read_root
from kafkats.recovery.checkpoints import OFFSETS, Failure, read_failure
from kafkats.recovery.facts import Outcome, RootStart
from kafkats.recovery.meta_properties import Unread, unread_properties
from kafkats.recovery.rules import StartRule
from kafkats.recovery.words import (
    bad_directory,
    held_lock,
)


class Looked(NamedTuple):
    """One log directory: the contents, and the prediction.

    `busy`: another process of kafkats changes it. `stale` is the result of `is_stale`.
    """

    root: LogDir
    names: RootNames
    start: RootStart
    busy: bool = False
    stale: bool = False


def look_at_root(path: Path, rule: StartRule) -> Looked:
    """Return one log directory by itself.

    Raises NotPermitted for what only this user may not read, Vanished, StorageFailed.
    """
    names = list_root(path)
    root = read_root(path, names)
    _refuse_unread(root)
    lock = lock_state(path).state
    busy = lock == "shared"
    start = _start_of(path, root, names, rule, live=lock == "held", busy=busy)
    return Looked(root, names, start, busy, is_stale(path, names))


def _refuse_unread(root: LogDir) -> None:
    for finding in root.findings:
        file = root.path / finding.file
        if finding.kind == "unreadable" and not os.access(file, os.R_OK, effective_ids=True):
            refuse_unread(ReadOnly(finding.reason, path=file), root.path)


def _start_of(
    path: Path, root: LogDir, names: RootNames, rule: StartRule, *, live: bool, busy: bool
) -> RootStart:
    marker = path / paths.CLEAN_SHUTDOWN
    clean = root.clean_shutdown or (rule.marker_goes_first and _entries_in(marker) is not None)
    start = RootStart(
        str(path),
        "loads",
        live=live,
        clean=clean and not live,
        marker_epoch=_marker_epoch(path, rule) if root.clean_shutdown else None,
        meta=root.meta,
        metadata_log=names.metadata_log,
        metadata_only=names.metadata_only,
        findings=root.findings,
    )
    unread = _unread_properties(path, names, rule)
    stops = [*_bad_directories(path, root, names, rule)]
    stops += [held_lock(str(path))] if busy else []
    if stops and (unread is None or unread.outcome == "stops"):
        return replace(start, outcome="stops", words=tuple(stops))
    if unread is not None:
        return replace(start, outcome=unread.outcome, words=(unread.words,))
    failed = _failed_disk(path, rule)
    if failed:
        outcome: Outcome = "offline" if rule.checkpoint == "offline" else "stops"
        return replace(start, outcome=outcome, words=(failed,))
    return _with_checkpoints(start, path, names, rule)


def _unread_properties(path: Path, names: RootNames, rule: StartRule) -> Unread | None:
    """Return how a broker fails on meta.properties. Up to 2.0 a directory counts as no file."""
    there = paths.META_PROPERTIES in names.files
    if rule.checkpoint == "offline" and rule.name not in ("1.0", "2.0"):
        there |= _entries_in(path / paths.META_PROPERTIES) is not None
    return unread_properties(path, rule) if there else None


def _failed_disk(path: Path, rule: StartRule) -> str:
    """Return the words for a lock that cannot be made or a marker that cannot be deleted, or ""."""
    lock, marker = path / paths.LOCK, path / paths.CLEAN_SHUTDOWN
    if is_read_only(path):
        return f"Disk error while locking directory {path}: {READ_ONLY}"
    if _leads_nowhere(lock) and not lock.resolve().parent.exists():
        return f"Disk error while locking directory {path}"
    if rule.marker_goes_first and _entries_in(marker):
        return (
            f"Error while loading log dir {path}: java.nio.file.DirectoryNotEmptyException:"
            f" {marker}"
        )
    return ""


def _entries_in(path: Path) -> int | None:
    """Return the number of entries of a directory, None if there is none. Raises StorageFailed."""
    with storage(path, "listing"):
        return sum(1 for _ in path.iterdir()) if path.is_dir() and not path.is_symlink() else None


def _leads_nowhere(path: Path) -> bool:
    """Return whether there is a symbolic link to nothing. Raises StorageFailed."""
    with storage(path, "following the link"):
        return path.is_symlink() and not path.exists()


def _bad_directories(path: Path, root: LogDir, names: RootNames, rule: StartRule) -> Iterator[str]:
    """Yield the words for directories that are not named like a partition."""
    gone = {paths.CLEAN_SHUTDOWN} if rule.marker_goes_first else set()
    for finding in root.findings:
        if finding.kind == "stops-the-broker" and finding.file not in gone:
            yield bad_directory(str(path / finding.file), finding.file)
    for name in names.loaded:
        parsed = paths.parse_partition(name)
        if parsed and parsed.state and parsed.state not in rule.states:
            yield bad_directory(str(path / name), name)


def _marker_epoch(path: Path, rule: StartRule) -> int | None:
    if not rule.marker_epoch:
        return None
    try:
        return read_clean_shutdown(path / paths.CLEAN_SHUTDOWN)
    except (BadInput, Vanished):
        return None


def _with_checkpoints(start: RootStart, path: Path, names: RootNames, rule: StartRule) -> RootStart:
    """Return `start` with what unreadable checkpoints do."""
    words, fails = [], False
    for name in paths.OFFSET_CHECKPOINTS:
        failure = read_failure(rule, path / name, OFFSETS) if name in names.files else None
        if _leads_nowhere(path / name):
            failure = Failure(f"java.nio.file.NoSuchFileException: {path / name}")
        if failure is not None:
            words.append(f"Error while reading checkpoint file {path / name}: {failure.words}")
            fails |= not failure.bad_number and rule.checkpoint != "empty"
    return replace(start, outcome="offline" if fails else "loads", words=tuple(words))


def with_missing(looked: Sequence[Looked]) -> list[Looked]:
    """Return the log directories with the partitions that should be there."""
    present = present_in(one.names for one in looked)
    return [
        one._replace(start=replace(one.start, missing=_missing(one, present))) for one in looked
    ]


def _missing(one: Looked, present: Collection[paths.PartitionName]) -> tuple[str, ...]:
    gone = gone_findings(one.root, present, stale=one.stale, live=one.start.live)
    return tuple(finding.file for finding in gone if finding.kind == "missing-partition")


def told_epoch(roots: Sequence[Looked], rule: StartRule) -> int:
    """Return the broker epoch of the registration at the controller, -1 after an unclean stop.

    All log directories must have a marker with the same epoch.
    """
    roots = [one for one in roots if not one.names.metadata_only]
    if not rule.marker_epoch or any(one.start.live for one in roots):
        return -1
    epochs = {one.start.marker_epoch for one in roots}
    if len(epochs) != 1 or any(one.start.outcome != "loads" for one in roots):
        return -1
    found = epochs.pop()
    return -1 if found is None else found
