"""
### Build lookup tables

Which offset was it at 10:00, for every partition, also when the data is long gone: adds an hour to each broker's lookup table, a
Parquet folder that Spark, DuckDB and pandas read as it is. A cell per partition and minute has the first offset of that time or later.

**When.** Every hour: the run for hour H adds the cells of H, and closes those of earlier hours that were waiting for a record. It
reads only, so it runs beside brokers; it should come more often than retention deletes. A run adds its data interval, whenever it
runs: backfill any hours in any order (in the UI, or `airflow backfill create`); over a directory that does not change the files are
the same, byte for byte, and an hour that was built twice is as if built once. Triggered by hand it adds the last
full hour, or all from `from` to `to`.

**What it does.** `tables` makes one application per broker and Spark connection; `build` searches its partitions on the workers, by
time indexes and the few batches they lead to (`exact`: by all batch headers and checksums), and writes the table once, in the driver,
under the table's lock. Files of hours become those of days and months by themselves. `report` tells of each table in an event of its
own asset, `kafkats://lookup/NAME`, whose extra has the table's folder, the interval, and cells added, closed and still open; and draws
it in the run's folder: `staircase.png` (the offset of each time over the records, of twelve partitions), `disorder.png` (how late these
came: what `margin` of an export should be), `calendar.png` (the hours that the table has).

**When it fails.** `Locked`: another run writes the table; it is tried again. Another `step` than the table's is refused: take another
folder. A corrupt table is named and left as it is: restore it, or build it anew by a backfill while the data is there. Partitions that
cannot be read fail nothing: their cells stay open as `unreadable`, later runs close them, and the report counts them. So do cells whose
records are not below the high watermark that the broker checkpointed, every 5 s; of a killed broker or a snapshot it is old: `high_watermark`.
A topic that was deleted and made anew is named in the report (`other_logs`): its cells stay open, as the table tells of the log that was;
for the new one begin another table (`tables`, another folder).

**Afterwards.** `export_offsets` with `source: tables` gives offsets of any time in a table to Spark and to Kafka's own tools.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, CronDataIntervalTimetable, Param, TriggerRule, get_current_context, task
from kafkats_airflow import lookup
from kafkats_airflow.lookup import TABLES
from kafkats_airflow.settings import FOLDER, POLICY, SUBMITTING
from kafkats_airflow.spark_job import KafkatsJobOperator

with DAG(
    "build_lookup_tables",
    description="Add an hour to the tables that tell which offset it was when", doc_md=__doc__,
    schedule=CronDataIntervalTimetable("0 * * * *", timezone="UTC"), catchup=False, max_active_runs=1,
    default_args={"owner": "kafka", "retries": 3, "retry_delay": timedelta(minutes=1)}, tags=["kafkats", "lookup"],
    params={
        "policy": Param(POLICY, type="string", description="The policy file, which names the volumes. Default: KAFKATS_POLICY"),
        "volumes": Param([], type=["null", "array"], items={"type": "string"}, description="Only these volumes: globs over paths or broker names, one per line. Empty: all"),
        "topics": Param("*", type="string", description="Only topics whose name matches this glob"),
        "step": Param("1m", type="string", description="One cell per this much time, at least 1s; a table keeps the step it began with"),
        "exact": Param(False, type="boolean", description="Read the headers and checksums of all batches instead of the time indexes: slower"),
        "high_watermark": Param("checkpoint", type="string", enum=["checkpoint", "log-end"], description="Up to where records count. checkpoint: the high watermark that the broker wrote to disk; log-end: all"),
        "from": Param(None, type=["null", "string"], format="date-time", description="Add cells from this time on. Empty: the data interval of the run"),
        "to": Param(None, type=["null", "string"], format="date-time", description="Add cells up to this time, itself not included. Goes with from"),
        "tables": Param(None, type=["null", "string"], description="Where the tables are. Empty: lookup in the folder"),
        "folder": Param(FOLDER, type="string", description="Where reports are written. Default: KAFKATS_FOLDER"),
    },
) as dag:  # fmt: skip

    @task
    def tables() -> list[dict]:
        return lookup.building(get_current_context())

    @task(multiple_outputs=False, trigger_rule=TriggerRule.ALL_DONE, outlets=[TABLES])
    def report(asked: list, results: list) -> dict:
        return lookup.built(get_current_context(), asked, results)

    build = KafkatsJobOperator.partial(
        task_id="build", job="lookup", **SUBMITTING, map_index_template="{{ task.about }}"
    )
    asked = tables()
    report(asked, build.expand_kwargs(asked).output)
