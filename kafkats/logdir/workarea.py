"""The work area: where a log directory's staging, undo material, leases and journals live.

    <parent of the log dir>/.kafkats/<name>/        or <place>/<name>-<hash>/ when the operator names a place
        <partition>/                                @root for the log dir itself
            lock  lease                             never removed: who may change this partition
            runs/<run id>/
                journal                             what is meant, and how far it is
                staging-<epoch>/<file>              new files of one attempt
                undo/<file>                         old files, until the undo window is closed
        reservation  reservation.lock               who is going to change the log dir (reservation.py)

It lies outside the log dir, because Kafka refuses to start on a directory there that is not a partition, and on the
same mount, because a swap is a rename and undo material a hard link.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from pathlib import Path
from typing import Final, NamedTuple

from kafkats import paths
from kafkats.errors import NotPermitted, Refused, UsageError, storage
from kafkats.logdir.disk import Disk
from kafkats.logdir.mounts import mount_of

ROOT: Final = "."
"""As a partition: the files of the log dir itself, such as checkpoints."""

_FOLDER: Final = ".kafkats"
_RUN_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+:@=-]{0,99}")
_OF_A_ROOT: Final = (paths.META_PROPERTIES, paths.CLEAN_SHUTDOWN, paths.RECOVERY_POINT)


class WorkArea(NamedTuple):
    """The work area of one log dir; nothing is created before the first claim.

    `linked`: on the log dir's own mount. Otherwise undo material is copied, staging is done beside the live files
    under names that no Kafka reads, and only index files may be changed.
    `mode`, `uid`, `gid`: the log dir's, for all that is made here.
    """

    root: Path
    path: Path
    linked: bool
    mode: int
    uid: int
    gid: int

    @property
    def beside(self) -> bool:
        """Whether it is the default one, in the log dir's parent."""
        return self.path == self.root.parent / _FOLDER / self.root.name


class Site(NamedTuple):
    """The places of one run in one partition."""

    area: WorkArea
    partition: str
    run_id: str

    @property
    def directory(self) -> Path:
        """The live partition directory."""
        return self.area.root / self.partition

    @property
    def folder(self) -> Path:
        return self.area.path / ("@root" if self.partition == ROOT else self.partition)

    @property
    def runs(self) -> Path:
        return self.folder / "runs"

    @property
    def run(self) -> Path:
        return self.runs / self.run_id

    @property
    def undo(self) -> Path:
        return self.run / "undo"

    def staging(self, epoch: int) -> Path:
        """The directory that an attempt's new files are built in."""
        return self.run / f"staging-{epoch}" if self.area.linked else self.directory

    def staged(self, epoch: int, name: str) -> Path:
        """Where an attempt builds the new file `name`."""
        if self.area.linked:
            return self.staging(epoch) / name
        return self.directory / f"{self.temporary}{epoch}~{name}.tmp"

    @property
    def temporary(self) -> str:
        """How our names in a partition directory begin; they end in .tmp, which every Kafka passes by."""
        return f".kafkats-{self.run_id}~"


def work_area(root: str | os.PathLike[str], place: str | os.PathLike[str] | None = None) -> WorkArea:
    """Find the work area of the log dir `root`; `place` is a directory to have it in instead of the log dir's parent.

    Raises Refused or NotPermitted when there is no fit place, UsageError for an unfit `place`, StorageFailed.
    """
    home = Path(os.path.realpath(root))
    with storage(home, "look at the log directory"):
        st = home.stat()
        if not stat.S_ISDIR(st.st_mode):
            raise UsageError("not a directory", path=home)
        path = _beside(home) if place is None else _placed(home, Path(os.path.realpath(place)))
        linked = _mount(home) == _mount(_existing(path))
    return WorkArea(home, path, linked, stat.S_IMODE(st.st_mode), st.st_uid, st.st_gid)


def site(area: WorkArea, partition: str, run_id: str) -> Site:
    """The places of run `run_id` in `partition` (a directory's name, or ROOT). Raises UsageError for unfit names."""
    if not _RUN_ID.fullmatch(run_id):
        raise UsageError(f"a run id is up to 100 letters, digits and ._+:@=-, not {run_id!r}")
    if partition != ROOT and paths.parse_partition(partition) is None:
        raise UsageError(f"not a partition directory's name: {partition!r}")
    return Site(area, partition, run_id)


def make_run(place: Site, disk: Disk) -> None:
    """Have the run's folder and all above it, durably and with the log dir's owner."""
    make_area(place.area, disk)
    for folder in (place.folder, place.runs, place.run):
        make_folder(folder, place.area, disk)


def make_area(area: WorkArea, disk: Disk) -> None:
    """Have the log dir's folder and the one above it, durably and with the log dir's owner."""
    shared = area.path.parent  # .kafkats, or the operator's place: log dirs of other owners may have theirs there too
    if not disk.is_dir(shared):
        make_folder(shared, area, disk)
    disk.sync_dir(shared.parent)
    make_folder(area.path, area, disk)


def make_folder(path: Path, area: WorkArea, disk: Disk) -> None:
    """Have one directory of the work area.

    One that is there is synced all the same: whoever made it may have been stopped before doing so.
    """
    disk.make_dir(path)
    disk.own(path, area.mode, area.uid, area.gid)
    disk.sync_dir(path.parent)


def write_durably(path: Path, data: bytes, area: WorkArea, disk: Disk) -> None:
    """Put a file of the work area in place, whole: after a crash it is as before or as now."""
    new = path.with_name(path.name + ".new")
    disk.unlink(new)
    disk.write(new, data)
    disk.own(new, area.mode & 0o666, area.uid, area.gid)
    disk.sync_file(new)
    disk.rename(new, path)
    disk.sync_dir(path.parent)


def clear_folder(folder: Path, disk: Disk) -> None:
    """Remove a directory of the work area and the files in it; it may be gone, or half so."""
    for name in disk.names(folder):
        disk.unlink(folder / name)
    disk.remove_dir(folder)


def _beside(home: Path) -> Path:
    parent = home.parent
    way_out = "name a place for the work area outside the log directories (--work-area)"
    if _mount(home) != _mount(parent):
        raise Refused(
            f"the log directory is a mount of its own, so nothing beside it is on its file system: {way_out}", path=home
        )
    if any((parent / name).exists() for name in _OF_A_ROOT):
        raise Refused(
            f"the parent is a log directory too, where a foreign directory stops the broker: {way_out}", path=home
        )
    path = parent / _FOLDER / home.name
    if not os.access(_existing(path), os.W_OK | os.X_OK):
        raise NotPermitted(f"may not write there: {way_out}", path=_existing(path))
    return path


def _placed(home: Path, place: Path) -> Path:
    if not place.is_dir():
        raise UsageError("the place for the work area is not a directory", path=place)
    if place.is_relative_to(home) or any((place / name).exists() for name in _OF_A_ROOT):
        raise UsageError(
            "the work area must be outside the log directories: a foreign directory there stops the broker", path=place
        )
    if not os.access(place, os.W_OK | os.X_OK):
        raise NotPermitted("may not write to the place for the work area", path=place)
    return place / f"{home.name}-{hashlib.sha256(os.fsencode(home)).hexdigest()[:12]}"


def _existing(path: Path) -> Path:
    return next(p for p in (path, *path.parents) if p.exists())


def _mount(path: Path) -> tuple[int, str]:
    """What two paths share when one can be renamed to the other; two mounts of one device cannot."""
    mount = mount_of(path)
    return path.stat().st_dev, mount.point if mount else ""
