"""The work area: staging folders, undo material, leases and journals of a log directory.

    <parent of the log dir>/.kafkats/<name>/        or <place>/<name>-<hash>/ if a place is named
        <partition>/                                @root, @root-first for the log dir itself
            lock  lease                             who may change this partition; never removed
            runs/<run id>/
                journal                             the intended changes, and the phase
                staging-<epoch>/<file>              new files of one attempt
                tail-<epoch>/<file>                 what was cut from logs in place, likewise
                undo/<file>                         old files, until the undo window closes
        reservation  reservation.lock               who plans to change the log dir (reservation.py)
        writing.lock                                held by processes that change it

It lies outside the log dir because Kafka does not start when a directory in the log dir is not a
partition. A swap is a rename and an old file is kept as a hard link: both need the log dir's own
mount. Where the work area is on another one, these files lie in the partition directory itself:

    <log dir>/<partition>/.kafkats-<run id>~<epoch>~<file>.tmp      new files of one attempt
    <log dir>/<partition>/.kafkats-<run id>~undo~<file>.tmp         old files
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from kafkats import paths
from kafkats.errors import NotPermitted, Refused, UsageError, storage
from kafkats.logdir.disk import Disk
from kafkats.logdir.mounts import mount_of, refuse_read_only
from kafkats.text import Flag, Text

ROOT: Final = "."
"""A name in place of a partition, for the files of the log dir itself, such as checkpoints."""
ROOT_FIRST: Final = "./."
"""The same for its files that change before the partitions: the clean-shutdown marker.

They have a journal of their own, as a run changes the other files after the partitions.
"""

_FOLDER: Final = ".kafkats"
_ROOT_FOLDERS: Final = {ROOT: "@root", ROOT_FIRST: "@root-first"}
_RUN_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+:@=-]{0,99}")
_OF_A_ROOT: Final = (paths.META_PROPERTIES, paths.CLEAN_SHUTDOWN, paths.RECOVERY_POINT)


class WorkArea(NamedTuple):
    """The work area of one log dir. Nothing is created before the first claim.

    `linked`: the work area is on the log dir's own mount. Otherwise new files and kept old ones lie
    beside the live files, under names that no Kafka version reads. `mode`, `uid` and `gid` are
    those of the log dir, for everything created here.
    """

    root: Path
    path: Path
    linked: bool
    mode: int
    uid: int
    gid: int

    @property
    def beside(self) -> bool:
        """Return whether this is the default work area, in the log dir's parent."""
        return self.path == self.root.parent / _FOLDER / self.root.name


@dataclass(frozen=True)
class Site:
    """The paths of one run in one partition."""

    area: WorkArea
    partition: str
    run_id: str

    @cached_property
    def directory(self) -> Path:
        """The live partition directory."""
        return self.area.root / self.partition

    @cached_property
    def folder(self) -> Path:
        return self.area.path / _ROOT_FOLDERS.get(self.partition, self.partition)

    @cached_property
    def runs(self) -> Path:
        return self.folder / "runs"

    @cached_property
    def run(self) -> Path:
        return self.runs / self.run_id

    @cached_property
    def undo(self) -> Path:
        return self.run / "undo"

    def staging(self, epoch: int) -> Path:
        """Return the directory in which an attempt builds its new files."""
        return self.run / f"staging-{epoch}" if self.area.linked else self.directory

    def staged(self, epoch: int, name: str) -> Path:
        """Return the path at which an attempt builds the new file `name`."""
        if self.area.linked:
            return self.run / f"staging-{epoch}/{name}"
        return self._beside(str(epoch), name)

    def tails(self, epoch: int) -> Path:
        """Return the directory in which an attempt saves what it cuts from logs."""
        return self.run / f"tail-{epoch}"

    def kept(self, name: str) -> Path:
        """Return the second name (a hard link) of the old file `name` while it can be undone."""
        return self.undo / name if self.area.linked else self._beside("undo", name)

    def kept_again(self, name: str) -> Path:
        """Return the third name, which undo renames to `name`."""
        return self.undo / f"{name}~2" if self.area.linked else self._beside("undo", f"{name}~2")

    def _beside(self, what: str, name: str) -> Path:
        return self.directory / f"{self.temporary}{what}~{name}.tmp"

    @property
    def kept_names(self) -> str:
        """The beginning of the names of kept files beside the live ones."""
        return f"{self.temporary}undo~"

    @property
    def temporary(self) -> str:
        """The prefix of our names in a partition directory.

        They end in .tmp, which every Kafka ignores. ROOT and ROOT_FIRST are one directory, and each
        clears its own names only.
        """
        first = "+first" if self.partition == ROOT_FIRST else ""
        return f".kafkats-{self.run_id}{first}~"


def work_area(
    root: str | os.PathLike[str], place: str | os.PathLike[str] | None = None
) -> WorkArea:
    """Return the work area of the log dir `root`, in `place` or else in the log dir's parent.

    Raises Refused or NotPermitted when no place is suitable, UsageError for an unsuitable `place`
    and for a log directory that does not exist, StorageFailed.
    """
    home = Path(os.path.realpath(root))
    with storage(home, "looking at the log directory"):
        if not home.exists():
            raise UsageError("there is no such log directory", path=home)
        st = home.stat()
        if not stat.S_ISDIR(st.st_mode):
            raise UsageError("not a directory", path=home)
        mount = _mount(home)
        path = _default(home) if place is None else _placed(home, Path(os.path.realpath(place)))
        linked = mount == _mount(existing(path))
    return WorkArea(home, path, linked, stat.S_IMODE(st.st_mode), st.st_uid, st.st_gid)


def area_path(root: str | os.PathLike[str], place: str | os.PathLike[str] | None = None) -> Path:
    """Return where the work area of a log dir is, or would be: nothing is looked at."""
    home = Path(os.path.realpath(root))
    return _beside(home) if place is None else _below(Path(os.path.realpath(place)), home)


def _beside(home: Path) -> Path:
    return home.parent / _FOLDER / home.name


def _below(place: Path, home: Path) -> Path:
    return place / f"{home.name}-{hashlib.sha256(os.fsencode(home)).hexdigest()[:12]}"


def site(area: WorkArea, partition: str, run_id: str) -> Site:
    """Return the paths of run `run_id` in `partition` (a directory's name, ROOT or ROOT_FIRST).

    Raises UsageError for invalid names.
    """
    if not _RUN_ID.fullmatch(run_id):
        raise UsageError(f"a run id is up to 100 letters, digits and ._+:@=-, not {run_id!r}")
    if partition not in _ROOT_FOLDERS and paths.parse_partition(partition) is None:
        raise UsageError(f"not a partition directory's name: {partition!r}")
    return Site(area, partition, run_id)


def runs_in(area: WorkArea) -> Iterator[Site]:
    """Yield the sites of all runs in a work area. Raises OSError."""
    partitions = {folder: partition for partition, folder in _ROOT_FOLDERS.items()}
    for run in area.path.glob("*/runs/*"):
        folder = run.parent.parent.name
        yield Site(area, partitions.get(folder, folder), run.name)


def make_run(place: Site, disk: Disk) -> None:
    """Create the run's folder and all above it, synced and with the log dir's owner."""
    make_area(place.area, disk)
    for folder in (place.folder, place.runs, place.run):
        make_folder(folder, place.area, disk)


def make_area(area: WorkArea, disk: Disk) -> None:
    """Create the log dir's folder and the one above it, synced and with the log dir's owner."""
    # .kafkats, or the named place: log dirs of other owners may have theirs there too
    shared = area.path.parent
    if not disk.is_dir(shared):
        make_folder(shared, area, disk)
    disk.sync_dir(shared.parent)
    make_folder(area.path, area, disk)


def make_folder(path: Path, area: WorkArea, disk: Disk) -> None:
    """Create one directory of the work area.

    An existing one is synced too: its creator may have been stopped before the sync.
    """
    disk.make_dir(path)
    disk.own(path, area.mode, area.uid, area.gid)
    disk.sync_dir(path.parent)


def write_durably(path: Path, data: bytes, area: WorkArea, disk: Disk) -> None:
    """Write a file of the work area atomically: a crash leaves the old content or the new."""
    new = path.with_name(path.name + ".new")
    disk.unlink(new)
    disk.write(new, data)
    disk.own(new, area.mode & 0o666, area.uid, area.gid)
    disk.sync_file(new)
    disk.rename(new, path)
    disk.sync_dir(path.parent)


def clear_folder(folder: Path, disk: Disk) -> None:
    """Remove a directory of the work area and its files.

    It may be missing or partly removed already. Raises OSError for a link in its place, and leaves
    alone the files to which the link leads.
    """
    for name in disk.names(folder) if disk.is_dir(folder) else ():
        disk.unlink(folder / name)
    disk.remove_dir(folder)


def _default(home: Path) -> Path:
    parent = home.parent
    way_out = Text(
        "name a place for the work area outside the log directories (",
        Flag("--work-area", "work_area"),
        ")",
    )
    if any((parent / name).exists() for name in _OF_A_ROOT):
        raise Refused(
            "the parent is a log directory too, where a foreign directory stops the broker: "
            + way_out,
            path=home,
        )
    path = _beside(home)
    refuse_read_only(home)
    if not os.access(existing(path), os.W_OK | os.X_OK, effective_ids=True):
        raise NotPermitted("may not write there: " + way_out, path=existing(path))
    return path


def _placed(home: Path, place: Path) -> Path:
    if not place.exists():
        raise UsageError("the place for the work area does not exist", path=place)
    if not place.is_dir():
        raise UsageError("the place for the work area is not a directory", path=place)
    if place.is_relative_to(home) or any((place / name).exists() for name in _OF_A_ROOT):
        raise UsageError(
            "the work area must be outside the log directories: a foreign directory there"
            " stops the broker",
            path=place,
        )
    path = _below(place, home)
    above = existing(path)
    if not os.access(above, os.W_OK | os.X_OK, effective_ids=True):
        raise NotPermitted("may not write to the place for the work area", path=above)
    return path


def existing(path: Path) -> Path:
    """Return the path, or the nearest folder above it that exists."""
    return next(p for p in (path, *path.parents) if p.exists())


def _mount(path: Path) -> tuple[int, str]:
    """Return a key of the mount. A rename works only within one mount, even on the same device."""
    mount = mount_of(path)
    return path.stat().st_dev, mount.point if mount else ""
