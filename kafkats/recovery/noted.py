"""Our record of a broker's log directories at an earlier start: `recover.json`, outside them.

Each work area has one, about all log directories of the broker; `--record` names a further folder.
So the record of a lost disk is in the work areas of the other disks, or in that folder. It has
numbers of partitions and no names: a broker deletes and moves partitions.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from kafkats.errors import KafkatsError, storage
from kafkats.logdir import strict_json
from kafkats.logdir.acting import as_owner_of, make_for_owner
from kafkats.logdir.disk import DISK
from kafkats.logdir.mounts import mount_of, uuid_of
from kafkats.logdir.text import read_small
from kafkats.logdir.workarea import (
    WorkArea,
    area_path,
    existing,
    make_area,
    make_folder,
    work_area,
    write_durably,
)
from kafkats.recovery.holding import Disk, Noted, Root

NAME: Final = "recover.json"
FORMAT: Final = 1


def disk_of(path: Path) -> Disk | None:
    """Return the file system of a path, or of the nearest folder above it. Raises StorageFailed."""
    with storage(path, "looking at its file system"):
        there = existing(path)
        mount = mount_of(there)
        if mount is None:
            return None
        fsid = os.statvfs(there).f_fsid if mount.has_own_id else 0
        return Disk(mount.point, fsid, uuid_of(there), mount.root)


def records(log_dirs: Iterable[str], place: Path | None, folder: Path | None) -> list[Path]:
    """Return the files in which a record may be."""
    found = [area_path(log_dir, place) / NAME for log_dir in log_dirs]
    return [*found, folder / NAME] if folder is not None else found


def read_noted(files: Iterable[Path]) -> dict[str, list[Noted]]:
    """Return what records say, by log directory. Files that cannot be read say nothing."""
    noted: dict[str, list[Noted]] = {}
    for file in files:
        with suppress(KafkatsError, ValueError, TypeError, KeyError, AttributeError):
            for log_dir, one in _entries(file):
                noted.setdefault(log_dir, []).append(one)
    return noted


def _entries(file: Path) -> Iterator[tuple[str, Noted]]:
    for log_dir, one in strict_json.loads(read_small(file))["log_dirs"].items():
        disk = one.get("disk")
        yield (
            str(log_dir),
            Noted(
                int(one["partitions"]),
                one.get("cluster"),
                one.get("node"),
                one.get("directory"),
                None if disk is None else Disk(str(disk[0]), int(disk[1]), *map(str, disk[2:4])),
                str(file),
            ),
        )


def note(
    roots: Sequence[Root],
    before: Mapping[str, Sequence[Noted]],
    place: Path | None,
    folder: Path | None,
) -> list[str]:
    """Write the records, where they have changed. Return why one could not be written.

    `folder` may have entries of other brokers of this machine: they are kept. An absent or empty
    log directory keeps its earlier entry: that is the only proof.
    """
    content: dict[str, Any] = {}
    for root in roots:
        kept = [one for one in before.get(root.log_dir, ()) if one.partitions]
        if root.partitions or not kept:
            content[root.log_dir] = _row(root)
        else:
            content[root.log_dir] = _kept(kept[0])
    areas, failed = _areas(roots, place)
    files = [(area.path / NAME, area, content) for area in areas]
    if folder is not None and areas:
        others = _of_other_brokers(roots, before, folder / NAME)
        files.append((folder / NAME, areas[0], others | content))
    for file, area, log_dirs in files:
        data = json.dumps({"format": FORMAT, "log_dirs": log_dirs}, indent=2, sort_keys=True)
        try:
            _write(file, area, data.encode() + b"\n")
        except KafkatsError as e:
            failed.append(str(e))
    return failed


def _of_other_brokers(
    roots: Sequence[Root], before: Mapping[str, Sequence[Noted]], file: Path
) -> dict[str, Any]:
    """Return the entries of a record that several brokers of a machine share, but for our own."""
    named = {root.log_dir for root in roots}
    own = {(root.cluster, root.node) for root in roots}
    return {
        log_dir: _kept(one)
        for log_dir, found in before.items()
        for one in found
        if log_dir not in named and one.record == str(file) and (one.cluster, one.node) not in own
    }


def _row(root: Root) -> dict[str, Any]:
    return {
        "partitions": root.partitions,
        "cluster": root.cluster,
        "node": root.node,
        "directory": root.directory,
        "disk": root.disk,
    }


def _kept(one: Noted) -> dict[str, Any]:
    return {name: value for name, value in one._asdict().items() if name != "record"}


def _areas(roots: Sequence[Root], place: Path | None) -> tuple[list[WorkArea], list[str]]:
    """Return the work areas of the log directories that are there, and why one has none."""
    areas: list[WorkArea] = []
    failed = []
    for root in roots:
        if root.state == "there":
            try:
                areas.append(work_area(root.log_dir, place))
            except KafkatsError as e:
                failed.append(str(e))
    return areas, failed


def _write(file: Path, area: WorkArea, data: bytes) -> None:
    """Write one record, if it is not as `data`. Raises StorageFailed."""
    with storage(file, "writing the record of the log directories"):
        with suppress(KafkatsError):  # whatever else is there is replaced
            if read_small(file) == data:
                return
        make_for_owner(area)
        with as_owner_of(file.parent, area) as ours:
            if file.parent == area.path:
                make_area(ours, DISK)
            elif not file.parent.is_dir():
                make_folder(file.parent, ours, DISK)
            write_durably(file, data, ours, DISK)
