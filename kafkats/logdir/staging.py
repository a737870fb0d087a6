"""The changes that a changeset consists of, and the preparation of its new files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kafkats import paths
from kafkats.errors import Changed, UsageError
from kafkats.hashes import algorithm_of
from kafkats.logdir.disk import Disk
from kafkats.logdir.identity import FileIdentity, model_of
from kafkats.logdir.journal import Journal, Step
from kafkats.logdir.lease import Lease
from kafkats.logdir.resume_checks import home_of, logs_behind
from kafkats.logdir.swap import base_of
from kafkats.logdir.tails import save_tail
from kafkats.logdir.workarea import Site, clear_folder


class Replace(NamedTuple):
    """Replace `name` by the file built at `staged`, whose hash (kafkats.hashes) is `sha256`.

    Add it if `before` is None. Set `mtime_ns` where the mtime is data; otherwise the new file keeps
    its own. Set `read_back` if the builder has synced the file and read it back with this hash: a
    large file is then not read again.
    """

    name: str
    staged: Path
    before: FileIdentity | None
    sha256: str
    mtime_ns: int | None = None
    read_back: bool = False


class Truncate(NamedTuple):
    """Cut the file in place: its first `size` bytes stay. The others are kept for undo."""

    name: str
    before: FileIdentity
    size: int


class Remove(NamedTuple):
    """Remove the file."""

    name: str
    before: FileIdentity


Change = Replace | Remove | Truncate


def check_request(
    directory: Path,
    changes: Sequence[Change],
    unchanged: Mapping[str, FileIdentity],
    lease: Lease,
    disk: Disk,
) -> None:
    """Raise UsageError for an inconsistent request."""
    names = [change.name for change in changes]
    place = lease.site
    if (
        not names
        or len({*names, *unchanged}) != len(names) + len(unchanged)
        or any("/" in name for name in names)
    ):
        raise UsageError("a changeset has at least one file, and each file once", path=directory)
    if directory.resolve() != place.directory:
        raise UsageError(f"the claim is for {place.directory}", path=directory)
    for change in changes:
        if isinstance(change, Replace) and change.staged != lease.staged(change.name):
            raise UsageError("not where this attempt stages its files", path=change.staged)
    _check_indexes_named(directory, names, unchanged, disk)


def _check_indexes_named(
    directory: Path, names: Sequence[str], unchanged: Iterable[str], disk: Disk
) -> None:
    logs = {base_of(name) for name in names if name.endswith(paths.LOG)}
    for name in set(disk.names(directory)) - {*names, *unchanged}:
        if name.endswith(paths.INDEX_KINDS) and base_of(name) in logs:
            raise UsageError(
                "an index whose .log is changed must be changed too, or said to stay",
                path=directory / name,
            )


def prepare(
    changes: Sequence[Change], unchanged: Mapping[str, FileIdentity], lease: Lease, disk: Disk
) -> Journal:
    """Prepare the new files for their renames. No live file is touched."""
    live = {**unchanged, **{change.name: change.before for change in changes}}
    check_identities(lease.site, live, disk)
    home = home_of(lease.site, disk)
    existing = set(disk.names(lease.site.directory))
    new = [change for change in changes if isinstance(change, Replace)]
    for change in new:
        _give_attributes(lease.site, change, existing, disk)
    disk.sync_files([change.staged for change in new])
    steps = tuple(_step(lease, change, disk) for change in changes)
    disk.sync_dir(lease.site.staging(lease.epoch))
    check_identities(lease.site, live, disk)
    joins = logs_behind(lease.site, steps, disk)
    return Journal("intent", lease.epoch, steps, dict(unchanged), joins=joins, home=home)


def _give_attributes(place: Site, change: Replace, existing: set[str], disk: Disk) -> None:
    """Give the new file its mode, owner, group, attributes and mtime.

    `existing` are the names in the live directory.
    """
    model = model_of(place.directory, change.name, existing)
    attributes = disk.attributes(place.directory / model)
    disk.own(change.staged, attributes.mode, attributes.uid, attributes.gid)
    disk.set_xattrs(change.staged, attributes.xattrs)
    if change.mtime_ns is not None:
        disk.set_mtime(change.staged, change.mtime_ns)


def _step(lease: Lease, change: Change, disk: Disk) -> Step:
    """Return the step of a change. The synced new file is read back; a tail is saved."""
    if isinstance(change, Remove):
        return Step(change.name, change.before, None, None, None)
    place = lease.site
    if isinstance(change, Truncate):
        sha256 = save_tail(place, lease.epoch, change.name, change.before, change.size, disk)
        attributes = disk.attributes(place.directory / change.name)
        after = change.before._replace(size=change.size)
        return Step(change.name, change.before, after, attributes, sha256)
    staged = change.staged
    if (
        not change.read_back
        and disk.hash(staged, algorithm_of(change.sha256, staged)) != change.sha256
    ):
        raise Changed("the staged file does not read back as it was planned or built", path=staged)
    return Step(
        change.name, change.before, disk.identify(staged), disk.attributes(staged), change.sha256
    )


def check_identities(place: Site, wanted: Mapping[str, FileIdentity | None], disk: Disk) -> None:
    """Raise Changed unless every live file has exactly its `wanted` identity, including ctime."""
    identities = disk.identities(place.directory, wanted)
    for name, identity in wanted.items():
        if identities[name] != identity:
            raise Changed("changed since it was looked at", path=place.directory / name)


def clear_staging(place: Site, disk: Disk) -> None:
    """Remove the staged files of all attempts of this run.

    Files already in place have their own names. Also remove a journal whose writing a full disk or
    a crash interrupted.
    """
    for name in disk.names(place.run):
        if name.startswith("staging-"):
            clear_folder(place.run / name, disk)
        elif name == "journal.new":
            disk.unlink(place.run / name)
    if not place.area.linked:
        _clear_temporary(place, disk, kept=False)


def clear_kept(place: Site, disk: Disk) -> None:
    """Remove the old files and the tails that a run keeps for its undo."""
    for folder in _kept_folders(place, disk):
        clear_folder(folder, disk)
    if not place.area.linked:
        _clear_temporary(place, disk, kept=True)


def kept_files(place: Site, disk: Disk) -> list[Path]:
    """Return the old files and the tails that a run keeps for its undo."""
    kept = [folder / name for folder in _kept_folders(place, disk) for name in disk.names(folder)]
    return kept if place.area.linked else [*kept, *_temporary(place, disk, kept=True)]


def clear_all(place: Site, disk: Disk) -> None:
    """Remove everything that a run without a journal has made."""
    clear_staging(place, disk)
    clear_kept(place, disk)


def _kept_folders(place: Site, disk: Disk) -> list[Path]:
    tails = [place.run / name for name in disk.names(place.run) if name.startswith("tail-")]
    return [*tails, place.undo]


def _temporary(place: Site, disk: Disk, *, kept: bool) -> list[Path]:
    """Return the run's own files beside the live ones: the kept old files, or the staged ones."""
    names = [name for name in disk.names(place.directory) if name.startswith(place.temporary)]
    return [place.directory / n for n in names if n.startswith(place.kept_names) == kept]


def _clear_temporary(place: Site, disk: Disk, *, kept: bool) -> None:
    for path in _temporary(place, disk, kept=kept):
        disk.unlink(path)
    if disk.is_dir(place.directory):  # a topic that was deleted took them with it
        disk.sync_dir(place.directory)
