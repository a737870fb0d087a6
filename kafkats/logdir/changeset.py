"""The only module that changes partition files of a log directory.

    lease = claim(area, partition, run_id)            a newer claim fences this one
    build new files at lease.staged(name)
    commit(directory, changes, unchanged, lease)      all changes; after a crash resume() finishes
    undo(area, partition, run_id)                     restores the very files that were there before
    purge(area, partition, run_id)                    ends the undo window and frees the old bytes

`commit` gives the new files the attributes of the files they replace, syncs them and reads them
back. It writes the journal with the intent, links the old files into the undo folder, swaps the
files (swap.py has the order) and advances the journal to done. No live file is touched before the
intent is on disk. From then on resume() or commit() finishes after any crash, and undo() reverts.
docs/decisions/changesets.md has the reasons.

The caller holds the log dir's own lock for a whole run, so that no broker starts between two
partitions. Each call takes it as well, and so detects that the lock was lost. `owner_stopped` is as
in lock.hold_shared.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from kafkats.errors import Changed, Refused, storage
from kafkats.logdir.disk import DISK, Disk
from kafkats.logdir.identity import FileIdentity
from kafkats.logdir.journal import Journal, Note, Step, advance, read_journal, write_journal
from kafkats.logdir.lease import Lease, check_lease, exclusive, fence
from kafkats.logdir.resume_checks import check_home, check_way_back, refuse_beside_unfinished
from kafkats.logdir.staging import (
    Change,
    Replace,
    Truncate,
    check_identities,
    check_request,
    clear_all,
    clear_kept,
    clear_staging,
    prepare,
)
from kafkats.logdir.swap import Source, check_standing, drive, keep_old, kept_old
from kafkats.logdir.tails import is_cut
from kafkats.logdir.workarea import Site, WorkArea, site


class Outcome(NamedTuple):
    """The result of a call for one partition of one run.

        committed, undone, purged   by this call
        finished                    this call completed an interrupted commit or undo of the run
        already                     done before; nothing was changed
        nothing                     this run has changed nothing here

    `names` are the files of the changeset. `undo_bytes` is the size of the old files that purge
    frees.
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
    notes: Mapping[str, Note] | None = None,
    owner_stopped: bool = False,
    disk: Disk = DISK,
) -> Outcome:
    """Change all given files of one partition directory. After a crash, resume() does the rest.

    `unchanged` names the files from which the new ones were made, and any index beside a changed
    .log that remains valid. `notes`, by file name, are kept in the journal. Raises Fenced,
    Locked, Changed, NotPermitted or UsageError with nothing changed. Raises StorageFailed at any
    point, after which resume() continues and undo() reverts.
    """
    place = lease.site
    with storage(directory, "change the partition"), _changing(place, owner_stopped, disk):
        check_lease(lease, disk)
        journal = read_journal(place, disk)
        if journal is not None:
            return _again(place, journal, changes, disk)
        refuse_beside_unfinished(place, disk)
        check_request(directory, changes, unchanged, lease, disk)
        try:
            journal = prepare(changes, unchanged, lease, disk)._replace(notes=notes or {})
        except Refused:
            clear_all(place, disk)
            raise
        write_journal(place, journal, disk)
        return _forward(place, journal, disk)._replace(state="committed")


def resume(
    area: WorkArea, partition: str, run_id: str, *, owner_stopped: bool = False, disk: Disk = DISK
) -> Outcome:
    """Finish an interrupted commit or undo of this run. A task that may be a retry calls it first.

    Raises Locked, Changed (a file was modified since: undo or purge decides), CorruptFile,
    StorageFailed.
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
                return _finish(place, journal, disk)
            if journal.phase == "undo":
                return _back(place, journal, disk)
            return _sweep(place, journal, disk)


def undo(
    area: WorkArea, partition: str, run_id: str, *, owner_stopped: bool = False, disk: Disk = DISK
) -> Outcome:
    """Restore the files that this run replaced or removed: same inodes, bytes, times, attributes.

    This also reverts an interrupted commit. It fences every earlier claim. With the work area on
    the log dir's file system it needs no free block and no free inode. Raises Changed when a file
    is not as the run left it, Refused after purge and where the restored segments would not join
    the log, Locked, CorruptFile, StorageFailed.
    """
    place = site(area, partition, run_id)
    with storage(place.directory, "undo a change"):
        if not disk.is_dir(place.run):
            return Outcome("nothing")
        with _changing(place, owner_stopped, disk):
            journal = read_journal(place, disk)
            if journal is None:
                clear_all(place, disk)
                fence(place, disk)
                return Outcome("nothing")
            fence(place, disk)
            if journal.phase == "undone":
                return _sweep(place, journal, disk)
            if journal.phase == "purged":
                raise Refused("the undo window of this run is closed", path=place.directory)
            outcome = _back(place, journal, disk)
            return outcome if journal.phase == "undo" else outcome._replace(state="undone")


def purge(
    area: WorkArea, partition: str, run_id: str, *, abandon: bool = False, disk: Disk = DISK
) -> Outcome:
    """End the undo window of a finished run. Only this frees the old bytes; it needs no free space.

    `abandon` ends it for an interrupted run too, and leaves its live files as they are. Raises
    Refused for an interrupted run, Locked, CorruptFile, StorageFailed.
    """
    place = site(area, partition, run_id)
    with storage(place.run, "free the undo material"):
        if not disk.is_dir(place.run):
            return Outcome("nothing")
        with exclusive(place, disk):
            journal = read_journal(place, disk)
            if journal is None:
                clear_all(place, disk)
                fence(place, disk)
                return Outcome("nothing")
            fence(place, disk)
            if journal.phase in {"intent", "undo"} and not abandon:
                raise Refused(
                    "this run was interrupted: resume or undo it first", path=place.directory
                )
            if journal.phase == "purged":
                return _sweep(place, journal, disk)
            journal = advance(place, journal, "purged", disk)
            return _sweep(place, journal, disk)._replace(state="purged")


@contextmanager
def _changing(place: Site, owner_stopped: bool, disk: Disk) -> Generator[None]:
    with disk.hold_root(place.area.root, owner_stopped), exclusive(place, disk):
        yield


def _again(place: Site, journal: Journal, changes: Sequence[Change], disk: Disk) -> Outcome:
    if journal.phase in {"undo", "undone"}:
        raise Changed("this run was undone; make a new plan", path=place.directory)
    wanted = {change.name: _content(change) for change in changes}
    if wanted != {step.name: _content_of(step) for step in journal.steps}:
        raise Changed(
            "an earlier attempt of this run has committed other files or bytes",
            path=place.directory,
        )
    if journal.phase == "intent":
        return _finish(place, journal, disk)
    return _sweep(place, journal, disk)


def _content(change: Change) -> str | int | None:
    """Return what distinguishes a change from another one of the same file."""
    if isinstance(change, Replace):
        return change.sha256
    return change.size if isinstance(change, Truncate) else None


def _content_of(step: Step) -> str | int | None:
    """Return the same of a step in the journal."""
    return step.after.size if step.after and is_cut(step) else step.sha256


def _finish(place: Site, journal: Journal, disk: Disk) -> Outcome:
    """Finish an interrupted commit. The kill may have come before the journal's name was synced."""
    disk.sync_dir(place.run)
    return _forward(place, journal, disk)


def _forward(place: Site, journal: Journal, disk: Disk) -> Outcome:
    steps = journal.steps
    check_home(place, journal, disk)
    check_identities(place, journal.unchanged, disk)
    check_standing(place, steps, disk, finished=False)
    keep_old(place, steps, disk)
    sources = {
        step.name: Source(
            place.staged(journal.epoch, step.name), place.staged(journal.epoch, f"{step.name}~2")
        )
        for step in steps
        if step.after is not None and not is_cut(step)
    }
    drive(place, steps, "new", sources, disk)
    journal = advance(place, journal, "done", disk)
    return _sweep(place, journal, disk)._replace(state="finished")


def _back(place: Site, journal: Journal, disk: Disk) -> Outcome:
    steps = journal.steps[::-1]
    check_way_back(place, journal, disk)
    advance(place, journal, "undo", disk)
    clear_staging(place, disk)  # no new file is needed from here on, and a full disk needs the room
    sources = kept_old(place, journal, disk)
    drive(place, steps, "old", sources, disk)
    disk.renew(place.directory)  # otherwise the next plan could be this one, which was undone
    journal = advance(place, journal, "undone", disk)
    return _sweep(place, journal, disk)._replace(state="finished")


def _sweep(place: Site, journal: Journal, disk: Disk) -> Outcome:
    """Remove what the phase of the journal has made superfluous."""
    clear_staging(place, disk)
    names = tuple(step.name for step in journal.steps)
    if journal.phase == "done":
        return Outcome("already", names, sum(map(_kept_bytes, journal.steps)))
    clear_kept(place, disk)
    return Outcome("already", names)


def _kept_bytes(step: Step) -> int:
    """Return the bytes that are kept for the undo of a step; of a cut log, with its zeros."""
    if step.before is None:
        return 0
    return step.before.size - (step.after.size if step.after and is_cut(step) else 0)
