"""The tasks that DAGs share: which applications a run has, and its jobs on Spark for each of them.

Each function adds one task to the DAG that is being built. Its id is the function's name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import TriggerRule, get_current_context, task

from kafkats_airflow import links
from kafkats_airflow.jobs.applications import changing, planning, starting
from kafkats_airflow.jobs.plan_job import (
    PlanJobOperator,
    ReleaseJobOperator,
    ReleaseOverJobOperator,
    to_release,
)
from kafkats_airflow.jobs.spark_job import KafkatsJobOperator
from kafkats_airflow.jobs.write_job import WriteJobOperator
from kafkats_airflow.runs import tries
from kafkats_airflow.settings import SUBMITTING
from kafkats_airflow.tasks import end_run

if TYPE_CHECKING:
    from airflow.sdk import XComArg
    from airflow.sdk.definitions.mappedoperator import MappedOperator

NAMED: Final = SUBMITTING | {"map_index_template": "{{ task.about }}"}
AFTER: Final = NAMED | {"trigger_rule": TriggerRule.NONE_FAILED}
ALWAYS: Final = NAMED | {"trigger_rule": TriggerRule.ALL_DONE}


def step(
    task_id: str, do: Callable[..., object], *given: object, **how: Any
) -> Callable[..., XComArg]:
    """Return a function that adds a task: `do`, with the task's context, `given` and XComs. `how`
    are arguments of its operator.
    """
    return task(task_id=task_id, **how)(_closure(do, given))


def short_circuit(task_id: str, do: Callable[..., object]) -> Callable[..., XComArg]:
    """As `step`, for a task whose empty result skips the next tasks, but for the report."""
    rules = {"ignore_downstream_trigger_rules": False}
    return task.short_circuit(task_id=task_id, **rules)(_closure(do, ()))


def reporting(
    do: Callable[..., object], *given: object, task_id: str = "report", **how: Any
) -> Callable[..., XComArg]:
    """As `step`, for the task that reports however the run has gone; it has a link to its page."""
    reported = step(task_id, do, *given, trigger_rule=TriggerRule.ALL_DONE, **how)
    return lambda *xcoms: links.with_results(reported(*xcoms))


def _closure(do: Callable[..., object], given: tuple[object, ...]) -> Callable[..., object]:
    # Airflow renders the arguments of a task as templates.
    def stepping(*xcoms: object) -> object:
        return do(get_current_context(), *given, *xcoms)

    return stepping


def applications(operation: str) -> XComArg:
    """Return the arguments of `plan`, one dict per application."""
    return step("applications", planning, operation)()


def starts() -> XComArg:
    """Return the arguments of `preflight`, one dict per broker; [] if it is not asked for."""
    return step("starts", starting)()


def changes(asked: XComArg, plans: XComArg) -> XComArg:
    """Return what is to be applied. Without any the tasks that write are skipped."""
    return short_circuit("changes", changing)(asked, plans)


def plan(asked: XComArg) -> MappedOperator:
    """Plan, and reserve the volumes. `asked` yields results.Arguments.

    Tasks before it may be skipped.
    """
    return PlanJobOperator.partial(task_id="plan", job="plan", **AFTER).expand_kwargs(asked)


def preflight(asked: XComArg) -> MappedOperator:
    """Report what brokers would do at their start. `asked` yields results.Arguments."""
    telling = KafkatsJobOperator.partial(task_id="preflight", job="preflight", **NAMED)
    return telling.expand_kwargs(asked)


def apply(work: XComArg) -> MappedOperator:
    """Apply the plans that were approved. `work` yields results.Work."""
    applying = WriteJobOperator.partial(task_id="apply", job="apply", **NAMED)
    return applying.expand_kwargs(work.map(tries.to_apply))


def verify(work: XComArg) -> MappedOperator:
    """Prove what this run and its earlier tries wrote. `work` yields results.Work."""
    proving = KafkatsJobOperator.partial(task_id="verify", job="verify", **AFTER)
    return proving.expand_kwargs(work.map(tries.to_prove))


def release(asked: XComArg) -> MappedOperator:
    """End the reservations of `plan`, whatever became of the run."""
    releasing = ReleaseJobOperator.partial(task_id="release", **ALWAYS)
    return releasing.expand_kwargs(asked.map(to_release))


def release_over(ended: XComArg) -> MappedOperator:
    """End the reservations of a DAG run that is over. `ended` yields results.Arguments."""
    releasing = ReleaseOverJobOperator.partial(task_id="release", **NAMED)
    return releasing.expand_kwargs(ended)


def undo(work: XComArg) -> MappedOperator:
    """Put back every file of RUNs. `work` yields end_run.Ending."""
    undoing = WriteJobOperator.partial(task_id="undo", job="undo", **NAMED)
    return undoing.expand_kwargs(work.map(end_run.to_undo))


def purge(ended: XComArg) -> MappedOperator:
    """Delete the old files of ended RUNs. `ended` yields results.Arguments."""
    return KafkatsJobOperator.partial(task_id="purge", job="purge", **NAMED).expand_kwargs(ended)
