"""The only place that changes a log directory.

    lease = claim(area, partition, run_id)                  a newer claim fences this one
    build new files at lease.staged(name)
    commit(directory, changes, unchanged, lease)            all of the changes, or after a crash resume() for the rest
    undo(area, partition, run_id)                           the very files that were there before
    purge(area, partition, run_id)                          ends the undo window and frees the old bytes

commit: the new files get the attributes of the ones they replace, are synced and read back; the journal says what is
meant; the old files are linked into the undo folder; then the swap (swap.py has its order); then the journal says
done. Until the intent is on disk nothing live has been touched, and from then on every crash is finished by resume()
or commit() again, or taken back by undo(). docs/decisions/changesets.md has the reasons.

The log dir's own lock is held by the caller for a whole run, so that no broker starts between two partitions; each call
holds it as well, which finds out when that lock has been lost. `owner_stopped` is as in lock.hold_shared.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from kafkats import paths
from kafkats.errors import Changed, Refused, UsageError, storage
from kafkats.logdir.disk import DISK, Disk
from kafkats.logdir.identity import FileIdentity, model_of
from kafkats.logdir.journal import Journal, Step, read_journal, write_journal
from kafkats.logdir.lease import Lease, check_lease, exclusive, take_over
from kafkats.logdir.swap import INDEXES, Source, base_of, check_standing, drive, stands
from kafkats.logdir.workarea import Site, WorkArea, make_folder, site


class Replace(NamedTuple):
    """Put the file built at `staged`, whose bytes hash to `sha256`, in the place of `name` (`before` None: add it).

    `mtime_ns` is given where it is data, and left out for the time of building.
    """

    name: str
    staged: Path
    before: FileIdentity | None
    sha256: str
    mtime_ns: int | None = None


class Remove(NamedTuple):
    """Take the file away."""

    name: str
    before: FileIdentity


Change = Replace | Remove


class Outcome(NamedTuple):
    """What a call did with one partition of one run.

    committed, undone, purged   just now
    finished                    an interrupted commit or undo of this run was completed
    already                     it had been done before; nothing was changed
    nothing                     this run has changed nothing here

    `names` are the files of the changeset; `undo_bytes` the size of the old files that purge would free.
    """

    state: Literal["committed", "undone", "purged", "finished", "already", "nothing"]
    names: tuple[str, ...] = ()
    undo_bytes: int = 0


def commit(
    directory: Path,
    changes: Sequence[Change],
    unchanged: Mapping[str, FileIdentity],
    lease: Lease,
    *,
    owner_stopped: bool = False,
    disk: Disk = DISK,
) -> Outcome:
    """Change the files of one partition directory, all of them or, after a crash, with resume().

    `unchanged` names the files that the new ones were made from, and any index beside a changed .log that stays true.
    Raises Fenced, Locked, Changed, NotPermitted or UsageError with nothing changed; StorageFailed at any point, after
    which resume() goes on and undo() goes back.
    """
    place = lease.site
    with storage(directory, "change the partition"), _changing(place, owner_stopped, disk):
        check_lease(lease, disk)
        journal = read_journal(place, disk)
        if journal is not None:
            return _again(place, journal, changes, disk)
        _refuse_beside_unfinished(place, disk)
        _check_request(directory, changes, unchanged, lease, disk)
        _check_unchanged(place, changes, unchanged, disk)
        steps = tuple(_prepare(lease, change, disk) for change in changes)
        disk.sync_dir(place.staging(lease.epoch))
        _check_unchanged(place, changes, unchanged, disk)
        journal = Journal("intent", lease.epoch, steps, dict(unchanged))
        write_journal(place, journal, disk)
        return _forward(place, journal, disk)._replace(state="committed")


def resume(area: WorkArea, partition: str, run_id: str, *, owner_stopped: bool = False, disk: Disk = DISK) -> Outcome:
    """Finish what an interrupted commit or undo of this run began; the first thing to call in a task that may be a retry.

    Raises Locked, Changed (a file was touched since; undo or purge decides), CorruptFile, StorageFailed.
    """
    place = site(area, partition, run_id)
    with storage(place.directory, "finish an interrupted change"):
        if not disk.is_dir(place.run):
            return Outcome("nothing")
        with _changing(place, owner_stopped, disk):
            journal = read_journal(place, disk)
            if journal is None:
                return Outcome("nothing")
            if journal.phase == "intent":
                return _forward(place, journal, disk)
            if journal.phase == "undo":
                return _back(place, journal, disk)
            return _sweep(place, journal, disk)


def undo(area: WorkArea, partition: str, run_id: str, *, owner_stopped: bool = False, disk: Disk = DISK) -> Outcome:
    """Bring back the files that this run replaced or removed: the same inodes, so bytes, times and attributes.

    Also takes back an interrupted commit. Every earlier claim is fenced.
    Raises Changed when a file is not as the run left it, Refused after purge, Locked, CorruptFile, StorageFailed.
    """
    place = site(area, partition, run_id)
    with storage(place.directory, "undo a change"):
        if not disk.is_dir(place.run):
            return Outcome("nothing")
        with _changing(place, owner_stopped, disk):
            take_over(place, disk)
            journal = read_journal(place, disk)
            if journal is None:
                _clear_staging(place, disk)
                return Outcome("nothing")
            if journal.phase == "undone":
                return _sweep(place, journal, disk)
            if journal.phase == "purged":
                raise Refused("the undo window of this run is closed", path=place.directory)
            outcome = _back(place, journal, disk)
            return outcome if journal.phase == "undo" else outcome._replace(state="undone")


def purge(area: WorkArea, partition: str, run_id: str, *, abandon: bool = False, disk: Disk = DISK) -> Outcome:
    """End the undo window of a finished run: only this frees the old bytes.

    `abandon` ends it for an interrupted run too, whose live files then stay as they are.
    Raises Refused for an interrupted run, Locked, CorruptFile, StorageFailed.
    """
    place = site(area, partition, run_id)
    with storage(place.run, "free the undo material"):
        if not disk.is_dir(place.run):
            return Outcome("nothing")
        with exclusive(place, disk):
            take_over(place, disk)
            journal = read_journal(place, disk)
            if journal is None:
                _clear_staging(place, disk)
                return Outcome("nothing")
            if journal.phase in {"intent", "undo"} and not abandon:
                raise Refused("this run was interrupted: resume or undo it first", path=place.directory)
            if journal.phase == "purged":
                return _sweep(place, journal, disk)
            journal = journal._replace(phase="purged")
            write_journal(place, journal, disk)
            return _sweep(place, journal, disk)._replace(state="purged")


@contextmanager
def _changing(place: Site, owner_stopped: bool, disk: Disk) -> Generator[None]:
    with disk.hold_root(place.area.root, owner_stopped), exclusive(place, disk):
        yield


def _again(place: Site, journal: Journal, changes: Sequence[Change], disk: Disk) -> Outcome:
    if journal.phase in {"undo", "undone"}:
        raise Refused("this run was undone; plan anew", path=place.directory)
    asked = {change.name: change.sha256 if isinstance(change, Replace) else None for change in changes}
    if asked != {step.name: step.sha256 for step in journal.steps}:
        raise Changed("an earlier attempt of this run has committed other files or bytes", path=place.directory)
    if journal.phase == "intent":
        return _forward(place, journal, disk)
    return _sweep(place, journal, disk)


def _forward(place: Site, journal: Journal, disk: Disk) -> Outcome:
    steps = journal.steps
    _check_identities(place, journal.unchanged, disk)
    check_standing(place, steps, disk, finished=False)
    _save_old(place, steps, disk)
    sources = {
        step.name: Source(place.staged(journal.epoch, step.name), place.staged(journal.epoch, f"{step.name}~2"))
        for step in steps
        if step.after is not None
    }
    drive(place, steps, "new", sources, disk)
    journal = journal._replace(phase="done")
    write_journal(place, journal, disk)
    return _sweep(place, journal, disk)._replace(state="finished")


def _back(place: Site, journal: Journal, disk: Disk) -> Outcome:
    steps = journal.steps[::-1]
    check_standing(place, steps, disk, finished=journal.phase == "done")
    _check_same_files(place, journal.unchanged, disk)
    write_journal(place, journal._replace(phase="undo"), disk)
    sources = _saved_old(place, steps, disk)
    drive(place, steps, "old", sources, disk)
    journal = journal._replace(phase="undone")
    write_journal(place, journal, disk)
    return _sweep(place, journal, disk)._replace(state="finished")


def _sweep(place: Site, journal: Journal, disk: Disk) -> Outcome:
    """Remove what the journal's last entry has made superfluous."""
    _clear_staging(place, disk)
    names = tuple(step.name for step in journal.steps)
    if journal.phase == "done":
        return Outcome("already", names, sum(step.before.size for step in journal.steps if step.before))
    _clear_folder(place.undo, disk)
    return Outcome("already", names)


def _refuse_beside_unfinished(place: Site, disk: Disk) -> None:
    for run_id in disk.names(place.runs):
        other = read_journal(place._replace(run_id=run_id), disk)
        if other is not None and other.phase in {"intent", "undo"}:
            raise Refused(f"run {run_id} was interrupted here: resume, undo or abandon it first", path=place.directory)


def _check_request(
    directory: Path, changes: Sequence[Change], unchanged: Mapping[str, FileIdentity], lease: Lease, disk: Disk
) -> None:
    names = [change.name for change in changes]
    place = lease.site
    if not names or len({*names, *unchanged}) != len(names) + len(unchanged) or any("/" in name for name in names):
        raise UsageError("a changeset has at least one file, and each file once", path=directory)
    if directory.resolve() != place.directory:
        raise UsageError(f"the claim is for {place.directory}", path=directory)
    if not place.area.linked and not all(name.endswith(INDEXES) for name in names):
        raise Refused("with the work area on another file system only index files can be changed", path=directory)
    for change in changes:
        if isinstance(change, Replace) and change.staged != lease.staged(change.name):
            raise UsageError("not where this attempt stages its files", path=change.staged)
    _check_indexes_named(directory, names, unchanged, disk)


def _check_indexes_named(directory: Path, names: Sequence[str], unchanged: Iterable[str], disk: Disk) -> None:
    logs = {base_of(name) for name in names if name.endswith(paths.LOG)}
    for name in set(disk.names(directory)) - {*names, *unchanged}:
        if name.endswith(INDEXES) and base_of(name) in logs:
            raise UsageError(
                "an index whose .log is changed must be changed too, or said to stay", path=directory / name
            )


def _check_unchanged(place: Site, changes: Sequence[Change], unchanged: Mapping[str, FileIdentity], disk: Disk) -> None:
    _check_identities(place, {change.name: change.before for change in changes}, disk)
    _check_identities(place, unchanged, disk)


def _check_identities(place: Site, wanted: Mapping[str, FileIdentity | None], disk: Disk) -> None:
    for name, identity in wanted.items():
        if disk.identify(place.directory / name) != identity:
            raise Changed("changed since it was looked at", path=place.directory / name)


def _check_same_files(place: Site, wanted: Mapping[str, FileIdentity], disk: Disk) -> None:
    for name, identity in wanted.items():
        if not identity.same_file(disk.identify(place.directory / name)):
            raise Changed("changed since the run: the old files would not be true of it", path=place.directory / name)


def _prepare(lease: Lease, change: Change, disk: Disk) -> Step:
    """Give the new file its attributes, sync it and read it back."""
    if isinstance(change, Remove):
        return Step(change.name, change.before, None, None, None)
    staged, place = change.staged, lease.site
    model = model_of(change.name, set(disk.names(place.directory)))
    attributes = disk.attributes(place.directory / model)
    disk.own(staged, attributes.mode, attributes.uid, attributes.gid)
    disk.set_xattrs(staged, attributes.xattrs)
    if change.mtime_ns is not None:
        disk.set_mtime(staged, change.mtime_ns)
    disk.sync_file(staged)
    if disk.sha256(staged) != change.sha256:
        raise Changed("the staged file does not read back as it was built", path=staged)
    return Step(change.name, change.before, disk.identify(staged), disk.attributes(staged), change.sha256)


def _save_old(place: Site, steps: Sequence[Step], disk: Disk) -> None:
    make_folder(place.undo, place.area, disk)
    saved = disk.names(place.undo)
    for step in steps:
        if step.before is None or step.name in saved:
            continue
        live, kept = place.directory / step.name, place.undo / step.name
        if not stands(place, step, disk.identify(live), "old"):
            raise Changed("the old file was swapped out, but is not in the undo folder", path=kept)
        if place.area.linked:
            disk.link(live, kept)
        else:
            partial = kept.with_name(f"{step.name}~2")
            _copy(live, partial, disk)
            disk.rename(partial, kept)
    disk.sync_dir(place.undo)
    disk.sync_dir(place.run)


def _saved_old(place: Site, steps: Sequence[Step], disk: Disk) -> dict[str, Source]:
    swapped = [
        step.name
        for step in steps
        if step.before is not None and not stands(place, step, disk.identify(place.directory / step.name), "old")
    ]
    if place.area.linked:
        return {name: Source(place.undo / name, place.undo / f"{name}~2") for name in swapped}
    for name in swapped:
        _copy(place.undo / name, place.staged(0, name), disk)
    return {name: Source(place.staged(0, name), place.staged(0, f"{name}~2")) for name in swapped}


def _copy(source: Path, target: Path, disk: Disk) -> None:
    """Copy across file systems, with all attributes and times, synced."""
    attributes, identity = disk.attributes(source), disk.identify(source)
    disk.unlink(target)
    disk.write(target, disk.read(source))
    disk.own(target, attributes.mode, attributes.uid, attributes.gid)
    disk.set_xattrs(target, attributes.xattrs)
    if identity is not None:
        disk.set_mtime(target, identity.mtime_ns)
    disk.sync_file(target)


def _clear_staging(place: Site, disk: Disk) -> None:
    for name in disk.names(place.run):
        if name.startswith("staging-"):
            _clear_folder(place.run / name, disk)
    if not place.area.linked:
        for name in disk.names(place.directory):
            if name.startswith(place.temporary):
                disk.unlink(place.directory / name)
        disk.sync_dir(place.directory)


def _clear_folder(folder: Path, disk: Disk) -> None:
    for name in disk.names(folder):
        disk.unlink(folder / name)
    disk.remove_dir(folder)
