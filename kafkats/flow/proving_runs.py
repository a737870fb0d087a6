"""The proof of what runs wrote: each file that one of them has written is read again, and must be
as its plan meant it.

Runs are named from the earliest to the latest. Where a later one wrote the same file, the later one
counts. What a run did is read from its journals beside the log directories, so a run whose report
was never written is proved too; what was undone is left out. A run that is proved gets a
`proof.json`.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from kafkats.errors import CorruptPlan, KafkatsError
from kafkats.execution import Executor
from kafkats.flow.applying import over_directories
from kafkats.flow.ending import ENDED_AS, ended_as, note_proved
from kafkats.flow.proving import prove
from kafkats.inspect.verify import VerifyOptions
from kafkats.operations import operation
from kafkats.plans.facts import SEGMENTS
from kafkats.plans.files import read_json
from kafkats.plans.plan import Plan, read_plan
from kafkats.plans.proof import Proof
from kafkats.plans.rows import Item, item_rows
from kafkats.plans.run import Run, journal_of, read_actions, read_run, run_of
from kafkats.plans.units import Unit
from kafkats.plans.volumes import check_volumes

_SEGMENT: Final = ("log_dir", "partition_dir", "base_offset")
_WROTE: Final = {"done", "already", "nothing"}

Directory = tuple[str, str]
File = tuple[str, str, str]


class Done(NamedTuple):
    """The directories that a run wrote in, and those where it was interrupted or undone."""

    wrote: set[Directory]
    interrupted: list[Directory]
    undone: list[Directory]


def prove_runs(
    executor: Executor, folders: Sequence[Path], units: Sequence[Unit], options: VerifyOptions
) -> Proof:
    """Prove these runs. Raises CorruptPlan for a run without its plan beside it, and as `prove`."""
    whole = Proof(SEGMENTS.empty_table(), 0, 0, [], [])
    files: set[File] = set()
    places: set[Directory] = set()
    for folder in reversed(folders):
        run = read_run(folder)
        plan_folder = plan_of(run, folder)
        done = what_was_done(executor, run, folder)
        plan = _part(read_plan(plan_folder), done.wrote, files, places)
        proof = prove(executor, plan, plan_folder, units, options, later=places)
        half = [
            f"{Path(*where)}: {folder.name} was interrupted; apply it again, or undo it"
            for where in done.interrupted
        ]
        whole = Proof(
            _laid_over(proof.segments, whole.segments),
            whole.files + proof.files,
            whole.equal + proof.equal,
            [*whole.not_equal, *proof.not_equal, *half],
            [*whole.reasons, *proof.reasons, *half],
        )
        if not proof.not_equal and not half:
            note_proved(folder, files=proof.files, undone=len(done.undone))
        files |= {
            (row["log_dir"], row["partition_dir"], row["file"]) for row in plan.items.to_pylist()
        }
        places |= done.wrote
    return whole


def plan_of(run: Run, folder: Path) -> Path:
    """The folder of the run's plan, which lies beside it. Raises CorruptPlan."""
    folder = folder.resolve()  # `.` has no name and no parent
    beside = [one for one in sorted(folder.parent.glob(f"*-{run.digest[:16]}")) if one != folder]
    beside += [folder.with_name("plan"), folder.with_name("over-guard"), folder.with_suffix("")]
    for one in beside:
        if (one / "plan.json").is_file() and read_json(one / "plan.json").get(
            "digest"
        ) == run.digest:
            return one
    raise CorruptPlan(f"its plan with digest {run.digest[:16]} does not lie beside it", path=folder)


def what_was_done(executor: Executor, run: Run, folder: Path) -> Done:
    """By the journals; where there is none, by the run's report."""
    table = over_directories(executor, "read journals", run, partial(_ended_as, run), ENDED_AS)
    phases = {(row["log_dir"], row["partition_dir"]): row["phase"] for row in table.to_pylist()}
    reported = _reported(folder)
    return Done(
        {
            where
            for where, phase in phases.items()
            if phase in {"done", "purged"} or (not phase and where in reported)
        },
        [where for where, phase in phases.items() if phase in {"intent", "undo"}],
        [where for where, phase in phases.items() if phase == "undone"],
    )


def _ended_as(run: Run, where: Directory) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([ended_as(run, *where)], schema=ENDED_AS)


def _reported(folder: Path) -> Set[Directory]:
    """Directories in which every file is as it was to be, by the report."""
    try:
        rows = read_actions(folder).to_pylist()
    except KafkatsError:  # the apply was killed before it could write one
        return set()
    left = {journal_of(row) for row in rows if row["outcome"] not in _WROTE}
    return {*map(journal_of, rows)} - left


def _part(plan: Plan, wrote: set[Directory], files: set[File], places: set[Directory]) -> Plan:
    """The plan with only what the run did, and no later one did again."""

    proves_log_end = operation(plan.operation).proves_log_end

    def counts(row: Item) -> bool:
        where = journal_of(row)
        if row["action"] == "blocked" or where not in wrote or (*where, row["file"]) in files:
            return False
        return not proves_log_end or where not in places

    rows = plan.items.select(["log_dir", "partition_dir", "file", "action"])
    keep = [counts(row) for row in item_rows(rows)]
    return replace(plan, items=plan.items.filter(pa.array(keep, pa.bool_())))


def _laid_over(earlier: pa.Table, later: pa.Table) -> pa.Table:
    """Each segment once."""
    known = set(zip(*(later[name].to_pylist() for name in _SEGMENT), strict=True))
    rows = zip(*(earlier[name].to_pylist() for name in _SEGMENT), strict=True)
    fresh = earlier.filter(pa.array([row not in known for row in rows], pa.bool_()))
    return pa.concat_tables([fresh.cast(SEGMENTS), later.cast(SEGMENTS)])


def prove_written(
    executor: Executor,
    of_plan: Path | None,
    of_run: Sequence[Path],
    units: Sequence[Unit],
    options: VerifyOptions,
) -> Proof:
    """Prove what a plan or runs wrote. Raises as `prove` and `prove_runs`."""
    if of_plan is not None:
        return prove(executor, read_plan(of_plan), of_plan, units, options)
    return prove_runs(executor, of_run, units, options)


def check_written(of_plan: Path | None, of_run: Sequence[Path]) -> None:
    """Raise Refused where a path is another volume than the one that was written."""
    if of_plan is not None:
        check_volumes(of_plan, run_of(read_plan(of_plan)).directories)
    for folder in of_run:
        check_volumes(folder, read_run(folder).directories)
