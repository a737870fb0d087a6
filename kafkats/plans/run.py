"""A run: the folder of an applied plan, from which the run is undone or purged.

`run.json` is written before the first change. It names the approved plan and the directories to
change. `report.parquet` (report.ACTIONS) and `report.json` tell what happened. The journals and the
undo material lie next to each volume.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafkats.errors import (
    CorruptPlan,
    DiskFull,
    KafkatsError,
    Refused,
    StorageFailed,
    UsageError,
    exists,
    is_file,
    storage,
)
from kafkats.logdir.changeset import Change
from kafkats.logdir.identity import FileIdentity
from kafkats.plans.facts import ACTIONS, make_folder, read_json, read_table, write_json, write_table
from kafkats.plans.plan import Plan

FORMAT: Final = 1
_SKEW_MS: Final = 300_000
"""How far the planner's clock may be ahead of ours."""
_STEP: Final = ("ledger", "phase", "broker")


@dataclass(frozen=True)
class Run:
    """What a run was approved to do.

    `directories` maps each log dir to its partition directories.
    """

    operation: str
    run_id: str
    digest: str
    directories: Mapping[str, list[str]]
    place: str | None = None
    """Where the undo material lies, if not in the default work area."""
    owner_stopped: bool = False
    ledger: str = ""
    """The ledger of the migration to which this run belongs.

    `broker` is the one of these volumes.
    """
    phase: str = ""
    broker: str = ""


class PartitionWork(NamedTuple):
    """The work of a run in one partition directory.

    `items` are rows of plan.ITEMS, none of them blocked.
    """

    operation: str
    options: Mapping[str, Any]
    log_dir: str
    partition_dir: str
    run_id: str
    place: str | None
    owner_stopped: bool
    items: tuple[Mapping[str, Any], ...]
    stop_file: str = ""
    """A file with which a failed partition tells the others of its run to stop, "" for none."""

    @property
    def bytes(self) -> int:
        """Bytes of the logs to read."""
        return sum({item["base_offset"]: item["log_valid_bytes"] for item in self.items}.values())


class Staged(NamedTuple):
    """New files of one partition for changeset.commit, and the files from which they were made.

    `notes` has columns of report.ACTIONS by file name that only staging knows.
    """

    changes: Sequence[Change]
    unchanged: Mapping[str, FileIdentity]
    notes: Mapping[str, Mapping[str, Any]] = {}


def refuse_full_disk(work: PartitionWork) -> None:
    """Raise DiskFull before anything is written if the new files do not fit beside the old ones.

    Both are on the disk until the undo window closes.
    """
    with storage(work.log_dir, "asking for free space"):
        free = shutil.disk_usage(work.place or work.log_dir).free
    needed = sum(max(item["after_bytes"], 0) for item in work.items)
    if needed > free:
        raise DiskFull(f"{needed} bytes needed, {free} free: nothing was begun", path=work.log_dir)


def refuse_early(work: PartitionWork) -> None:
    """Raise Refused for a plan that decides for the future, CorruptPlan for one without a moment.

    A time in another unit, or of another year, would make every segment due.
    """
    decided_for = work.options.get("now_ms")
    if type(decided_for) is not int:
        raise CorruptPlan(f"now_ms is no moment: {decided_for!r}", path=work.log_dir)
    if decided_for > time.time_ns() // 1_000_000 + _SKEW_MS:
        raise Refused(
            f"this plan decides for {decided_for} ms, which is ahead of the clock",
            path=work.log_dir,
        )


@contextmanager
def about(path: str | os.PathLike[str]) -> Generator[None]:
    """Add `path` to errors raised in the body that have none."""
    try:
        yield
    except KafkatsError as e:
        e.path = e.path or os.fspath(path)
        raise


def by_segment(work: PartitionWork) -> Iterator[list[Mapping[str, Any]]]:
    """Yield the items of each segment."""
    by_base: dict[int, list[Mapping[str, Any]]] = {}
    for item in work.items:
        by_base.setdefault(item["base_offset"], []).append(item)
    yield from by_base.values()


def run_of(plan: Plan, *, place: Path | None = None, owner_stopped: bool = False) -> Run:
    """Return the run of a plan, with the directories in which it writes. Raises CorruptPlan."""
    writes = plan.items.filter(pc.not_equal(plan.items["action"], "blocked"))
    directories: dict[str, list[str]] = {}
    for row in (
        writes.group_by(["log_dir", "partition_dir"], use_threads=False).aggregate([]).to_pylist()
    ):
        directories.setdefault(row["log_dir"], []).append(row["partition_dir"])
    where = str(place.absolute()) if place else None
    step = {name: str(plan.header["options"].get(name, "")) for name in _STEP}
    if any("\0" in text for text in step.values()):
        raise CorruptPlan("a NUL in the name of a ledger, a phase or a broker")
    return Run(plan.operation, plan.run_id, plan.digest, directories, where, owner_stopped, **step)


def directories(run: Run) -> Iterator[tuple[str, str]]:
    """Yield every (log dir, partition directory) of a run."""
    for log_dir, partitions in run.directories.items():
        for partition in partitions:
            yield log_dir, partition


def open_run(
    plan: Plan, plan_folder: Path, folder: Path | None, *, place: Path | None, owner_stopped: bool
) -> tuple[Run, Path]:
    """Begin the run of an approved plan in `folder`, by default PLAN.run. Raises as `begin_run`."""
    folder = folder or plan_folder.with_name(plan_folder.name + ".run")
    run = run_of(plan, place=place, owner_stopped=owner_stopped)
    begin_run(run, folder)
    with storage(folder, "clearing the stop of an earlier attempt"):
        stop_file(folder).unlink(missing_ok=True)
    return run, folder


def stop_file(folder: Path) -> Path:
    """Return the file that exists after a failure that stops the whole run."""
    return folder / "stopped"


def begin_run(run: Run, folder: Path) -> None:
    """Write `run.json`.

    Raises UsageError when the folder belongs to another run or names another place, StorageFailed.
    """
    if exists(folder / "run.json", "looking for the run"):
        before = read_run(folder)
        if before.run_id != run.run_id:
            raise UsageError("belongs to another run; --run names another folder", path=folder)
        if before.place != run.place:  # undo would look for its material in the wrong place
            raise UsageError(
                f"this run has its work area at {before.place or 'the default place'}", path=folder
            )
    make_folder(folder, "the run")
    write_json(folder / "run.json", asdict(run) | {"format": FORMAT})


def finish_run(folder: Path, actions: pa.Table, summary: Mapping[str, Any]) -> None:
    """Write the report. A repeated apply adds to the results of earlier ones and keeps them."""
    rows = actions.cast(ACTIONS).to_pylist()
    if (earlier := _earlier(folder)) is not None:
        done = {_file(row): row for row in earlier if row["outcome"] == "done"}
        rows = [row if row["outcome"] == "done" else done.get(_file(row), row) for row in rows]
    write_table(folder / "report.parquet", pa.Table.from_pylist(rows, schema=ACTIONS))
    write_json(folder / "report.json", summary)


def _earlier(folder: Path) -> list[dict[str, Any]] | None:
    """Return the rows of the existing report, None for a missing or damaged one.

    The report is only for people: the journals record what was done.
    """
    try:
        rows: list[dict[str, Any]] = read_actions(folder).to_pylist()
    except (CorruptPlan, StorageFailed):
        return None
    return rows


def _file(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["log_dir"], row["partition_dir"], row["file"]


def read_run(folder: Path) -> Run:
    """Read `run.json`. Raises CorruptPlan when the folder is no run, StorageFailed."""
    if not is_file(folder / "run.json", "looking for the run"):
        raise CorruptPlan("no run here: run.json is missing", path=folder)
    content = read_json(folder / "run.json")
    if content.pop("format", None) != FORMAT:
        raise CorruptPlan(f"not a run of format {FORMAT}", path=folder)
    try:
        run = Run(**content)
    except TypeError as e:
        raise CorruptPlan(f"run.json has wrong fields: {e}", path=folder) from e
    if not _well_typed(run):
        raise CorruptPlan("run.json has a value of the wrong type", path=folder)
    # undo would skip it and report success
    for log_dir, partition in wrote_in(folder) - set(directories(run)):
        raise CorruptPlan(
            f"run.json lacks {Path(log_dir, partition)}, where the report says it wrote",
            path=folder,
        )
    return run


def _well_typed(run: Run) -> bool:
    def is_name(one: object) -> bool:
        return isinstance(one, str) and "\0" not in one  # a path cannot contain NUL

    names = (
        run.operation,
        run.run_id,
        run.digest,
        run.place or "",
        *(getattr(run, name) for name in _STEP),
    )
    return (
        all(map(is_name, names))
        and isinstance(run.owner_stopped, bool)
        and isinstance(run.directories, dict)
        and all(is_name(log_dir) for log_dir in run.directories)
        and all(
            isinstance(many, list) and all(map(is_name, many)) for many in run.directories.values()
        )
    )


def wrote_in(folder: Path) -> set[tuple[str, str]]:
    """Return every (log dir, partition directory) that the run's report says was written.

    The set is empty without a readable report.
    """
    rows = _earlier(folder) or []
    return {
        (row["log_dir"], row["partition_dir"])
        for row in rows
        if row["outcome"] in {"done", "already"}
    }


def read_actions(folder: Path) -> pa.Table:
    """Return the run's report, a table of report.ACTIONS. Raises CorruptPlan, StorageFailed."""
    return read_table(folder / "report.parquet", ACTIONS)
