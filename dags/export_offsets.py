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
        "time": Param(type="string", format="date-time", description="Begin with records of that time or later"),
        "topics": Param("*", type="string", description="Glob over topic names"),
        "format": Param("spark-offsets", enum=["spark-offsets", "spark-by-timestamp", "group-csv", "json"], description="For whom"),
        "until": Param(None, type=["null", "string"], format="date-time", description="The end of a range, itself not included"),
        "margin": Param(None, type=["null", "string"], description="How much too late records came, such as 10m"),
        "missing": Param("fail", enum=["fail", "all", "none", "leave"], description="What of partitions without an answer"),
        "group": Param(None, type=["null", "string"], description="For group-csv: the first column, for a file of several groups"),
        "high_watermark": Param("checkpoint", enum=["checkpoint", "log-end"], description="Up to where brokers give records out"),
        "source": Param("volumes", enum=["volumes", "tables"], description="Search the volumes, or read a lookup table"),
        "policy": Param(POLICY, type="string", description="The file with volumes (default: KAFKATS_POLICY)"),
        "volumes": Param([], type="array", items={"type": "string"}, description="Globs over paths or brokers; none: all"),
        "tables": Param(None, type=["null", "string"], description="Where the tables lie (default: lookup in the folder)"),
        "folder": Param(FOLDER, type="string", description="Where exports and reports go (default: KAFKATS_FOLDER)"),
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
