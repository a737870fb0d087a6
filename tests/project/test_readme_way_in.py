"""The lines of docs/airflow.md from a clone to Airflow's UI, run as they stand there, and the compose file's health checks on that Airflow."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from kafkats.config.reading import read_policy
from tests import patience
from tests.docker import health_check
from tools.ports import free_ports

ROOT = Path(__file__).parents[2]
SERVICES = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
CHECKED = ("airflow-apiserver", "airflow-scheduler", "airflow-dag-processor")
READY_SECONDS = 600


def readme_lines() -> list[str]:
    """The five lines."""
    text = (ROOT / "docs" / "airflow.md").read_text()
    (block,) = re.findall(
        r"^## On this machine, without Docker\n.*?^```bash\n(.*?)^```$",
        text,
        re.MULTILINE | re.DOTALL,
    )
    return block.splitlines()


class Standalone(NamedTuple):
    clone: Path
    log: Path
    process: subprocess.Popen[bytes]
    ports: dict[str, int]
    environment: dict[str, str]

    def asked(self, path: str, *, token: str = "", body: Any = None) -> Any:
        """The JSON answer of the API server. Raises OSError."""
        headers = {"Content-Type": "application/json"} | (
            {"Authorization": f"Bearer {token}"} if token else {}
        )
        given = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.ports['8080']}{path}", given, headers
        )
        with urllib.request.urlopen(request, timeout=READY_SECONDS) as answer:
            return json.load(answer)

    def checks(self) -> dict[str, tuple[int, str]]:
        """What each health check of the compose file says."""
        return {
            name: health_check(SERVICES[name], self.ports, self.environment) for name in CHECKED
        }


def until(what: Any, process: subprocess.Popen[bytes], log: Path) -> Any:
    """What `what` returns as soon as it is true, tried again after an OSError."""
    end = time.monotonic() + READY_SECONDS
    while True:
        with suppress(OSError):
            if found := what():
                return found
        assert process.poll() is None and time.monotonic() < end, log.read_text(errors="replace")[
            -5000:
        ]
        time.sleep(0.5)


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[Standalone]:
    """The first four lines in a folder that looks like a fresh clone; Airflow takes the place of the shell.

    `scripts/setup`, which has tests of its own, only says that it ran.
    """
    clone = tmp_path / "clone"
    (clone / "scripts").mkdir(parents=True)
    for name in (".venv", "dags", "plugins", "spark_jobs", "tests", "scripts/env.sh"):
        (clone / name).symlink_to(ROOT / name)
    (clone / "scripts" / "setup").write_text("#!/bin/sh\ntouch set-up-ran\n")
    (clone / "scripts" / "setup").chmod(0o755)
    *free, of_workers, of_triggers = free_ports(4)
    ports = dict(zip(("8080", "8974"), free, strict=True))
    environment = {
        name: os.environ[name] for name in ("PATH", "HOME", "JAVA_HOME") if name in os.environ
    } | {
        **patience.AIRFLOW,
        "AIRFLOW__API__PORT": str(ports["8080"]),
        "AIRFLOW__SCHEDULER__ENABLE_HEALTH_CHECK": "true",
        "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_PORT": str(ports["8974"]),
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(of_workers),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(of_triggers),
    }
    log = clone / "build" / "ui" / "airflow.log"
    *first, fourth, _ = readme_lines()
    with (tmp_path / "log").open("wb") as out:
        process = subprocess.Popen(
            ["bash", "-euc", "\n".join([*first, fourth.removesuffix(" &").replace(" airflow ", " exec airflow ")])],
            cwd=clone, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # who tests in the background ignores it
        )  # fmt: skip
    path = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    try:
        yield Standalone(
            clone,
            log,
            process,
            ports,
            environment | {"PATH": path, "AIRFLOW_HOME": str(clone / ".airflow")},
        )
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.slow(30)
def test_the_readme_leads_to_the_ui(standalone: Standalone) -> None:
    process, log = standalone.process, standalone.log

    def healthy() -> bool:
        parts = standalone.asked("/api/v2/monitor/health")
        return all(
            parts[name]["status"] == "healthy"
            for name in ("metadatabase", "scheduler", "dag_processor")
        )

    until(healthy, process, log)
    assert (standalone.clone / "set-up-ran").exists()
    last = readme_lines()[4].replace("sleep 20; ", "")
    said = subprocess.run(
        ["bash", "-euc", last], cwd=standalone.clone, capture_output=True, text=True, check=True
    ).stdout
    given = {"username": "admin", "password": json.loads(said)["admin"]}
    token = standalone.asked("/auth/token", body=given)["access_token"]
    expected = sorted(
        path.stem for path in (ROOT / "plugins/kafkats_airflow/dags").glob("[!_]*.py")
    )

    def dags() -> bool:
        return (
            sorted(one["dag_id"] for one in standalone.asked("/api/v2/dags", token=token)["dags"])
            == expected
        )

    until(dags, process, log)
    assert standalone.asked("/api/v2/importErrors", token=token)["total_entries"] == 0
    with pytest.raises(urllib.error.HTTPError, match="401"):
        standalone.asked("/api/v2/dags")

    policy = standalone.clone / "build" / "ui" / "policy.yaml"
    params = standalone.asked("/api/v2/dags/rebuild_time_indexes/details", token=token)["params"]
    assert params["policy"]["value"] == str(policy)
    assert params["folder"]["value"] == str(policy.parent / "runs")
    (volume,) = read_policy(policy).volumes
    assert (volume.path / "lz4-ct-0" / "00000000000000000000.log").exists()
    assert not list((volume.path / "lz4-ct-0").glob("*.timeindex"))

    until(lambda: {code for code, _ in standalone.checks().values()} == {0}, process, log)
    os.kill(process.pid, signal.SIGINT)  # kill -INT $!
    process.wait()
    for name, (code, said) in standalone.checks().items():
        assert code != 0, f"{name} is called healthy when nothing runs: {said}"
