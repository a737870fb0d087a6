"""The demo of migrate: two real brokers' directories of magic 0 go to magic 2, phase by phase, and one of them back.

Called by scripts/demo, which sets the environment. The directories are tests/real-logs, written by Kafka 2.8.2 and 0.9.0.1. The proofs at
the end use none of our code: aiokafka must read from the converted logs what Kafka's own consumer had read from the broker,
and every file of the broker that was rolled back must have the sha256 that was recorded when Kafka had written it.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.memory_records import MemoryRecords
from rich.table import Table

from kafkats.migration.plot import forecast_outcome
from tests.golden import Case, case, partitions
from tools.demo_stage import (
    LOG,
    REPORTS,
    begin,
    console,
    differences,
    failed,
    run_dag,
    unpack,
    write_policy,
)

DAG = "migrate_message_format"
CASES = {"broker-1": "matrix-2.8.2-v0", "broker-2": "matrix-0.9.0.1-v0"}
CANARY, SECOND = CASES
LEDGER = REPORTS / "ledger.jsonl"
SHOWN = 12


def main() -> int:
    began = time.monotonic()
    begin()
    console.rule("[bold]1 Two brokers' directories of magic 0")
    roots = {broker: unpack(broker, case(name)) for broker, name in CASES.items()}
    write_policy(roots)

    ran: dict[str, dict[str, Any]] = {}
    wrong: list[str] = []
    for n, (phase, params) in enumerate(PHASES.items(), 2):
        console.rule(f"[bold]{n} airflow dags test {DAG}: {phase}")
        report = run_dag(DAG, phase=phase, from_magic=0, need_approval=False, **params)
        if report is None:
            return 1
        ran[phase] = report
        console.print(f"  [bold]{report['outcome']}[/]: {'; '.join(report['statements'])}")
        wrong += after(phase, roots)

    console.rule("[bold]6 What it found, and what it did")
    show_formats(ran)
    for who in ran["canary"]["loses_zero_copy"]:
        console.print(
            f"  fetch versions {who['versions']} lose zero-copy: {who['clients']}; followers with {who['followers']}"
        )
    for phase in ("canary", "phase-2"):
        show_parity(phase, Path(ran[phase]["report"]))
    show_outcome([Path(ran[phase]["report"]) for phase in ("canary", "phase-2")])

    console.rule("[bold]7 Proof: by readers that are not ours")
    if failed(wrong):
        return 1
    records = sum(len(case(name).records()) for name in CASES.values())
    console.print(
        f"[bold green]all {records} records of both brokers were in magic 2 what Kafka's consumer had read[/] (aiokafka)"
    )
    console.print(
        f"[bold green]every file of {SECOND}, rolled back, is byte for byte Kafka's own[/] (sha256)"
    )
    subprocess.run(["kafkats", "ledger", "show", str(LEDGER)], check=True)
    folder = Path(ran["rollback"]["report"])
    console.print(f"ledger  {LEDGER}\nreport  {folder / 'report.json'}\nlog     {LOG}")
    console.print(
        f"plots   {folder / 'burn-down.png'}\n        {Path(ran['canary']['report']) / 'forecast.png'}, formats.png"
    )
    console.print(f"{time.monotonic() - began:.0f} s in all")
    return 0


PHASES: dict[str, dict[str, Any]] = {
    "phase-1": {"attested_by": "the operators of this demo"},
    "canary": {"volumes": [CANARY]},
    "phase-2": {},
    "rollback": {"volumes": [SECOND]},
}


def after(phase: str, roots: dict[str, Path]) -> list[str]:
    """Return what is wrong when a phase has ended."""
    if phase == "phase-1":
        return refused_out_of_order(roots[SECOND])
    if phase == "canary":
        return [*converted(roots, CANARY), *differences(roots[SECOND], case(CASES[SECOND]))]
    if phase == "phase-2":
        return converted(roots, SECOND)
    check = subprocess.run(
        ["kafkats", "certify", str(roots[CANARY]), "--min-magic", "2"],
        capture_output=True,
        text=True,
        check=False,
    )
    back = list(differences(roots[SECOND], case(CASES[SECOND])))
    return back + [f"{CANARY}: {check.stdout}{check.stderr}"] * bool(check.returncode)


def refused_out_of_order(root: Path) -> list[str]:
    """Phase 2 before there was a canary must be refused."""
    words = ["--to-magic", "2", "--ledger", str(LEDGER), "--phase", "phase-2", "--broker", SECOND]
    command = [
        "kafkats",
        "plan",
        "migrate",
        str(root),
        *words,
        "-o",
        str(REPORTS.parent / "too-early"),
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    console.print(f"  phase-2 now? {ran.stderr.strip()}")
    return (
        []
        if ran.returncode == 3
        else [f"phase-2 before the canary was not refused: {ran.stdout}{ran.stderr}"]
    )


def converted(roots: dict[str, Path], broker: str) -> list[str]:
    return list(records_differing(roots[broker], case(CASES[broker])))


def records_differing(root: Path, one: Case) -> Iterator[str]:
    """Batches that are not of magic 2, and records that are not what Kafka's consumer had read before."""
    expected: dict[str, list[dict[str, Any]]] = {}
    for record in one.records():
        expected.setdefault(record["tp"], []).append(record)
    for partition in partitions(root):
        wanted = iter(expected.pop(partition.name, []))
        for log in sorted(partition.glob("*.log")):
            read = MemoryRecords(log.read_bytes())
            while (batch := read.next_batch()) is not None:
                if not isinstance(batch, DefaultRecordBatch):
                    yield f"{log}: a batch of another format"
                    continue
                for found in batch:
                    if not same(found, next(wanted, None)):
                        yield f"{log}: offset {found.offset} is not what was read before"
        for record in wanted:
            yield f"{partition}: offset {record['offset']} is gone"
    for name in expected:
        yield f"{root / name}: is gone"


def same(found: Any, expected: dict[str, Any] | None) -> bool:
    if (
        expected is None
        or found.offset != expected["offset"]
        or (expected["timestamp"] or -1) != (found.timestamp or -1)
    ):
        return False
    return all(
        content(expected, name) == content_of(getattr(found, name)) for name in ("key", "value")
    )


def content(expected: dict[str, Any], name: str) -> tuple[Any, ...]:
    if f"{name}_sha256" in expected:
        return expected[f"{name}_size"], expected[f"{name}_sha256"]
    return (None,) if expected[name] is None else content_of(bytes.fromhex(expected[name]))


def content_of(data: bytes | None) -> tuple[Any, ...]:
    return (None,) if data is None else (len(data), hashlib.sha256(data).hexdigest()[:16])


def show_formats(ran: dict[str, dict[str, Any]]) -> None:
    table = Table(
        box=None, header_style="bold", title="share of bytes by magic, of the volumes of each run"
    )
    table.add_column("phase")
    for moment in ("before", "after"):
        for magic in range(3):
            table.add_column(f"{moment}: magic {magic}", justify="right")
    for phase, report in ran.items():
        cells = []
        for moment in ("before", "after"):
            sizes = report["magic_bytes"][moment]
            cells += [
                f"{size / max(sum(sizes), 1):.0%} ({size:,})" if size else "-" for size in sizes
            ]
        table.add_row(phase, *cells)
    console.print(table)


def show_parity(phase: str, folder: Path) -> None:
    table = Table(
        box=None, header_style="bold", title=f"{phase}: what old and new logs tell a consumer"
    )
    for column in ("log", "records", "bytes before", "after", "digest before", "digest after"):
        table.add_column(
            column, justify="left" if column == "log" or "digest" in column else "right"
        )
    rows = [
        row
        for row in pq.read_table(folder / "actions.parquet").to_pylist()
        if row["file"].endswith(".log")
    ]
    for row in rows[:SHOWN]:
        sizes = (f"{row[f'{side}_bytes']:,}" for side in ("before", "after"))
        digests = (row[f"parity_{side}"][:16] for side in ("before", "after"))
        table.add_row(
            f"{row['partition_dir']}/{row['file']}", str(row["records"]), *sizes, *digests
        )
    console.print(table)
    if len(rows) > SHOWN:
        console.print(f"... and {len(rows) - SHOWN} more, in {folder / 'actions.parquet'}")


def show_outcome(folders: list[Path]) -> None:
    table = Table(box=None, header_style="bold", title="forecast and outcome")
    columns = (
        "before_bytes",
        "forecast_bytes",
        "outcome_bytes",
        "forecast_seconds",
        "outcome_seconds",
    )
    table.add_column("partition")
    for column in columns:
        table.add_column(column.replace("_", " "), justify="right")
    for folder in folders:
        forecast, actions = (
            pq.read_table(folder / f"{name}.parquet") for name in ("forecast", "actions")
        )
        for row in forecast_outcome([forecast], [actions]):
            cells = (
                f"{value:,}" if isinstance(value, int) else f"{value:.2f}"
                for value in (getattr(row, name) for name in columns)
            )
            table.add_row(row.name, *cells)
    console.print(table)
    console.print(
        "  (seconds: compilation and the first batch of each worker included; the bytes are what was promised)"
    )


if __name__ == "__main__":
    sys.exit(main())
