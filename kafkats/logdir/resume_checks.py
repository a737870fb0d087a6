"""Check that an interrupted run may go on in a directory, or that its undo may begin.

The directory must be the one in which the run began. Restored segments must join the log that is in
it now.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Final

from kafkats import paths
from kafkats.errors import Changed, Refused
from kafkats.logdir.disk import Disk
from kafkats.logdir.journal import Home, Journal, Step, read_journal
from kafkats.logdir.swap import base_of, check_standing
from kafkats.logdir.workarea import Site

_METADATA_BYTES: Final = 4096
"""Brokers write 43 bytes."""


def home_of(place: Site, disk: Disk) -> Home:
    """Return what distinguishes the live directory from a later one of the same name.

    Raises OSError.
    """
    metadata = place.directory / paths.PARTITION_METADATA
    found = disk.identify(metadata)
    if found is None:
        content = ""
    elif found.size > _METADATA_BYTES:
        content = f"{found.size} bytes"
    else:  # no journal can hold a NUL, and a power loss leaves zeros
        content = disk.read(metadata).decode(errors="replace").replace("\0", "\ufffd")
    return Home(disk.inode(place.directory), content)


def logs_behind(place: Site, steps: tuple[Step, ...], disk: Disk) -> tuple[str, ...]:
    """Return the logs that follow directly after removed logs and that `steps` do not change."""
    logs = sorted(name for name in disk.names(place.directory) if _is_log(name))
    changed = {step.name for step in steps}
    gone = {step.name for step in steps if step.after is None}
    return tuple(behind for log, behind in pairwise(logs) if log in gone and behind not in changed)


def check_home(place: Site, journal: Journal, disk: Disk) -> None:
    """Raise Changed when the topic was deleted, or also created again, since the run began."""
    if not disk.is_dir(place.directory):
        raise Changed("the directory is gone since the run began", path=place.directory)
    if journal.home is None:
        return
    now = home_of(place, disk)
    known = journal.home.metadata and now.metadata  # a broker upgrade adds the file
    if now.inode != journal.home.inode or (known and now.metadata != journal.home.metadata):
        raise Changed(
            "another directory of the same name than the run began in; left alone",
            path=place.directory,
        )


def refuse_beside_unfinished(place: Site, disk: Disk) -> None:
    """Raise Refused beside another interrupted run: its completion would change planned files."""
    for run_id in disk.names(place.runs):
        other = (
            read_journal(replace(place, run_id=run_id), disk) if run_id != place.run_id else None
        )
        if other is not None and other.phase in {"intent", "undo"}:
            raise Refused(
                f"run {run_id} was interrupted here: resume, undo or abandon it first",
                path=place.directory,
            )


def check_way_back(place: Site, journal: Journal, disk: Disk) -> None:
    """Check that the old files may be restored.

    Raises Changed when a file is not as the run left it. Raises Refused beside another interrupted
    run, and when the log that the old files must join no longer exists.
    """
    refuse_beside_unfinished(place, disk)
    check_home(place, journal, disk)
    there = set(disk.names(place.directory))
    for name in journal.joins:
        if name not in there:
            why = (
                "what would come back does not join the log: this one has gone"
                f" since{_taken_by(place, name, disk)}"
            )
            raise Refused(why, path=place.directory / name)
    check_standing(place, journal.steps, disk, finished=journal.phase == "done")
    for name, identity in journal.unchanged.items():
        if not identity.same_file(disk.identify(place.directory / name)):
            raise Changed(
                "changed since the run: the old files would not be true of it",
                path=place.directory / name,
            )


def _taken_by(place: Site, name: str, disk: Disk) -> str:
    """Name the run that removed the log, and say whether that run can be undone."""
    for run_id in disk.names(place.runs):
        journal = read_journal(replace(place, run_id=run_id), disk)
        if journal is None or name not in {
            step.name for step in journal.steps if step.after is None
        }:
            continue
        if journal.phase == "purged":
            return f", with run {run_id}, which was purged: there is no way back"
        if journal.phase == "done":
            return f": undo run {run_id} first"
    return ""


def _is_log(name: str) -> bool:
    return name.endswith(paths.LOG) and base_of(name) is not None
