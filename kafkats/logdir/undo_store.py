"""The old files of a run, kept until the undo window closes.

They are hard links, or copies when the work area lies on another file system.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kafkats.errors import Changed
from kafkats.logdir.disk import Disk
from kafkats.logdir.journal import Step
from kafkats.logdir.swap import Source, stands
from kafkats.logdir.workarea import Site, make_folder


def keep_old(place: Site, steps: Sequence[Step], disk: Disk) -> None:
    """Keep every live file that still is the old one.

    Files kept before are skipped. The result is synced. A run that only adds files gets no undo
    folder. Raises Changed when an old file is neither live nor in the undo folder.
    """
    if all(step.before is None for step in steps):
        return
    make_folder(place.undo, place.area, disk)
    saved = set(disk.names(place.undo))
    wanted = [step for step in steps if step.before is not None and step.name not in saved]
    identities = disk.identities(place.directory, [step.name for step in wanted])
    for step in wanted:
        live, kept = place.directory / step.name, place.undo / step.name
        if not stands(place, step, identities[step.name], "old"):
            raise Changed("the old file was swapped out, but is not in the undo folder", path=kept)
        if place.area.linked:
            disk.link(live, kept)
        else:
            partial = kept.with_name(f"{step.name}~2")
            _copy(live, partial, disk)
            disk.rename(partial, kept)
    disk.sync_dir(place.undo)


def kept_old(place: Site, steps: Sequence[Step], disk: Disk) -> dict[str, Source]:
    """Return, by name, the sources of the old files that are no longer live."""
    swapped = [
        step.name
        for step in steps
        if step.before is not None
        and not stands(place, step, disk.identify(place.directory / step.name), "old")
    ]
    if place.area.linked:
        return {name: Source(place.undo / name, place.undo / f"{name}~2") for name in swapped}
    for name in swapped:
        _copy(place.undo / name, place.staged(0, name), disk)
    return {name: Source(place.staged(0, name), place.staged(0, f"{name}~2")) for name in swapped}


def _copy(source: Path, target: Path, disk: Disk) -> None:
    """Copy to another file system with all attributes and the mtime, and sync."""
    attributes, identity = disk.attributes(source), disk.identify(source)
    disk.unlink(target)
    disk.write(target, disk.read(source))
    disk.own(target, attributes.mode, attributes.uid, attributes.gid)
    disk.set_xattrs(target, attributes.xattrs)
    if identity is not None:
        disk.set_mtime(target, identity.mtime_ns)
    disk.sync_file(target)
