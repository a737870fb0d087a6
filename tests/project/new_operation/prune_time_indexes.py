"""Delete the time indexes of closed segments."""

from __future__ import annotations

from airflow.sdk import DAG, TriggerRule, get_current_context, task
from kafkats_airflow import questions, reports, tries
from kafkats_airflow.applications import changing, planning
from kafkats_airflow.approval import PlanApproval
from kafkats_airflow.params import form
from kafkats_airflow.plan_job import PlanJobOperator, ReleaseJobOperator, to_release
from kafkats_airflow.results import Arguments, JobResult, PlanResult, Work
from kafkats_airflow.settings import OWNED, SUBMITTING
from kafkats_airflow.spark_job import KafkatsJobOperator
from kafkats_airflow.write_job import WriteJobOperator

NAMED = SUBMITTING | {"map_index_template": "{{ task.connection }}"}
AFTER = NAMED | {"trigger_rule": TriggerRule.NONE_FAILED}
ALWAYS = NAMED | {"trigger_rule": TriggerRule.ALL_DONE}

with DAG(
    "prune_time_indexes",
    description="Delete time indexes",
    doc_md=__doc__,
    schedule=None,
    catchup=False,
    max_active_runs=4,
    tags=["kafkats", "space"],
    default_args=OWNED,
    params=form("prune"),
) as dag:

    @task
    def applications() -> list[Arguments]:
        return planning(get_current_context(), "prune")

    @task.short_circuit(ignore_downstream_trigger_rules=False)
    def changes(asked: list[Arguments], plans: list[PlanResult]) -> list[Work]:
        return changing(get_current_context(), list(asked), list(plans))

    @task(multiple_outputs=False, trigger_rule=TriggerRule.ALL_DONE)
    def report(
        asked: list[Arguments],
        plans: list[PlanResult],
        runs: list[JobResult],
        proofs: list[JobResult],
    ) -> reports.OperationReport:
        stages = reports.Stages(asked, plans, runs, proofs)
        return reports.report(get_current_context(), "prune", stages)

    asked = applications()
    plan = PlanJobOperator.partial(task_id="plan", job="plan", **NAMED).expand_kwargs(asked)
    work = changes(asked, plan.output)  # type: ignore[arg-type]  # XComs
    approve = PlanApproval(
        task_id="approve", subject="Delete the time indexes?", question=questions.of_plans
    )
    applying = WriteJobOperator.partial(task_id="apply", job="apply", **NAMED)
    apply = applying.expand_kwargs(work.map(tries.to_apply))
    proving = KafkatsJobOperator.partial(task_id="verify", job="verify", **AFTER)
    verify = proving.expand_kwargs(work.map(tries.to_prove))
    releasing = ReleaseJobOperator.partial(task_id="release", **ALWAYS)
    release = releasing.expand_kwargs(asked.map(to_release))
    results = (asked, plan.output, apply.output, verify.output)
    reported = report(*results)  # type: ignore[arg-type]  # XComs
    work >> approve >> apply >> verify >> release >> reported
