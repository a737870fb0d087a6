"""Apply a plan, and end a run: undo puts the old files back, purge frees them."""

from __future__ import annotations

from collections.abc import (
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafkats.clock import now_ms
from kafkats.errors import CorruptPlan, KafkatsError, Refused, exists
from kafkats.execution.executor import Executor
from kafkats.flow.apply import (
    Tally,
    apply_partition,
    partition_works,
    round_of,
    rounds,
    summarize,
    summary_of,
    with_unfinished,
)
from kafkats.flow.ending import (
    ENDED,
    bars,
    end_partition,
    marked_since,
    note_purged,
    note_undone,
    over_directories,
    phase_of,
    refused_end,
    undoable,
)
from kafkats.flow.steps import tell_run
from kafkats.operations import operation
from kafkats.plans.attempt import attempt_in, finish_run
from kafkats.plans.columns import batch_of
from kafkats.plans.facts import ACTIONS
from kafkats.plans.plan import ORDER, AnyPlan, Plan
from kafkats.plans.proof import Proof
from kafkats.plans.rows import PartitionKey
from kafkats.plans.run import (
    PURGED,
    PartitionWork,
    Run,
    directories,
    may_have_written,
    open_run,
    read_run,
    run_of,
)
from kafkats.plans.volumes import check_volumes, other_volumes, unidentified
from kafkats.reserving.runs import Held, changing

_UNDOABLE: Final = pa.schema([("undoable", pa.bool_())])


class Applied(NamedTuple):
    """Tables with the rows of facts.ACTIONS, the counts and the summary of them, and remarks on the
    reservation of the log directories.

    `proof` is None where nothing was proved. `left` is the number of blocked rows of a plan that
    has to be done as a whole.
    """

    actions: Iterable[pa.Table]
    tally: Tally
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

    @property
    def files(self) -> int:
        return sum(row["files"] for row in self.rows)

    @property
    def freed_bytes(self) -> int:
        return sum(row["freed_bytes"] for row in self.rows)


def apply(
    executor: Executor,
    plan: AnyPlan,
    plan_folder: Path,
    run: Run,
    folder: Path,
    *,
    holder: str,
    by: str,
    prove: bool,
    show: Callable[[Applied], None],
) -> None:
    """Do what an approved plan says, as its run in `folder`. With `prove` read what was written
    again.

    `show` is called when the work has ended, also with an error, or where the report cannot be
    written: then it is all there is to know of it. Raises Refused and its children, StorageFailed,
    CorruptPlan, and the errors of the executor.
    """
    with _begun(run, plan_folder, folder, holder) as held:
        start = partial(tell_run, run, "started", folder, by)
        with _applied(executor, plan, run, folder, start) as changed:
            left = plan.blocked if operation(plan.operation).recovers else 0
            summary = summary_of(changed.tally, changed.failure)
            applied = Applied(changed.actions, changed.tally, summary, held.remarks, left=left)
            try:
                changed.keep(summary)
                if not summary["exit_code"]:
                    tell_run(run, "finished", folder, by)
                    if prove:
                        from kafkats.flow.proving import prove_apply  # undo starts without it

                        proof = prove_apply(executor, plan, plan_folder, folder, summary)
                        applied = applied._replace(proof=proof)
            finally:
                show(applied)
            if changed.failure is not None:
                raise changed.failure


@contextmanager
def _begun(run: Run, plan_folder: Path, folder: Path, holder: str) -> Generator[Held]:
    """Reserve the log directories of an approved plan, and write the run's own files."""
    check_volumes(plan_folder, run.directories)
    unnamed = unidentified(plan_folder, run.directories)
    with changing(run, folder, holder=holder, plan_folder=plan_folder) as held:
        held.remarks += unnamed
        open_run(run, plan_folder, folder)
        held.record(folder)
        yield held


class Approved(NamedTuple):
    """A plan in `plan_folder`, to apply as its run in `folder`."""

    plan: Plan
    plan_folder: Path
    run: Run
    folder: Path


def apply_together(executor: Executor, approved: Sequence[Approved], *, holder: str) -> pa.Table:
    """Do at the same time what plans of one operation for different log directories say.

    They belong to no migration, and nothing is proved. Returns rows of facts.ACTIONS. Raises as
    `apply`.
    """
    works: list[PartitionWork] = []
    with ExitStack() as held:
        for one in approved:
            held.enter_context(_begun(one.run, one.plan_folder, one.folder, holder))
            works += partition_works(one.plan, one.run, one.folder)
        tables: list[pa.Table] = []
        failure = _taken(_change(executor, approved[0].plan, works), tables.append)
        actions = _together(tables)
        for one in approved:
            names = pa.array([*one.run.directories], pa.string())
            own = actions.filter(pc.is_in(actions["log_dir"], names))
            finish_run(one.folder, own, summarize(own, failure))
        if failure is not None:
            raise failure
    return actions


class _Changed(NamedTuple):
    """The rows of ACTIONS, what they count, the error that has ended the work before its end, and
    the function that writes the run's report.
    """

    actions: Iterable[pa.Table]
    tally: Tally
    failure: KafkatsError | None
    keep: Callable[[Mapping[str, object]], None]


@contextmanager
def _applied(
    executor: Executor, plan: AnyPlan, run: Run, folder: Path, start: Callable[[], None]
) -> Generator[_Changed]:
    """Do what a plan says, after `start`. The rows of a plan in parts can be read in the body. Such
    a plan was opened with `Pieces`.
    """
    tally = Tally()
    if isinstance(plan, Plan):
        works = partition_works(plan, run, folder)
        start()
        tables: list[pa.Table] = []
        failure = _taken(_change(executor, plan, works), tally.add, tables.append)
        actions = _together(tables)
        yield _Changed((actions,), tally, failure, partial(finish_run, folder, actions))
    else:
        start()
        with attempt_in(folder) as attempt:
            pieces = _change_pieces(executor, plan, run, folder)
            failure = _taken(pieces, tally.add, attempt.add)
            attempt.end()
            yield _Changed(attempt, tally, failure, attempt.keep)


def _taken(changed: Iterable[pa.Table], *takers: Callable[[pa.Table], None]) -> KafkatsError | None:
    """Give tables to each of `takers` as they come, up to the first error. Return the error."""
    try:
        for table in changed:
            for take in takers:
                take(table)
    except KafkatsError as e:
        return e
    return None


def _together(tables: Iterable[pa.Table]) -> pa.Table:
    return pa.concat_tables([ACTIONS.empty_table(), *tables]).sort_by(ORDER)


def _change_pieces(executor: Executor, plan: AnyPlan, run: Run, folder: Path) -> Iterator[pa.Table]:
    """Do what the pieces of a plan say, as `_change`. Raises CorruptPlan for one that the run does
    not name.
    """
    named = frozenset(directories(run))
    for piece in plan.pieces():
        works = partition_works(piece, run, folder)
        if not named.issuperset(PartitionKey(one.log_dir, one.partition_dir) for one in works):
            raise CorruptPlan("changed while its run began", path=folder)
        yield from _change(executor, plan, works)


def _change(
    executor: Executor, plan: AnyPlan, works: Sequence[PartitionWork]
) -> Iterator[pa.Table]:
    """Yield sorted rows of ACTIONS for each of the rounds in which partitions are changed."""
    rows: list[pa.Table] = []
    for together in rounds(works):
        done = executor.map(
            "apply",
            with_unfinished(together, rows),
            apply_partition,
            ACTIONS,
            size=lambda work: work.bytes,
            flushes=operation(plan.operation).flushes,
        )
        rows.append(done.sort_by(ORDER))
        yield rows[-1]


class Pieces:
    """Checks the pieces of a plan in parts when it is opened, before anything is changed.

    Raises CorruptPlan for items that no operation plans in parts, or not in this order.
    """

    def __init__(self) -> None:
        self._round = 1

    def __call__(self, piece: Plan) -> None:
        works = partition_works(piece, run_of(piece))
        numbers = {round_of(work.partition_dir) for work in works}
        number = max(numbers, default=self._round)
        if numbers - {number} or number < self._round:
            raise CorruptPlan("a plan in parts that changes a log directory's own files too early")
        self._round = number


def undo(executor: Executor, folder: Path, *, holder: str, by: str) -> Ended:
    """Put back every file of a run, and tell its migration's ledger when all of it is undone.

    On another volume than the run's, or without its work area, nothing is locked, and the
    directories are refused. Raises Refused where a run is undone as a whole and one directory has
    changed since.
    """
    run = read_run(folder)
    barred = bars(run, folder)
    unnamed = unidentified(folder, run.directories)
    there = {name: dirs for name, dirs in run.directories.items() if name not in barred}
    ours = replace(run, directories=there)
    with changing(ours, folder, holder=holder, going_back=True) as held:
        wrote = frozenset(may_have_written(run, folder))
        held.remarks += unnamed
        ended = Ended(_undone(executor, run, wrote, barred), held.remarks)
        if not ended.rows:
            held.remarks.append("the run changed nothing: there is nothing to undo")
        if not ended.exit_code:
            note_undone(folder, now_ms=now_ms())
            tell_run(run, "undone", folder, by)
    return ended


def _undone(
    executor: Executor,
    run: Run,
    wrote: frozenset[PartitionKey],
    barred: Mapping[str, KafkatsError],
) -> Sequence[Mapping[str, Any]]:
    """Return rows of ENDED, after the undo of each directory that is not in one of `barred`."""
    do = partial(_end_directory, run, "undo", barred, wrote=wrote)
    rows: list[Mapping[str, Any]] = []
    if not operation(run.operation).recovers:
        rows = over_directories(executor, "undo", run, do, ENDED, flushes=True).to_pylist()
        return rows
    for error in barred.values():
        raise error
    look = partial(_undoable_directory, run, wrote)
    can = over_directories(executor, "look for old files", run, look, _UNDOABLE)["undoable"]
    for where, may in zip(directories(run), can.to_pylist(), strict=True):
        if not may and phase_of(run, *where) == "purged":
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
    they are. Directories on another volume than the run's are kept.

    Those without what the run kept are refused, but for `abandon`, or after an earlier purge.
    """
    run = read_run(folder)
    operation(run.operation)  # one that is not known may keep other things
    again = abandon or exists(folder / PURGED, "looking for an earlier purge")
    barred = other_volumes(folder, run.directories) if again else bars(run, folder)
    wrote = frozenset() if again else frozenset(may_have_written(run, folder))
    do = partial(_end_directory, run, "purge", barred, wrote=wrote, abandon=abandon)
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
        do = partial(_undoable_directory, run, frozenset(may_have_written(run, folder)))
        found = over_directories(executor, "look for old files", run, do, _UNDOABLE)
        if not all(found["undoable"].to_pylist()):
            return True
    return False


def _end_directory(
    run: Run,
    verb: Literal["undo", "purge"],
    barred: Mapping[str, KafkatsError],
    where: PartitionKey,
    *,
    wrote: Collection[PartitionKey] = (),
    abandon: bool = False,
) -> pa.RecordBatch:
    """Return the row of ENDED, that of an error in a log directory of `barred`."""
    if (error := barred.get(where[0])) is not None:
        row = refused_end(*where, error)
    else:
        row = end_partition(run, verb, *where, wrote=where in wrote, abandon=abandon)
    return batch_of([row], ENDED)


def _undoable_directory(
    run: Run, wrote: frozenset[PartitionKey], where: PartitionKey
) -> pa.RecordBatch:
    can = undoable(run, *where, wrote=where in wrote)
    if can and operation(run.operation).recovers:
        can = not marked_since(run, *where)
    return batch_of([{"undoable": can}], _UNDOABLE)
