"""apply and undo change a log directory, purge deletes old files, release ends reservations."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kafkats.cli.generated import Spreading, taking
from kafkats.cli.making import show_plan
from kafkats.cli.options import FILES, JOBS, JSON, LOG_DIRS, PLAN
from kafkats.cli.performing import log_dirs_at, perform, request_of
from kafkats.cli.rows import Rows
from kafkats.cli.session import LazyExecutor, session
from kafkats.cli.streams import warn
from kafkats.cli.terminal import (
    certificate_sentences,
    freed_sentences,
    released_sentences,
    run_sentences,
    show_rows,
)
from kafkats.config.options import BatchLimit, Vouched, WorkArea
from kafkats.errors import UsageError
from kafkats.flow import Show
from kafkats.migration.options import UndoCertify
from kafkats.plans.current_user import this_user
from kafkats.plans.options import Apply, Approval, Holder, Purge, Release, User
from kafkats.request import ApprovalAsked, PlanName, ReservationAsked, RunName

if TYPE_CHECKING:
    from kafkats.config.given import Given
    from kafkats.execution import Executor
    from kafkats.result import Result

_RUNS = click.argument(
    "folders", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path)
)


@click.command()
@PLAN
@taking(
    Apply,
    Approval,
    Vouched,
    WorkArea,
    Holder,
    User,
    JOBS,
    FILES,
    JSON,
    BatchLimit,
    by={"default": this_user},
)
def apply(folder: Path, given: Given, executor: Executor, files: bool, as_json: bool) -> int:
    """Carry out an approved plan, and prove the result.

    Exits with 1 if a written file is not as planned. Repeat it to finish an interrupted run;
    after success it changes nothing.
    """
    asked, separate = given.of(Apply), session().front.separate
    digest = _ask_for_approval(folder) if asked.digest is None else asked.digest
    prove = not separate if asked.prove is None else asked.prove
    given = replace(
        given,
        values={**given.values, "prove": prove},
        named=(given.named | {"prove"}) - {"digest"},
    )
    request = request_of("apply", given, plan=PlanName(folder=folder, digest=digest), **_who(given))
    rows = Rows(as_json=as_json, files=files)

    def sentences(result: Result) -> list[str]:
        assert rows.plan is not None
        run, blocked = Path(result.runs[0].folder), rows.plan.blocked
        told = run_sentences(result.summary(), rows.plan, run, rows.said)
        left = f"blocked rows, left alone: {blocked}; kafkats show names them"
        return [*result.remarks, *told, *([left] if blocked else [])]

    def code_of(result: Result) -> int:
        left = not separate and any(run.left for run in result.runs)
        return result.exit_code or int(left)

    return perform(request, executor, rows, sentences, as_json=as_json, code_of=code_of)


@click.command(cls=Spreading)
@_RUNS
@taking(Approval, UndoCertify, Holder, User, JOBS, JSON, by={"default": this_user})
def undo(folders: tuple[Path, ...], given: Given, executor: Executor, as_json: bool) -> int:
    """Put back every file of a run.

    Bytes, times, mode, owner and attributes are as before. Name the latest of several runs first.
    If a run cannot be undone, the runs named after it are not undone either.
    """
    request = request_of("undo", given, runs=_runs(folders), **_who(given))

    def sentences(result: Result) -> list[str]:
        certified = result.certificate
        return [*result.remarks, *(certificate_sentences(certified) if certified else ())]

    rows = Rows(as_json=as_json)
    return perform(request, executor, rows, sentences, as_json=as_json)


@click.command()
@_RUNS
@taking(Purge, JOBS, JSON)
def purge(folders: tuple[Path, ...], given: Given, executor: Executor, as_json: bool) -> int:
    """Delete the old files of a run: only this frees their space.

    The run cannot be undone after that.
    """
    request = request_of("purge", given, runs=_runs(folders))

    def sentences(result: Result) -> list[str]:
        freed = freed_sentences(sum(run.freed_bytes for run in result.runs))
        not_due = [run.folder for run in result.runs if run.not_due]
        left = [f"{folder}: ended too recently, left alone" for folder in not_due]
        return [*freed, *result.remarks, *left]

    rows = Rows(as_json=as_json)
    return perform(request, executor, rows, sentences, as_json=as_json)


@click.command()
@LOG_DIRS
@taking(Release, WorkArea, JSON)
def release(log_dirs: tuple[Path, ...], given: Given, as_json: bool) -> int:
    """Break the reservation of log directories.

    Others can then plan and apply there. The plan that held the reservation is refused if they
    change its files.
    """
    from kafkats.execution import LocalExecutor

    holder = given.of(Release).holder
    request = request_of(
        "release",
        given,
        log_dirs=log_dirs_at(log_dirs),
        reservation=None if holder is None else ReservationAsked(holder=holder),
    )

    def sentences(result: Result) -> list[str]:
        if as_json:
            show_rows([one.model_dump() for one in result.released], (), as_json)
        for one in result.released:
            if one.error and not as_json:
                warn(f"kafkats: {one.error}")
        return released_sentences(result.released)

    executor = session().executor or LazyExecutor(LocalExecutor)  # nothing is run in one
    return perform(request, executor, Show(), sentences, as_json=as_json)


def _runs(folders: Sequence[Path]) -> list[RunName]:
    return [RunName(folder=folder) for folder in folders]


def _who(given: Given) -> dict[str, object]:
    """Return the fields of a request that say who approved, who reserved and who does it."""
    record, holder = given.of(Approval).approval, given.of(Holder).holder
    return {
        "approval": None if record is None else ApprovalAsked(record=record),
        "reservation": ReservationAsked(holder=holder) if holder else None,
        "by": given.of(User).by,
    }


def _ask_for_approval(folder: Path) -> str:
    from kafkats.plans.plan import read_plan

    made = read_plan(folder)
    if not sys.stdin.isatty():
        raise UsageError("apply needs --digest: no terminal to ask on; `kafkats show` prints it")
    show_plan(made, folder, as_json=False)
    click.confirm("Apply this plan?", abort=True)
    return made.digest


COMMANDS: Final = (apply, undo, purge, release)
