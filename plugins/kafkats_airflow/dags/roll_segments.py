"""
### Roll segments

Closes active segments that are due by message time and creates an empty one at the log end, as a
broker does when the next message arrives. On a volume that no broker holds, no message arrives: a
topic without new records keeps its last segment open for ever, and retention, which deletes whole
segments, never deletes it.

**When.** Before `apply_retention`, on the volumes of stopped brokers, detached disks and snapshots.
It rolls only after a clean stop: an active segment that a broker would recover first is skipped. It
writes only if `dry_run` is off (KAFKATS_RETENTION=apply on the workers and the DAG processor makes
that the default); on volumes of running brokers it reports what is due. A scheduled run decides for
the end of its data interval, so a backfill closes what that day would have closed. A run triggered
by hand decides for that moment, or for `as_of`.

**What it does.**
- `plan` reads the ends of all files on each connection. It compares each active segment with
  `segment.ms`, `segment.bytes` and `segment.index.bytes` of the policy. A segment is due if a
  message stamped at that moment would roll it, unless its log is corrupt. Its age counts from its
  first message; without a timestamp there, from the segment's creation, which is weak evidence.
- With `split`, `plan` splits segments instead. `mixed` splits around timestamps older than
  `earliest` or newer than the run's moment. Batches are copied byte for byte.
- With `simulate`, `plan` also reads the headers of all batches, and appends them again under the
  same settings. The page *Rolling* shows how many segments begin on each day, as is and simulated.
- `apply` adds the time index's closing entry if it is missing, and an empty segment with its
  producer snapshot. No record is ever changed.
- `verify` reads the new segments and the closed ones.
- `purge` ends the undo window of runs that ended `undo_days` ago, and `report` writes to `folder`.

**When it fails.** `apply` names the partition and the reason: a broker holds the lock, the marker
of its clean stop is gone, or the log has grown since the plan. Clear the run to make a new plan. If
it was killed half-way, the next try finishes it. A wrong index blocks: run `rebuild_time_indexes`.

A run that is going to write reserves its volumes until its question is answered and its work is
done. Another run skips these volumes; if it names them, it refuses at once and says who holds them.
`release` ends the reservation after a no or a failure.

**Afterwards.** `report.json` names each RUN. `kafkats undo RUN` restores the old segments.
"""

from __future__ import annotations

from airflow.sdk import DAG, TriggerRule

from kafkats_airflow.airflow_versions import CronDataIntervalTimetable
from kafkats_airflow.approvals import questions
from kafkats_airflow.approvals.asking import PlanApproval
from kafkats_airflow.dag_set import DagSet
from kafkats_airflow.reports import retention as reports
from kafkats_airflow.tasks import job_tasks, retention
from kafkats_airflow.tasks.job_tasks import reporting, step


def build(dags: DagSet) -> DAG:
    """Build the DAG."""
    inventory = dags.asset("kafka_inventory", "inventory")
    with dags.dag(
        "roll_segments",
        "roll",
        "retention",
        description="Close active segments that are due by message time",
        doc_md=__doc__,
        schedule=CronDataIntervalTimetable("0 1 * * *", timezone="UTC"),
        max_active_runs=4,
    ) as dag:
        asked = step("applications", retention.planning, "roll")()
        plan = job_tasks.plan(asked)
        work = step("changes", retention.changing)(asked, plan.output)
        approve = PlanApproval(
            task_id="approve", subject="Close or split the segments?", question=questions.of_roll
        )
        apply = job_tasks.apply(work)
        verify = job_tasks.verify(work)
        release = job_tasks.release(asked)
        due = step("due", retention.due, "roll", trigger_rule=TriggerRule.NONE_FAILED)
        ended = due()
        purge = job_tasks.purge(ended)
        work >> approve >> apply >> verify >> ended
        stages = {one.task_id: one.output for one in (plan, apply, verify, purge)}
        report = reporting(reports.report, "roll", inventory, outlets=[inventory])
        verify >> release >> report(asked, work, stages)
    return dag
