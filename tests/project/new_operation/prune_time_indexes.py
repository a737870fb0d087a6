"""Delete the time indexes of closed segments."""

from __future__ import annotations

from airflow.sdk import DAG, TriggerRule, get_current_context, task
from kafkats_airflow.approvals import questions
from kafkats_airflow.approvals.asking import PlanApproval
from kafkats_airflow.forms.params import form
from kafkats_airflow.reports import common
from kafkats_airflow.results import Arguments
from kafkats_airflow.settings import OWNED
from kafkats_airflow.tasks import job_tasks

with DAG(
    "prune_time_indexes",
    description="Delete time indexes",
    doc_md=__doc__,
    schedule=None,
    catchup=False,
    max_active_runs=4,
    tags=["kafkats", "kafkats:prune", "space"],
    default_args=OWNED,
    params=form("prune"),
) as dag:

    @task(multiple_outputs=False, trigger_rule=TriggerRule.ALL_DONE)
    def report(asked: list[Arguments], stages: common.StageXComs) -> common.OperationReport:
        return common.report(get_current_context(), "prune", asked, stages)

    asked = job_tasks.applications("prune")
    plan = job_tasks.plan(asked)
    work = job_tasks.changes(asked, plan.output)  # type: ignore[arg-type]  # XComs
    approve = PlanApproval(
        task_id="approve", subject="Delete the time indexes?", question=questions.of_plans
    )
    apply = job_tasks.apply(work)
    verify = job_tasks.verify(work)
    release = job_tasks.release(asked)
    stages = {one.task_id: one.output for one in (plan, apply, verify)}
    reported = report(asked, stages)  # type: ignore[arg-type]  # XComs
    work >> approve >> apply >> verify >> release >> reported
