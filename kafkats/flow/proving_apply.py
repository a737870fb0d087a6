"""The proof at the end of an apply: every file that it wrote is read again from the disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafkats.errors import KafkatsError
from kafkats.execution import Executor
from kafkats.flow.ending import note_proved
from kafkats.flow.proving import prove
from kafkats.inspect.verify import VerifyOptions
from kafkats.logdir.workarea import ROOT
from kafkats.plans.facts import SEGMENTS
from kafkats.plans.plan import Plan
from kafkats.plans.proof import Proof
from kafkats.plans.units import list_units


def prove_apply(
    executor: Executor, plan: Plan, plan_folder: Path, folder: Path, summary: Mapping[str, Any]
) -> Proof | None:
    """Prove what was just applied of a plan; `folder` is the run's, which gets a `proof.json`.

    None where there is nothing to prove: a run that was proved before and has written nothing since
    may have been changed by a broker. A proof that cannot be made names its reason, as a file that
    is not as planned.
    """
    fresh = "done" in summary["outcomes"] or not (folder / "proof.json").exists()
    if not summary["files"] or not fresh:
        return None
    try:
        proof = _prove(executor, plan, plan_folder)
        if not proof.not_equal:
            note_proved(folder, files=proof.files, undone=0)
    except KafkatsError as e:
        reason = f"could not be proved: {e}"
        return Proof(SEGMENTS.empty_table(), int(summary["files"]), 0, [reason], [reason])
    return proof


def _prove(executor: Executor, plan: Plan, plan_folder: Path) -> Proof:
    columns = (plan.items[name].to_pylist() for name in ("action", "log_dir", "partition_dir"))
    written = {
        Path(log_dir, partition_dir)
        for action, log_dir, partition_dir in zip(*columns, strict=True)
        if action != "blocked" and partition_dir != ROOT
    }
    return prove(executor, plan, plan_folder, list_units(sorted(written)), VerifyOptions())
