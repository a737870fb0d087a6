"""The operator of the jobs that write: apply and undo.

Their requests are made when the task runs, from the plan and the policy file. An XCom only names
a plan of this DAG run. Whether it may be applied is in the record of the answer, which the job
reads itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from airflow.sdk import Context

from kafkats.errors import UsageError
from kafkats_airflow import checks
from kafkats_airflow.approvals.answers import approval_of, inside
from kafkats_airflow.forms.values import params_of
from kafkats_airflow.jobs.applications import work_area
from kafkats_airflow.jobs.spark_job import KafkatsJobOperator
from kafkats_airflow.results import PlanName
from kafkats_airflow.runs.folders import holder_of, run_of

_JOBS: Final = ("apply", "undo")


class WriteJobOperator(KafkatsJobOperator):
    """Applies `plan` ({plan, digest, log_dirs}), or undoes the runs of `request`."""

    def __init__(self, *, plan: PlanName | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan = plan

    def _fields(self, context: Context) -> dict[str, Any]:
        if self.job not in _JOBS:
            raise UsageError(
                f"{self.job!r} is none of the jobs that need an approval: {', '.join(_JOBS)}"
            )
        found = super()._fields(context)
        if self.job == "apply":
            if self.plan is None:
                raise UsageError("there is no plan to apply")
            found |= _applying(context, self.plan)
        return found | {
            "approval": {"record": approval_of(context)},
            "reservation": {"holder": holder_of(context)},
            "by": f"airflow {context['run_id']}",
        }


def _applying(context: Context, plan: PlanName) -> dict[str, Any]:
    folder = inside(context, Path(plan["plan"]))
    log_dirs = {*plan["log_dirs"], *_written(folder)}
    volumes = [
        volume
        for volume in checks.policy_of(params_of(context)).volumes
        if str(volume.path) in log_dirs
    ]
    stopped = {str(volume.path) for volume in volumes if volume.owner_stopped}
    areas = {str(volume.work_area or "") for volume in volumes} or {""}
    if len(areas) > 1:
        raise UsageError(
            "the policy has another work_area for some of its volumes by now; clear the run to make"
            " a new plan",
            path=folder,
        )
    return {
        "plan": {"folder": folder, "digest": plan["digest"]},
        "options": {
            "Apply": {"run_folder": run_of(plan), "prove": False},
            "Vouched": {"owner_stopped": bool(log_dirs) and stopped == log_dirs},
            **work_area(areas.pop()),
        },
    }


def _written(folder: Path) -> list[str]:
    """Return the log directories in the plan's rows."""
    from kafkats.plans.parts import open_plan

    return open_plan(folder).log_dirs()
