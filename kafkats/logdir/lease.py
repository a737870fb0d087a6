"""The right to change a partition: one lock for the moment, one lease per attempt.

A scheduler restarts a task that seems lost, although its first attempt may still run (a zombie).
Each attempt claims the partition and gets an epoch. Only the newest claim is valid. A process
checks its lease only while it holds the lock, and a claim takes the same lock. So a zombie has
either finished before the newer claim, or it is fenced.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from kafkats.errors import CorruptFile, Fenced, storage
from kafkats.logdir import strict_json
from kafkats.logdir.disk import DISK, FULL, Disk
from kafkats.logdir.workarea import Site, WorkArea, make_folder, make_run, site, write_durably


class Lease(NamedTuple):
    """The claim of one attempt to one partition.

    `token` distinguishes claims of equal epoch, in case a lease file was lost.
    """

    site: Site
    epoch: int
    token: str

    def staged(self, name: str) -> Path:
        """Return the path at which this attempt builds the new file `name`."""
        return self.site.staged(self.epoch, name)


def claim(area: WorkArea, partition: str, run_id: str, *, disk: Disk = DISK) -> Lease:
    """Claim a partition for an attempt of a run, and fence every earlier claim.

    `partition` is a directory's name, or ROOT or ROOT_FIRST for files of the log dir itself.
    Raises Locked while another process changes the partition, UsageError, NotPermitted,
    StorageFailed.
    """
    place = site(area, partition, run_id)
    with storage(place.folder, "claim the partition"):
        make_run(place, disk)
        with exclusive(place, disk):
            lease = take_over(place, disk)
        if area.linked:
            make_folder(place.staging(lease.epoch), area, disk)
    return lease


@contextmanager
def exclusive(place: Site, disk: Disk) -> Generator[None]:
    """Hold the partition's lock. Raises Locked."""
    path = place.folder / "lock"
    with disk.lock(path):
        disk.own(path, place.area.mode & 0o666, place.area.uid, place.area.gid)
        yield


def take_over(place: Site, disk: Disk) -> Lease:
    """Fence all earlier claims. The caller holds the lock."""
    epoch, _ = _read(place, disk)
    lease = Lease(place, epoch + 1, os.urandom(8).hex())
    text = json.dumps({"epoch": lease.epoch, "token": lease.token, "run_id": place.run_id})
    write_durably(place.folder / "lease", text.encode(), place.area, disk)
    return lease


def fence(place: Site, disk: Disk) -> None:
    """Fence all earlier claims if the disk has room for a lease. The caller holds the lock.

    Without room they are refused too: they find the journal in its new phase, or their staged files
    removed.
    """
    try:
        take_over(place, disk)
    except OSError as e:
        if e.errno not in FULL:
            raise
        disk.unlink(place.folder / "lease.new")


def check_lease(lease: Lease, disk: Disk) -> None:
    """Raise Fenced when there is a newer claim. The caller holds the lock."""
    epoch, token = _read(lease.site, disk)
    if (epoch, token) != (lease.epoch, lease.token):
        raise Fenced(
            f"a newer attempt has claimed the partition (epoch {epoch}, this is {lease.epoch})",
            path=lease.site.directory,
        )


def is_fenced(lease: Lease, disk: Disk = DISK) -> bool:
    """Return whether there is a newer claim. Raises CorruptFile, StorageFailed."""
    with storage(lease.site.folder, "looking for a newer claim"):
        return _read(lease.site, disk) != (lease.epoch, lease.token)


def _read(place: Site, disk: Disk) -> tuple[int, str]:
    path = place.folder / "lease"
    if disk.identify(path) is None:
        return 0, ""
    try:
        lease = strict_json.loads(disk.read(path))
        return strict_json.int64(lease["epoch"]), str(lease["token"])
    except (ValueError, KeyError, TypeError) as e:
        raise CorruptFile(f"not a lease: {e}", path=path) from e
