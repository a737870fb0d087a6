"""The Python of a job, and a worker that cannot submit one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from kafkats_airflow import settings
from kafkats_airflow.deployment import Place
from kafkats_airflow.jobs.processes import end_session, leaders
from kafkats_airflow.jobs.providers import hook_class
from kafkats_airflow.jobs.submit import Submit, environment, hook_of

from kafkats.detached.jobs import members
from kafkats.errors import UsageError

OTHER = "/opt/jobs/bin/python"


@pytest.mark.parametrize(
    ("setting", "variable", "driver", "executors"),
    [
        ("", None, None, sys.executable),
        ("", OTHER, None, OTHER),
        (OTHER, None, OTHER, OTHER),
        (OTHER, "/usr/bin/python3", OTHER, OTHER),
    ],
)
def test_the_python_of_jobs(
    monkeypatch: pytest.MonkeyPatch,
    setting: str,
    variable: str | None,
    driver: str | None,
    executors: str,
) -> None:
    monkeypatch.setattr(settings, "JOB_PYTHON", setting)
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if variable:
        monkeypatch.setenv("PYSPARK_PYTHON", variable)
    found = environment(Place("/p.yaml", "/runs"))
    assert (found["KAFKATS_POLICY"], found["KAFKATS_FOLDER"]) == ("/p.yaml", "/runs")
    assert found["PYSPARK_PYTHON"] == executors
    assert found.get("PYSPARK_DRIVER_PYTHON") == driver


def test_without_the_spark_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "airflow.providers.apache.spark.hooks.spark_submit", None)
    with pytest.raises(UsageError, match=r"pip install 'kafkats\[worker\]'"):
        hook_class("spark")


def test_the_end_of_a_session_is_that_of_all_its_processes() -> None:
    words = ["sh", "-c", "sleep 600 & sleep 600 & wait"]
    with subprocess.Popen(words, start_new_session=True) as one:
        while len(members(one.pid)) < 3:
            time.sleep(0.01)
        assert one.pid in leaders()
        end_session(one.pid)
        assert members(one.pid) == []
    end_session(os.getsid(0))  # never its own


MASTERS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "standalone": (
        {"host": "spark://master.example", "port": 7077},
        ["--master", "spark://master.example:7077"],
    ),
    "yarn": (
        {"host": "yarn", "extra": {"deploy-mode": "client", "queue": "nightly"}},
        ["--master", "yarn", "--queue", "nightly", "--deploy-mode", "client"],
    ),
    "kubernetes": (
        {
            "host": "k8s://https://api.example",
            "port": 6443,
            "extra": {"deploy-mode": "client", "namespace": "kafka"},
        },
        [
            *("--master", "k8s://https://api.example:6443"),
            *("--conf", "spark.kubernetes.namespace=kafka", "--deploy-mode", "client"),
        ],
    ),
}


@pytest.fixture(params=MASTERS)
def expected(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A connection `cluster` to each kind of master; what spark-submit gets besides the job."""
    content, words = MASTERS[request.param]
    monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", json.dumps({"conn_type": "spark"} | content))
    return words


def test_the_arguments_of_a_submit_to_each_master(
    expected: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A submit that writes down its arguments takes the place of Spark's."""
    if "kubernetes" in " ".join(expected):  # its provider, of which a submit uses nothing
        module = sys.modules[hook_class("spark").__module__]
        monkeypatch.setattr(module, "kube_client", object(), raising=False)
    program, told = tmp_path / "spark-submit", tmp_path / "words.json"
    program.write_text(
        f"#!{sys.executable}\nimport json, sys\n"
        f"open({str(told)!r}, 'w').write(json.dumps(sys.argv[1:]))\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    words = ["--request", "/runs/request.json", "--result", "/runs/result.json"]
    hook = hook_of("cluster", "kafkats plan", words)
    submit = Submit(hook, "/jobs/plan.py", environment(Place("/p.yaml", "/runs")))
    submit.start()
    assert submit.wait(60)
    # Of Kubernetes the provider wants an exit code that no driver in client mode prints: the result of a job counts.
    assert submit.error is None or "Kubernetes spark exit code is: None" in str(submit.error)
    found = json.loads(told.read_text())
    name = found.index("--name")
    assert found[name : name + 2] == ["--name", "kafkats plan"]
    assert found[:name] + found[name + 2 :] == [*expected, "/jobs/plan.py", *words]


def test_kubernetes_without_its_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    content, _ = MASTERS["kubernetes"]
    monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", json.dumps({"conn_type": "spark"} | content))
    monkeypatch.setattr(
        sys.modules[hook_class("spark").__module__], "kube_client", None, raising=False
    )
    with pytest.raises(UsageError, match="pip install apache-airflow-providers-cncf-kubernetes"):
        hook_of("cluster", "kafkats plan", [])
