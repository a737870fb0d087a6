"""
### Export offsets

Exports the offset of every partition at a time: as options for Spark's Kafka source, as a file for
`kafka-consumer-groups --reset-offsets --from-file`, or as JSON. Use it for replays, resets after an incident, fail-over and
audits.

**When.** By hand, with the form: a time (required), topics and a format. It only reads, and changes no group. Reset a group with
the file yourself, while the group has no members (Kafka's rule).

**What it does.** With `source: volumes`, `look` searches the partitions of each Spark connection's volumes on its workers. With
`source: tables` the answers come from a table of `build_lookup_tables`: the cell at or before the time, so no record is missed.
Records that the table's newest rows report as deleted have no answer. `write` writes all answers into one file in `folder`.
`until` makes it a range, exclusive; `margin` begins that much earlier and ends that much later, for records that came late. A
partition without an answer fails the run, or `missing` decides what is written for it; the report names it.

**When it fails.** `write` names partitions without an answer and the reason. Choose `missing`: `all` reads too much rather than
too little, `none` begins at the log end, `leave` keeps what a group has committed. If two volumes disagree about the same
partition (one replica lags), name one broker in `volumes`. A time without its offset from UTC, or outside the table, is refused.

**Afterwards.** `report.json` has the file and every partition without an answer. `staircase.png` shows the half hour before and
after the time, with the exported offsets over the records; `disorder.png` how late records came; `calendar.png` (tables) the
hours that the table has. docs/exports.md describes each format.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param, TriggerRule, get_current_context, task
from kafkats_airflow import lookup
from kafkats_airflow.settings import FOLDER, POLICY, SUBMITTING
from kafkats_airflow.spark_job import KafkatsJobOperator

with DAG(
    "export_offsets",
    description="Offsets of a time, for Spark, consumer groups and programs", doc_md=__doc__,
    schedule=None, catchup=False, max_active_runs=1,
    default_args={"owner": "kafka", "retries": 1, "retry_delay": timedelta(minutes=1)}, tags=["kafkats", "lookup"],
    params={
        "time": Param(type="string", format="date-time", description="Which offset was it at this time? To be given"),
        "topics": Param("*", type="string", description="Only topics whose name matches this glob"),
        "format": Param("spark-offsets", type="string", enum=["spark-offsets", "spark-by-timestamp", "group-csv", "json"], description="spark-...: options for Spark; group-csv: a file for kafka-consumer-groups; json: for programs"),
        "until": Param(None, type=["null", "string"], format="date-time", description="The end of a range, exclusive. Empty: no range"),
        "margin": Param(None, type=["null", "string"], description="How late records may have come, such as 10m: begin that much earlier and end that much later. Empty: none"),
        "missing": Param("fail", type="string", enum=["fail", "all", "none", "leave"], description="A partition without an answer. fail: fail the run; all: from its start; none: from its end; leave: leave it out"),
        "group": Param(None, type=["null", "string"], description="For group-csv: the group in the first column. Empty: no such column"),
        "high_watermark": Param("checkpoint", type="string", enum=["checkpoint", "log-end"], description="Up to which offset records count. checkpoint: the high watermark that the broker wrote to disk; log-end: all"),
        "source": Param("volumes", type="string", enum=["volumes", "tables"], description="volumes: search the log directories; tables: read the table of build_lookup_tables"),
        "policy": Param(POLICY, type="string", description="The policy file, which names the volumes. Default: KAFKATS_POLICY"),
        "volumes": Param([], type=["null", "array"], items={"type": "string"}, description="Only these volumes: globs over paths or broker names, one per line. Empty: all"),
        "tables": Param(None, type=["null", "string"], description="Where the tables are. Empty: lookup in the folder"),
        "folder": Param(FOLDER, type="string", description="Where exports and reports are written. Default: KAFKATS_FOLDER"),
    },
) as dag:  # fmt: skip

    @task
    def applications() -> list[dict]:
        return lookup.looking(get_current_context())

    @task(multiple_outputs=False, trigger_rule=TriggerRule.NONE_FAILED)
    def write(looked: list) -> dict:
        return lookup.export(get_current_context(), list(looked or []))

    look = KafkatsJobOperator.partial(
        task_id="look", job="lookup", **SUBMITTING, map_index_template="{{ task.connection }}"
    )
    write(look.expand_kwargs(applications()).output)
