"""
### Rebuild time indexes

Finds `.timeindex` and `.index` files that are missing, empty, padded, short or wrong. It rebuilds
only these, with the bytes that the broker's own recovery would write. A broker that starts after a
hard failure does not look inside its indexes: a wrong one makes retention by time delete too early
or never, and searches by time find nothing.

**When.** After a broker was killed or its host lost power, before the broker is started again;
after restoring a snapshot; every night on the volumes of stopped brokers or replicas under repair.
A directory whose broker runs is never written: the run says so and fails. A run that finds nothing
changes nothing, so schedules, retries and backfills (one at a time) are harmless.

**What it does.** The policy file lists the volumes, and the connection that reaches each of
them.

- `plan` reads every segment and writes a plan. With `depth` tail it reads the indexes and the end
  of each log, and whole segments only where these raise doubts. It does not find what lies inside.
- `approve` waits for a yes to exactly that plan (one day, then it counts as no).
- `apply` writes the files, each by one atomic rename, and keeps the old ones.
- `verify` reads logs and indexes again, and proves that each file equals a rebuild.
- `report` writes numbers, every finding and a plot into `folder`.
- `recover`, if it is on, starts `recover_log_dirs` on the same volumes, with the same approval. The
  indexes of what a broker had not flushed are rebuilt again at its start, unless its log
  directories are recovered first.

**When it fails.** `apply` names the file and the reason: a broker holds the lock, or a file changed
since the plan. Clear the run to make a new plan. If it was killed half-way, the next try finishes
it. Corrupt logs are blocked and not changed. If one is a danger (a broker would assign offsets
twice), the run fails even so: read the report before you start that broker.

A run that is going to write reserves its volumes until its question is answered and its work is
done. Another run skips these volumes; if it names them, it refuses at once and says who holds them.
`release` ends the reservation after a no or a failure.

**Afterwards.** `report.json` names each RUN. `kafkats undo RUN` restores every old file; `kafkats
purge RUN` deletes the old files and frees their space.
"""

from __future__ import annotations

from functools import partial

from airflow.sdk import DAG, TriggerRule

from kafkats_airflow.approvals.asking import PlanApproval
from kafkats_airflow.dag_set import DagSet
from kafkats_airflow.reports import common
from kafkats_airflow.tasks import job_tasks
from kafkats_airflow.tasks.job_tasks import reporting
from kafkats_airflow.tasks.recovery import RecoverOperator


def build(dags: DagSet) -> DAG:
    """Build the DAG."""
    indexes = dags.asset("kafka_time_indexes", "time-indexes")
    with dags.dag(
        "rebuild_time_indexes",
        "rebuild",
        "repair",
        description="Find wrong time indexes, rebuild only those, prove it",
        doc_md=__doc__,
        schedule="30 2 * * *",
        max_active_runs=4,
    ) as dag:
        asked = job_tasks.applications("rebuild")
        plan = job_tasks.plan(asked)
        work = job_tasks.changes(asked, plan.output)
        approve = PlanApproval(task_id="approve", subject="Rebuild the time indexes?")
        apply = job_tasks.apply(work)
        verify = job_tasks.verify(work)
        release = job_tasks.release(asked)
        stages = {one.task_id: one.output for one in (plan, apply, verify)}
        told = partial(common.report, asset=indexes, picture=common.health)
        report = reporting(told, "rebuild", outlets=[indexes])
        work >> approve >> apply >> verify >> release >> report(asked, stages)
        # Not after the report: the last task of a run says whether it failed.
        recover = RecoverOperator(task_id="recover", trigger_rule=TriggerRule.NONE_FAILED)
        [plan, approve, apply, verify, release] >> recover
    return dag
