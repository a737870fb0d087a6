"""The end of a run: undo restores the old files, purge frees them.

One partition directory at a time. Nothing can be undone after a purge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import pyarrow as pa

from kafkats import paths
from kafkats.errors import (
    CorruptPlan,
    DiskFull,
    KafkatsError,
    Refused,
    StorageFailed,
    exists,
    storage,
)
from kafkats.execution.executor import Executor
from kafkats.logdir.changeset import purge, undo
from kafkats.logdir.disk import DISK
from kafkats.logdir.journal import begun_at, read_journal
from kafkats.logdir.resume_checks import check_way_back
from kafkats.logdir.staging import kept_files
from kafkats.logdir.swap import stands
from kafkats.logdir.workarea import ROOT_FIRST, Site, runs_in, site, work_area
from kafkats.plans.columns import schema_of
from kafkats.plans.facts import DIRECTORY
from kafkats.plans.files import write_json
from kafkats.plans.rows import PartitionKey
from kafkats.plans.run import PURGED, UNDONE, Run, directories, read_run
from kafkats.plans.volumes import other_volumes


class EndedRow(NamedTuple):
    """The result of undo or purge in one partition directory.

    `outcome` is changeset.Outcome.state, refused or failed; `freed_bytes` is disk space that purge
    freed.
    """

    log_dir: str
    partition_dir: str
    outcome: str
    files: int = 0
    freed_bytes: int = 0
    error: str = ""
    exit_code: int = 0


ENDED: Final = schema_of(EndedRow)
ENDED_AS: Final = pa.schema([
    *DIRECTORY,
    ("phase", pa.string()),
])
"""`phase` is the journal's (logdir.journal.Phase), "" if the run has changed nothing."""


def over_directories(
    executor: Executor,
    stage: str,
    run: Run,
    do: Callable[[PartitionKey], pa.RecordBatch],
    schema: pa.Schema,
    *,
    flushes: bool = False,
) -> pa.Table:
    """The rows that `do` returns for each partition directory of a run.

    `flushes` is that of execution.Work.
    """
    where = list(directories(run))
    return executor.map(stage, where, do, schema, size=lambda _: 1, flushes=flushes)


def bars(run: Run, folder: Path) -> dict[str, KafkatsError]:
    """Return the log directories where a run cannot be ended, and why. Raises as `other_volumes`
    otherwise.
    """
    found: dict[str, KafkatsError] = dict(other_volumes(folder, run.directories))
    for log_dir in run.directories:
        try:
            if log_dir not in found:
                check_area(run, log_dir)
                check_journals(run, log_dir)
        except KafkatsError as e:
            found[log_dir] = e
    return found


def check_area(run: Run, log_dir: str) -> None:
    """Raise KafkatsError if a run's work area is gone: it was made before anything was changed."""
    path = work_area(log_dir, run.place).path
    if not exists(path, "looking for the work area"):
        lost = "this run's work area is missing, so its undo material is gone: is its disk mounted?"
        raise KafkatsError(lost, path=path)


def check_journals(run: Run, log_dir: str) -> None:
    """Raise CorruptPlan if a run has a journal in a directory that its run.json does not name."""
    area = work_area(log_dir, run.place)
    with storage(area.path, "listing journals"):
        for place in runs_in(area):
            if place.run_id == run.run_id and place.partition not in run.directories[log_dir]:
                raise CorruptPlan("run.json lacks this directory of the run", path=place.directory)


def end_partition(
    run: Run,
    verb: Literal["undo", "purge"],
    log_dir: str,
    partition_dir: str,
    *,
    wrote: bool = False,
    abandon: bool = False,
) -> dict[str, Any]:
    """Undo or purge a run in one partition directory. Return a row of ENDED.

    `wrote`: the run's report says that it wrote here, so there must be a journal. `abandon` allows
    purge to end an interrupted run too, and leaves its files as they are.
    """
    freed = 0
    try:
        place = _site(run, log_dir, partition_dir)
        area = place.area
        if verb == "undo":
            outcome = undo(area, partition_dir, run.run_id, owner_stopped=run.owner_stopped)
        else:
            before = kept_alone(place)
            outcome = purge(area, partition_dir, run.run_id, abandon=abandon)
            freed = before - kept_alone(place)
    except KafkatsError as e:
        return refused_end(log_dir, partition_dir, e)
    if wrote and outcome.state == "nothing":
        lost = KafkatsError("this run wrote here, but its undo material is gone")
        return refused_end(log_dir, partition_dir, lost)
    files = len(outcome.names)
    return EndedRow(log_dir, partition_dir, outcome.state, files, freed)._asdict()


def refused_end(log_dir: str, partition_dir: str, error: KafkatsError) -> dict[str, Any]:
    """Return a row of ENDED where nothing was undone or purged because of `error`."""
    word = "refused" if isinstance(error, Refused) else "failed"
    row = EndedRow(log_dir, partition_dir, word, error=str(error), exit_code=error.exit_code)
    return row._asdict()


def note_purged(folder: Path, rows: Sequence[Mapping[str, Any]], *, now_ms: int) -> str:
    """Write `purge.json` in a run's folder: its undo window is closed everywhere.

    `rows` are of ENDED, without errors. A repeated purge that freed nothing more keeps the file.
    Returns a remark if the disk has no room for the file, since the purge itself succeeded. Raises
    StorageFailed.
    """
    path = folder / PURGED
    freed = {name: sum(row[name] for row in rows) for name in ("files", "freed_bytes")}
    if not freed["freed_bytes"] and exists(path, "looking for an earlier purge"):
        return ""
    try:
        write_json(path, freed | {"at_ms": now_ms})
    except DiskFull as e:
        return f"purged, but not noted: {e}"
    return ""


def note_undone(folder: Path, *, now_ms: int) -> None:
    """Write `undone.json` in a run's folder. A failure to write it does not affect the undo."""
    with suppress(StorageFailed):
        write_json(folder / UNDONE, {"at_ms": now_ms})


def note_proved(folder: Path, *, files: int, undone: int) -> None:
    """Write `proof.json` in a run's folder: the number of files read again that are as planned.

    `undone` is the number of directories in which the run was undone before. Raises StorageFailed.
    """
    write_json(folder / "proof.json", {"files": files, "undone": undone})


def phase_of(run: Run, log_dir: str, partition_dir: str) -> str:
    """Return the phase of the run in one partition directory, as ENDED_AS has it.

    Raises CorruptFile, StorageFailed.
    """
    place = _site(run, log_dir, partition_dir)
    with storage(place.run, "reading what a run did"):
        journal = read_journal(place, DISK)
    return journal.phase if journal else ""


def phases(folder: Path) -> Counter[str]:
    """Return the number of a run's directories by phase, "" for those where it has not begun.

    Raises as `read_run` and `phase_of`.
    """
    run = read_run(folder)
    return Counter(phase_of(run, *where) for where in directories(run))


def undoable(run: Run, log_dir: str, partition_dir: str, *, wrote: bool) -> bool:
    """Return whether an undo would restore the old state.

    The old files must be kept, and the new ones must be as the run left them. True as well if the
    run has changed nothing. Raises CorruptFile, StorageFailed.
    """
    place = _site(run, log_dir, partition_dir)
    with storage(place.run, "looking for the old files"):
        journal = read_journal(place, DISK)
        if journal is None:
            return not wrote
        if journal.phase in {"intent", "done"}:
            try:
                check_way_back(place, journal, DISK)
            except Refused:
                return False
        return journal.phase != "purged"


def marked_since(run: Run, log_dir: str, partition_dir: str) -> bool:
    """Return whether a clean-shutdown marker has come since the run began in this directory.

    The marker that the run itself removes is none: an interrupted run or undo leaves it in place,
    with a new ctime. Raises CorruptFile, StorageFailed.
    """
    with storage(log_dir, "looking for the clean-shutdown marker"):
        marker = DISK.identify(Path(log_dir, paths.CLEAN_SHUTDOWN))
        if marker is None:
            return False
        begun_ns = begun_at(_site(run, log_dir, partition_dir), DISK)
        if begun_ns is None or marker.ctime_ns <= begun_ns:
            return False
        journal = read_journal(_site(run, log_dir, ROOT_FIRST), DISK)
    return not any(stands(step, marker, "old") for step in (journal.steps if journal else ()))


def kept_alone(place: Site) -> int:
    """Return the bytes on the disk that only this run keeps for its undo."""
    with storage(place.undo, "looking what purge frees"):
        files = [path.lstat() for path in kept_files(place, DISK)]
    return sum(512 * file.st_blocks for file in files if file.st_nlink == 1)


def _site(run: Run, log_dir: str, partition_dir: str) -> Site:
    return site(work_area(log_dir, run.place), partition_dir, run.run_id)
