"""
### Undo, purge or release a run

Ends what one run of another DAG has written. `undo` puts back every old file. `purge` deletes the
old files and frees their space; nothing can be undone after that. `release` ends the reservations
of a run that was marked or deleted in Airflow before it could end them.

**When.** The page of a run has buttons that trigger this DAG, with the rights of the person who
clicks. It can also be triggered by hand. There is no schedule.

**What it does.**
- `changes` finds the RUNs of the DAG run `of_dag`, `of_run` in the folder of all runs. It refuses
  if `digest` is not that of these RUNs: they are others than the person saw.
- `approve` asks a person if `need_approval` is on, or if the deployment names approvers. The
  buttons of the page turn it off, because they have asked in a dialog.
- `undo` restores every file of each RUN, the latest RUN first. Where a directory has changed since,
  as when its broker has started, it refuses. `purge` deletes the old files. In a deployment with
  approvers it refuses RUNs that are younger than KAFKATS_UNDO_DAYS_FLOOR days.
- `release` refuses while Airflow says that the run is active, or while a process writes for it. It
  asks nobody: no file of Kafka's changes, and the next run would take the reservation over.
- `report` writes what was ended into `folder`.

A second click makes no second run: the id of the run is made of what it ends, the other run and the
digest. The page then says that it was asked before, and links to that run.

**When it fails.** `undo` and `purge` name the directory and the reason: a broker holds the lock,
another run has reserved the volume, or files have changed. Clear the run to try again: what is done
is not done twice.

**Afterwards.** After an undo the log directory is as before the run. `kafkats undo RUN` and
`kafkats purge RUN` do the same by hand.
"""

from __future__ import annotations

from airflow.sdk import DAG

from kafkats_airflow.approvals import questions
from kafkats_airflow.approvals.asking import PlanApproval
from kafkats_airflow.dag_set import DagSet
from kafkats_airflow.tasks import end_run, job_tasks
from kafkats_airflow.tasks.job_tasks import reporting, step


def build(dags: DagSet) -> DAG:
    """Build the DAG."""
    with dags.dag(
        "end_run",
        "end",
        "undo",
        description="Undo what a run wrote, or free the space of its old files",
        doc_md=__doc__,
        schedule=None,
        max_active_runs=4,
    ) as dag:
        work = step("changes", end_run.changing)()
        approve = PlanApproval(
            task_id="approve",
            subject="Undo or purge what this run wrote?",
            question=questions.of_ending,
        )
        undo = job_tasks.undo(work)
        purge = job_tasks.purge(work.map(end_run.to_purge))
        release = job_tasks.release_over(work.map(end_run.to_release_over))
        stages = {one.task_id: one.output for one in (undo, purge, release)}
        work >> approve >> [undo, purge, release] >> reporting(end_run.report)(work, stages)
    return dag
