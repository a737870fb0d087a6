"""plan and show: decide what to do, write it down, read it again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import click

from kafkats.cli.formats import certificate_sentences
from kafkats.cli.generated import Spreading, taking
from kafkats.cli.making import MAKING, Decision, Making, show_plan
from kafkats.cli.options import (
    FILES,
    JOBS,
    JSON,
    MAX_BATCH_BYTES,
    PLAN,
    check_step,
    given_policy,
    units_in,
)
from kafkats.cli.retention import policy_remarks
from kafkats.cli.session import session
from kafkats.cli.spark import Commands
from kafkats.config.given import Given
from kafkats.config.options import Dialect, Settings, Topics
from kafkats.errors import UsageError
from kafkats.migration.options import Back, Migrate, Step
from kafkats.operations import OPERATIONS
from kafkats.plans.operation import Operation
from kafkats.retention.options import Beyond

if TYPE_CHECKING:
    from kafkats.config import Policy
    from kafkats.execution import Executor
    from kafkats.migration.certificate import CertifyOptions
    from kafkats.plans.operation import Decide, Planned
    from kafkats.plans.units import Unit
    from kafkats.reserving import Planning

_Check: TypeAlias = "Callable[[Making, Given], None]"
_Look: TypeAlias = "Callable[[Request, Planning], Decision]"


@click.group(cls=Commands)
def plan() -> None:
    """Decide what to do, and write it down for approval.

    It changes no log directory. Exits with 1 if the plan has blocked rows.
    """


class Request(NamedTuple):
    """The request of a command that plans. `decide` looks at units and plans."""

    operation: Operation
    making: Making
    given: Given
    executor: Executor
    policy: Policy
    decide: Decide

    def units(self, ours: Planning) -> list[Unit]:
        """Return the units of the log directories that are reserved.

        Raises UsageError, and Refused for logs of a dialect that was not named.
        """
        reads = Dialect in self.operation.models
        dialect = self.given.of(Dialect).dialect if reads else None
        topics = self.given.of(Topics).topics
        return units_in(ours.log_dirs, topics, dialect, policy=self.policy)

    def plan(self, units: Sequence[Unit]) -> Planned:
        """Look at the units and decide."""
        from kafkats.flow.looking import LogStages

        return self.decide(LogStages(self.executor), units)


def _command(operation: Operation) -> click.Command:
    """Return the command that plans an operation."""
    check, look = _SPECIAL.get(operation.name, (_nothing_to_check, _plan))

    @click.command(operation.name, cls=Spreading, help=operation.sentence)
    @MAKING
    @taking(*operation.models, Topics, Settings)
    @JOBS
    @MAX_BATCH_BYTES
    def command(
        log_dirs: tuple[Path, ...], making: Making, given: Given, executor: Executor
    ) -> int:
        reported = making.report is not None or session().scheduled
        given = replace(given, reported=reported)
        check(making, given)
        reads = None if operation.by_topic else operation.reads(given)
        policy = given_policy(given, reads=reads)
        decide = operation.prepare(given, policy)
        request = Request(operation, making, given, executor, policy, decide)
        return making.make(log_dirs, partial(look, request))

    return command


def _nothing_to_check(_making: Making, _given: Given) -> None:
    pass


def _plan(request: Request, ours: Planning) -> Decision:
    operation, given, units = request.operation, request.given, request.units(ours)
    planned = request.plan(units)
    more, remarks = dict(planned.more), list[str]()
    if planned.beyond is not None:
        more["beyond"] = _write_beyond(planned.beyond, request, ours)
    if operation.by_topic:
        topics, reads = given.of(Topics).topics, operation.reads(given)
        remarks = policy_remarks(request.policy, units, topics, reads)
    return Decision(planned, more, remarks, planned.sentences)


def _write_beyond(planned: Planned, request: Request, ours: Planning) -> dict[str, object]:
    """Write the plan without the policy's guards. Return its fields of the summary."""
    from kafkats.flow.planning import write

    plan = planned.plan
    folder = request.making.folder_of(plan, request.given.of(Beyond).beyond_guard)
    write(planned, ours, folder)
    return {"plan": str(folder), "digest": plan.digest, "totals": dict(plan.header["totals"])}


def _check_migration(making: Making, given: Given) -> None:
    """Raise UsageError, before anything is read, for options that do not go together."""
    step, back = given.of(Step), given.of(Back)
    if step.ledger and making.wish and making.wish.skip:
        raise UsageError("--ledger records whole brokers: leave --skip-reserved out")
    if back.certificate_folder and not back.only_newer:
        raise UsageError("--certify goes with --only-newer")
    check_step(step.ledger, step.phase, step.broker, given.of(Topics).topics)


def _migrate(request: Request, ours: Planning) -> Decision:
    """Plan a migration, unless its runs are to be undone, or nothing is newer than its target."""
    from kafkats.flow import looking
    from kafkats.flow.applying import closed
    from kafkats.flow.keeping import keep_census, keep_certificate
    from kafkats.flow.rolling_back import undoing, undone_in

    making, executor, back = request.making, request.executor, request.given.of(Back)
    units = request.units(ours)
    more: dict[str, object] = {}
    sentences: Sequence[str] = ()
    if making.report:
        more["census"] = keep_census(looking.count_formats(executor, units), making.report)
    if back.runs and not closed(executor, back.runs):
        sentences = [f"can be undone, so nothing is planned: {' '.join(map(str, back.runs))}"]
        return Decision(
            None, more | undoing(back.runs), sentences=sentences, undone=undone_in(back.runs)
        )
    if back.only_newer:
        certificate = looking.certify(executor, units, _bounds(request, ours))
        kept = keep_certificate(certificate, back.certificate_folder)
        sentences = certificate_sentences(kept)
        more |= kept.summary()
        newer = {(row["log_dir"], row["partition_dir"]) for row in certificate.exceptions}
        units = [unit for unit in units if (unit.log_dir, unit.partition_dir) in newer]
    planned = request.plan(units)
    said = [*sentences, *planned.sentences]
    return Decision(planned, more | dict(planned.more), sentences=said)


def _bounds(request: Request, ours: Planning) -> CertifyOptions:
    from kafkats.migration.certificate import CertifyOptions

    given = request.given
    magic = given.of(Migrate).to_magic  # --only-newer is refused with --to
    return CertifyOptions(tuple(ours.log_dirs), given.of(Topics).topics, max_magic=magic)


_SPECIAL: Final[Mapping[str, tuple[_Check, _Look]]] = {"migrate": (_check_migration, _migrate)}
"""Operations whose commands do more than plan."""

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
