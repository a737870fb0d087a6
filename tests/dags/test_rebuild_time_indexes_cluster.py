"""docker-compose.yml's own Spark commands as a cluster on loopback, and the DAG on it.

The words come from the compose file; only host names and ports are replaced. What Docker itself does with the file is
not tried here.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docker import health_check
from tests.golden import case
from tools.ports import free_ports

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
PORTS = ("7077", "8081", "8082")
READY_SECONDS = 600
GOLDEN = case("matrix-2.8.2-v2")
DAMAGED = "zstd-ct-0/00000000000000000000.timeindex"


def on_loopback(word: str, ports: Mapping[str, int]) -> str:
    """A word of a command with loopback for the services' names, and `ports` for the file's."""
    for name in ("spark-master", "spark-worker"):
        word = word.replace(name, "127.0.0.1")
    for port, ours in ports.items():
        word = word.replace(port, str(ours))
    return word


def service(name: str, folder: Path, ports: Mapping[str, int]) -> subprocess.Popen[bytes]:
    command = [on_loopback(word, ports) for word in COMPOSE["services"][name]["command"]]
    folder.mkdir()
    environment = os.environ | {
        "SPARK_WORKER_DIR": str(folder),
        "SPARK_WORKER_CORES": "2",
        "SPARK_WORKER_MEMORY": "1g",
    }
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def checks(ports: Mapping[str, int]) -> dict[str, int]:
    """The exit codes of both health checks of the compose file."""
    names = ("spark-master", "spark-worker")
    return {name: health_check(COMPOSE["services"][name], ports, os.environ)[0] for name in names}


def master_state(ports: Mapping[str, int]) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{ports['8081']}/json/", timeout=20
        ) as answer:
            return dict(json.load(answer))
    except (OSError, ValueError):
        return {}


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """Master and worker, started with the compose file's commands, as the connection spark_cluster; gives their ports."""
    ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
    running: list[subprocess.Popen[bytes]] = []
    try:
        assert 0 not in checks(ports).values()
        running += [
            service("spark-worker", tmp_path / "worker", ports),
            service("spark-master", tmp_path / "master", ports),
        ]
        until = time.monotonic() + READY_SECONDS
        while not master_state(ports).get("workers"):
            assert all(process.poll() is None for process in running), (
                tmp_path / "master" / "log"
            ).read_text()
            assert time.monotonic() < until, (tmp_path / "worker" / "log").read_text()
            time.sleep(0.3)
        while set(checks(ports).values()) != {0}:  # the worker names its master a moment later
            assert time.monotonic() < until, (tmp_path / "worker" / "log").read_text()
            time.sleep(0.3)
        given = json.loads(COMPOSE["x-kafkats"]["environment"]["AIRFLOW_CONN_SPARK_DEFAULT"])
        given |= {"host": on_loopback(given["host"], ports), "port": ports[str(given["port"])]}
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_CLUSTER", json.dumps(given))
        yield ports
    finally:
        for process in reversed(running):
            os.killpg(process.pid, signal.SIGTERM)
        for process in running:
            process.wait()


@pytest.mark.full(31)
def test_the_dag_on_a_cluster(
    bag: Any, cluster: dict[str, int], policy: Callable[..., Path], tmp_path: Path
) -> None:
    root = tmp_path / "broker" / "data"
    root.mkdir(parents=True)
    GOLDEN.unpack("data", root)
    (root / DAMAGED).unlink()
    conf = {
        "policy": str(policy(root, connection="spark_cluster")), "folder": str(tmp_path / "reports"), "volumes": [], "topics": "zstd-*",
        "rule": "last-offset", "need_approval": False, "dry_run": False, "only_after_unclean_stop": False,
    }  # fmt: skip
    run = bag.dags["rebuild_time_indexes"].test(run_conf=conf)
    assert str(run.state) == "success"
    import hashlib

    assert (
        hashlib.sha256((root / DAMAGED).read_bytes()).hexdigest()
        == GOLDEN.files("data")[DAMAGED][2]
    )
    assert {app["name"] for app in master_state(cluster)["completedapps"]} == {
        "kafkats plan",
        "kafkats apply",
        "kafkats verify",
    }
