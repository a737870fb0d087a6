"""
### Migrate the message format

Converts stored segments to another message format, broker by broker, as planned in KIP-31 and
KIP-32. Kafka 0.8 to 0.10 wrote formats v0 and v1 (magic 0 and 1). Kafka 4 reads them, and converts
only what it compacts (docs/kafka-4.md). One run is one phase; offsets never change.

**When.** While the broker is stopped, or on a detached volume or snapshot: a directory that a
broker holds is never written. The schedule runs phase `census`, which only counts. Try the other
phases with `dry_run` first: it forecasts, and writes nothing.

**Phases.** The ledger (`kafkats ledger show`) refuses a phase out of order. Repeats do nothing.
- `phase-1`: `attested_by` vouches for the brokers; newer batches are converted back and certified.
- `canary`: the broker in `volumes` is converted, then approved. `phase-2`: the others, one per run.
- `rollback`: undo while old files exist and new ones are intact; else conversion (`accept_loss`).

**What it does.**
- `look` counts formats, converts without writing, and plans; `approve` waits for a yes to the plan.
- `convert` builds new logs and indexes, compares every record, and swaps a segment's files at once.
- `parity` compares the digests of both; `certify` checks the disk, and certifies the format.
- `record` writes to the ledger, `report` into `folder`; `approve_canary` waits for a week.

**When it fails.** A difference stops the run; nothing changes in that partition. Clear the run to
continue. Segments that cannot be converted are kept and named. `kafkats purge RUN` frees old files.
"""

from __future__ import annotations

from airflow.sdk import DAG, TriggerRule

from kafkats_airflow.approvals import canary, questions
from kafkats_airflow.approvals.asking import PlanApproval
from kafkats_airflow.dag_set import DagSet
from kafkats_airflow.jobs.plan_job import PlanJobOperator, ReleaseJobOperator, to_release
from kafkats_airflow.jobs.spark_job import KafkatsJobOperator
from kafkats_airflow.jobs.write_job import WriteJobOperator
from kafkats_airflow.reports import migration as reports
from kafkats_airflow.tasks import migration
from kafkats_airflow.tasks.job_tasks import AFTER, ALWAYS, NAMED, reporting, short_circuit, step
from kafkats_airflow.tasks.migration import to_certify, to_convert, to_look


def build(dags: DagSet) -> DAG:
    """Build the DAG."""
    formats = dags.asset("kafka_message_formats", "message-formats")
    with dags.dag(
        "migrate_message_format",
        "migrate",
        "formats",
        description="Count, forecast, convert and certify message formats, phase by phase",
        doc_md=__doc__,
        schedule="30 3 * * 0",
        max_active_runs=1,
    ) as dag:
        asked = step("gate", migration.gate)()
        look = PlanJobOperator.partial(task_id="look", **NAMED).expand_kwargs(asked.map(to_look))
        work = short_circuit("changes", migration.changing)(asked, look.output)
        approve = PlanApproval(
            task_id="approve", subject="Convert the segments?", question=questions.of_migration
        )
        converting = WriteJobOperator.partial(task_id="convert", **NAMED)
        convert = converting.expand_kwargs(work.map(to_convert))
        proved = step("parity", migration.parity, trigger_rule=TriggerRule.NONE_FAILED)(work)
        certifying = KafkatsJobOperator.partial(task_id="certify", **AFTER)
        certify = certifying.expand_kwargs(work.map(to_certify))
        record = step("record", migration.record, trigger_rule=TriggerRule.NONE_FAILED)
        brokers = record(work, convert.output, certify.output)
        stages = {one.task_id: one.output for one in (look, convert, certify)} | {"parity": proved}
        said = reporting(reports.report, formats, outlets=[formats])(asked, brokers, stages)
        approve_canary = canary.CanaryApproval(task_id="approve_canary")
        work >> approve >> [convert, proved, certify, brokers]
        convert >> proved >> certify
        release = ReleaseJobOperator.partial(task_id="release", looks="look", **ALWAYS)
        brokers >> release.expand_kwargs(asked.map(to_release)) >> said >> approve_canary
    return dag
