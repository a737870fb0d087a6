"""Carry out an approved plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from kafkats.config.options import Vouched, WorkArea
from kafkats.errors import UsageError, says_full
from kafkats.flow.applying import Applied, apply
from kafkats.flow.dispatch import Work, seen
from kafkats.flow.full_disk import what_frees
from kafkats.plans.options import Apply
from kafkats.plans.plan import check_digest, read_plan
from kafkats.plans.run import run_folder_of, run_of
from kafkats.result import Proved, Ran


def perform(work: Work) -> None:
    """Apply the request's plan. Raises UsageError, Refused and its children, and as flow.apply."""
    request, done = work.request, work.done
    if request.plan is None or request.plan.digest is None:
        raise UsageError("apply needs a plan and its digest")
    folder = request.plan.folder
    plan = read_plan(folder)
    check_digest(plan, request.plan.digest)
    done.approval = work.deployment.check_approval(request.record, [plan.digest])
    work.deployment.check_guards(plan)
    options, place = request.of(Apply), request.of(WorkArea).place
    run = run_of(plan, place=place, owner_stopped=request.of(Vouched).owner_stopped)
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


def _on_full_disks(actions: pa.Table, place: Path | None) -> list[str]:
    """Return what frees space on the disks that had no room for a partition."""
    rows = actions.select(["log_dir", "error"]).to_pylist()
    full = dict.fromkeys(Path(row["log_dir"]) for row in rows if says_full(row["error"]))
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
        already="note" in summary,
        left=applied.left,
        proof=Proved.model_validate(proof.summary()) if proof else None,
        **_partitions(applied.actions.select(["log_dir", "partition_dir", "error"]).to_pylist()),
    )


def _partitions(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return how many partitions there are, and in how many of them something was not done."""
    every, left = set(), set()
    for row in rows:
        where = (row["log_dir"], row["partition_dir"])
        every.add(where)
        if row["error"]:
            left.add(where)
    return {"partitions": len(every), "left_partitions": len(left)}
