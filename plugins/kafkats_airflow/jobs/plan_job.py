"""The operators that reserve the log directories of a plan, and release them.

A plan that may be applied reserves its volumes for its DAG run. The reservation ends after the
question's deadline and the time limits of the tasks. A dry run reserves nothing. If another run
holds a volume, the plan fails at once if the volume was named, else it leaves the volume out. The
reservation of a DAG run that is over, or no longer exists, does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final

from airflow.sdk import Context

from kafkats import clock
from kafkats.errors import Refused
from kafkats.request import Request, read_request
from kafkats_airflow.airflow_versions import AirflowSkipException
from kafkats_airflow.approvals.guards import beyond_guards
from kafkats_airflow.failing import Held, in_our_words
from kafkats_airflow.forms.values import params_of
from kafkats_airflow.jobs.applications import work_area
from kafkats_airflow.jobs.job_files import JobFiles
from kafkats_airflow.jobs.spark_job import KafkatsJobOperator
from kafkats_airflow.results import (
    Arguments,
    Asked,
    JobResult,
    PhaseApplication,
    PlanResult,
)
from kafkats_airflow.runs.folders import holder_named, holder_of, is_active, run_of
from kafkats_airflow.settings import TIMEOUTS

LONGEST: Final = timedelta(days=365)


class PlanJobOperator(KafkatsJobOperator):
    """Plans, and reserves the volumes unless the run is a dry run.

    It takes over the reservations of DAG runs that are over.
    """

    _over: tuple[str, ...] = ()

    def execute(self, context: Context) -> JobResult:
        self._over = ()
        return self._unheld(context, super().execute)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> JobResult:
        wish = in_our_words(self._asked_for)(context).reservation
        self._over = tuple(wish.take_over) if wish else ()
        return self._unheld(context, partial(super().execute_complete, event=event))

    def _asked_for(self, context: Context) -> Request:
        return read_request(JobFiles.of(context).request)

    def _unheld(self, context: Context, do: Callable[[Context], JobResult]) -> JobResult:
        """Plan, again for each reservation that turns out not to count any more."""
        while True:
            try:
                result = do(context)
                held = [str(one["holder"]) for one in result.get("reserved", ())]
            except Held as e:
                held = [one.holder for one in e.holders]
                if not (fresh := _ended(context, held, self._over)):
                    raise
            else:
                if not (fresh := _ended(context, held, self._over)):
                    return result
            self.log.warning(
                "remark: the reservation of %s counts no more: that run is over", ", ".join(fresh)
            )
            self._over += fresh
            do = super().execute

    def _fields(self, context: Context) -> dict[str, Any]:
        found, params = super()._fields(context), params_of(context)
        if self.job == "plan" and not params["dry_run"]:
            whole = params["volumes"] or "ledger" in found["options"].get("Step", {})
            found["reservation"] = {
                "holder": holder_of(context),
                "until_ms": _until_ms(),
                "skip": not whole,
                "take_over": self._over,
            }
        return found


class ReleaseJobOperator(KafkatsJobOperator):
    """Releases the volumes that the application with the same map index has finished with.

    Those that its plan left out it did not reserve.
    """

    _planned: list[str] | None = None

    def __init__(self, *, looks: str = "plan", **kwargs: Any) -> None:
        super().__init__(job="release", **kwargs)
        self.looks = looks

    def execute(self, context: Context) -> JobResult:
        if params_of(context)["dry_run"]:
            raise AirflowSkipException("a dry run reserves nothing")
        plan: PlanResult | None = context["ti"].xcom_pull(
            task_ids=self.looks, map_indexes=context["ti"].map_index
        )
        if isinstance(plan, dict):
            named = (self.request or {}).get("log_dirs", [])
            self._planned = [one for one in named if one in plan["log_dirs"]]
            if not self._planned or not _kept(plan):
                raise AirflowSkipException("nothing is reserved any more")
        return super().execute(context)

    def _fields(self, context: Context) -> dict[str, Any]:
        found = super()._fields(context) | {"reservation": {"holder": holder_of(context)}}
        if self._planned is not None:
            found["log_dirs"] = [{"path": path} for path in self._planned]
        return found


class ReleaseOverJobOperator(KafkatsJobOperator):
    """Releases what the DAG run of the params `of_dag` and `of_run` has left reserved.

    The task refuses while Airflow says that the run is active, the job while a process writes for
    it.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(job="release", **kwargs)

    def _fields(self, context: Context) -> dict[str, Any]:
        wish = {"holder": holder_of(context), "take_over": [holder_over(context)]}
        return super()._fields(context) | {"reservation": wish}


def holder_over(context: Context) -> str:
    """Return the holder of the DAG run that the params name. Raises Refused if it is active."""
    params = params_of(context)
    dag_id, run_id = params.get("of_dag") or "", params.get("of_run") or ""
    if is_active(context, dag_id, run_id):
        raise Refused(
            f"{run_id} of {dag_id} is queued or running, and releases its volumes when it ends;"
            " mark it as failed first if it should not go on"
        )
    return holder_named(dag_id, run_id)


def to_release(asked: Arguments | PhaseApplication) -> Arguments:
    """Return arguments of ReleaseJobOperator, from those of the plan."""
    look = asked["look"] if "look" in asked else asked  # noqa: SIM401  # get() loses the type
    request = look.get("request") or _of_words(look["application_args"])
    area = {name: one for name, one in request["options"].items() if name == "WorkArea"}
    released: Asked = {"log_dirs": request["log_dirs"], "options": area}
    return {"conn_id": look["conn_id"], "request": released}


def _of_words(words: Sequence[str]) -> Asked:
    """Return log directories and work area of a plan that an earlier version asked for by words."""
    first = next((n for n, word in enumerate(words) if word.startswith("--")), len(words))
    area = words[words.index("--work-area") + 1] if "--work-area" in words else ""
    return {"log_dirs": list(words[1:first]), "options": work_area(area)}


def _kept(plan: PlanResult) -> bool:
    """Return whether the plan may still hold its reservation, which an apply releases."""
    if not plan.get("reserves"):  # a census reserves nothing, and has no plan either
        return False
    return bool(plan.get("undo")) or not any(
        (run_of(one) / "report.json").exists() for one in (plan, beyond_guards(plan))
    )


def _ended(context: Context, holders: Iterable[str], known: Sequence[str]) -> tuple[str, ...]:
    """Return the holders that are DAG runs which are over or no longer exist."""
    found, ours = list[str](), holder_of(context)
    for holder in dict.fromkeys(holders):
        match holder.split(" ", 2):
            case ["airflow", dag_id, run_id] if dag_id and holder not in {*known, ours}:
                found += [] if is_active(context, dag_id, run_id) else [holder]
    return tuple(found)


def _until_ms() -> int:
    """Return the end of a reservation made now, epoch ms: plan, question, two tries of apply."""
    lasts = min(3 * TIMEOUTS.job + max(TIMEOUTS.approval, TIMEOUTS.guards), LONGEST)
    return clock.now_ms() + lasts // timedelta(milliseconds=1)
