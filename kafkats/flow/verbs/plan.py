"""Decide what to do, and write it down for approval."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafkats import paths
from kafkats.config.given import Given
from kafkats.config.options import Dialect, Topics, WorkArea
from kafkats.config.policy import Policy
from kafkats.errors import UsageError, exists
from kafkats.flow import certifying, looking
from kafkats.flow.apply import refuse_unpermitted
from kafkats.flow.applying import closed
from kafkats.flow.certifying import keep_census, keep_certificate
from kafkats.flow.dispatch import Work, goes_on, seen
from kafkats.flow.keeping import keep_segments, refuse_to_replace
from kafkats.flow.parting import Asked, InParts, decide_groups, groups_of
from kafkats.flow.steps import check_step
from kafkats.flow.verbs.census import keep_census_of
from kafkats.migration.certificate import CertifyOptions
from kafkats.migration.options import Back, Migrate, Step
from kafkats.operations import OPERATIONS
from kafkats.plans.deciding import scratch_in
from kafkats.plans.dialects import units_in
from kafkats.plans.directories import Directories
from kafkats.plans.disks import keep_disks
from kafkats.plans.facts import ACTIONS, read_in_pieces
from kafkats.plans.files import make_folder
from kafkats.plans.holes import holes_of, keep_holes
from kafkats.plans.operation import Decide, Planned
from kafkats.plans.options import PlanFolder
from kafkats.plans.plan import AnyPlan, make_sealed, sum_of, write_plan
from kafkats.plans.rows import partition_of
from kafkats.plans.run import WROTE, read_run
from kafkats.plans.units import Unit, topics_of
from kafkats.plans.volumes import note_volumes
from kafkats.reserving.plans import Planning, planning
from kafkats.result import PlanMade, ReservationMade
from kafkats.retention.options import Beyond
from kafkats.text import Flag


class _Planning(NamedTuple):
    """A plan under way, for the log directories of `ours`."""

    work: Work
    given: Given
    policy: Policy
    ours: Planning


class _Made(NamedTuple):
    """A plan that was written, and its sentences."""

    plan: AnyPlan
    sentences: Sequence[str]


def perform(work: Work) -> None:
    """Reserve the log directories, decide, and write the plan's folder.

    Raises UsageError for options that do not go together, and as `planning`;
    NotPermitted where the files could not be given their attributes; StorageFailed.
    """
    request, done = work.request, work.done
    given, folder = request.given(), request.of(PlanFolder)
    folder.named()
    migrates = request.operation == "migrate"
    if migrates:
        _check_migration(given, work)
    operation, policy = OPERATIONS[request.operation], request.settings()
    decide = operation.prepare(given, policy)
    dialect = given.of(Dialect).dialect if Dialect in operation.models else None
    topics, fine = given.of(Topics).topics, request.no_topic_is_fine
    place = request.of(WorkArea).place
    roots, go_on = [one.path for one in request.log_dirs], goes_on(request)
    with planning(roots, request.reservation, place, go_on=go_on) as ours:
        under_way = _Planning(work, given, policy, ours)
        groups = groups_of(request.operation, given, ours.log_dirs, topics, policy)
        made: _Made | None
        if groups:
            made = _plan_groups(under_way, groups, dialect)
        else:
            units = units_in(ours.log_dirs, topics, dialect, policy=policy, none_is_fine=fine)
            undone = _undo_instead(under_way, units) if migrates else None
            made = _plan_whole(under_way, units, decide) if undone is None else None
            if made is None:
                ours.keep(undone or ())
    for root, error in ours.failed.items():
        done.leave_out(root, error)
    done.log_dirs = seen(ours.log_dirs)
    done.reservation_remarks = ours.remarks
    done.reservation = _reservation(ours)
    done.remarks += ours.remarks
    if made is not None:
        work.show.planned(made.plan, made.sentences, Path(done.plan.folder if done.plan else ""))
        done.end_with(0 if folder.go_on else made.plan.exit_code)


def _check_migration(given: Given, work: Work) -> None:
    """Raise UsageError, before anything is read, for options that do not go together."""
    step, back = given.of(Step), given.of(Back)
    asked = work.request.reservation
    if step.ledger and asked and asked.skip:
        raise UsageError(
            Flag("--ledger"), " records whole brokers: leave ", Flag("--skip-reserved"), " out"
        )
    if back.certificate_folder and not back.only_newer:
        raise UsageError(Flag("--certify"), " goes with ", Flag("--only-newer"))
    check_step(step.ledger, step.phase, step.broker, given.of(Topics).topics)


def _undo_instead(under_way: _Planning, units: Sequence[Unit]) -> Collection[str] | None:
    """Return the log directories of a migration's runs that are to be undone instead, else None."""
    work, given, _, _ = under_way
    back, report = given.of(Back), given.of(PlanFolder).report
    if report:
        table = certifying.count_formats(work.executor, units)
        work.done.census = keep_census(table, report)
    if not back.runs or closed(work.executor, back.runs):
        return None
    digest = read_run(back.runs[0]).digest
    totals = _undone_totals(back.runs)
    work.done.plan = PlanMade(folder=str(back.runs[0]), digest=digest, totals=totals)
    work.done.undo = [str(folder) for folder in back.runs]
    return {log_dir for folder in back.runs for log_dir in read_run(folder).directories}


def _undone_totals(folders: Sequence[Path]) -> dict[str, Any]:
    """Return the totals of what an undo puts back. Raises CorruptPlan, StorageFailed."""
    schema = pa.schema([ACTIONS.field(name) for name in ("outcome", "before_bytes")])
    reports = [folder / "report.parquet" for folder in folders]
    files = size = 0
    for path in reports:
        for rows in read_in_pieces(path, schema) if exists(path, "reading") else ():
            written = rows.filter(pc.is_in(rows["outcome"], pa.array(WROTE)))
            files += written.num_rows
            size += sum_of(pc.max_element_wise(written["before_bytes"], 0))
    return {"files": files, "blocked": 0, "write_bytes": size, "losses": {}}


def _plan_whole(under_way: _Planning, units: Sequence[Unit], decide: Decide) -> _Made:
    """Decide about all units at once, and write the plan."""
    work, given, _, _ = under_way
    if work.request.operation == "migrate" and given.of(Back).only_newer:
        units = _only_newer(under_way, units)
    planned = decide(looking.LogStages(work.executor), units)
    remarks = [*_of_policy(under_way, topics_of(units)), *planned.remarks]
    _note(work, planned.plan, remarks, planned.more)
    _write(under_way, planned, units)
    return _Made(planned.plan, planned.sentences)


def _plan_groups(under_way: _Planning, groups: Sequence[Directories], dialect: str | None) -> _Made:
    """Decide one group of directories after another, and write the plan."""
    work, given, policy, ours = under_way
    asked = given.of(PlanFolder)
    folder = asked.output or asked.into
    assert folder is not None
    if asked.output is not None:
        make_sealed(folder, "plan")
    else:
        make_folder(folder, "the plan")
    if work.request.operation == "migrate" and asked.report:
        work.done.census = keep_census_of(work.executor, groups, asked.report, dialect)
    with scratch_in(folder.absolute()) as scratch:
        wish = Asked(
            work.request.operation, given, policy, dialect, scratch, asked.report is not None
        )
        decided = decide_groups(work.executor, groups, wish)
        topics = {paths.partition_name(name).topic for one in groups for name in one.names}
        remarks = [*_of_policy(under_way, topics), *decided.said.remarks]
        _note(work, decided.plan, remarks, decided.said.more)
        if decided.beyond is not None:
            beside = given.of(Beyond).beyond_guard
            work.done.beyond, _ = _write_parts(decided.beyond, ours, asked, beside)
        work.done.plan, plan = _write_parts(decided, ours, asked)
        work.done.found = dict(decided.seen)
        if asked.report is not None:
            decided.report(asked.report)
            work.done.found |= {"report": str(asked.report)}
            _report_disks(ours, asked.report)
    return _Made(plan, decided.said.sentences)


def _of_policy(under_way: _Planning, topics: Collection[str]) -> Sequence[str]:
    """Return the remarks about the topics that a policy decides about."""
    work, given, policy, _ = under_way
    operation = OPERATIONS[work.request.operation]
    if not operation.by_topic:
        return ()
    every, reads = given.of(Topics).topics == "*", operation.reads(given)
    return policy.remarks(topics, all_topics=every, reads=reads)


def _note(work: Work, plan: AnyPlan, remarks: Sequence[str], more: Mapping[str, object]) -> None:
    """Note what is known of the plan besides the plan itself."""
    work.done.more = dict(more)
    work.done.remarks += [*OPERATIONS[work.request.operation].remarks(plan.header), *remarks]


def _only_newer(under_way: _Planning, units: Sequence[Unit]) -> list[Unit]:
    """Certify the partitions, and return the units of those with a newer format than the target."""
    work, given, _, ours = under_way
    magic = given.of(Migrate).to_magic  # --only-newer is refused with --to
    bounds = CertifyOptions(tuple(ours.log_dirs), given.of(Topics).topics, max_magic=magic)
    certificate = certifying.certify(work.executor, units, bounds)
    work.done.certificate = keep_certificate(certificate, given.of(Back).certificate_folder)
    newer = set(map(partition_of, certificate.exceptions))
    return [unit for unit in units if (unit.log_dir, unit.partition_dir) in newer]


def _write(under_way: _Planning, planned: Planned, units: Sequence[Unit]) -> None:
    """Write the plan, the one beyond the guards, and the report."""
    work, given, _, ours = under_way
    done, folder = work.done, given.of(PlanFolder)
    if planned.beyond is not None:
        beside = given.of(Beyond).beyond_guard
        done.beyond = _write_plan(planned.beyond, ours, folder, beside)
    done.plan = _write_plan(planned, ours, folder)
    done.found = keep_segments(planned.segments, folder.report)
    if folder.report is not None:
        _report_disks(ours, folder.report)
        keep_holes(holes_of(units), folder.report)


def _report_disks(ours: Planning, report: Path) -> None:
    """Write the log directories' disks and identities into the folder of a report."""
    keep_disks(map(Path, ours.log_dirs), report)
    note_volumes(report, map(str, ours.log_dirs))


def _write_plan(
    planned: Planned, ours: Planning, asked: PlanFolder, beside: Path | None = None
) -> PlanMade:
    plan = planned.plan
    folder = _folder_of(plan, asked, beside)
    refuse_unpermitted(plan)
    write_plan(plan, folder, {name: (table,) for name, table in planned.beside.items()})
    ours.keep_changed(plan, folder)
    return _made(plan, folder)


def _write_parts(
    decided: InParts, ours: Planning, asked: PlanFolder, beside: Path | None = None
) -> tuple[PlanMade, AnyPlan]:
    folder = _folder_of(decided.plan, asked, beside)
    plan = decided.write(folder)
    ours.keep_changed(plan, folder)
    return _made(plan, folder), plan


def _made(plan: AnyPlan, folder: Path) -> PlanMade:
    return PlanMade(folder=str(folder), digest=plan.digest, totals=dict(plan.header["totals"]))


def _folder_of(plan: AnyPlan, asked: PlanFolder, beside: Path | None) -> Path:
    """Return the folder for a plan, or for one `beside` it; with --into it ends with the digest."""
    if asked.output is not None:
        refuse_to_replace(beside or asked.output, plan.digest)
        return beside or asked.output
    named = beside or Path(asked.into or "", "plan")
    return named.with_name(f"{named.name}-{plan.digest[:16]}")


def _reservation(ours: Planning) -> ReservationMade | None:
    if ours.wish is None:
        return None
    mine = [
        replace(entered.reservation.held, log_dir=root)
        for root, entered in sorted(ours.entered.items())
    ]
    skipped = [one.held for one in ours.skipped]
    return ReservationMade(holder=ours.wish.holder, mine=mine, skipped=skipped)
