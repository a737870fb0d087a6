"""Delete the time indexes of closed segments."""

from __future__ import annotations

from airflow.sdk import DAG
from kafkats_airflow.approvals import questions
from kafkats_airflow.approvals.asking import PlanApproval
from kafkats_airflow.dag_set import DagSet
from kafkats_airflow.reports import common
from kafkats_airflow.tasks import job_tasks
from kafkats_airflow.tasks.job_tasks import reporting


def build(dags: DagSet) -> DAG:
    """Build the DAG."""
    with dags.dag(
        "prune_time_indexes",
        "prune",
        "space",
        description="Delete time indexes",
        doc_md=__doc__,
        schedule=None,
        max_active_runs=4,
    ) as dag:
        asked = job_tasks.applications("prune")
        plan = job_tasks.plan(asked)
        work = job_tasks.changes(asked, plan.output)
        approve = PlanApproval(
            task_id="approve", subject="Delete the time indexes?", question=questions.of_plans
        )
        apply = job_tasks.apply(work)
        verify = job_tasks.verify(work)
        release = job_tasks.release(asked)
        stages = {one.task_id: one.output for one in (plan, apply, verify)}
        report = reporting(common.report, "prune")
        work >> approve >> apply >> verify >> release >> report(asked, stages)
    return dag
