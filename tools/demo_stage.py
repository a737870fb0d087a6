"""Shared by the demos: a folder of their own with real brokers' directories, and Airflow runs with their progress."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

from tests.golden import Case

HOME = Path(os.environ["KAFKATS_DEMO"])
REPORTS = HOME / "reports"
POLICY = HOME / "policy.yaml"
LOG = HOME / "airflow.log"
console = Console(highlight=False, width=None if sys.stdout.isatty() else 140)


def say_whole(line: str) -> None:
    """Print a line with what a reader copies, such as a command: it is never broken into several."""
    console.print(line, soft_wrap=True)


def begin() -> None:
    """An empty folder."""
    shutil.rmtree(HOME, ignore_errors=True)
    (HOME / "airflow").mkdir(parents=True)


def unpack(broker: str, one: Case, state: str = "data") -> Path:
    """The broker's log.dirs root as it lay on its disk; its lock file is one that nobody holds."""
    root = HOME / broker / "data"
    root.mkdir(parents=True)
    one.unpack(state, root)
    (root / ".lock").touch()
    console.print(f"{broker}: Kafka {one.kafka}, {one.info['shows']}")
    return root


def write_policy(roots: Mapping[str, Path], **more: Any) -> None:
    volumes = [{"broker": broker, "path": str(root)} for broker, root in roots.items()]
    POLICY.write_text(yaml.safe_dump({"volumes": volumes} | more))


def run_dag(dag: str, **params: Any) -> dict[str, Any] | None:
    """One `airflow dags test`; its report, or None when the run failed."""
    known = set(REPORTS.glob("*/*/report.json"))
    conf = {"policy": str(POLICY), "folder": str(REPORTS)} | params
    if not known and (code := airflow("db", "migrate")):
        console.print(f"[red]airflow db migrate ended with {code}[/]: see {LOG}")
        return None
    code = airflow("dags", "test", dag, "--conf", json.dumps(conf))
    found = set(REPORTS.glob("*/*/report.json")) - known
    if code or not found:
        console.print(f"[red]the run failed[/]: see {LOG}")
        return None
    report: dict[str, Any] = json.loads(found.pop().read_text())
    return report


def airflow(*words: str) -> int:
    """Runs `airflow`, its log into a file; what the jobs say of their progress is shown."""
    shown = ""
    with LOG.open("a") as log:
        process = subprocess.Popen(
            ["airflow", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        for line in process.stdout:
            log.write(line)
            log.flush()
            if (said := telling(line)) and said != shown:
                console.print(f"  {said}")
                shown = said
    return process.wait()


def telling(line: str) -> str:
    """The part of a log line that is worth a line on the terminal, or ""."""
    if found := re.search(r"\[DAG TEST\] starting task_id=(\w+)", line):
        return f"task {found[1]}"
    if found := re.search(
        r"(?:verify|forecast|apply|undo|certify|inventory|prove|purge|lookup|table): \d+ of \d+ units, .* tasks repeated",
        line,
    ):
        return f"     {found[0]}"
    return ""


def differences(
    root: Path, one: Case, state: str = "data", *, without: frozenset[str] = frozenset()
) -> Iterator[str]:
    """Files that are not as Kafka had left them, and files that it never had; `without` are gone on purpose."""
    expected = {
        path: sha256
        for path, (_, _, sha256) in one.files(state).items()
        if sha256 and path not in without
    }
    found = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()} - {".lock"}
    for path in sorted(found | set(expected) - {".lock"}):
        if path not in expected:
            yield f"{root / path}: was not there"
        elif path not in found:
            yield f"{root / path}: is gone"
        elif hashlib.sha256((root / path).read_bytes()).hexdigest() != expected[path]:
            yield f"{root / path}: differs from Kafka's own"


def show_jobs(where: str) -> None:
    """Show the requests of the run that reported, and where each was carried out."""
    table = Table("job", where, "seconds", "ended")
    results = [json.loads(path.read_bytes()) for path in REPORTS.rglob("jobs/*/result.json")]
    for one in sorted(results, key=lambda one: one["began_ms"]):
        seconds = (one["ended_ms"] - one["began_ms"]) / 1000
        table.add_row(one["verb"], one["host"], f"{seconds:.1f}", one["ended"])
    console.print(table)


def failed(wrong: Sequence[str], *, most: int | None = None) -> bool:
    """Show what is wrong, the first `most` lines of it. Return whether something is."""
    for line in wrong[:most]:
        console.print(f"[red]{line}[/]")
    if wrong:
        console.print(f"[bold red]the proof FAILED, {len(wrong)} times[/]")
    return bool(wrong)


def end(wrong: Sequence[str], fine: str, report: Any, began: float) -> int:
    """Show what is wrong, or that everything is `fine`. Return the exit code of the demo."""
    for line in wrong:
        console.print(f"[red]{line}[/]")
    say_whole(f"log {LOG}\nreport {report['report']}\n{time.monotonic() - began:.0f} s in all")
    console.print("[bold red]the demo FAILED[/]" if wrong else f"[bold green]{fine}")
    return 1 if wrong else 0
