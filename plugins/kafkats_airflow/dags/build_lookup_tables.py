"""
### Build lookup tables

Adds an hour to each broker's lookup table, which answers "which offset was it at 10:00?" for every
partition, even after the data has been deleted. A table is a Parquet folder that Spark, DuckDB and
pandas can read. It has one cell per partition and minute, with the first offset at or after that
time.

**When.** Every hour. The run for hour H adds the cells of H, and closes cells of earlier hours that
waited for a record. It only reads, so it runs beside brokers. Schedule it more often than retention
deletes. Backfill any hours in any order (in the UI, or with `airflow backfill create`): over an
unchanged directory the files are the same, byte for byte, also if an hour is built twice. A run
triggered by hand adds the last full hour, or everything from `from` to `to`.

**What it does.**

- `tables` makes one application per broker and connection.
- `build` searches the partitions on the workers, by time indexes and the few batches that they lead
  to (`exact`: by all batch headers and checksums). The driver writes the table once, under the
  table's lock. Files of hours are combined into files of days and months.
- `report` emits an event of the asset `kafkats://lookup/NAME` for each table. Its extra has the
  table's folder, the interval, and the cells added, closed and still open. It also draws plots in
  the run's folder: `staircase.png` (the offset of each time over the records of twelve partitions),
  `disorder.png` (how late the records came: a `margin` for exports), `calendar.png` (the hours that
  the table has).

**When it fails.**

- Another run writes the table: the task is tried again.
- A `step` other than the table's is refused: use another folder.
- A corrupt table is named and not changed. Restore it, or build it again by a backfill while the
  data exists.
- Unreadable partitions do not fail the run. Their cells stay open as `unreadable`, later runs close
  them, and the report counts them.
- Cells also stay open if their records lie above the checkpointed high watermark. Brokers write it
  every 5 s; after a kill or in a snapshot it is old: see `high_watermark`.
- A topic that was deleted and recreated is named in the report (`other_logs`). Its cells stay open,
  because the table describes the old log. Start another table for the new one (`tables`, another
  folder).

**Afterwards.** `export_offsets` with `source: tables` exports the offsets of any time in a table
for Spark and Kafka's own tools.
"""

from __future__ import annotations

from airflow.sdk import DAG, AssetAlias

from kafkats_airflow.airflow_versions import CronDataIntervalTimetable
from kafkats_airflow.dag_set import DagSet
from kafkats_airflow.jobs.spark_job import KafkatsJobOperator
from kafkats_airflow.tasks import lookup
from kafkats_airflow.tasks.job_tasks import NAMED, reporting, step


def build(dags: DagSet) -> DAG:
    """Build the DAG."""
    tables = AssetAlias(f"{dags.prefix}kafka_lookup_tables", group="kafkats")
    with dags.dag(
        "build_lookup_tables",
        "table",
        "lookup",
        description="Add an hour to the tables that tell which offset it was when",
        doc_md=__doc__,
        schedule=CronDataIntervalTimetable("0 * * * *", timezone="UTC"),
        max_active_runs=1,
        retries=3,
    ) as dag:
        build = KafkatsJobOperator.partial(task_id="build", job="lookup", **NAMED)
        asked = step("tables", lookup.building)()
        written = build.expand_kwargs(asked)
        reporting(lookup.built, dags, tables, outlets=[tables])(asked, written.output)
    return dag
