"""Apply a plan, and end a run: undo puts the old files back, purge frees them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa

from kafkats.errors import Refused
from kafkats.execution import Executor
from kafkats.flow.apply import (
    apply_partition,
    partition_works,
    round_of,
    rounds,
    summarize,
    tell_ledger,
)
from kafkats.flow.ending import (
    ENDED,
    end_partition,
    ended_as,
    marked_since,
    note_purged,
    note_undone,
    refused_end,
    undoable,
)
from kafkats.logdir.workarea import work_area
from kafkats.operations import operation
from kafkats.plans.facts import ACTIONS
from kafkats.plans.plan import Plan
from kafkats.plans.proof import Proof
from kafkats.plans.rows import PartitionKey
from kafkats.plans.run import Run, directories, finish_run, open_run, read_run, run_of, wrote_in
from kafkats.plans.volumes import check_volumes, other_volumes, unidentified
from kafkats.reserving import changing, now_ms

_ORDER: Final = [
    (name, "ascending") for name in ("log_dir", "partition_dir", "base_offset", "file")
]
_UNDOABLE: Final = pa.schema([("undoable", pa.bool_())])

Directory = tuple[str, str]
"""A log directory and a partition directory in it."""


class Applied(NamedTuple):
    """Rows of facts.ACTIONS, `summarize` of them, and remarks on the reservation of the log
    directories.

    `proof` is None where nothing was proved. `left` is the number of blocked rows of a plan that
    has to be done as a whole.
    """

    actions: pa.Table
    summary: dict[str, Any]
    remarks: Sequence[str]
    proof: Proof | None = None
    left: int = 0

    @property
    def exit_code(self) -> int:
        wrong = self.proof is not None and bool(self.proof.not_equal)
        return int(self.summary["exit_code"]) or int(wrong)


class Ended(NamedTuple):
    """A row of ENDED per partition directory, and what else to say."""

    rows: Sequence[Mapping[str, Any]]
    remarks: Sequence[str]

    @property
    def exit_code(self) -> int:
        return max((row["exit_code"] for row in self.rows), default=0)

    @property
    def errors(self) -> list[str]:
        return [
            f"{row['outcome']}: {row['log_dir']}/{row['partition_dir']}: {row['error']}"
            for row in self.rows
            if row["error"]
        ]

    def total(self, name: str) -> int:
        """The sum of a column."""
        return sum(row[name] for row in self.rows)


def apply(
    executor: Executor,
    plan: Plan,
    plan_folder: Path,
    folder: Path,
    *,
    place: Path | None,
    owner_stopped: bool,
    holder: str,
    by: str,
    prove: bool,
    show: Callable[[Applied], None],
) -> Applied:
    """Do what an approved plan says; `folder` is the run's. With `prove` read what was written
    again.

    `show` is called when the work is done, also where the report cannot be written: then it is all
    there is to know of it. Raises Refused and its children, StorageFailed, CorruptPlan.
    """
    run = run_of(plan, place=place, owner_stopped=owner_stopped)
    check_volumes(plan_folder, run.directories)
    for log_dir in run.directories if place is not None else ():
        work_area(log_dir, place)  # a run keeps its place: one that never fits would end it
    unnamed = unidentified(plan_folder, run.directories)
    with changing(run, folder, holder=holder, plan_folder=plan_folder) as held:
        held.remarks += unnamed
        run, _ = open_run(plan, plan_folder, folder, place=place, owner_stopped=owner_stopped)
        held.record(folder)
        works = partition_works(plan, run, folder)
        tell_ledger(run, "started", folder=folder, by=by, now_ms=now_ms())
        rows = [
            executor.map(
                "apply",
                together,
                apply_partition,
                ACTIONS,
                size=lambda work: work.bytes,
                flushes=operation(plan.operation).flushes,
            )
            for together in rounds(works)
        ]
        actions = pa.concat_tables(rows or [ACTIONS.empty_table()]).sort_by(_ORDER)
        left = plan.blocked if operation(plan.operation).whole else 0
        applied = Applied(actions, summarize(actions), held.remarks, left=left)
        try:
            finish_run(folder, actions, applied.summary)
            if not applied.summary["exit_code"]:
                tell_ledger(run, "finished", folder=folder, by=by, now_ms=now_ms())
                if prove:
                    from kafkats.flow.proving_apply import prove_apply  # undo starts without it

                    proof = prove_apply(executor, plan, plan_folder, folder, applied.summary)
                    applied = applied._replace(proof=proof)
        finally:
            show(applied)
    return applied


def undo(executor: Executor, folder: Path, *, holder: str, by: str) -> Ended:
    """Put back every file of a run, and tell its migration's ledger when all of it is undone.

    On another volume than the run's nothing is locked, and its directories are refused. Raises
    Refused where a run is undone as a whole and one directory has changed since.
    """
    run = read_run(folder)
    others = other_volumes(folder, run.directories)
    unnamed = unidentified(folder, run.directories)
    there = {name: dirs for name, dirs in run.directories.items() if name not in others}
    ours = replace(run, directories=there)
    with changing(ours, folder, holder=holder, going_back=True) as held:
        wrote = frozenset(wrote_in(folder))
        held.remarks += unnamed
        ended = Ended(_undone(executor, run, wrote, others), held.remarks)
        if not ended.exit_code:
            note_undone(folder, now_ms=now_ms())
            tell_ledger(run, "undone", folder=folder, by=by, now_ms=now_ms())
    return ended


def _undone(
    executor: Executor, run: Run, wrote: frozenset[Directory], others: Mapping[str, Refused]
) -> Sequence[Mapping[str, Any]]:
    """Return rows of ENDED, after the undo of each directory that is not on one of `others`."""
    do = partial(_undo_directory, run, wrote, others)
    rows: list[Mapping[str, Any]] = []
    if not operation(run.operation).undone_together:
        rows = over_directories(executor, "undo", run, do, ENDED, flushes=True).to_pylist()
        return rows
    for refusal in others.values():
        raise refusal
    look = partial(_undoable_directory, run, wrote)
    can = over_directories(executor, "look for old files", run, look, _UNDOABLE)["undoable"]
    for where, may in zip(directories(run), can.to_pylist(), strict=True):
        if not may and ended_as(run, *where)["phase"] == "purged":
            raise Refused("the run was purged: nothing can be undone", path=Path(*where))
        if not may:
            raise Refused(
                "has changed since the run, or has a new clean-shutdown marker, as when a broker"
                " has started: nothing was undone",
                path=Path(*where),
            )
    for some in undo_rounds(run):
        if not any(row["exit_code"] for row in rows):
            done = executor.map("undo", some, do, ENDED, size=lambda _: 1, flushes=True)
            rows += done.to_pylist()
    return rows


def undo_rounds(run: Run) -> Iterator[list[PartitionKey]]:
    """Yield the directories of a run that is undone as a whole, in rounds that may be parallel.

    The log directories' checkpoints say that the partitions are as the run left them, and a
    clean-shutdown marker that they are as the last stop left them.
    """
    for n in (2, 1, 0):
        yield [where for where in directories(run) if round_of(where.partition_dir) == n]


def purge(executor: Executor, folder: Path, *, abandon: bool = False) -> Ended:
    """End a run's undo window; `abandon` ends an interrupted run, too, whose files then stay as
    they are. What another volume than the run's holds stays.
    """
    run = read_run(folder)
    do = partial(_purge_directory, run, abandon, other_volumes(folder, run.directories))
    rows = over_directories(executor, "purge", run, do, ENDED, flushes=True).to_pylist()
    ended = Ended(rows, ())
    remark = "" if ended.exit_code else note_purged(folder, rows, now_ms=now_ms())
    return ended._replace(remarks=(remark,)) if remark else ended


def closed(executor: Executor, folders: Iterable[Path]) -> bool:
    """Return whether one of the runs cannot be undone any more: old files are gone, or the new ones
    have changed since. Raises Refused on another volume than a run's.
    """
    for folder in folders:
        run = read_run(folder)
        check_volumes(folder, run.directories)
        do = partial(_undoable_directory, run, frozenset(wrote_in(folder)))
        if not all(
            over_directories(executor, "look for old files", run, do, _UNDOABLE)[
                "undoable"
            ].to_pylist()
        ):
            return True
    return False


def over_directories(
    executor: Executor,
    stage: str,
    run: Run,
    do: Callable[[Directory], pa.RecordBatch],
    schema: pa.Schema,
    *,
    flushes: bool = False,
) -> pa.Table:
    """The rows that `do` returns for each partition directory of a run.

    `flushes` is that of execution.Work.
    """
    where = list(directories(run))
    return executor.map(stage, where, do, schema, size=lambda _: 1, flushes=flushes)


def _undo_directory(
    run: Run, wrote: frozenset[Directory], others: Mapping[str, Refused], where: Directory
) -> pa.RecordBatch:
    row = _elsewhere(others, where) or end_partition(run, "undo", *where, wrote=where in wrote)
    return pa.RecordBatch.from_pylist([row], schema=ENDED)


def _purge_directory(
    run: Run, abandon: bool, others: Mapping[str, Refused], where: Directory
) -> pa.RecordBatch:
    row = _elsewhere(others, where) or end_partition(run, "purge", *where, abandon=abandon)
    return pa.RecordBatch.from_pylist([row], schema=ENDED)


def _elsewhere(others: Mapping[str, Refused], where: Directory) -> dict[str, Any] | None:
    """Return the row of ENDED of a directory whose volume is not the run's."""
    refusal = others.get(where[0])
    return None if refusal is None else refused_end(*where, refusal)


def _undoable_directory(run: Run, wrote: frozenset[Directory], where: Directory) -> pa.RecordBatch:
    can = undoable(run, *where, wrote=where in wrote)
    if can and operation(run.operation).undone_together:
        can = not marked_since(run, *where)
    return pa.RecordBatch.from_pylist([{"undoable": can}], schema=_UNDOABLE)
