"""Requests on a host by SSH or in a pod, without a DAG."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from kafkats_airflow.jobs.homes import Task
from kafkats_airflow.jobs.host_home import HostHome
from kafkats_airflow.jobs.job_files import JobFiles

from kafkats.clock import now_ms
from kafkats.plans.files import read_document
from kafkats.request import made_of
from kafkats.result import Result
from tests.golden import case

GATE = """
import os, time
import kafkats.detached.working as working
call = working.Stoppable.__call__
def waiting(self, unit):
    while os.path.exists({gate!r}):
        time.sleep(0.05)
    return call(self, unit)
working.Stoppable.__call__ = waiting
"""
"""A sitecustomize: units wait as long as a file is there."""


NEW = "matrix-4.3.1-v2"
WRONG = "lz4-ct-0/00000000000000000000.timeindex"
"""The time index that a `damaged` log directory lacks."""


def damaged(root: Path, of: str = NEW) -> Path:
    """Make a log directory as Kafka has left it, but for one time index. Return it."""
    root.mkdir(parents=True)
    case(of).unpack("data", root)
    (root / WRONG).unlink()
    return root


class Asked(NamedTuple):
    """A request on the host of a connection, and the task that asks for it."""

    home: HostHome
    task: Task

    def run(self) -> Result:
        """Carry it out, and return its result. Raises as HostHome.run."""
        return self.result(self.home.run(self.task))

    def resumed(self, why: str = "ended") -> Result:
        return self.result(self.home.resumed(self.task, {"why": why}))

    def result(self, error: Exception | None) -> Result:
        result = read_document(self.task.files.result, Result)
        assert result, error
        return result


def asked(
    runs: Path,
    conn_id: str,
    tell: Callable[[], None] = lambda: None,
    kind: str = "ssh",
    **fields: Any,
) -> Asked:
    """Return a request of these fields, as a task in a folder of runs asks for it."""
    content = {"id": f"d/r/{fields['verb']}/0", "made_ms": now_ms(), **fields}
    folder = runs / "d" / "jobs" / fields["verb"]
    folder.mkdir(parents=True, exist_ok=True)
    files = JobFiles(*(folder / f"{name}.json" for name in JobFiles._fields))
    files.result.unlink(missing_ok=True)
    limit = timedelta(hours=1)
    nothing: Any = None
    task = Task(
        nothing, fields["verb"], made_of(content), files, runs, folder / "live.json", limit, tell
    )
    return Asked(HostHome(kind, conn_id), task)


def plan(root: Path, runs: Path) -> dict[str, Any]:
    """Return the fields of a request to plan a rebuild."""
    options = {"PlanFolder": {"into": str(runs / "d" / "g"), "go_on": True}}
    return {
        "verb": "plan",
        "operation": "rebuild",
        "log_dirs": [{"path": str(root)}],
        "options": options,
    }


def apply(planned: Result, runs: Path) -> dict[str, Any]:
    """Return the fields of a request to apply a plan."""
    assert planned.plan
    folder = {"folder": planned.plan.folder, "digest": planned.plan.digest}
    options = {"Apply": {"run_folder": str(runs / "d" / "g" / "run-1"), "prove": False}}
    holder = {"holder": "airflow d r"}  # of a DAG run: each try of it has the same
    return {"verb": "apply", "plan": folder, "options": options, "reservation": holder}
