"""Swap files in an order in which a crash at any point leaves no file that a broker wrongly trusts.

Where no .log changes, one rename swaps each file, and one sync of the directory ends the swap. Old
and new indexes are both correct for the log, in any mixture.

Where a .log changes, an index of the other log would be stale, and since Kafka 2.3 a start does not
check the contents of an index. But brokers rebuild a missing .index (0.8.2, 0.10 and later; 0.9.0
and 1.1 search without one, slowly but correctly). So the segment's indexes are removed first, the
.index before the others. They are put back last, the .index after the others. The directory is
synced between these waves, because effects that are not synced may be lost in any order.

    remove .index | remove .timeindex, .txnindex | swap the rest | put .timeindex, .txnindex
        | put .index

A log that is cut in place (`tails`) takes the place of a replaced one in this order: the indexes
that reach past the cut go before it, and come back after the tail.

Batches that move from one log to another are in both for a while, never in neither. New logs are
added before any log is replaced, and logs are replaced before others are removed, also before a
`.log.swap` that a broker left is removed. An overlap is
harmless: a broker reads each offset from the last segment that begins at or before it. A gap would
lose records.

    ... | add logs | swap the rest | remove logs | ...

An undo takes the same steps, with the old files in place of the new.
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
from kafkats.logdir.journal import Journal, Step
from kafkats.logdir.tails import cut, is_cut, may_come_back, put_back
from kafkats.logdir.workarea import Site, make_folder

Side = Literal["old", "new"]

_LOGS: Final = (paths.LOG, f"{paths.LOG}.swap")
"""A `.log.swap` of a broker may be the only file that has its batches."""
_GUARDED: Final = ((paths.OFFSET_INDEX,), (paths.TIME_INDEX, paths.TXN_INDEX))


class Move(NamedTuple):
    """One move of a swap.

    `clear` removes the file for a while, `settle` puts the final state in place.
    """

    verb: Literal["clear", "settle"]
    step: Step


class Source(NamedTuple):
    """A file to put in place, and a second name for it on the same file system, to rename."""

    path: Path
    second_name: Path


def waves(steps: Sequence[Step], side: Side = "new") -> list[list[Move]]:
    """Return the moves to `side` in order. The directory is synced after each inner list.

    A guarded index is removed if it is on the other side, and put in place if it is on `side`.
    """
    other: Side = "old" if side == "new" else "new"
    logs = {
        base
        for name, base in ((s.name, base_of(s.name)) for s in steps)
        if name.endswith(paths.LOG)
    }
    guarded = [
        [s for s in steps if base_of(s.name) in logs and s.name.endswith(kinds)]
        for kinds in _GUARDED
    ]
    rest = [s for s in steps if not any(s in group for group in guarded)]
    coming, going = _log_steps(rest, other, side), _log_steps(rest, side, other)
    if len(coming) + len(going) == sum(s.name.endswith(paths.LOG) for s in rest) and not (
        coming and going
    ):
        coming, going = [], []  # no batch moves between logs
    between = [s for s in rest if s not in coming and s not in going]
    order = [
        *([Move("clear", s) for s in group if _file(s, other)] for group in guarded),
        *([Move("settle", s) for s in group] for group in (coming, between, going)),
        *([Move("settle", s) for s in group if _file(s, side)] for group in reversed(guarded)),
    ]
    return [moves for moves in order if moves]


def _log_steps(steps: Sequence[Step], without: Side, having: Side) -> list[Step]:
    """Return the steps of logs that exist on side `having` and not on side `without`."""
    return [
        s
        for s in steps
        if s.name.endswith(_LOGS) and _file(s, without) is None and _file(s, having)
    ]


def _file(step: Step, side: Side) -> FileIdentity | None:
    """Return the file of `side`, None where it has none."""
    return step.before if side == "old" else step.after


@lru_cache(maxsize=1024)
def base_of(name: str) -> int | None:
    """Return the base offset of the segment that a file name belongs to, None for other files."""
    segment = paths.parse_segment_file(name)
    return segment.base_offset if segment else None


def stands(step: Step, live: FileIdentity | None, side: Side) -> bool:
    """Return whether the live file is the one of `side`.

    The run's own links and cuts change the ctime: it is ignored.
    """
    wanted = _file(step, side)
    return wanted is live if wanted is None or live is None else wanted.same_file(live)


def check_standing(place: Site, steps: Sequence[Step], disk: Disk, *, finished: bool) -> None:
    """Raise Changed unless every live file is as the run left it.

    All files are new after a finished run, old or new after an interrupted one. An interrupted run
    may also have removed an index for the duration of the swap.
    """
    cleared = {move.step.name for wave in waves(steps) for move in wave if move.verb == "clear"}
    identities = disk.identities(place.directory, [step.name for step in steps])
    for step in steps:
        live = identities[step.name]
        if stands(step, live, "new"):
            if live is None or disk.attributes(place.directory / step.name) == step.attributes:
                continue
        elif not finished and (
            stands(step, live, "old")
            or (live is None and step.name in cleared)
            or (is_cut(step) and may_come_back(step, live))
        ):
            continue
        raise Changed(
            "not as the run left it; left alone: keep it and purge the run, or plan again",
            path=place.directory / step.name,
        )


def drive(
    place: Site, steps: Sequence[Step], side: Side, sources: dict[str, Source], disk: Disk
) -> None:
    """Bring every live file to `side`, from any state that an interruption has left.

    `sources` has the file to put in place for each step whose `side` is a file, and for an undo the
    tail of each log that was cut in place.
    """
    for wave in waves(steps, side):
        for verb, step in wave:
            live = place.directory / step.name
            now = disk.identify(live)
            if stands(step, now, side):
                if is_cut(step):  # a killed attempt may not have come to syncing it
                    disk.sync_file(live)
                continue
            if is_cut(step) and side == "new":
                cut(live, step, disk)
            elif is_cut(step):
                put_back(live, step, sources[step.name].path, disk)
            elif verb == "settle" and step.name in sources:
                _put(sources[step.name], live, disk)
            elif now is not None:
                disk.unlink(live)
        disk.sync_dir(place.directory)


def _put(source: Source, live: Path, disk: Disk) -> None:
    # A rename of the source itself would use it up. A crash that loses the new name but keeps the
    # removal of the old one would then lose the file.
    disk.unlink(source.second_name)
    try:
        disk.link(source.path, source.second_name)
    except OSError as e:
        # tmpfs counts a link as an inode. Elsewhere a directory may have to grow for a new name.
        if e.errno not in FULL or not disk.moves_whole(live.parent):
            raise
        disk.rename(source.path, live)
        return
    disk.rename(source.second_name, live)


def keep_old(place: Site, steps: Sequence[Step], disk: Disk) -> None:
    """Keep every live file that still is the old one.

    Files kept before are skipped. The result is synced. A run that only adds files, or cuts logs,
    gets no undo folder. Raises Changed when an old file is neither live nor kept.
    """
    old = [step for step in steps if step.before is not None and not is_cut(step)]
    if not old:
        return
    folder = place.undo if place.area.linked else place.directory
    if place.area.linked:
        make_folder(place.undo, place.area, disk)
    saved = set(disk.names(folder))
    wanted = [step for step in old if place.kept(step.name).name not in saved]
    identities = disk.identities(place.directory, [step.name for step in wanted])
    for step in wanted:
        kept = place.kept(step.name)
        if not stands(step, identities[step.name], "old"):
            raise Changed("the old file was swapped out, but was not kept", path=kept)
        disk.link(place.directory / step.name, kept)
    disk.sync_dir(folder)


def kept_old(place: Site, journal: Journal, disk: Disk) -> dict[str, Source]:
    """Return, by name, the sources of the old files that are no longer live.

    Of a log that was cut in place this is its tail.
    """
    sources = {}
    for step in journal.steps:
        if step.before is None or stands(step, disk.identify(place.directory / step.name), "old"):
            continue
        if is_cut(step):
            tail = place.tails(journal.epoch) / step.name
            sources[step.name] = Source(tail, tail)
        else:
            sources[step.name] = Source(place.kept(step.name), place.kept_again(step.name))
    return sources
