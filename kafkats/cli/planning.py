"""plan and show: decide what to do, write it down, read it again."""

from __future__ import annotations

from functools import partial
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
from kafkats.cli.performing import perform, request_of
from kafkats.cli.rows import Rows
from kafkats.cli.spark import Commands
from kafkats.cli.terminal import certificate_sentences, reserved_sentences
from kafkats.clock import now_ms
from kafkats.config.given import Given
from kafkats.config.options import Settings
from kafkats.errors import UsageError
from kafkats.operations import OPERATIONS
from kafkats.plans.operation import Operation
from kafkats.plans.options import PlanFolder, Reserve
from kafkats.request import PolicyContent, models_of
from kafkats.reserving.plans import Wish
from kafkats.reserving.record import somebody
from kafkats.result import first_remarks

if TYPE_CHECKING:
    from kafkats.execution.executor import Executor
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
    @taking(*models_of("plan", operation.name), Reserve, Settings, FILES, JOBS, JSON)
    def command(log_dirs: tuple[Path, ...], given: Given, executor: Executor, files: bool) -> int:
        reservation = _reservation(given)
        reads = None if operation.by_topic else operation.reads(given)
        policy = given_policy(given, reads=reads)
        request = request_of(
            "plan",
            given,
            log_dirs,
            operation=operation.name,
            policy=PolicyContent.of(policy),
            reservation=reservation,
        )
        rows = Rows(files=files)
        return perform(request, executor, rows, partial(_sentences, rows), policy=policy)

    return command


def _reservation(given: Given) -> Wish | None:
    """Return the reservation to ask for. Each plan folder is its own holder, if none is given: only
    planning into the same folder again does not wait. Raises UsageError.
    """
    asked, folder = given.of(Reserve), given.of(PlanFolder).named()
    until_ms, lasts_ms = asked.reserve_until, asked.reserve_for
    if not asked.reserve and asked.holder is None:
        if (lasts_ms, until_ms) != (None, None) or asked.skip_reserved or asked.take_over:
            raise UsageError(
                "--reserve-for, --reserve-until, --skip-reserved and --take-over go with --reserve"
            )
        return None
    if lasts_ms is not None and until_ms is not None:
        raise UsageError("--reserve-for does not go with --reserve-until")
    if lasts_ms is not None:
        until_ms = now_ms() + lasts_ms
    return Wish(
        holder=somebody(f"plan {folder.absolute()}") if asked.holder is None else asked.holder,
        until_ms=until_ms,
        skip=asked.skip_reserved,
        take_over=asked.take_over,
    )


def _sentences(rows: Rows, result: Result) -> list[str]:
    reserved = reserved_sentences(result.reservation)
    if rows.planned_in is None:
        undo = f"can be undone, so nothing is planned: {' '.join(result.undo)}"
        return [*result.remarks, *reserved, undo]
    plan, sentences, folder = rows.planned_in
    return [
        *first_remarks(result.remarks),
        *reserved,
        *certificate_sentences(result.certificate),
        *sentences,
        *sentences_of(plan, folder),
    ]


for _operation in OPERATIONS.values():
    plan.add_command(_command(_operation))


@click.command()
@PLAN
@FILES
@JSON
def show(folder: Path, files: bool) -> int:
    """List the changes of a plan, with bytes and reasons. Exit with 1 if a row is blocked."""
    from kafkats.plans.parts import open_plan
    from kafkats.plans.plan import check_totals

    made = open_plan(folder)
    check_totals(made, folder, OPERATIONS.get(made.operation))
    show_plan(made, folder, files=files)
    return made.exit_code
