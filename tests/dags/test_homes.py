"""One run over volumes of all three homes: a real spark-submit, a real sshd, and a pod under a real control plane."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kafkats_airflow.tasks import end_run

from kafkats.result import Result
from tests.dags import pods
from tests.dags.hosts import WRONG, damaged
from tests.dags.pods import Disk
from tests.dags.runs import REBUILD, states
from tests.sshd import apart, sshd
from tools.kube.lab import Lab

pytestmark = [pytest.mark.root("runs containers in namespaces"), pytest.mark.full(120)]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    yield from pods.labs(tmp_path_factory.mktemp("lab"), nodes=1)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    (runs := tmp_path / "runs").mkdir()
    return runs


@pytest.fixture
def by_spark(tmp_path: Path) -> Path:
    return damaged(tmp_path / "spark" / "data")


@pytest.fixture
def by_ssh(tmp_path: Path, runs: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The log directory of a host of its own, as only the test sees it: the host has it at `disk/data`."""
    own = tmp_path / "host"
    found = damaged(own / "disk" / "data")
    (own / "runs").mkdir()
    (tmp_path / "disk").mkdir()
    inside = apart("by-ssh", (own / "disk", tmp_path / "disk"), (own / "runs", runs))
    with sshd(own / "sshd", {"KAFKATS_FOLDER": str(runs)}, inside) as server:
        monkeypatch.setenv("AIRFLOW_CONN_BY_SSH", server.connection())
        yield found


@pytest.fixture
def in_pod(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    yield pods.disk(lab, tmp_path / "broker", monkeypatch)
    pods.removed(lab)


def test_one_run_mends_volumes_by_spark_by_ssh_and_in_a_pod(
    bag: Any, by_spark: Path, by_ssh: Path, in_pod: Disk, runs: Path, tmp_path: Path
) -> None:
    volumes = [
        {"broker": "one", "path": str(by_spark), "owner_stopped": True},
        {"broker": "two", "path": str(tmp_path / "disk/data"), "connection": "by_ssh"},
        {"broker": "three", "path": str(in_pod.root), "connection": in_pod.conn_id},
    ]
    policy = tmp_path / "policy.yaml"
    policy.write_text(yaml.safe_dump({"volumes": volumes}))
    conf = REBUILD | {"policy": str(policy), "folder": str(runs), "need_approval": False}
    run = bag.dags["rebuild_time_indexes"].test(run_conf=conf, logical_date=None)
    assert str(run.state) == "success", states(run)
    roots = [by_spark, by_ssh, in_pod.real / "data"]
    assert len({(root / WRONG).read_bytes() for root in roots}) == 1
    [folder] = (runs / "rebuild_time_indexes").iterdir()
    assert json.loads((folder / "report.json").read_bytes())["files_proved"] == 3
    assert hosts(runs) == {
        verb: {socket.gethostname(), "by-ssh", "pod"} for verb in ("plan", "apply", "verify")
    }
    digest = end_run.digest_of(end_run.open_runs(folder))[:16]
    undo = {"verb": "undo", "of_dag": run.dag_id, "of_run": run.run_id, "digest": digest}
    where = {"policy": str(policy), "folder": str(runs), "need_approval": False}
    undone = bag.dags["end_run"].test(
        run_conf=bag.defaults["end_run"] | where | undo, logical_date=None
    )
    assert str(undone.state) == "success", states(undone)
    assert not any((root / WRONG).exists() for root in roots)
    assert hosts(runs)["undo"] == {socket.gethostname(), "by-ssh", "pod"}


def hosts(runs: Path) -> dict[str, set[str]]:
    """Return where each verb was done. The name of a pod's host is that of the pod."""
    found: dict[str, set[str]] = {}
    for path in runs.rglob("result.json"):
        one = Result.model_validate_json(path.read_bytes())
        host = "pod" if one.host.startswith("kafkats-") else one.host
        found.setdefault(one.verb, set()).add(host)
    return found
