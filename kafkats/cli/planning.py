"""plan and show: decide what to do, write it down, read it again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkats.cli.generated import Spreading, taking
from kafkats.cli.making import sentences_of, show_plan
from kafkats.cli.options import (
    FILES,
    JOBS,
    JSON,
    LOG_DIRS,
    PLAN,
    given_policy,
)
from kafkats.cli.performing import log_dirs_at, perform, request_of
from kafkats.cli.rows import Rows
from kafkats.cli.spark import Commands
from kafkats.cli.terminal import certificate_sentences, reserved_sentences
from kafkats.config.given import Given
from kafkats.config.options import BatchLimit, Settings, Topics, WorkArea
from kafkats.errors import UsageError
from kafkats.operations import OPERATIONS
from kafkats.plans.operation import Operation
from kafkats.plans.options import PlanFolder, Reserve
from kafkats.request import PolicyContent, ReservationAsked
from kafkats.result import first_remarks

if TYPE_CHECKING:
    from kafkats.execution import Executor
    from kafkats.result import Result


@click.group(cls=Commands)
def plan() -> None:
    """Decide what to do, and write it down for approval.

    It changes no log directory. Exits with 1 if the plan has blocked rows.
    """


def _command(operation: Operation) -> click.Command:
    """Return the command that plans an operation."""

    @click.command(operation.name, cls=Spreading, help=operation.sentence)
    @LOG_DIRS
    @taking(
        PlanFolder,
        Reserve,
        WorkArea,
        FILES,
        JSON,
        *operation.models,
        Topics,
        Settings,
        JOBS,
        BatchLimit,
    )
    def command(
        log_dirs: tuple[Path, ...], given: Given, executor: Executor, files: bool, as_json: bool
    ) -> int:
        reservation = _reservation(given)
        reads = None if operation.by_topic else operation.reads(given)
        policy = given_policy(given, reads=reads)
        request = request_of(
            "plan",
            given,
            operation=operation.name,
            log_dirs=log_dirs_at(log_dirs),
            policy=PolicyContent.of(policy),
            reservation=reservation,
        )
        rows = Rows(as_json=as_json, files=files)

        def sentences(result: Result) -> list[str]:
            return _sentences(result, rows)

        return perform(request, executor, rows, sentences, as_json=as_json, policy=policy)

    return command


def _reservation(given: Given) -> ReservationAsked | None:
    """Return the reservation to ask for. Each plan folder is its own holder, if none is given: only
    planning into the same folder again does not wait. Raises UsageError.
    """
    from kafkats.reserving import DAY_MS, now_ms, somebody

    asked, into = given.of(Reserve), given.of(PlanFolder)
    folder = into.output or into.into
    if folder is None or (into.output and into.into):
        raise UsageError("name the plan's folder with -o, or with --into a folder for it")
    until_ms, lasts_ms = asked.reserve_until, asked.reserve_for
    if not asked.reserve and asked.holder is None:
        if (lasts_ms, until_ms) != (None, None) or asked.skip_reserved or asked.take_over:
            raise UsageError(
                "--reserve-for, --reserve-until, --skip-reserved and --take-over go with --reserve"
            )
        return None
    if lasts_ms is not None and until_ms is not None:
        raise UsageError("--reserve-for does not go with --reserve-until")
    if until_ms is None:
        until_ms = now_ms() + (DAY_MS if lasts_ms is None else lasts_ms)
    return ReservationAsked(
        holder=somebody(f"plan {folder.absolute()}") if asked.holder is None else asked.holder,
        until_ms=until_ms,
        skip=asked.skip_reserved,
        take_over=asked.take_over,
    )


def _sentences(result: Result, rows: Rows) -> list[str]:
    reserved = reserved_sentences(result.reservation)
    if rows.planned_in is None:
        undo = f"can be undone, so nothing is planned: {' '.join(result.undo)}"
        return [*result.remarks, *reserved, undo]
    planned, folder = rows.planned_in
    certified = certificate_sentences(result.certificate) if result.certificate else []
    return [
        *first_remarks(result.remarks),
        *reserved,
        *certified,
        *planned.sentences,
        *sentences_of(planned.plan, folder),
    ]


for _operation in OPERATIONS.values():
    plan.add_command(_command(_operation))


@click.command()
@PLAN
@FILES
@JSON
def show(folder: Path, files: bool, as_json: bool) -> int:
    """List the changes of a plan, with bytes and reasons. Exit with 1 if a row is blocked."""
    from kafkats.plans.plan import check_totals, read_plan

    made = read_plan(folder)
    check_totals(made, folder, OPERATIONS.get(made.operation))
    show_plan(made, folder, as_json, files=files)
    return made.exit_code
