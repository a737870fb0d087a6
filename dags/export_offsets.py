"""
### Export offsets

Where every partition was at a time, in the words of another tool: options for Spark's Kafka source, the file of
`kafka-consumer-groups --reset-offsets --from-file`, or JSON. For replays, resets after an incident, fail-over and audits.

**When.** By hand, with the form: a time (it has none of its own, and does not start without), topics and a format. It reads only, and changes no group: whoever resets one does so with the
file, while the group has no members (Kafka's rule).

**What it does.** With `source: volumes`, `look` searches the partitions of each Spark connection's volumes on its workers; with
`source: tables` the answer comes from a table of `build_lookup_tables` (the cell at or before the time: nothing is missed; what its
newest rows say is gone from the log has no answer). `write` puts all of it into one file in `folder`. With `until` it is a range, itself not included; `margin` begins so
much earlier and ends so much later, for records that came late. No partition is dropped in silence: one without an answer fails the
run by its name, or `missing` says what stands for it, and the report has it.

**When it fails.** `write` names partitions without an answer: look at the reason; `all` reads too much rather than too little, `none`
begins at the log end, `leave` keeps what a group has committed. Two volumes with the same partition that do not agree (a replica that
is behind): name one broker in `volumes`. A time without its offset from UTC, or outside of the table, is refused.

**Afterwards.** `report.json` has the file and every partition without an answer; `staircase.png` shows the half hour before and
after the time, offsets over records, with what was exported; `disorder.png` how late records came; `calendar.png` (tables) what the table
has. docs/exports.md tells what is in each format.
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
        "until": Param(None, type=["null", "string"], format="date-time", description="The end of a range, itself not included. Empty: no range"),
        "margin": Param(None, type=["null", "string"], description="How late records may have come, such as 10m: begin so much earlier, end so much later. Empty: none"),
        "missing": Param("fail", type="string", enum=["fail", "all", "none", "leave"], description="A partition without an answer. fail: fail the run; all: from its start; none: from its end; leave: leave it out"),
        "group": Param(None, type=["null", "string"], description="For group-csv: the group in the first column. Empty: no such column"),
        "high_watermark": Param("checkpoint", type="string", enum=["checkpoint", "log-end"], description="Up to where records count. checkpoint: the high watermark that the broker wrote to disk; log-end: all"),
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
