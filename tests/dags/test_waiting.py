"""The wait for a pod in a whole Airflow: its worker is killed, a person or the time limit ends it.

No secret of the connection gets to a manifest, a log, an XCom or a page.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import psutil
import pytest
import yaml
from kafkats_airflow.jobs.pod_job import REQUEST

from kafkats.detached.jobs import digest_of
from tests.browser.attack import rows
from tests.browser.standalone import Failed, Standalone, standalone
from tests.dags import pods
from tests.dags.pods import JOBS, PODS, Disk
from tests.dags.runs import REBUILD
from tests.ui.harness import every_route
from tools.kube.lab import Lab

pytestmark = [
    pytest.mark.root("runs containers in namespaces"),
    pytest.mark.full(120),
    pytest.mark.timeout(2400),
]
DAG: Final = "rebuild_time_indexes"
SILENCE_S: Final = 240
"""Longer than Airflow takes to notice that a worker was killed, and to try again."""
LIMIT_S: Final = 300
EVENTS: Final = "/api/v1/namespaces/default/events"
SECRETS: Final = ("planted-as-password", "planted-in-the-extra")


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """Not pytest's own: its names are long, and SQLite's sockets are not."""
    home = Path(tempfile.mkdtemp(prefix="kafkats-pods-"))
    (home / "runs").mkdir()
    home.chmod(0o755)
    yield home
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="module")
def lab(place: Path) -> Iterator[Lab]:
    yield from pods.labs(place / "lab", nodes=1)


@pytest.fixture(scope="module")
def disk(lab: Lab, place: Path) -> Iterator[Disk]:
    with pytest.MonkeyPatch.context() as patch:
        yield pods.disk(lab, place / "broker", patch)


@pytest.fixture(scope="module")
def airflow(place: Path, disk: Disk) -> Iterator[Standalone]:
    policy = place / "policy.yaml"
    volume = {"broker": "0", "path": str(disk.root), "connection": disk.conn_id}
    policy.write_text(yaml.safe_dump({"volumes": [volume]}))
    made = json.loads(disk.connection(kafkats_silence_seconds=SILENCE_S, remark=SECRETS[1]))
    more = {
        f"AIRFLOW_CONN_{disk.conn_id.upper()}": json.dumps(made | {"password": SECRETS[0]}),
        "KAFKATS_POLICY": str(policy),
        "KAFKATS_FOLDER": str(place / "runs"),
        "KAFKATS_TIMEOUTS": f"job={LIMIT_S}s",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
    }
    with standalone(place / "airflow", more) as started:
        yield started


class Applying:
    """A run whose apply has begun in a pod, and is held up there by the gate."""

    def __init__(self, airflow: Standalone, disk: Disk) -> None:
        self.airflow, self.disk = airflow, disk
        disk.gate.unlink(missing_ok=True)
        disk.wrong.unlink(missing_ok=True)
        self.run = trigger(airflow)
        airflow.until(lambda: self.state("plan") == "success", "makes no plan", 900)
        disk.gate.touch()
        airflow.until(self.pods, "does not begin to apply", 600)

    def state(self, task: str = "apply") -> str:
        return self.airflow.tasks(DAG, self.run).get((task, 0), "")

    def pods(self) -> list[Any]:
        """Return the pods of the apply."""
        label = f"{REQUEST}={digest_of(f'{DAG}/{self.run}/apply/0')}"
        found: list[Any] = self.disk.lab.api.get(PODS, labelSelector=label)["items"]
        return found

    def kill_worker(self) -> None:
        """Kill the process of the apply, and the one above it that tells Airflow how it ends."""
        path = f"/api/v2/dags/{DAG}/dagRuns/{quote(self.run, safe='')}/taskInstances/apply/0"
        title = f"airflow worker -- {self.airflow.api('GET', path)['id']}"
        for process in psutil.process_iter(["cmdline"]):
            if " ".join(process.info["cmdline"] or []).startswith(title):
                above = process.parent()
                process.kill()
                if above and "LocalExecutor" in " ".join(above.cmdline()):
                    above.kill()
                return
        raise AssertionError(f"there is no process {title!r}")

    def waits(self) -> None:
        """Wait until the pod is at the gate, and nobody but the triggerer waits for it."""
        self.airflow.until(self.disk.waiting.exists, "does not apply", 600)
        self.disk.waiting.unlink()
        self.airflow.until(lambda: self.state() == "deferred", "holds a worker", 300)

    def succeeds(self) -> None:
        """Open the gate: the run does what is left of it."""
        self.disk.gate.unlink(missing_ok=True)
        assert self.airflow.wait(DAG, self.run) == "success"
        assert self.disk.wrong.exists()


def trigger(airflow: Standalone) -> str:
    return airflow.trigger(DAG, REBUILD | {"need_approval": False})


def next_run_repairs(airflow: Standalone, disk: Disk) -> None:
    disk.gate.unlink(missing_ok=True)
    assert not disk.wrong.exists(), "nothing was written after the end of the run"
    assert airflow.wait(DAG, trigger(airflow)) == "success"
    assert disk.wrong.exists()


def test_the_worker_is_killed(airflow: Standalone, disk: Disk) -> None:
    one = Applying(airflow, disk)
    end = time.monotonic() + 8  # a worker waits so long that it is still there
    while not disk.waiting.exists() and time.monotonic() < end:
        time.sleep(0.1)
    one.kill_worker()
    [pod] = one.pods()
    one.waits()
    one.succeeds()
    assert [one["metadata"]["uid"] for one in one.pods()] == [pod["metadata"]["uid"]]


def test_a_person_ends_the_run_and_deletes_it(airflow: Standalone, disk: Disk) -> None:
    one = Applying(airflow, disk)
    one.waits()
    path = f"/api/v2/dags/{DAG}/dagRuns/{quote(one.run, safe='')}"
    with pytest.raises(Failed, match="409"):  # Airflow deletes no run that is active
        airflow.api("DELETE", path)
    airflow.end(DAG, one.run)
    airflow.until(lambda: not one.pods(), "leaves the pod", 120)
    airflow.api("DELETE", path)
    next_run_repairs(airflow, disk)


def test_the_time_limit_ends_the_try_and_the_next_one_finishes(
    airflow: Standalone, disk: Disk
) -> None:
    one = Applying(airflow, disk)
    one.waits()
    airflow.until(lambda: not one.pods(), "leaves the pod", LIMIT_S + 300)
    assert not disk.wrong.exists()
    one.succeeds()


def test_no_secret_of_the_connection_is_anywhere(
    airflow: Standalone, disk: Disk, place: Path
) -> None:
    disk.gate.unlink(missing_ok=True)
    disk.wrong.unlink(missing_ok=True)
    run = trigger(airflow)
    assert airflow.wait(DAG, run) == "success"
    config = json.loads(json.loads(disk.connection())["extra"]["kube_config"])
    authority = config["clusters"][0]["cluster"]["certificate-authority-data"]
    given = json.loads(airflow.environment[f"AIRFLOW_CONN_{disk.conn_id.upper()}"])
    token = json.loads(given["extra"]["kube_config"])["users"][0]["user"]["token"]
    places = dict(written(airflow, disk, place / "runs", run))
    assert len([where for where in places if where.startswith("page /kafkats/")]) > 20
    found = [
        (where, secret[:20])
        for where, text in places.items()
        for secret in (*SECRETS, token, authority[:200])
        if secret in text
    ]
    assert not found


def written(airflow: Standalone, disk: Disk, runs: Path, run: str) -> Iterator[tuple[str, str]]:
    """Yield all that a run has left anywhere, and each page about it, by where it is."""
    lab = disk.lab
    yield "manifests", json.dumps([lab.api.get(kind) for kind in (JOBS, PODS, EVENTS)])
    logs = lab.folder.glob("node-*/**/log")  # of pods
    folders = (runs, disk.real, airflow.home / "logs")
    files = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    for path in (*logs, *files, airflow.log):
        yield str(path), path.read_bytes().decode(errors="replace")
    for number, (where, text) in enumerate(rows(airflow.home / "airflow.db")):
        yield f"{where} {number}", text
    about = f"dag_id={DAG}&run_id={quote(run, safe='')}&task_id=apply&map_index=0"
    for path in every_route():
        try:
            yield f"page /kafkats{path}", airflow.page(f"/kafkats{path}?{about}")
        except Failed as e:  # a page that such a run does not have
            yield f"page /kafkats{path}", str(e)
