"""Work on a host by SSH ends with the task that waits for it in the triggerer of a whole Airflow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from kafkats.detached.jobs import JOBS, members
from kafkats.plans.files import read_json
from tests.browser.standalone import Standalone, standalone
from tests.dags.hosts import GATE, damaged
from tests.dags.runs import REBUILD
from tests.sshd import ROOT, Sshd, sshd

pytestmark = [pytest.mark.timeout(1800), pytest.mark.full(60)]
DAG = "rebuild_time_indexes"
LIMIT_S = 240
SOON_S = 120
"""Work that a person ends has ended before it reaches its time limit."""


@pytest.fixture(scope="module")
def host(place: Path) -> Iterator[Sshd]:
    """A host whose work waits for ever, at a gate."""
    (place / "gate").touch()
    (place / "site").mkdir()
    (place / "site" / "sitecustomize.py").write_text(GATE.format(gate=str(place / "gate")))
    paths = f"{place / 'site'}:{ROOT}"
    given = {"KAFKATS_FOLDER": str(place / "runs"), "PYTHONPATH": paths}
    with sshd(place / "sshd", given) as server:
        yield server


@pytest.fixture(scope="module")
def airflow(place: Path, host: Sshd) -> Iterator[Standalone]:
    more = {"AIRFLOW_CONN_HOST": host.connection(), "KAFKATS_TIMEOUTS": f"job={LIMIT_S}s"}
    with standalone(place / "airflow", more) as started:
        yield started


class Waiting:
    """A run whose plan waits in the triggerer for `pid`, which works on the host."""

    def __init__(self, airflow: Standalone, place: Path, name: str) -> None:
        self.airflow, self.runs = airflow, place / "runs"
        root = damaged(place / name / "data")
        policy = place / name / "policy.yaml"
        volume = {"broker": name, "path": str(root), "connection": "host", "owner_stopped": True}
        policy.write_text(yaml.safe_dump({"volumes": [volume]}))
        known = set(self._processes())
        conf = REBUILD | {"policy": str(policy), "folder": str(self.runs)}
        self.run = airflow.trigger(DAG, conf)
        airflow.until(lambda: self.state() == "deferred", "does not wait", 600)
        [process] = {*self._processes()} - known
        self.pid = int(str(read_json(process)["pid"]))
        seen = (alive := process.with_name("alive")).stat().st_mtime_ns

        def asked() -> bool:
            return alive.stat().st_mtime_ns > seen

        airflow.until(asked, "does not ask the host in the triggerer", SOON_S)
        assert members(self.pid)

    def _processes(self) -> Iterator[Path]:
        return (self.runs / JOBS).glob("*/process.json")

    def state(self) -> str | None:
        return self.airflow.tasks(DAG, self.run).get(("plan", 0))

    def ended(self, seconds: float = SOON_S) -> None:
        self.airflow.until(lambda: not members(self.pid), "does not end the work", seconds)


def test_a_run_that_a_person_ends(airflow: Standalone, place: Path) -> None:
    one = Waiting(airflow, place, "run")
    airflow.end(DAG, one.run)
    one.ended()


def test_a_task_that_a_person_marks_as_failed(airflow: Standalone, place: Path) -> None:
    one = Waiting(airflow, place, "task")
    path = f"/api/v2/dags/{DAG}/dagRuns/{quote(one.run, safe='')}/taskInstances/plan/0"
    given: dict[str, Any] = {"new_state": "failed"}
    airflow.api("PATCH", path, given)
    one.ended()


def test_a_task_at_its_time_limit(airflow: Standalone, place: Path) -> None:
    one = Waiting(airflow, place, "limit")
    one.ended(2 * LIMIT_S)
    airflow.until(lambda: one.state() in {"failed", "up_for_retry"}, "does not fail", 600)
    airflow.end(DAG, one.run)
