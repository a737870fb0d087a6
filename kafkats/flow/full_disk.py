"""Say what frees space on a full disk: purges of finished runs keep their old files no longer."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from kafkats.config.options import WorkArea as WorkAreaOption
from kafkats.counts import counted, size_text
from kafkats.errors import DiskFull, KafkatsError
from kafkats.flow.ending import kept_alone
from kafkats.logdir.disk import DISK
from kafkats.logdir.journal import read_journal
from kafkats.logdir.workarea import WorkArea, existing, runs_in, work_area
from kafkats.request import LogDirectory, Request
from kafkats.reserving.record import root_of
from kafkats.text import Command, Text

_ENDED: Final = ("done", "undone")
_NAMED: Final = 3


class Kept(NamedTuple):
    """A finished run, and the bytes of old files that only it keeps on a disk."""

    run_id: str
    bytes: int


def told_full(error: DiskFull, request: Request, seen: Iterable[LogDirectory]) -> DiskFull:
    """Return an error of a full disk with `what_frees`. `seen` are log directories of the work
    beside those that the request names. A disk that is not seen from here is another machine's.
    """
    if not Path(error.path or ".").parent.exists():
        return error
    log_dirs = dict.fromkeys(one.path for one in (*request.log_dirs, *seen))
    more = what_frees(Path(error.path or "."), log_dirs, request.of(WorkAreaOption).place)
    return DiskFull(Text(error.reason, ": ", more), **error.where_and_what())


def what_frees(path: Path, log_dirs: Iterable[Path], place: Path | None) -> Text:
    """Return what is free on the file system of `path`, what purges would free there, and how the
    work goes on. `log_dirs` have their work areas in `place`, or in the default one.
    """
    at = existing(Path(os.path.realpath(path)))
    parts: list[str | Command] = [f"{size_text(shutil.disk_usage(at).free)} free on its disk"]
    if kept := finished_runs(at, log_dirs, place):
        size = size_text(sum(one.bytes for one in kept))
        runs = ", ".join(one.run_id for one in kept[:_NAMED])
        more = f" and {len(kept) - _NAMED} more" if len(kept) > _NAMED else ""
        parts += [
            f", and {size} more after ",
            Command("purge", ("RUN",)),
            f" of {counted(len(kept), 'finished run')} ({runs}{more})",
        ]
    return Text(*parts, ". Every file is whole: free space, and the same command finishes the work")


def finished_runs(at: Path, log_dirs: Iterable[Path], place: Path | None) -> list[Kept]:
    """Return the finished runs with old files on the file system of `at`, those with most first.

    What cannot be read is left out.
    """
    device, found = at.stat().st_dev, Counter[str]()
    for log_dir in log_dirs:
        with suppress(KafkatsError, OSError):
            area = work_area(root_of(log_dir), place)
            if area.root.stat().st_dev == device:
                for run_id, size in _kept(area):
                    found[run_id] += size
    return [Kept(*one) for one in found.most_common() if one[1]]


def _kept(area: WorkArea) -> Iterator[tuple[str, int]]:
    """Yield the runs that purge may end, with the bytes that this frees in a partition."""
    for place in runs_in(area):
        with suppress(KafkatsError, OSError):
            journal = read_journal(place, DISK)
            if journal is not None and journal.phase in _ENDED:
                yield place.run_id, kept_alone(place)
