"""
### Recover log directories

Does what a broker's own recovery does after an unclean stop, on all cores of the Spark workers, so
that the broker starts at once. A broker reads every segment above its recovery points, with one
thread for each partition; for large disks that takes hours, and a probe may kill it meanwhile.

**When.** After a broker was killed or its host lost power, before the broker is started again. A
directory whose broker runs is never written: the run says so and fails. A run that finds nothing
changes nothing. There is no schedule.

**What it does.** The policy file lists the volumes, and the connection that reaches each of
them.

- `preflight` reports what each broker would do if it were started as it is, if `kafka` names its
  release: whether it starts, what it recovers, cuts and loses. It reads only. A broker's volumes
  must all be in the policy, with its name.
- `plan` reads every segment from the recovery points on, and writes a plan.
- `approve` waits for a yes to exactly that plan (one day, then it counts as no).
- `apply` cuts torn tails, rebuilds what Kafka rebuilds, adds an empty segment at each log end, and
  raises the recovery points. It keeps the old files.
- `verify` reads again what was written.
- `report` writes numbers, and a row for each partition, into `folder`. `starts.parquet` has what
  `preflight` found.

**When it fails.** `apply` names the file and the reason: a broker holds the lock, or a log changed
since the plan. Clear the run to make a new plan. If it was killed half-way, the next try finishes
it. A partition with good batches behind a corrupt one is left as it is, and the run fails at its
end: restore it from a replica, or turn `like_kafka` on, which drops what Kafka drops.

A run that is going to write reserves its volumes until its question is answered and its work is
done. `release` ends the reservation after a no or a failure.

**Afterwards.** Start the broker. `kafkats undo RUN` restores every old file as long as no broker
has started; `kafkats purge RUN` deletes the old files and frees their space.
"""

from __future__ import annotations

from airflow.sdk import DAG

from kafkats_airflow.approvals import questions
from kafkats_airflow.approvals.asking import PlanApproval
from kafkats_airflow.dag_set import DagSet
from kafkats_airflow.reports import recovery as reports
from kafkats_airflow.tasks import job_tasks
from kafkats_airflow.tasks.job_tasks import reporting


def build(dags: DagSet) -> DAG:
    """Build the DAG."""
    with dags.dag(
        "recover_log_dirs",
        "recover",
        "repair",
        description="Recover log directories after an unclean stop, so that brokers start at once",
        doc_md=__doc__,
        schedule=None,
        max_active_runs=4,
    ) as dag:
        asked = job_tasks.applications("recover")
        preflight = job_tasks.preflight(job_tasks.starts())
        plan = job_tasks.plan(asked)
        work = job_tasks.changes(asked, plan.output)
        approve = PlanApproval(
            task_id="approve", subject="Recover the log directories?", question=questions.of_recover
        )
        apply = job_tasks.apply(work)
        verify = job_tasks.verify(work)
        release = job_tasks.release(asked)
        stages = {one.task_id: one.output for one in (plan, apply, verify)}
        preflight >> plan
        work >> approve >> apply >> verify >> release >> reporting(reports.report)(asked, stages)
    return dag
