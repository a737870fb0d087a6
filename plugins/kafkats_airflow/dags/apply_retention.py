"""
### Apply retention

Deletes whole segments by `retention.ms` and `retention.bytes`, as a broker would, on volumes that
no broker holds: those of stopped brokers, detached disks, snapshots. For running brokers it
forecasts daily what will be deleted, when, and what prevents it.

**When.** Every night. It deletes only if `dry_run` is off (KAFKATS_RETENTION=apply on the workers
and the DAG processor makes that the default). A scheduled run decides for the end of its data
interval: the backfill of a missed day deletes what that day would have deleted. A run triggered by
hand decides for that moment, or for `as_of`.

**What it does.**
- `plan` reads the ends of all files on each connection. For every segment it says
  whether a broker deletes it, and since or from when; whether kafkats keeps it all the same; and
  why. It keeps the segments of a topic without a given
  `cleanup.policy`, or without a given limit (policy or export; `before` replaces the limit).
- `approve` asks about every deletion in a run that was triggered by hand; without an answer in
  twelve hours nothing is deleted. A run by schedule and a backfill ask only whether to delete what
  a guard of the policy keeps; without an answer the guards stand. `need_approval` off: no question,
  and the guards stand.
- `apply` moves segments with all their files out of the log directory. `verify` proves that these
  files, and no others, are gone.
- `purge` ends the undo window of runs that ended `undo_days` ago: only that frees space. `report`
  writes the retention summary per topic and partition, with plots, into `folder`. Its `remarks`
  name globs that match no topic, and keys in which policy and export differ.

With `inside_segments` the plan also has the expired first part of the segment at which retention
stops, one per partition. The same limits and guards apply. `apply` writes the rest of that segment
into new files, and the log starts there. That reads such segments twice and writes a part of them,
every night, and needs free space: use it for partitions whose segments live much longer than their
records. It excludes `free`, which is for full volumes.

**When it fails.** `apply` names the partition and the reason: a broker holds the lock, or a file
changed since the plan. Clear the run to make a new plan. If it was killed half-way, the next try
finishes it. `purge` refuses an interrupted run: clear that one first. A segment with a wrong index
is not deleted: run `rebuild_time_indexes`. A run that writes reserves its volumes until its work is
done; other runs skip them, or refuse and say who holds them.

**Afterwards.** `report.json` names each RUN. Until its purge `kafkats undo RUN` restores its files.
"""

from __future__ import annotations

from airflow.sdk import DAG, TriggerRule

from kafkats_airflow.airflow_versions import CronDataIntervalTimetable
from kafkats_airflow.approvals.guards import GuardApproval
from kafkats_airflow.dag_set import DagSet
from kafkats_airflow.reports import retention as reports
from kafkats_airflow.tasks import job_tasks, retention
from kafkats_airflow.tasks.job_tasks import reporting, step


def build(dags: DagSet) -> DAG:
    """Build the DAG."""
    inventory = dags.asset("kafka_inventory", "inventory")
    with dags.dag(
        "apply_retention",
        "retain",
        "retention",
        description="Delete expired segments, forecast the others, name what pins them",
        doc_md=__doc__,
        schedule=CronDataIntervalTimetable("0 2 * * *", timezone="UTC"),
        max_active_runs=4,
    ) as dag:
        asked = step("applications", retention.planning, "retain")()
        plan = job_tasks.plan(asked)
        approve = GuardApproval(task_id="approve", subject="Delete more than the guards let?")
        work = step("changes", retention.changing)(asked, plan.output, approve.output)
        apply = job_tasks.apply(work)
        verify = job_tasks.verify(work)
        release = job_tasks.release(asked)
        due = step("due", retention.due, "retain", trigger_rule=TriggerRule.NONE_FAILED)
        ended = due()
        purge = job_tasks.purge(ended)
        plan >> approve
        apply >> verify >> ended
        stages = {one.task_id: one.output for one in (plan, apply, verify, purge)}
        report = reporting(reports.report, "retain", inventory, outlets=[inventory])
        verify >> release >> report(asked, work, stages)
    return dag
