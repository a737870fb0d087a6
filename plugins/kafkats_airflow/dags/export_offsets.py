"""
### Export offsets

Exports the offset of every partition at a time: as options for Spark's Kafka source, as a file for
`kafka-consumer-groups --reset-offsets --from-file`, or as JSON. Use it for replays, resets after an
incident, fail-over and audits.

**When.** By hand, with the form: a time (required), topics and a format. It only reads, and changes
no group. Reset a group with the file yourself, while the group has no members (Kafka's rule).

**What it does.** With `source: volumes`, `look` searches the partitions of each connection's
volumes on its workers. With `source: tables` the answers come from a table of
`build_lookup_tables`: the cell at or before the time, so no record is missed. Records that the
table's newest rows report as deleted have no answer. `write` writes all answers into one file in
`folder`. `until` makes it a range, exclusive; `margin` begins that much earlier and ends that much
later, for records that came late. A partition without an answer fails the run, or `missing` decides
what is written for it; the report names it.

**When it fails.** `write` names partitions without an answer and the reason. Choose `missing`:
`all` reads too much rather than too little, `none` begins at the log end, `leave` keeps what a
group has committed. If two volumes disagree about the same partition (one replica lags), name one
broker in `volumes`. A time without its offset from UTC, or outside the table, is refused.

**Afterwards.** `report.json` has the file and every partition without an answer. `staircase.png`
shows the half hour before and after the time, with the exported offsets over the records;
`disorder.png` how late records came; `calendar.png` (tables) the hours that the table has.
docs/exports.md describes each format.
"""

from __future__ import annotations

from airflow.sdk import DAG

from kafkats_airflow.dag_set import DagSet
from kafkats_airflow.jobs.spark_job import KafkatsJobOperator
from kafkats_airflow.tasks import lookup
from kafkats_airflow.tasks.job_tasks import NAMED, reporting, step


def build(dags: DagSet) -> DAG:
    """Build the DAG."""
    with dags.dag(
        "export_offsets",
        "export",
        "lookup",
        description="Offsets of a time, for Spark, consumer groups and programs",
        doc_md=__doc__,
        schedule=None,
        max_active_runs=1,
    ) as dag:
        look = KafkatsJobOperator.partial(task_id="look", job="lookup", **NAMED)
        looked = look.expand_kwargs(step("applications", lookup.looking)())
        reporting(lookup.export, task_id="write")(looked.output)
    return dag
