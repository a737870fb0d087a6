"""Decide what to do, and write it down for approval."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafkats.config.given import Given
from kafkats.config.options import Dialect, Topics, WorkArea
from kafkats.config.policy import Policy
from kafkats.errors import UsageError
from kafkats.flow import looking
from kafkats.flow.apply import refuse_unpermitted
from kafkats.flow.applying import closed
from kafkats.flow.dispatch import Work, goes_on, seen
from kafkats.flow.keeping import keep_census, keep_certificate, keep_segments
from kafkats.flow.steps import check_step
from kafkats.migration.certificate import CertifyOptions
from kafkats.migration.options import Back, Migrate, Step
from kafkats.operations import OPERATIONS
from kafkats.plans.dialects import units_in
from kafkats.plans.disks import keep_disks
from kafkats.plans.facts import ACTIONS
from kafkats.plans.holes import keep_holes
from kafkats.plans.operation import Decide, Planned
from kafkats.plans.options import PlanFolder
from kafkats.plans.plan import Plan, sum_of
from kafkats.plans.run import read_actions, read_run
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
    paths, go_on = [one.path for one in request.log_dirs], goes_on(request)
    with planning(paths, request.reservation, place, go_on=go_on) as ours:
        units = units_in(ours.log_dirs, topics, dialect, policy=policy, none_is_fine=fine)
        under_way = _Planning(work, given, policy, ours)
        undone = _undo_instead(under_way, units) if migrates else None
        planned = _plan(under_way, units, decide) if undone is None else None
        if planned is None:
            ours.keep(undone or ())
        else:
            _write(under_way, planned, units)
    for root, error in ours.failed.items():
        done.leave_out(root, error)
    done.log_dirs = seen(ours.log_dirs)
    done.reservation_remarks = ours.remarks
    done.reservation = _reservation(ours)
    done.remarks += ours.remarks
    if planned is not None:
        work.show.planned(planned, Path(done.plan.folder if done.plan else ""))
        done.end_with(0 if folder.go_on else planned.plan.exit_code)


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
        table = looking.count_formats(work.executor, units)
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
    reports = [read_actions(folder) for folder in folders if (folder / "report.parquet").exists()]
    rows = pa.concat_tables([ACTIONS.empty_table(), *reports])
    written = rows.filter(pc.is_in(rows["outcome"], pa.array(["done", "already"])))
    size = sum_of(pc.max_element_wise(written["before_bytes"], 0))
    return {"files": written.num_rows, "blocked": 0, "write_bytes": size, "losses": {}}


def _plan(under_way: _Planning, units: Sequence[Unit], decide: Decide) -> Planned:
    """Decide, and note what is known of the plan besides the plan itself."""
    work, given, policy, _ = under_way
    request, done, operation = work.request, work.done, OPERATIONS[work.request.operation]
    if request.operation == "migrate" and given.of(Back).only_newer:
        units = _only_newer(under_way, units)
    planned = decide(looking.LogStages(work.executor), units)
    done.more = dict(planned.more)
    done.remarks += operation.remarks(planned.plan.header)
    if operation.by_topic:
        every, reads = given.of(Topics).topics == "*", operation.reads(given)
        done.remarks += policy.remarks(topics_of(units), all_topics=every, reads=reads)
    done.remarks += planned.remarks
    return planned


def _only_newer(under_way: _Planning, units: Sequence[Unit]) -> list[Unit]:
    """Certify the partitions, and return the units of those with a newer format than the target."""
    work, given, _, ours = under_way
    magic = given.of(Migrate).to_magic  # --only-newer is refused with --to
    bounds = CertifyOptions(tuple(ours.log_dirs), given.of(Topics).topics, max_magic=magic)
    certificate = looking.certify(work.executor, units, bounds)
    work.done.certificate = keep_certificate(certificate, given.of(Back).certificate_folder)
    newer = {(row["log_dir"], row["partition_dir"]) for row in certificate.exceptions}
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
        keep_disks(map(Path, ours.log_dirs), folder.report)
        note_volumes(folder.report, map(str, ours.log_dirs))
        keep_holes(units, folder.report)


def _write_plan(
    planned: Planned, ours: Planning, asked: PlanFolder, beside: Path | None = None
) -> PlanMade:
    plan = planned.plan
    folder = _folder_of(plan, asked, beside)
    refuse_unpermitted(plan)
    ours.write(plan, folder, **planned.beside)
    return PlanMade(folder=str(folder), digest=plan.digest, totals=dict(plan.header["totals"]))


def _folder_of(plan: Plan, asked: PlanFolder, beside: Path | None) -> Path:
    """Return the folder for a plan, or for one `beside` it; with --into it ends with the digest."""
    if asked.output is not None:
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
