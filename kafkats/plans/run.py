"""A run: the folder of an applied plan, from which the run is undone or purged.

`run.json` is written before the first change. It names the approved plan and the directories to
change. `report.parquet` (facts.ACTIONS) and `report.json` tell what happened. The journals and the
undo material lie next to each volume.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ConfigDict, Field, StrictBool, TypeAdapter

from kafkats import clock, paths
from kafkats.errors import (
    CorruptPlan,
    KafkatsError,
    Refused,
    StorageFailed,
    UsageError,
    disk_full,
    exists,
    is_file,
    storage,
)
from kafkats.logdir.disk import DISK
from kafkats.logdir.identity import FileIdentity
from kafkats.logdir.journal import Note
from kafkats.logdir.staging import Change
from kafkats.logdir.workarea import ROOT, ROOT_FIRST, make_area, work_area
from kafkats.plans.facts import ACTIONS, read_in_pieces, read_table
from kafkats.plans.files import make_folder, read_json, taken_for, typed, write_json
from kafkats.plans.plan import AnyPlan, run_id_of
from kafkats.plans.rows import ActionRow, Item, Options, PartitionKey, grouped, partition_of
from kafkats.plans.volumes import read_volumes, write_volumes
from kafkats.text import Flag

FORMAT: Final = 1
_PLACED: Final = ("log_dir", "partition_dir", "outcome", "file")
_MARKED: Final = "marked"
WROTE: Final = ("done", "already")
"""Outcomes of a file that this apply or an earlier one wrote."""
FINISHED: Final = (*WROTE, "nothing")
"""Outcomes of a file that is as planned."""
_SKEW_MS: Final = 300_000
"""The largest distance of the planner's clock ahead of ours."""
_STEP: Final = ("ledger", "phase", "broker")

Name: TypeAlias = Annotated[str, Field(pattern=r"^[^\x00]*$")]
"""A path, or a part of one, which cannot contain NUL."""


@dataclass(frozen=True)
class Run:
    """The approved plan of a run, and the conditions under which it may write.

    `directories` maps each log dir to its partition directories, ROOT and ROOT_FIRST.
    """

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    operation: Name
    run_id: Name
    digest: Name
    directories: Mapping[Name, list[Name]]
    place: Name | None = None
    """The folder of the undo material, if not in the default work area."""
    owner_stopped: StrictBool = False
    ledger: Name = ""
    """The ledger of the migration to which this run belongs.

    `broker` is the one of these volumes.
    """
    phase: Name = ""
    broker: Name = ""


class PartitionWork(NamedTuple):
    """The work of a run in one partition directory, or in ROOT or ROOT_FIRST.

    `items` are rows of plan.ITEMS, none of them blocked.
    """

    operation: str
    options: Options
    log_dir: str
    partition_dir: str
    run_id: str
    place: str | None
    owner_stopped: bool
    items: tuple[Item, ...]
    stop_file: str = ""
    """A file with which a failed partition tells the others of its run to stop, "" for none."""
    beside: tuple[Item, ...] = ()
    """For ROOT: updates of the log directory's partitions that are written there. For a partition:
    the removal of the clean-shutdown marker, which comes before."""
    unfinished: tuple[str, ...] = ()
    """For ROOT: the partition directories of `beside` that this apply has not brought to their
    planned state. Their files alone do not tell it."""

    @property
    def directory(self) -> Path:
        return Path(self.log_dir, self.partition_dir)

    @property
    def bytes(self) -> int:
        """Bytes of the logs to read."""
        return sum({item["base_offset"]: item["log_valid_bytes"] for item in self.items}.values())


class Staged(NamedTuple):
    """New files of one partition for changeset.commit, and the files from which they were made.

    `notes` has columns of facts.ACTIONS by file name that only staging knows.
    """

    changes: Sequence[Change]
    unchanged: Mapping[str, FileIdentity]
    notes: Mapping[str, Note] = {}


def refuse_full_disk(work: PartitionWork) -> None:
    """Raise DiskFull before anything is written if the new files do not fit beside the old ones.

    Both are on the disk until the undo window closes.
    """
    with storage(work.log_dir, "asking for free space"):
        free = shutil.disk_usage(work.log_dir).free
    needed = sum(max(item["after_bytes"], 0) for item in work.items if item["action"] != "truncate")
    if needed > free:
        raise disk_full(work.log_dir, needed, free)


def refuse_early(work: PartitionWork) -> None:
    """Raise Refused for a plan that decides for the future, CorruptPlan for one without a moment.

    A time in another unit, or of another year, would make every segment due.
    """
    decided_for = work.options.get("now_ms")
    if type(decided_for) is not int:
        raise CorruptPlan(f"now_ms is no moment: {decided_for!r}", path=work.log_dir)
    if decided_for > clock.now_ms() + _SKEW_MS:
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


def by_segment(work: PartitionWork) -> Iterator[list[Item]]:
    """Yield the items of each segment."""
    by_base: dict[int, list[Item]] = {}
    for item in work.items:
        by_base.setdefault(item["base_offset"], []).append(item)
    yield from by_base.values()


UNDONE: Final = "undone.json"
PURGED: Final = "purge.json"
"""Files in the folder of a run that say how it ended."""


def run_of(plan: AnyPlan, *, place: Path | None = None, owner_stopped: bool = False) -> Run:
    """Return the run of a plan, with the directories in which it writes. Raises CorruptPlan."""
    markers: dict[str, list[str]] = {}
    others: dict[PartitionKey, None] = {}
    for rows in plan.tables([*PartitionKey._fields, "file", "action"]):
        writes = rows.filter(pc.not_equal(rows["action"], "blocked"))
        marker = _is_marker(writes["partition_dir"], writes["file"])
        for log_dir in writes.filter(marker)["log_dir"].unique().to_pylist():
            markers[log_dir] = [ROOT_FIRST]
        named = grouped(writes.filter(pc.invert(marker)), PartitionKey._fields)
        others |= dict.fromkeys(map(partition_of, named.to_pylist()))
    directories = markers
    for other in others:
        directories.setdefault(other.log_dir, []).append(other.partition_dir)
    where = str(place.absolute()) if place else None
    step = {name: str(plan.header["options"].get(name, "")) for name in _STEP}
    if any("\0" in text for text in step.values()):
        raise CorruptPlan("a NUL in the name of a ledger, a phase or a broker")
    return Run(plan.operation, plan.run_id, plan.digest, directories, where, owner_stopped, **step)


def directories(run: Run) -> Iterator[PartitionKey]:
    """Yield every (log dir, partition directory) of a run."""
    for log_dir, partitions in run.directories.items():
        for partition in partitions:
            yield PartitionKey(log_dir, partition)


def _is_marker(partition_dirs: pa.ChunkedArray, files: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return which rows are about a clean-shutdown marker, from two of their columns."""
    return pc.and_(pc.equal(partition_dirs, ROOT), pc.equal(files, paths.CLEAN_SHUTDOWN))


def journal_of(row: Item | ActionRow) -> PartitionKey:
    """Return the directory of a run (see Run.directories) in whose journal a file's change is."""
    where = partition_of(row)
    is_marker = where.partition_dir == ROOT and row["file"] == paths.CLEAN_SHUTDOWN
    return where._replace(partition_dir=ROOT_FIRST) if is_marker else where


def open_run(run: Run, plan_folder: Path, folder: Path) -> None:
    """Begin the run of an approved plan in `folder`, after its work areas were made.

    One that is missing later is lost, and with it what undoes the run. Raises as `begin_run` and
    `work_area`.
    """
    for log_dir in run.directories:
        with storage(log_dir, "making the work area"):
            make_area(work_area(log_dir, run.place), DISK)
    begin_run(run, folder)
    write_volumes(folder, read_volumes(plan_folder))
    with storage(folder, "clearing the stop of an earlier attempt"):
        stop_file(folder).unlink(missing_ok=True)


def run_folder_of(plan_folder: Path) -> Path:
    """Return PLAN.run, beside the plan, also where PLAN is `.` or ends with `..`."""
    plan = plan_folder if plan_folder.name.strip(".") else plan_folder.resolve()
    return plan.with_name(f"{plan.name}.run")


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
            raise UsageError(
                "belongs to another run; ",
                Flag("--run"),
                " names another folder",
                path=folder,
            )
        if before.place != run.place:  # undo would look for its material in the wrong place
            raise UsageError(
                f"this run has its work area at {before.place or 'the default place'}", path=folder
            )
    make_folder(folder, "the run")
    write_json(folder / "run.json", asdict(run) | {"format": FORMAT})


def read_run(folder: Path) -> Run:
    """Read `run.json`. Raises CorruptPlan when the folder is no run, StorageFailed."""
    if not is_file(folder / "run.json", "looking for the run"):
        raise CorruptPlan(f"no run here: run.json is missing{taken_for(folder)}", path=folder)
    content = read_json(folder / "run.json")
    if content.pop("format", None) != FORMAT:
        raise CorruptPlan(f"not a run of format {FORMAT}", path=folder)
    run = typed(content, TypeAdapter(Run), folder / "run.json")
    if run.run_id != run_id_of(run.operation, run.digest):  # an approval names the digest
        raise CorruptPlan(f"{run.run_id} is no run of the plan {run.digest}", path=folder)
    # undo would skip it and report success
    for log_dir, partition in may_have_written(run, folder) - set(directories(run)):
        raise CorruptPlan(
            f"run.json lacks {Path(log_dir, partition)}, where the report says it wrote",
            path=folder,
        )
    return run


def ended_ms(folder: Path) -> int:
    """Return when the run's last apply ended; without its report, when the run began (epoch ms).

    Raises StorageFailed.
    """
    with storage(folder, "looking how old the run is"):
        path = next(
            (path for path in (folder / "report.json", folder / "run.json") if path.exists()),
            folder,
        )
        return path.stat().st_mtime_ns // 1_000_000


def wrote_in(folder: Path) -> set[PartitionKey]:
    """Return every (log dir, partition directory) that the run's report says was written.

    The set is empty without a report, as after a kill. Raises CorruptPlan, StorageFailed.
    """
    if not exists(folder / "report.parquet", "looking for the report"):
        return set()
    return places_by_outcome(folder, lambda outcome: outcome in WROTE)


def may_have_written(run: Run, folder: Path) -> set[PartitionKey]:
    """Return where a run wrote by its report: everywhere if that cannot be read."""
    try:
        return wrote_in(folder)
    except (CorruptPlan, StorageFailed):
        return set(directories(run))


def places_by_outcome(folder: Path, wanted: Callable[[str], bool]) -> set[PartitionKey]:
    """Return the directories (see Run.directories) of which the report has a row with a wanted
    outcome.

    Raises CorruptPlan, StorageFailed.
    """
    found: set[PartitionKey] = set()
    schema = pa.schema([ACTIONS.field(name) for name in _PLACED])
    for table in read_in_pieces(folder / "report.parquet", schema):
        marked = _is_marker(table["partition_dir"], table["file"])
        rows = grouped(table.append_column(_MARKED, marked), [*_PLACED[:3], _MARKED]).to_pylist()
        found |= {
            partition_of(row)._replace(**({"partition_dir": ROOT_FIRST} if row[_MARKED] else {}))
            for row in rows
            if wanted(row["outcome"])
        }
    return found


def read_actions(folder: Path) -> pa.Table:
    """Return the run's report, a table of facts.ACTIONS. Earlier versions wrote no kinds of errors.

    Raises CorruptPlan, StorageFailed.
    """
    return read_table(folder / "report.parquet", ACTIONS, later=("kind",))
