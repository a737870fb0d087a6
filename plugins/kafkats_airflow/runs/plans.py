"""The plans of a run of retention or rolling: which operation made them, and which are applied."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kafkats_airflow.forms.values import RunParams
from kafkats_airflow.results import Arguments, PlanResult, Work


def planned_by(operation: str, params: RunParams) -> str:
    """Return which operation a run of a DAG plans: roll_segments splits if its form says so."""
    splits = operation == "roll" and params.get("split", "no") != "no"
    return "split" if splits else operation


def chosen(plans: Sequence[PlanResult], work: Sequence[Work]) -> list[PlanResult]:
    """Return for each application the applied plan, else the plan within the guards."""
    applied = {one["folder"]: one["plan"] for one in work if one["plan"]}
    return [applied.get(str(Path(plan["plan"]).parent), plan) for plan in plans]


def unfinished(asked: Sequence[Arguments] | None, plans: Sequence[PlanResult]) -> bool:
    """Return whether an application has no plan."""
    return asked is None or len(plans) != len(asked)
