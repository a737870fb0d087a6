"""The partition directories of a large listing, in groups: one task lists and looks at a group.

The groups come from names alone: whole partitions, in their order, of one log directory. So they
are the same whoever works on them. `listed` compares a sample of each with what a task finds.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from kafkats import paths
from kafkats.errors import StorageFailed, storage
from kafkats.evidence.claims import is_tiered
from kafkats.logdir.identity import FileIdentity
from kafkats.logdir.location import locate
from kafkats.logdir.root import list_root, present_in, read_root
from kafkats.plans.units import (
    Unit,
    chosen_names,
    distinct_places,
    is_live,
    own_units,
    units_at,
)

_OTHERS: Final = (None,) * (len(paths.SEGMENT_KINDS) - 1)
assert paths.SEGMENT_KINDS[0] == paths.LOG


@dataclass(frozen=True)
class Directories:
    """Partition directories of a log directory: group `number` of a listing.

    `segments` is their number in all partitions of `names`. `own` is the unit of the log directory
    itself, () without findings. `samples` has one unit per partition with rolled segments: the
    first one, of whose files only the log is listed.
    """

    number: int
    log_dir: str
    names: tuple[str, ...]
    segments: int
    tiered: bool
    own: tuple[Unit, ...] = ()
    samples: tuple[Unit, ...] = ()

    def units(self) -> Iterator[Unit]:
        """Yield the units of these directories, as `list_units` does. Raises StorageFailed."""
        yield from self.own
        path = Path(self.log_dir)
        names = list_root(path)
        root, live = read_root(path, names), is_live(path)
        for name in self.names:
            yield from units_at(root, name, names, live=live, tiered=self.tiered)


class _Counted(NamedTuple):
    """A partition directory, its segments, and its first one if that is rolled."""

    name: str
    segments: int
    sample: Unit | None


def divide(
    log_dirs: Iterable[str | os.PathLike[str]], topics: str, *, most: int
) -> list[Directories]:
    """Return groups of up to `most` segments of log.dirs roots; a larger partition is one alone.

    Returns none where a path is not a root. Raises as `list_units`.
    """
    places = distinct_places(map(locate, log_dirs))
    if any(place.partition is not None for place in places):
        return []
    roots = {place.path.absolute(): list_root(place.path) for place in places}
    tiered = any(map(is_tiered, roots.values()))
    present = present_in(roots.values())
    groups: list[Directories] = []
    for path, names in roots.items():
        live = is_live(path)
        own = tuple(own_units(read_root(path, names), names, present, topics, live=live))
        counted = (_count(path, name, live=live) for name in chosen_names(names, topics))
        for together in _together(counted, most, alone=bool(own)):
            groups.append(_group(len(groups), path, together, own, tiered=tiered))
            own = ()
    return groups


def _together(counted: Iterable[_Counted], most: int, *, alone: bool) -> Iterator[list[_Counted]]:
    """Yield neighbours with up to `most` segments; an empty list if there are none and `alone`."""
    group: list[_Counted] = []
    segments = 0
    for one in counted:
        if group and segments + one.segments > most:
            yield group
            group, segments = [], 0
        group.append(one)
        segments += one.segments
    if group or alone:
        yield group


def _group(
    number: int, path: Path, counted: list[_Counted], own: tuple[Unit, ...], *, tiered: bool
) -> Directories:
    return Directories(
        number,
        str(path),
        tuple(one.name for one in counted),
        sum(one.segments for one in counted),
        tiered,
        own,
        tuple(one.sample for one in counted if one.sample is not None),
    )


def _count(path: Path, name: str, *, live: bool) -> _Counted:
    """Count the logs of a partition directory. One that cannot be listed has none here: its unit
    tells the reason.
    """
    try:
        with storage(path / name, "counting segments"):
            with os.scandir(path / name) as entries:
                logs = [entry.name for entry in entries if entry.name.endswith(paths.LOG)]
            first, rolled = min(logs, default=""), len(logs) > 1
            sample = _sample(path, name, first, live=live) if rolled else None
    except StorageFailed:
        return _Counted(name, 0, None)
    return _Counted(name, len(logs), sample)


def _sample(path: Path, name: str, file: str, *, live: bool) -> Unit | None:
    parsed = paths.parse_segment_file(file)
    if parsed is None:
        return None
    now = os.lstat(path / name / file)
    log = FileIdentity(now.st_size, now.st_mtime_ns, now.st_ctime_ns, now.st_ino)
    return Unit(
        str(path),
        name,
        parsed.base_offset,
        next_base_offset=parsed.base_offset + 1,
        live=live,
        files=(log, *_OTHERS),
    )
