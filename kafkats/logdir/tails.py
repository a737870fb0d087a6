"""Cut a log in place, and put the cut bytes back.

The tail of the log is saved in the run's folder, synced and read back, before the journal names the
cut. Zeros at its end are not saved: their number follows from the size of the old file. The cut
itself is one truncation. So it costs what is torn, and no copy of the log.

An interrupted undo leaves a log that is longer than the cut one. What follows behind the cut is
then a part of the tail, or zeros that a power failure left. Anything else was written since by a
broker, and is left alone.
"""

from __future__ import annotations

from pathlib import Path

from kafkats.errors import Changed
from kafkats.hashes import SHA256
from kafkats.logdir.disk import Disk
from kafkats.logdir.identity import FileIdentity
from kafkats.logdir.journal import Step
from kafkats.logdir.workarea import Site, make_folder


def is_cut(step: Step) -> bool:
    """Return whether a step cuts its file in place. Such a file keeps its inode."""
    return bool(step.before and step.after and step.before.inode == step.after.inode)


def save_tail(
    place: Site, epoch: int, name: str, before: FileIdentity, size: int, disk: Disk
) -> str:
    """Save what the file `name` has behind its first `size` bytes. Return the tail's SHA-256.

    Raises Changed for a file with a second hard link, or a tail that does not read back; OSError.
    """
    live, saved = place.directory / name, place.tails(epoch) / name
    _refuse_shared(live, disk)
    make_folder(place.tails(epoch), place.area, disk)
    disk.unlink(saved)
    sha256 = disk.copy_tail(live, size, before.size, saved)
    disk.sync_file(saved)
    disk.sync_dir(saved.parent)
    if disk.hash(saved, SHA256) != sha256:
        raise Changed("the saved tail does not read back", path=saved)
    return sha256


def _refuse_shared(live: Path, disk: Disk) -> None:
    """Raise Changed for a log with a second hard link: a backup would be cut with it."""
    if disk.links(live) > 1:
        raise Changed("the log got a second name (a hard link) since it was looked at", path=live)


def cut(live: Path, step: Step, disk: Disk) -> None:
    """Cut the file to its new size, and sync it. Raises Changed, OSError."""
    assert step.before and step.after
    now = disk.identify(live)
    if now is None or not (step.before.same_file(now) or _is_half_cut(step, now)):
        raise Changed("changed since it was looked at", path=live)
    if now.size != step.after.size:
        _refuse_shared(live, disk)
        disk.truncate(live, step.after.size)
    disk.set_mtime(live, step.after.mtime_ns)
    disk.sync_file(live)


def put_back(live: Path, step: Step, saved: Path, disk: Disk) -> None:
    """Write the saved tail behind the cut again, and sync the file. Raises Changed, OSError."""
    assert step.before and step.after
    now = disk.identify(live)
    if (
        now is None
        or not may_come_back(step, now)
        or not disk.continues(live, step.after.size, saved)
    ):
        raise Changed(
            "has other bytes behind the cut than those that were cut: left alone", path=live
        )
    disk.restore_tail(live, step.after.size, saved, step.before.size)
    disk.sync_file(live)  # before the mtime, by which the old file is known again
    disk.set_mtime(live, step.before.mtime_ns)
    disk.sync_file(live)


def may_come_back(step: Step, now: FileIdentity | None) -> bool:
    """Return whether an interrupted run or undo can have left a cut file like this, by its size."""
    if now is None or step.before is None or step.after is None:
        return False
    return now.inode == step.after.inode and step.after.size <= now.size <= step.before.size


def _is_half_cut(step: Step, now: FileIdentity) -> bool:
    """Return whether the file is cut, and has not got its old mtime again."""
    return step.after is not None and (now.inode, now.size) == (step.after.inode, step.after.size)
