"""The one composition of every request: check, do, and return the result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkats.config.options import BatchLimit, Report
from kafkats.deployment import OPEN, Deployment
from kafkats.errors import DiskFull, KafkatsError, UsageError, is_out_of_memory, memory_ran_out
from kafkats.logdir.outputs import refuse_other, refuse_output
from kafkats.request import VERBS, Identity, LogDirectory, Request, models_of
from kafkats.result import Result

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkats.execution.executor import Executor
    from kafkats.flow.applying import Applied, Ended
    from kafkats.lookup.exports import Export
    from kafkats.lookup.marks import Mark
    from kafkats.migration.census import Counts
    from kafkats.migration.certificate import Certificate
    from kafkats.migration.recheck import Recheck
    from kafkats.plans.plan import AnyPlan
    from kafkats.plans.proof import Proof
    from kafkats.recovery.facts import BrokerStart


class Show:
    """Rows for a front end, as they become known: a result has none. This class shows nothing."""

    def planned(self, plan: AnyPlan, sentences: Sequence[str], folder: Path) -> None:
        """The rows of a plan that was written to its folder, and its sentences."""

    def verified(self, segments: pa.Table) -> None:
        """Rows of facts.SEGMENTS of a verify, at least those with findings: of all partitions, or
        of some at a time.
        """

    def proof(self, proof: Proof) -> None:
        """The proof of a verify or certify."""

    def applied(self, plan: AnyPlan, applied: Applied) -> None:
        """The rows of an apply, and of its proof."""

    def ended(self, verb: str, ended: Ended) -> None:
        """The rows of a run that was undone or purged."""

    def listed(self, segments: pa.Table, rows: Sequence[Mapping[str, Any]], by: str) -> None:
        """Rows of facts.SEGMENTS of an inventory, at least those with findings, and its rows `by`
        one of its groups: of all partitions, or of some at a time.
        """

    def formats(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """The rows of a census: all, or some at a time."""

    def counted(self, census: Counts) -> None:
        """The totals of a census whose rows were shown."""

    def certified(self, certificate: Certificate) -> None:
        """The certificate that was made, or the reasons why there is none."""

    def rechecked(self, again: Recheck) -> None:
        """The changes since a certificate was made."""

    def looked_up(self, found: pa.Table) -> None:
        """partitions.LOOKUP: the answers of a search in log directories."""

    def marks(self, marks: Sequence[Mark]) -> None:
        """The answers of a table."""

    def exported(self, made: Export, output: Path | None) -> None:
        """An export, which is in the file `output`; None: only here."""

    def started(self, start: BrokerStart, said: Sequence[str]) -> None:
        """The predicted start of a broker, and its sentences."""

    def happened(self, event: str, fields: Mapping[str, Any]) -> None:
        """A step of a recovery before a start, as it is done: a line of a log."""


NOTHING: Final = Show()


class Work(NamedTuple):
    """A request under way; `done` is its result so far."""

    request: Request
    executor: Executor
    show: Show
    deployment: Deployment
    done: Result


def run(
    request: Request, executor: Executor, *, show: Show = NOTHING, deployment: Deployment = OPEN
) -> Result:
    """Do what a request says. Errors of ours are the result's; others are raised."""
    work = Work(request, executor, show, deployment, Result.begun(request))
    try:
        deployment.check(request)
        _check(request)
        work = work._replace(request=_reached(request, work.done))
        module = import_module(f"kafkats.flow.verbs.{request.verb}")  # each needs other packages
        module.perform(work)
    except DiskFull as e:
        from kafkats.flow.full_disk import told_full  # needs pyarrow

        work.done.fail(told_full(e, request, work.done.log_dirs))
    except KafkatsError as e:
        work.done.fail(e)
    except Exception as e:
        if not is_out_of_memory(e):
            raise
        work.done.fail(memory_ran_out())
    return work.done.finish()


def _check_parts(request: Request) -> None:
    """Raise UsageError for a request that names nothing to do, or parts that its verb ignores."""
    _, needed, also, _ = VERBS[request.verb]
    if needed and not getattr(request, needed):
        words = "a plan and its digest" if needed == "plan" else needed
        raise UsageError(f"{request.verb} needs {words}")
    for name in ("approval", "plan", "policy", "runs"):
        if name not in (needed, *also) and getattr(request, name):
            raise UsageError(f"{name}: {request.verb} has no such part")


def _check(request: Request) -> None:
    """Raise UsageError and Refused before anything is done."""
    _check_parts(request)
    if BatchLimit in models_of(request.verb, request.operation):
        from kafkats.compression.limit import allow

        allow(request.of(BatchLimit).max_batch_bytes)
    named = [one.path for one in request.log_dirs]
    for option, path in ((one.option, path) for one, path in request.option_paths()):
        if option.writes:
            refuse_output(option.flags, path, named)
    if Report in models_of(request.verb, request.operation):
        report = request.of(Report).report
        if report is not None:
            refuse_other(report)
    for one in request.log_dirs:
        _check_identity(one)


def _check_identity(one: LogDirectory) -> None:
    """Raise Refused if another volume than the requested one is at this path."""
    if one.identity is None:
        return
    from kafkats.logdir.volume import Volume, check_volume

    asked = one.identity
    listed = {str(one.path): Volume(asked.cluster, asked.node, asked.directory)}
    check_volume(str(one.path), listed)


def _reached(request: Request, done: Result) -> Request:
    """Return the request without the log directories that cannot be read, if that is fine.

    A ledger records whole brokers: there one of them leaves out all.
    """
    if not request.unreachable_is_fine:
        return request
    from kafkats.logdir.location import locate

    there = []
    for one in request.log_dirs:
        try:
            locate(one.path)
            there.append(one)
        except KafkatsError as e:
            done.leave_out(str(one.path), e)
    whole = goes_on(request) or not done.unreachable
    return request.model_copy(update={"log_dirs": tuple(there) if whole else ()})


def goes_on(request: Request) -> bool:
    """Return whether the work may leave out some of the log directories that it names."""
    step = request.options.get("Step", {}).get("ledger")
    return request.unreachable_is_fine and not step


def seen(log_dirs: Iterable[str]) -> list[LogDirectory]:
    """Return log directories with the identities that are there now."""
    from kafkats.logdir.volume import volume_at

    return [
        LogDirectory(path=Path(path), identity=volume and Identity.of(volume))
        for path, volume in ((path, volume_at(path)) for path in log_dirs)
    ]
