"""List the defects of logs and indexes, or prove what was written."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kafkats.config.options import IndexSettings, Report, Topics
from kafkats.errors import UsageError
from kafkats.execution.executor import Executor
from kafkats.findings import DEFECTS
from kafkats.flow import looking
from kafkats.flow.dispatch import Work
from kafkats.flow.keeping import keep_proof, keep_segments, keep_views, kept_in
from kafkats.flow.looking import listing_of, units_of
from kafkats.flow.steps import check_step, tell_step
from kafkats.flow.viewing import View, groups_of, tables_of, viewed
from kafkats.inspect.options import Deep, ProofOptions, VerifyDepth
from kafkats.inspect.verify import VerifyOptions
from kafkats.migration.options import Step
from kafkats.plans.deciding import sums_of
from kafkats.plans.depths import depth_totals
from kafkats.plans.directories import Directories
from kafkats.plans.facts import summary, telling
from kafkats.plans.units import Unit
from kafkats.text import Flag


def perform(work: Work) -> None:
    """Verify the request's log directories. Ends with findings if one is damage or danger, or if a
    written file is not as planned.

    Raises UsageError for options that do not go together, and as `units_of`.
    """
    request, step, proof = work.request, work.request.of(Step), work.request.of(ProofOptions)
    topics, depth = request.of(Topics).topics, request.of(VerifyDepth).depth
    check_step(step.ledger, step.phase, step.broker, topics)
    deep = request.of(Deep).deep or depth == "deep"
    proves = bool(proof.of_plan or proof.of_run)
    if depth == "tail" and (deep or step.ledger or proves):
        raise UsageError(
            *(Flag("--depth"), " tail does not read whole segments: "),
            *(Flag("--deep"), ", ", Flag("--ledger"), ", ", Flag("--of-plan"), " and "),
            *(Flag("--of-run"), " need ", Flag("--depth"), " full"),
        )
    policy = request.settings()
    options = VerifyOptions(rule=request.of(IndexSettings).rule, deep=deep, policy=policy)
    if proves:
        from kafkats.flow.proving import check_written

        check_written(proof)
    groups = [] if proves else groups_of(work, policy)
    if proves and step.ledger:
        raise UsageError(
            *(Flag("--ledger"), " records whole brokers: leave "),
            *(Flag("--of-plan"), " and ", Flag("--of-run"), " out"),
        )
    if proves:
        _prove(work, proof, options)
    elif groups:
        _look_in_groups(work, groups, options, depth)
    else:
        _look(work, units_of(work, policy=policy), options, depth)


def _prove(work: Work, asked: ProofOptions, options: VerifyOptions) -> None:
    from kafkats.flow.proving import prove_written

    done, report = work.done, work.request.of(Report).report
    with kept_in(report) as read:
        proof = prove_written(work.executor, asked, listing_of(work), options, read.keep)
    done.found = read.found
    keep_proof(proof, asked, done)
    done.end_with(int(bool(proof.not_equal)))
    work.show.proof(proof)


def _look(work: Work, units: Sequence[Unit], options: VerifyOptions, depth: str) -> None:
    looked = looking.look(work.executor, units, options, depth=depth)
    work.done.found = keep_segments(looked.segments, work.request.of(Report).report)
    work.done.found |= depth_totals(looked.segments)
    if depth == "tail":
        work.done.found["looked_bytes"] = looked.read_bytes
    work.show.verified(looked.segments)
    _end(work, options)


def _look_in_groups(
    work: Work, groups: Sequence[Directories], options: VerifyOptions, depth: str
) -> None:
    """Look at one group of partitions after another. Rows are shown by group."""
    report = work.request.of(Report).report
    look = partial(view_segments, options=options, depth=depth, whole=report is not None)
    by_ends = depth == "tail"
    with viewed(work.executor, groups, look, report, by_ends=by_ends) as views:
        sums = sums_of(view.totals["sums"] for view in views)
        work.done.found = keep_views(views, report) | sums["depths"]
        if by_ends:
            work.done.found["looked_bytes"] = sums["looked_bytes"]
        for segments in tables_of(views, "segments"):
            work.show.verified(telling(segments))
    _end(work, options)


def view_segments(
    executor: Executor, units: Sequence[Unit], *, options: VerifyOptions, depth: str, whole: bool
) -> View:
    """Look at some partitions to `depth`. `whole`: the table has the sound segments, too."""
    looked = looking.look(executor, units, options, depth=depth)
    segments, totals = looked.segments, depth_totals(looked.segments)
    sums = {"depths": totals, "looked_bytes": looked.read_bytes}
    return View(
        {"seen": summary(segments), "sums": sums},
        {"segments": segments if whole else telling(segments)},
    )


def _end(work: Work, options: VerifyOptions) -> None:
    done, request, step = work.done, work.request, work.request.of(Step)
    assert done.found is not None
    done.end_with(int(done.found["worst"] in DEFECTS))
    if not done.exit_code:
        details = {"deep": options.deep}
        tell_step(step.ledger, "verified", step.phase, step.broker, by=request.by, details=details)
