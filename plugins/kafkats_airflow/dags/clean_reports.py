"""
### Clean reports

Removes the folders of old DAG runs: their plans, tables, pictures and reports. Log directories are
not touched, and no undo is lost.

**When.** Once a week, by schedule. It removes only if `dry_run` is off (KAFKATS_CLEAN_REPORTS=apply
on the workers and the DAG processor makes that the default); otherwise it only says which folders
it would remove. It needs no Spark: it runs on an Airflow worker that sees `folder`.

**What it does.** `choose` looks at every run's folder in `folder`. `remove` looks again, and
removes the chosen folders that have not changed meanwhile. It follows no link. It keeps a folder

- in which anything has changed within `keep_days`, or whose DAG run is not over;
- with the newest report of a DAG, or of a DAG on a log directory;
- with a RUN that can be undone (`kafkats purge RUN` ends that), was interrupted, or is not proved;
- that a migration's ledger names, or that has a certificate;
- that holds a reservation, or whose question is open;
- without a report, or with one that cannot be read.

**When it fails.** A ledger that cannot be read stops the run before anything is removed. A folder
that cannot be removed, such as one of another user, fails the run at its end; the others are gone.
If it was killed, the next run ends what was begun.

**Afterwards.** `report.json` names the removed folders, and for every other one why it is kept.
"""

from __future__ import annotations

from airflow.sdk import DAG

from kafkats_airflow import links
from kafkats_airflow.airflow_versions import CronTriggerTimetable
from kafkats_airflow.dag_set import DagSet
from kafkats_airflow.tasks import cleaning
from kafkats_airflow.tasks.job_tasks import step


def build(dags: DagSet) -> DAG:
    """Build the DAG."""
    with dags.dag(
        "clean_reports",
        "clean",
        "reports",
        description="Remove the folders of old runs that nothing needs any more",
        doc_md=__doc__,
        schedule=CronTriggerTimetable("0 5 * * 0", timezone="UTC"),
        max_active_runs=1,
    ) as dag:
        step("choose", cleaning.choose)() >> links.with_results(step("remove", cleaning.remove)())
    return dag
