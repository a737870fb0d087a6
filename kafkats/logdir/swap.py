"""In which order files are swapped, so that a crash at any point leaves nothing that a broker would wrongly trust.

Where no .log changes, every file is swapped by one rename, and one sync of the directory ends it: old and new indexes
are both true of the log, in any mixture.

Where a .log changes, an index of the other log would be stale, and since Kafka 2.3 a start does not look inside an
index. A missing .index however is rebuilt (0.8.2, 0.10 and later; 0.9.0 and 1.1 search without one: slow but right).
So its segment's indexes go first, the .index before the others, and come back last, the .index after the others, with
a sync of the directory between the waves: what is not synced may be lost in any order.

    .index goes | .timeindex, .txnindex go | the rest is swapped | .timeindex, .txnindex come | .index comes

Where batches move from one log to another they are for a while in both, never in none: logs that come are there before one is
replaced, and that before others go. An overlap is harmless, since a broker reads each offset from the segment that begins last
before it; a gap would be lost records.

    ... | logs come | the rest is swapped | logs go | ...

The way back is the same with the old files in place of the new.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal, NamedTuple

from kafkats import paths
from kafkats.errors import Changed
from kafkats.logdir.disk import FULL, Disk
from kafkats.logdir.identity import FileIdentity
from kafkats.logdir.journal import Step
from kafkats.logdir.workarea import Site

Side = Literal["old", "new"]

INDEXES: Final = (paths.OFFSET_INDEX, paths.TIME_INDEX, paths.TXN_INDEX)
_GUARDED: Final = ((paths.OFFSET_INDEX,), (paths.TIME_INDEX, paths.TXN_INDEX))


class Move(NamedTuple):
    """`clear` takes the file away for a while, `settle` brings it to the side that is wanted."""

    verb: Literal["clear", "settle"]
    step: Step


class Source(NamedTuple):
    """A file to put in place, and a second name for it, on the same file system, to rename."""

    path: Path
    second_name: Path


def waves(steps: Sequence[Step], side: Side = "new") -> list[list[Move]]:
    """The moves to `side` in order; the directory is synced after each inner list."""
    logs = {base for name, base in ((s.name, base_of(s.name)) for s in steps) if name.endswith(paths.LOG)}
    guarded = [[s for s in steps if base_of(s.name) in logs and s.name.endswith(kinds)] for kinds in _GUARDED]
    rest = [s for s in steps if not any(s in group for group in guarded)]
    coming, going = _log_steps(rest, "old", "new"), _log_steps(rest, "new", "old")
    if side == "old":
        coming, going = going, coming
    if len(coming) + len(going) == sum(s.name.endswith(paths.LOG) for s in rest) and not (coming and going):
        coming, going = [], []  # nothing moves from one to another
    between = [s for s in rest if s not in coming and s not in going]
    order = [
        *([Move("clear", s) for s in group] for group in guarded),
        *([Move("settle", s) for s in group] for group in (coming, between, going)),
        *([Move("settle", s) for s in group] for group in reversed(guarded)),
    ]
    return [moves for moves in order if moves]


def _log_steps(steps: Sequence[Step], without: Side, having: Side) -> list[Step]:
    """The logs that one side does not have and the other has."""
    sides = {"old": lambda step: step.before, "new": lambda step: step.after}
    return [s for s in steps if s.name.endswith(paths.LOG) and sides[without](s) is None and sides[having](s)]


@lru_cache(maxsize=1024)
def base_of(name: str) -> int | None:
    """The base offset of the segment that a file name belongs to."""
    segment = paths.parse_segment_file(name)
    return segment.base_offset if segment else None


def stands(place: Site, step: Step, live: FileIdentity | None, side: Side) -> bool:
    """Whether the live file is this side's. The run's own links move the ctime, so it does not count."""
    wanted = step.before if side == "old" else step.after
    if wanted is None or live is None:
        return wanted is live
    if wanted.same_file(live):
        return True
    came_back_as_copy = side == "old" and not place.area.linked and not live.same_file(step.after)
    return came_back_as_copy and (live.size, live.mtime_ns) == (wanted.size, wanted.mtime_ns)


def check_standing(place: Site, steps: Sequence[Step], disk: Disk, *, finished: bool) -> None:
    """Raise Changed unless every live file is as the run left it: all new when it finished, else either side.

    An interrupted run may also have left an index away that it had cleared.
    """
    cleared = {move.step.name for wave in waves(steps) for move in wave if move.verb == "clear"}
    found = disk.identities(place.directory, [step.name for step in steps])
    for step in steps:
        live = found[step.name]
        if stands(place, step, live, "new"):
            if live is None or disk.attributes(place.directory / step.name) == step.attributes:
                continue
        elif not finished and (stands(place, step, live, "old") or (live is None and step.name in cleared)):
            continue
        raise Changed("not as the run left it; left alone", path=place.directory / step.name)


def drive(place: Site, steps: Sequence[Step], side: Side, sources: dict[str, Source], disk: Disk) -> None:
    """Bring every live file to `side`, from wherever an interruption has left it.

    `sources` has the file to put there for each step whose `side` is a file.
    """
    for wave in waves(steps, side):
        for verb, step in wave:
            live = place.directory / step.name
            now = disk.identify(live)
            if stands(place, step, now, side):
                continue
            if verb == "settle" and step.name in sources:
                _put(sources[step.name], live, disk)
            elif now is not None:
                disk.unlink(live)
        disk.sync_dir(place.directory)


def _put(source: Source, live: Path, disk: Disk) -> None:
    # Renaming the source itself would use it up: a crash that loses the new name but not the going of the old one
    # would leave neither.
    disk.unlink(source.second_name)
    try:
        disk.link(source.path, source.second_name)
    except OSError as e:
        # tmpfs counts a link as an inode, and elsewhere a directory may have to grow for it.
        if e.errno not in FULL or not disk.moves_whole(live.parent):
            raise
        disk.rename(source.path, live)
        return
    disk.rename(source.second_name, live)
