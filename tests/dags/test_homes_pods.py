"""Every DAG over pods under a real control plane, by Airflow's hook and the Role of deploy/."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kafkats_airflow.jobs import host_home

from tests.dags import every_dag, pods
from tests.dags.every_dag import EXPIRED, OLD, Run
from tests.dags.pods import Disk
from tests.dags.runs import states
from tools.kube.lab import Lab

pytestmark = [
    pytest.mark.root("runs containers in namespaces"),
    pytest.mark.full(90),
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    yield from pods.labs(tmp_path_factory.mktemp("lab"), nodes=1)


@pytest.fixture
def disk(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    monkeypatch.setattr(host_home, "PATIENCE_SECONDS", 120.0)
    yield pods.disk(lab, tmp_path / tmp_path.name.replace("_", "-"), monkeypatch, of=OLD)
    pods.removed(lab)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    (runs := tmp_path / "runs").mkdir()
    return runs


@pytest.fixture
def run(bag: Any, disk: Disk, runs: Path, tmp_path: Path) -> Run:
    """Runs a DAG on a broker's claim."""
    volumes = [{"broker": "0", "path": str(disk.root), "connection": disk.conn_id}]
    policy = tmp_path / "policy.yaml"
    policy.write_text(yaml.safe_dump({"volumes": volumes, "topics": {"*": EXPIRED}}))

    def run(dag: str, **conf: Any) -> Any:
        given = bag.defaults[dag] | {"policy": str(policy), "folder": str(runs)}
        given = {name: one for name, one in given.items() if name in bag.defaults[dag]}
        given |= {"need_approval": False} if "need_approval" in given else {}
        ended = bag.dags[dag].test(run_conf=given | conf, logical_date=None)
        assert str(ended.state) == "success", states(ended)
        return ended

    return run


def test_dags_that_repair_and_look_up(run: Run, runs: Path, disk: Disk) -> None:
    every_dag.repair_and_look_up(run, runs, [disk.real / "data"])


def test_dags_that_roll_and_delete(run: Run, runs: Path, disk: Disk) -> None:
    every_dag.roll_and_delete(run, runs, [disk.real / "data"])


def test_the_dag_that_converts(run: Run, disk: Disk) -> None:
    every_dag.convert(run, {"0": disk.real / "data"}, canary="0")
