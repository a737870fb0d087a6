"""Approvals that one commit asks for and another goes on with: scripts/same BEFORE --parts parked.

Airflow runs the DAGs of BEFORE. Runs are triggered by REST, each waits at its approval, and Airflow is stopped. Then Airflow
runs the work tree's DAGs on the same database and folders: each question is answered with yes, and each run must end well,
with what was approved applied and proved.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from rich.console import Console
from rich.table import Table

from tests.browser.standalone import Standalone
from tests.browser.volumes import DAMAGED, Volumes
from tests.golden import case, retention_moment
from tools.same.run import checkout

YES: Final = {"rebuild_time_indexes": "Approve", "apply_retention": "Delete over the guard"}
GUARDED: Final = {
    "time-all": {"cleanup.policy": "delete", "retention.ms": 1, "kafkats.guard.max.share": 0.01}
}
"""Retention asks only about what goes over a guard."""


class Parked(NamedTuple):
    dag: str
    run: str
    asked: str


def confs(volumes: Volumes) -> dict[str, dict[str, Any]]:
    """What each DAG is triggered with, so that it asks before it writes."""
    moment = retention_moment(case("retention-4.3.1")) / 1000
    return {
        "rebuild_time_indexes": {"policy": str(volumes.policy("rebuild"))},
        "apply_retention": {
            "policy": str(volumes.policy("retention", topics=GUARDED)),
            "dry_run": False,
            "as_of": datetime.fromtimestamp(moment, UTC).isoformat(),
        },
    }


def park(airflow: Standalone, volumes: Volumes) -> list[Parked]:
    runs = {dag: airflow.trigger(dag, conf) for dag, conf in confs(volumes).items()}
    return [Parked(dag, run, str(airflow.asked(dag, run)["options"])) for dag, run in runs.items()]


def go_on(airflow: Standalone, parked: list[Parked]) -> list[tuple[Parked, str, Any]]:
    for one in parked:
        airflow.answer(one.dag, one.run, YES[one.dag])
    return [
        (one, airflow.wait(one.dag, one.run), airflow.result(one.dag, one.run)) for one in parked
    ]


def mended(volumes: Volumes) -> list[str]:
    """What the approved runs must have done and have not."""
    root = volumes.roots["rebuild"]
    wrong = [f"{name} was not rebuilt" for name in DAMAGED if not (root / name).exists()]
    command = [str(Path(sys.executable).parent / "kafkats"), "verify", str(root)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        wrong.append("verify finds defects in the rebuilt volume")
    if (volumes.roots["retention"] / "time-all-0" / f"{0:020d}.log").exists():
        wrong.append("apply_retention deleted nothing")
    return wrong


def approvals_across(before: str) -> int:
    console = Console(width=120, highlight=False, markup=False)
    work = Path(tempfile.mkdtemp(prefix="kafkats-parked-"))
    volumes = Volumes(work / "volumes")
    home = work / "airflow"
    try:
        first = Standalone(home, volumes.environment, root=checkout(before, work))
        try:
            first.start()
            parked = park(first, volumes)
        finally:
            first.stop()
        second = Standalone(home, volumes.environment)
        try:
            second.start()
            ended = go_on(second, parked)
        finally:
            second.stop()
        wrong = mended(volumes)
        table = Table(box=None, pad_edge=False)
        for column in ("DAG", "run", "ended", "report"):
            table.add_column(column)
        for one, state, result in ended:
            table.add_row(one.dag, one.run, state, json.dumps(result)[:300])
            wrong += [] if state == "success" else [f"{one.dag} {one.run} ended as {state}"]
        console.print(table)
        for text in wrong:
            console.print(f"DIFFERENT  {text}")
        console.print(f"asked for by {before}, answered by the work tree: {len(wrong)} differences")
        return 1 if wrong else 0
    finally:
        shutil.rmtree(work, ignore_errors=True)
