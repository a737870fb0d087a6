"""Decide what to do, and write it down for approval."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from kafkats.config import Policy
from kafkats.config.given import Given
from kafkats.config.options import Dialect, Topics, WorkArea
from kafkats.errors import UsageError
from kafkats.flow import looking
from kafkats.flow.apply import refuse_unpermitted
from kafkats.flow.applying import closed
from kafkats.flow.dispatch import Work, seen
from kafkats.flow.keeping import keep_census, keep_certificate, keep_segments
from kafkats.flow.rolling_back import undoing, undone_in
from kafkats.flow.steps import check_step
from kafkats.flow.units import units_in
from kafkats.migration.certificate import CertifyOptions
from kafkats.migration.options import Back, Migrate, Step
from kafkats.operations import OPERATIONS
from kafkats.plans.disks import keep_disks
from kafkats.plans.operation import Decide, Planned
from kafkats.plans.options import PlanFolder
from kafkats.plans.plan import Plan
from kafkats.plans.units import Unit, topics_of
from kafkats.plans.volumes import note_volumes
from kafkats.reserving import DAY_MS, Planning, Wish, now_ms, planning
from kafkats.result import PlanMade, ReservationMade, Reserved
from kafkats.retention.options import Beyond
from kafkats.text import Flag, Text


class _Planning(NamedTuple):
    """A plan under way. `decide` looks at units and plans."""

    work: Work
    given: Given
    folder: PlanFolder
    policy: Policy
    decide: Decide
    ours: Planning

    def units(self) -> list[Unit]:
        """Return the units of the log directories that are reserved. Raises as `units_in`."""
        request = self.work.request
        reads = Dialect in OPERATIONS[request.operation].models
        dialect = self.given.of(Dialect).dialect if reads else None
        topics, fine = self.given.of(Topics).topics, request.no_topic_is_fine
        return units_in(self.ours.log_dirs, topics, dialect, policy=self.policy, none_is_fine=fine)

    def plan(self, units: Sequence[Unit]) -> Planned:
        """Look at the units and decide."""
        return self.decide(looking.LogStages(self.work.executor), units)


def perform(work: Work) -> None:
    """Reserve the log directories, decide, and write the plan's folder.

    Raises UsageError for options that do not go together, and as `planning`;
    NotPermitted where the files could not be given their attributes; StorageFailed.
    """
    request, done = work.request, work.done
    given, folder = request.given(), request.of(PlanFolder)
    _check_folder(folder)
    if request.operation == "migrate":
        _check_migration(given, work)
    policy = request.settings()
    decide = OPERATIONS[request.operation].prepare(given, policy)
    place = request.of(WorkArea).place
    with planning([one.path for one in request.log_dirs], _wish(work), place) as ours:
        under_way = _Planning(work, given, folder, policy, decide, ours)
        units = under_way.units()
        migrates = request.operation == "migrate"
        undone = _undo_instead(under_way, units) if migrates else None
        planned = _plan(under_way, units) if undone is None else None
        if planned is None:
            ours.keep(undone or ())
        else:
            _write(under_way, planned)
    done.log_dirs = seen(ours.log_dirs)
    done.reservation_remarks = ours.remarks
    done.reservation = _reservation(ours)
    done.remarks += ours.remarks
    if planned is not None:
        work.show.planned(planned, Path(done.plan.folder if done.plan else ""))
        done.end_with(0 if folder.go_on else planned.plan.exit_code)


def _check_folder(folder: PlanFolder) -> None:
    if (folder.output is None) == (folder.into is None):
        raise UsageError(
            Text("name the plan's folder with -o, or with ", Flag("--into"), " a folder for it")
        )


def _check_migration(given: Given, work: Work) -> None:
    """Raise UsageError, before anything is read, for options that do not go together."""
    step, back = given.of(Step), given.of(Back)
    asked = work.request.reservation
    if step.ledger and asked and asked.skip:
        raise UsageError(
            Text(
                Flag("--ledger"), " records whole brokers: leave ", Flag("--skip-reserved"), " out"
            )
        )
    if back.certificate_folder and not back.only_newer:
        raise UsageError(Text(Flag("--certify"), " goes with ", Flag("--only-newer")))
    check_step(step.ledger, step.phase, step.broker, given.of(Topics).topics)


def _wish(work: Work) -> Wish | None:
    asked = work.request.reservation
    if asked is None:
        return None
    until_ms = now_ms() + DAY_MS if asked.until_ms is None else asked.until_ms
    return Wish(asked.holder, until_ms, asked.skip, asked.take_over)


def _undo_instead(under_way: _Planning, units: Sequence[Unit]) -> Collection[str] | None:
    """Return the log directories of a migration's runs that are to be undone instead, else None."""
    work, back, report = under_way.work, under_way.given.of(Back), under_way.folder.report
    if report:
        table = looking.count_formats(work.executor, units)
        work.done.census = keep_census(table, report)
    if not back.runs or closed(work.executor, back.runs):
        return None
    instead = undoing(back.runs)
    work.done.plan = PlanMade(
        folder=instead["plan"], digest=instead["digest"], totals=instead["totals"]
    )
    work.done.undo = instead["undo"]
    return undone_in(back.runs)


def _plan(under_way: _Planning, units: Sequence[Unit]) -> Planned:
    """Decide, and note what is known of the plan besides the plan itself."""
    request, done, given = under_way.work.request, under_way.work.done, under_way.given
    operation = OPERATIONS[request.operation]
    if request.operation == "migrate" and given.of(Back).only_newer:
        units = _only_newer(under_way, units)
    planned = under_way.plan(units)
    done.more = dict(planned.more)
    done.remarks += operation.remarks(planned.plan.header)
    if operation.by_topic:
        topics, reads = given.of(Topics).topics, operation.reads(given)
        everything = topics == "*"
        done.remarks += under_way.policy.remarks(
            topics_of(units), all_topics=everything, reads=reads
        )
    done.remarks += planned.remarks
    return planned


def _only_newer(under_way: _Planning, units: Sequence[Unit]) -> list[Unit]:
    """Certify the partitions, and return the units of those with a newer format than the target."""
    work, given = under_way.work, under_way.given
    magic = given.of(Migrate).to_magic  # --only-newer is refused with --to
    bounds = CertifyOptions(
        tuple(under_way.ours.log_dirs), given.of(Topics).topics, max_magic=magic
    )
    certificate = looking.certify(work.executor, units, bounds)
    work.done.certificate = keep_certificate(certificate, given.of(Back).certificate_folder)
    newer = {(row["log_dir"], row["partition_dir"]) for row in certificate.exceptions}
    return [unit for unit in units if (unit.log_dir, unit.partition_dir) in newer]


def _write(under_way: _Planning, planned: Planned) -> None:
    """Write the plan, the one beyond the guards, and the report."""
    done, ours, folder = under_way.work.done, under_way.ours, under_way.folder
    if planned.beyond is not None:
        beside = under_way.given.of(Beyond).beyond_guard
        done.beyond = _write_plan(planned.beyond, ours, folder, beside)
    done.plan = _write_plan(planned, ours, folder)
    done.found = keep_segments(planned.segments, folder.report)
    if folder.report is not None:
        keep_disks(map(Path, ours.log_dirs), folder.report)
        note_volumes(folder.report, map(str, ours.log_dirs))


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
        Reserved(
            log_dir=root,
            holder=entered.reservation.holder,
            until_ms=entered.reservation.until_ms,
        )
        for root, entered in sorted(ours.entered.items())
    ]
    skipped = [Reserved.model_validate(one.as_row()) for one in ours.skipped]
    return ReservationMade(holder=ours.wish.holder, mine=mine, skipped=skipped)
