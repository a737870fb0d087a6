"""Carry out an approved plan."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from kafkats.config.options import Vouched, WorkArea
from kafkats.errors import CorruptPlan, DiskFull, UsageError
from kafkats.flow.applying import Applied, Pieces, apply
from kafkats.flow.dispatch import Work, seen
from kafkats.flow.full_disk import what_frees
from kafkats.operations import OPERATIONS
from kafkats.plans.options import Apply
from kafkats.plans.parts import open_plan
from kafkats.plans.plan import check_digest, check_totals
from kafkats.plans.run import run_folder_of, run_of
from kafkats.result import Proved, Ran


def perform(work: Work) -> None:
    """Apply the request's plan. Raises UsageError, Refused and its children, and as flow.apply."""
    request, done = work.request, work.done
    if request.plan is None or request.plan.digest is None:
        raise UsageError("apply needs a plan and its digest")
    folder = request.plan.folder
    plan = open_plan(folder, Pieces())
    check_totals(plan, folder, OPERATIONS.get(plan.operation))
    check_digest(plan, request.plan.digest)
    done.approval = work.deployment.check_approval(request.record, [plan.digest])
    work.deployment.check_guards(plan)
    options, place = request.of(Apply), request.of(WorkArea).place
    run = run_of(plan, place=place, owner_stopped=request.of(Vouched).owner_stopped)
    _check_apart(folder, run.directories)
    run_folder = options.run_folder or run_folder_of(folder)
    done.log_dirs = seen(run.directories)

    def show(applied: Applied) -> None:
        done.runs.append(_ran(applied, run_folder, plan.digest))
        done.remarks += [*applied.remarks, *_on_full_disks(applied.actions, place)]
        done.end_with(applied.exit_code)
        work.show.applied(plan, applied)

    apply(
        work.executor,
        plan,
        folder,
        run,
        run_folder,
        holder=request.holder or "",
        by=request.by,
        prove=options.prove is not False,
        show=show,
    )


def _check_apart(folder: Path, log_dirs: Iterable[str]) -> None:
    """Raise CorruptPlan where two names are those of one log directory.

    One of two works on a partition would find it done.
    """
    names = [one for one in log_dirs if "\0" not in one]  # others are refused where they are used
    if len({*map(os.path.realpath, names)}) < len(names):
        raise CorruptPlan("it gives a log directory two names", path=folder)


def _on_full_disks(actions: Iterable[pa.Table], place: Path | None) -> list[str]:
    """Return what frees space on the disks that had no room for a partition."""
    full: dict[Path, None] = {}
    for rows in actions:
        failed = rows.filter(pc.equal(rows["kind"], DiskFull.__name__))
        full |= dict.fromkeys(map(Path, failed["log_dir"].unique().to_pylist()))
    here = (one for one in full if one.exists())  # tasks may have run on other machines
    return [f"{one}: {what_frees(one, [one], place)}" for one in here]


def _ran(applied: Applied, folder: Path, digest: str) -> Ran:
    summary, proof = applied.summary, applied.proof
    return Ran(
        folder=str(folder),
        digest=digest,
        outcomes=summary["outcomes"],
        files=summary["files"],
        written_bytes=summary["written_bytes"],
        errors=summary["errors"],
        error_kinds=summary["error_kinds"],
        already="note" in summary,
        left=applied.left,
        proof=Proved.model_validate(proof.summary()) if proof else None,
        partitions=applied.tally.partitions,
        left_partitions=applied.tally.left,
    )
