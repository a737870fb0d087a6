"""One commit asks for approvals, and another gets the answers: scripts/same BEFORE --parts parked.

Airflow runs the DAGs of BEFORE. Runs are triggered by REST, each waits at its approval, and Airflow is stopped. Then Airflow
runs the work tree's DAGs on the same database and folders: each question is answered with yes, and what was approved must be
done. A run ends well, or its proof refuses the arguments of BEFORE in words, as docs/upgrading.md says. At the end the
command of BEFORE undoes the rebuild, or refuses it in words.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
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


EARLIER: Final = "its arguments were made by an earlier version of kafkats"
"""With these words the proof of a run of BEFORE refuses."""


class Parked(NamedTuple):
    dag: str
    run: str
    asked: str


def confs(volumes: Volumes) -> dict[str, dict[str, Any]]:
    """Return the conf with which each DAG asks before it writes."""
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
        # An Airflow that starts again may run the task again, which then asks once more.
        airflow.asked(one.dag, one.run)
        airflow.answer(one.dag, one.run, YES[one.dag])
    return [
        (one, airflow.wait(one.dag, one.run), airflow.result(one.dag, one.run)) for one in parked
    ]


def mended(volumes: Volumes) -> list[str]:
    """Return a sentence for each thing that the approved runs had to do and did not."""
    root = volumes.roots["rebuild"]
    wrong = [f"{name} was not rebuilt" for name in DAMAGED if not (root / name).exists()]
    command = [str(Path(sys.executable).parent / "kafkats"), "verify", str(root)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        wrong.append("verify finds defects in the rebuilt volume")
    if (volumes.roots["retention"] / "time-all-0" / f"{0:020d}.log").exists():
        wrong.append("apply_retention deleted nothing")
    return wrong


def _failures(volumes: Volumes, dag: str) -> list[str]:
    """Return the failures in the report of a DAG's run."""
    (report,) = (volumes.folder / dag).glob("*/report.json")
    return [str(one) for one in json.loads(report.read_bytes())["failures"]]


def without_kafkats(home: Path) -> str:
    """The Python of an environment with the packages of this one but for kafkats, whose entry points BEFORE has not."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    (packages,) = home.glob("lib/*/site-packages")
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if path.suffix != ".pth" and not path.name.lstrip("_").startswith("kafkats"):
            (packages / path.name).symlink_to(path)
    python = home / "bin" / "python"
    for path in Path(sys.executable).parent.iterdir():
        if path.name == "airflow" or "spark" in path.name:
            text = path.read_text(errors="replace").replace(sys.executable, str(python))
            (home / "bin" / path.name).write_text(text)
            (home / "bin" / path.name).chmod(0o755)
    return str(python)


def undone(before: Path, volumes: Volumes) -> tuple[str, list[str]]:
    """Undo the rebuild with the command of BEFORE. Return what it prints, and what is wrong with it."""
    root = volumes.roots["rebuild"]
    (run,) = (volumes.folder / "rebuild_time_indexes").glob("*/*/run-*")
    words = [sys.executable, "-m", "kafkats", "undo", str(run)]
    environment = os.environ | {"PYTHONPATH": str(before)}
    ended = subprocess.run(
        words, env=environment, cwd=before, capture_output=True, text=True, check=False
    )
    said = (ended.stdout + ended.stderr).strip()
    left = [name for name in DAMAGED if (root / name).exists()]
    if ended.returncode == 3 and said:
        return f"refused: {said}", [] if len(left) == len(DAMAGED) else ["undone, and refused"]
    wrong = [f"the undo ended with {ended.returncode}: {said}"] if ended.returncode else []
    return said, wrong + [f"{name} is there after the undo" for name in left]


def approvals_across(before: str) -> int:
    console = Console(width=120, highlight=False, markup=False)
    work = Path(tempfile.mkdtemp(prefix="kafkats-parked-"))
    volumes = Volumes(work / "volumes")
    home = work / "airflow"
    try:
        tree = checkout(before, work)
        first = Standalone(
            home, volumes.environment, root=tree, python=without_kafkats(work / "venv")
        )
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
        for column in ("DAG", "run", "ended", "failures", "report"):
            table.add_column(column)
        for one, state, result in ended:
            failures = _failures(volumes, one.dag)
            table.add_row(one.dag, one.run, state, "; ".join(failures), json.dumps(result)[:200])
            if state != "success" and not (failures and all(EARLIER in why for why in failures)):
                wrong.append(f"{one.dag} {one.run} ended as {state}: {failures}")
        console.print(table)
        said, more = undone(tree, volumes)
        console.print(f"undo by {before}: {said}")
        wrong += more
        for text in wrong:
            console.print(f"DIFFERENT  {text}")
        console.print(f"asked for by {before}, answered by the work tree: {len(wrong)} differences")
        return 1 if wrong else 0
    finally:
        shutil.rmtree(work, ignore_errors=True)
