"""
### Migrate the message format

Converts stored segments to another message format, broker by broker, as planned in KIP-31 and KIP-32. Kafka 0.8 to 0.10 wrote magic 0
and 1. Kafka 4 needs magic 2, and does not convert stored segments on its own. One run is one phase; offsets never change.

**When.** While the broker is stopped, or on a detached volume or snapshot: a directory that a broker holds is never written. The
schedule runs phase `census`, which only counts. Try the other phases with `dry_run` first: it forecasts, and writes nothing.

**Phases.** The ledger (`kafkats ledger show`) refuses a phase out of order. Repeats and backfills find nothing to do.
- `phase-1`: `attested_by` vouches that brokers understand the new format. Newer batches are converted back, and certified to be gone.
- `canary`: one broker, named in `volumes`, is converted and, at the end, approved. `phase-2`: the other brokers, one per run.
- `rollback`: by undo while the old files exist and the new ones are unchanged; otherwise by converting back (see `accept_loss`).

**What it does.**
- `look` counts formats, converts every segment without writing, and makes a plan; `approve` waits for a yes to that plan.
- `convert` builds each new log with its indexes, compares both logs record by record, and swaps the segment's files together.
- `parity` compares the digests of both; `certify` checks on the disk what was written, and certifies the format.
- `record` records it in the ledger; `report` writes everything into `folder`; `approve_canary` waits for a week.

**When it fails.** A difference stops the run, with nothing changed in that partition. Clear the run to continue. Segments that cannot
be converted are kept and named: mixed formats are legal. Old and new files stay until `kafkats purge RUN`; see `report.json` for RUN.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Asset, Param, TriggerRule, get_current_context, task
from kafkats_airflow import migration, migration_reports, questions
from kafkats_airflow.approval import CanaryApproval, PlanApproval
from kafkats_airflow.plan_job import PlanJobOperator, ReleaseJobOperator, to_release
from kafkats_airflow.settings import FOLDER, POLICY, SUBMITTING
from kafkats_airflow.spark_job import KafkatsJobOperator
from kafkats_airflow.write_job import WriteJobOperator

FORMATS = Asset(name="kafka_message_formats", uri="kafkats://message-formats", group="kafkats")
NAMED = SUBMITTING | {"map_index_template": "{{ task.about }}"}

with DAG(
    "migrate_message_format",
    description="Count, forecast, convert and certify message formats, phase by phase", doc_md=__doc__,
    schedule="30 3 * * 0", catchup=False, max_active_runs=1, tags=["kafkats", "formats"],
    default_args={"owner": "kafka", "retries": 1, "retry_delay": timedelta(minutes=1)},
    params={
        "policy": Param(POLICY, type="string", description="The policy file, which names the volumes. Default: KAFKATS_POLICY"),
        "volumes": Param([], type=["null", "array"], items={"type": "string"}, description="Only these volumes: globs over paths or broker names, one per line. Empty: all"),
        "phase": Param("census", type="string", enum=["census", "phase-1", "canary", "phase-2", "rollback"], description="Which phase of the migration to run; census only counts"),
        "from_magic": Param(1, type="integer", enum=[0, 1], description="Message format that the brokers write now: 0 up to Kafka 0.9, 1 up to 0.10"),
        "to_magic": Param(2, type="integer", enum=[1, 2], description="Message format to convert to: Kafka 4 needs 2"),
        "compression_type": Param("producer", type="string", enum=["producer", "none", "gzip", "snappy", "lz4", "zstd"], description="Codec of what is written; producer keeps that of each batch"),
        "rule": Param("last-offset", type="string", enum=["last-offset", "first-offset"], description="last-offset: indexes as Kafka 2.0 and later writes them; first-offset: as Kafka up to 1.1"),
        "accept_loss": Param([], type=["null", "array"], items={"type": "string"}, description="What may be lost in an older format, one word per line, or all. Empty: nothing"),
        "attested_by": Param(None, type=["null", "string"], description="Phase 1: the name of the person who vouches that the brokers understand to_magic"),
        "need_approval": Param(True, type="boolean", description="Ask a person before anything is written, and after a canary"),
        "dry_run": Param(False, type="boolean", description="Only forecast and report, write nothing"),
        "ledger": Param(None, type=["null", "string"], description="The ledger file of the migration. Empty: ledger.jsonl in the folder"),
        "folder": Param(FOLDER, type="string", description="Where plans, runs and reports are written. Default: KAFKATS_FOLDER"),
    },
) as dag:  # fmt: skip

    @task
    def gate() -> list[dict]:
        return migration.gate(get_current_context())

    @task.short_circuit(ignore_downstream_trigger_rules=False)
    def changes(asked: list[dict], looked: list[dict]) -> list[dict]:
        return migration.changing(get_current_context(), asked, looked)

    @task(trigger_rule=TriggerRule.NONE_FAILED)
    def parity(work: list[dict]) -> list[dict]:
        return migration.parity(work)

    @task(trigger_rule=TriggerRule.NONE_FAILED)
    def record(work: list[dict], converted: list[dict], certified: list[dict]) -> list[dict]:
        return migration.record(get_current_context(), work, converted, certified)

    @task(multiple_outputs=False, trigger_rule=TriggerRule.ALL_DONE, outlets=[FORMATS])
    def report(asked: list, brokers: list, stages: dict[str, list]) -> dict:
        return migration_reports.report(get_current_context(), FORMATS, asked, brokers, stages)

    asked = gate()
    look = PlanJobOperator.partial(task_id="look", **NAMED).expand_kwargs(asked.map(lambda one: one["look"]))
    work = changes(asked, look.output)
    approve = PlanApproval(task_id="approve", subject="Convert the segments?", question=questions.of_migration)
    convert = WriteJobOperator.partial(task_id="convert", **NAMED)
    convert = convert.expand_kwargs(work.map(migration.arguments_of("convert")))
    proved = parity(work)
    certify = KafkatsJobOperator.partial(task_id="certify", trigger_rule=TriggerRule.NONE_FAILED, **NAMED)
    certify = certify.expand_kwargs(work.map(migration.to_certify))
    brokers = record(work, convert.output, certify.output)
    stages = {"look": look.output, "convert": convert.output, "parity": proved, "certify": certify.output}
    said = report(asked, brokers, stages)
    approve_canary = CanaryApproval(task_id="approve_canary", subject="May the other brokers follow this canary?")
    work >> approve >> [convert, proved, certify, brokers]
    convert >> proved >> certify
    release = ReleaseJobOperator.partial(task_id="release", looks="look", trigger_rule=TriggerRule.ALL_DONE, **NAMED)
    brokers >> release.expand_kwargs(asked.map(to_release)) >> said
    said >> approve_canary
