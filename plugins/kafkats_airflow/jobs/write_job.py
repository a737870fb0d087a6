"""The operator of the jobs that write: apply and undo.

Their arguments are made when the task runs, from the plan and the policy file. An XCom only names
a plan of this DAG run. Whether it may be applied is in the record of the answer, which the job
reads itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from airflow.providers.common.compat.sdk import Context

from kafkats.errors import UsageError
from kafkats_airflow import checks
from kafkats_airflow.approvals.answers import approval_of, inside
from kafkats_airflow.failing import in_our_words
from kafkats_airflow.forms.values import params_of
from kafkats_airflow.jobs.spark_job import KafkatsJobOperator
from kafkats_airflow.results import JobResult, PlanName
from kafkats_airflow.runs.folders import holder_of, run_of

_JOBS: Final = ("apply", "undo")


class WriteJobOperator(KafkatsJobOperator):
    """Applies `plan` ({plan, digest, log_dirs}), or undoes RUNs with `application_args`."""

    def __init__(self, *, plan: PlanName | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan = plan

    def execute(self, context: Context) -> JobResult:  # type: ignore[override]  # as its parent
        self.application_args = in_our_words(self._words)(context)
        return super().execute(context)

    def _words(self, context: Context) -> list[str]:
        if self.job not in _JOBS:
            raise UsageError(
                f"{self.job!r} is none of the jobs that need an approval: {', '.join(_JOBS)}"
            )
        common = ["--approval", str(approval_of(context)), "--holder", holder_of(context)]
        common += ["--by", f"airflow {context['run_id']}"]
        if self.job == "undo":
            return [*_own_words(self.application_args or []), *common]
        if self.plan is None:
            raise UsageError("there is no plan to apply")
        return [*_applying(context, self.plan), *common]


def _applying(context: Context, plan: PlanName) -> list[str]:
    folder = inside(context, Path(plan["plan"]))
    log_dirs = {*plan["log_dirs"], *_written(folder)}
    volumes = [
        volume
        for volume in checks.policy_of(params_of(context)).volumes
        if str(volume.path) in log_dirs
    ]
    stopped = {str(volume.path) for volume in volumes if volume.owner_stopped}
    vouched = ["--owner-stopped"] if log_dirs and stopped == log_dirs else []
    areas = {volume.work_area for volume in volumes}
    if len(areas) > 1:
        raise UsageError(
            "the policy has another work_area for some of its volumes by now; clear the run to make"
            " a new plan",
            path=folder,
        )
    area = [word for one in areas if one for word in ("--work-area", str(one))]
    return [str(folder), "--digest", plan["digest"], "--run", str(run_of(plan)), *vouched, *area]


def _written(folder: Path) -> list[str]:
    """Return the log directories in the plan's rows."""
    from kafkats.plans.plan import read_plan

    return [str(log_dir) for log_dir in read_plan(folder).items["log_dir"].unique().to_pylist()]


def _own_words(words: Sequence[str]) -> list[str]:
    """Return the words. Raises UsageError for one that would replace an argument added here."""
    checked = [str(word) for word in words]
    for word in checked:
        if word == "--" or word.startswith(("--a", "--h", "--b")):
            raise UsageError(
                f"{word!r} cannot be given to an undo: this DAG adds that argument itself"
            )
    return checked
