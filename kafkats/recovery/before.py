"""Look at a broker's log directories before its start: names and small files, no logs.

It imports nothing that reads logs: after a clean stop this is all that `kafkats recover` does.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from kafkats import paths
from kafkats.errors import StorageFailed, Vanished, storage
from kafkats.logdir.location import is_empty_root
from kafkats.recovery.holding import Disk, Held, Noted, Owner, Root, holds
from kafkats.recovery.meta_properties import never_migrated
from kafkats.recovery.noted import disk_of, read_noted, records
from kafkats.recovery.root import Looked, look_at_root, with_missing
from kafkats.recovery.rules import start_rule
from kafkats.releases import NEWEST

_State: TypeAlias = Literal["there", "empty", "absent", "unread"]


class Before(NamedTuple):
    """The state of the log directories.

    `looked` are those that are there and not empty. `failures` say which cannot be read, such as
    one on a disk that fails, and which the broker leaves out. `busy` are log directories that
    another process of kafkats changes: a broker cannot start there, and what it would do is not
    known. `named` are the given paths, and where they lead.
    """

    roots: tuple[Root, ...]
    looked: tuple[Looked, ...]
    noted: Mapping[str, Sequence[Noted]]
    held: tuple[Held, ...]
    failures: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()
    named: frozenset[str] = frozenset()

    @property
    def live(self) -> list[str]:
        """Return the log directories that a running broker holds."""
        return [one.start.log_dir for one in self.looked if one.start.live]

    @property
    def unclean(self) -> list[str]:
        """Return the log directories with partitions that a broker recovers at its start."""
        return [
            one.start.log_dir
            for one in self.looked
            if not one.start.clean and one.names.loaded and one.start.outcome == "loads"
        ]

    @property
    def stopped(self) -> list[str]:
        """Return the log directories with partitions that a broker takes as they are."""
        return [
            one.start.log_dir
            for one in self.looked
            if one.start.clean and one.names.loaded and one.start.outcome == "loads"
        ]

    @property
    def clean(self) -> bool:
        """Return whether the broker has stopped cleanly in all log directories that are there.

        Nothing says that of one that cannot be read, or that the broker leaves out, nor where all
        are absent or empty.
        """
        if self.live or self.busy or self.failures or not self.looked:
            return False
        return all(one.start.clean or not one.names.loaded for one in self.looked)

    @property
    def stopping(self) -> list[str]:
        """Return why the broker does not start, in its words.

        It starts without log directories that go offline, if it has others.
        """
        stops = [one for one in self.looked if one.start.outcome == "stops"]
        if not stops and all(root.state == "unread" for root in self._others()):
            stops = list(self.looked)
        return [word for one in stops for word in one.start.words]

    def _others(self) -> list[Root]:
        """Return the log directories that do not go offline."""
        offline = {one.start.log_dir for one in self.looked if one.start.outcome == "offline"}
        return [root for root in self.roots if root.log_dir not in offline]


def look_before(
    log_dirs: Sequence[Path],
    kafka: str,
    owner: Owner,
    *,
    place: Path | None = None,
    record: Path | None = None,
) -> Before:
    """Look at the log directories of a broker of release `kafka`, "" if it is not known.

    `place` is that of the work areas, `record` a folder with a further record. Two paths of one
    directory count once. A directory that cannot be read keeps none of the others from being
    looked at. Raises UsageError for an unknown release, StorageFailed.
    """
    rule = start_rule(kafka or NEWEST)
    states: dict[str, _State] = {}
    disks: dict[str, Disk | None] = {}
    found: list[Looked] = []
    failures: list[str] = []
    for path in _distinct(log_dirs):
        try:
            state, disk = _state(path), disk_of(Path(path))
            found += [look_at_root(Path(path), rule)] if state == "there" else []
            states[path], disks[path] = state, disk
        except StorageFailed as e:  # a broker takes it offline, and may serve the others
            states[path] = "unread"
            failures.append(str(e))
    looked = with_missing(found)
    offline = [one.start for one in looked if one.start.outcome == "offline"]
    failures += [
        f"{start.log_dir}: goes offline: {word}" for start in offline for word in start.words
    ]
    by_path = {one.start.log_dir: one for one in looked}
    starts = [one.start for one in looked] if kafka else []
    foreign = {start.log_dir for start in never_migrated(starts, rule)}
    roots = tuple(
        _root(path, state, disks.get(path), by_path.get(path), foreign=path in foreign)
        for path, state in states.items()
    )
    noted = read_noted(records(states, place, record))
    held = tuple(holds(roots, owner, noted))
    busy = tuple(one.start.log_dir for one in looked if one.busy)
    named = frozenset(
        one for path in log_dirs for one in (str(path.absolute()), os.path.realpath(path))
    )
    return Before(roots, tuple(looked), noted, held, tuple(failures), busy, named)


def _distinct(log_dirs: Sequence[Path]) -> list[str]:
    """Return absolute paths, one of each directory."""
    found: dict[str, str] = {}
    for path in log_dirs:
        found.setdefault(os.path.realpath(path), str(path.absolute()))
    return list(found.values())


def _state(path: str) -> _State:
    """Return whether a directory is there. Raises StorageFailed, also for a link to nothing: there
    a broker makes no directory.
    """
    try:
        with storage(path, "looking at the log directory"):
            os.lstat(path)
        return "empty" if is_empty_root(path) else "there"
    except Vanished:
        return "absent"


def _root(
    path: str, state: _State, disk: Disk | None, looked: Looked | None, *, foreign: bool
) -> Root:
    if looked is None:
        return Root(path, state, disk=disk)
    names, meta = looked.names, looked.start.meta
    return Root(
        path,
        "there",
        partitions=len(names.loaded),
        cluster=meta.cluster_id if meta else None,
        node=meta.node_id if meta else None,
        directory=meta.directory_id if meta else None,
        has_meta=paths.META_PROPERTIES in names.files,
        has_checkpoints=bool(names.files & {*paths.OFFSET_CHECKPOINTS}),
        missing=looked.start.missing,
        metadata_only=names.metadata_only,
        set_aside=_whole(names.loaded) if foreign else 0,
        disk=disk,
    )


def _whole(names: Sequence[str]) -> int:
    """Return how many partition directories a broker neither moves nor deletes."""
    parsed = map(paths.parse_partition, names)
    return sum(name is not None and not name.state for name in parsed)
