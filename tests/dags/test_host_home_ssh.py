"""Hosts by SSH: real servers on loopback, each a host of its own, with its own disk and its own folder of runs."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from kafkats_airflow.jobs.spark_job import KafkatsJobOperator

from kafkats.execution.local import LocalExecutor
from kafkats.result import Result
from tests.dags import every_dag
from tests.dags.conftest import Done
from tests.dags.every_dag import EXPIRED, OLD, Run
from tests.dags.hosts import WRONG, damaged
from tests.dags.runs import REBUILD, states
from tests.spark_jobs.words import Files, run_files
from tests.sshd import ROOT, Sshd, apart, sshd

OLDER = """
import kafkats
kafkats.__version__ = "0.0.1"
from kafkats.request import Request
del Request.__pydantic_fields__["suspects"]
Request.model_rebuild(force=True)
"""
"""A sitecustomize of the host `older`: its kafkats does not know a field of requests yet."""


class Fleet(NamedTuple):
    """Hosts that see their own disk at `root`, and their own folder of runs at `runs`."""

    folder: Path
    root: Path
    runs: Path
    servers: dict[str, Sshd]

    def disk(self, name: str) -> Path:
        """Return the log directory of a host, as only the test sees it."""
        return self.folder / name / "disk" / "data"

    def kept(self, name: str) -> list[str]:
        """Return what a host still has of any run."""
        files = (self.folder / name / "runs").rglob("*")
        return [one.name for one in files if one.is_file() and "lock-" not in one.name]

    def errors(self, dag: str) -> str:
        """Return the errors that the reports of a DAG name."""
        found = (self.runs / dag).glob("*/report.json")
        return "".join(str(json.loads(one.read_bytes())["failures"]) for one in found)

    def policy(self, *others: dict[str, Any], **more: Any) -> str:
        volumes = [
            {
                "broker": name,
                "path": str(self.root),
                "connection": f"ssh_{name}",
                "owner_stopped": True,
            }
            for name in self.servers
        ]
        path = self.folder / "policy.yaml"
        path.write_text(yaml.safe_dump({"volumes": [*volumes, *others]} | more))
        return str(path)


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Fleet]]:
    """Starts hosts by name."""
    (disk := tmp_path / "disk").mkdir()
    (runs := tmp_path / "runs").mkdir()
    with ExitStack() as stack:

        def start(*names: str, of: str = "matrix-4.3.1-v2") -> Fleet:
            servers = {}
            for name in names:
                own = tmp_path / name
                damaged(own / "disk" / "data", of)
                (own / "runs").mkdir()
                inside = apart(name, (own / "disk", disk), (own / "runs", runs))
                given = {"KAFKATS_FOLDER": str(runs)}
                if name == "older":
                    (own / "sitecustomize.py").write_text(OLDER)
                    given["PYTHONPATH"] = f"{own}:{ROOT}"
                servers[name] = stack.enter_context(sshd(own / "sshd", given, inside))
                monkeypatch.setenv(f"AIRFLOW_CONN_SSH_{name.upper()}", servers[name].connection())
            return Fleet(tmp_path, disk / "data", runs, servers)

        yield start


@pytest.fixture
def spark_here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Jobs on Spark are done in this process; gives their names."""
    ran: list[str] = []

    def submitting(self: KafkatsJobOperator, files: Any, _place: Any) -> Any:
        ran.append(self.job)
        run_files(LocalExecutor(1), self.job, Files(files.request, files.result, {}))
        return Done()

    monkeypatch.setattr(KafkatsJobOperator, "submitting", submitting)
    return ran


def results(fleet: Fleet) -> list[Result]:
    """Return what came of every job, in the order of their ends."""
    found = [
        Result.model_validate_json(one.read_bytes()) for one in fleet.runs.rglob("result.json")
    ]
    return sorted(found, key=lambda one: one.ended_ms or 0)


@pytest.mark.full(30)
@pytest.mark.root("makes hosts in namespaces")
def test_one_run_repairs_two_hosts_by_ssh_and_one_volume_by_spark(
    bag: Any, fleet: Callable[..., Fleet], tmp_path: Path, spark_here: list[str]
) -> None:
    hosts = fleet("one", "two")
    third = damaged(tmp_path / "third" / "data")
    policy = hosts.policy({"broker": "three", "path": str(third), "owner_stopped": True})
    conf = REBUILD | {"policy": policy, "folder": str(hosts.runs), "need_approval": False}
    run = bag.dags["rebuild_time_indexes"].test(run_conf=conf, logical_date=None)
    assert run.state == "success"
    assert spark_here == ["plan", "apply", "verify"]
    whole = [hosts.disk("one"), hosts.disk("two"), third]
    assert len({(root / WRONG).read_bytes() for root in whole}) == 1
    [report] = hosts.runs.glob("rebuild_time_indexes/*/report.json")
    assert json.loads(report.read_bytes())["files_proved"] == 3
    did = [(one.verb, one.host) for one in results(hosts) if one.host != socket.gethostname()]
    assert sorted(did) == [
        (verb, host) for verb in ("apply", "plan", "verify") for host in ("one", "two")
    ]
    assert not hosts.kept("one")
    assert not hosts.kept("two")


@pytest.mark.full(20)
@pytest.mark.root("makes hosts in namespaces")
def test_work_that_takes_long_waits_without_a_worker(
    bag: Any, fleet: Callable[..., Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkats_airflow.jobs.host_home.PATIENCE_SECONDS", 0.0)
    waited: list[str] = []
    resumed = KafkatsJobOperator._resumed

    def resuming(self: KafkatsJobOperator, context: Any) -> Any:
        waited.append(self.job)
        return resumed(self, context)

    monkeypatch.setattr(KafkatsJobOperator, "_resumed", resuming)
    hosts = fleet("one")
    conf = REBUILD | {"policy": hosts.policy(), "folder": str(hosts.runs), "need_approval": False}
    run = bag.dags["rebuild_time_indexes"].test(run_conf=conf, logical_date=None)
    assert run.state == "success"
    assert waited == ["plan", "apply", "verify"]
    assert (hosts.disk("one") / WRONG).exists()
    states = {json.loads(one.read_bytes())["state"] for one in hosts.runs.rglob("progress-*.json")}
    assert states == {"done"}
    assert os.listdir(hosts.folder / "one" / "disk" / "data")


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """The disk of the host `full`, which has little room."""
    (disk := tmp_path / "full" / "disk").mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk], check=True)
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


@pytest.mark.full(60)
@pytest.mark.root("makes hosts in namespaces")
def test_what_is_wrong_with_some_hosts_changes_nothing_there(
    bag: Any, fleet: Callable[..., Fleet], small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host of an earlier version, one without room, one whose disk has become another broker's."""
    hosts = fleet("good", "older", "full", "moved")
    given = REBUILD | {"policy": hosts.policy(), "folder": str(hosts.runs), "need_approval": False}
    rebuild = bag.dags["rebuild_time_indexes"]

    def repaired() -> list[str]:
        assert not any(hosts.kept(name) for name in hosts.servers)
        return [name for name in hosts.servers if (hosts.disk(name) / WRONG).exists()]

    run = rebuild.test(run_conf=given | {"volumes": ["older", "good"]}, logical_date=None)
    assert states(run)["plan"] == "failed"
    assert "'ssh_older'), with kafkats 0.0.1: suspects: unknown key" in hosts.errors(run.dag_id)
    assert repaired() == []
    execute, met = KafkatsJobOperator.execute, [False]

    def meeting(self: KafkatsJobOperator, context: Any) -> Any:
        if self.job == "apply" and not met[0]:
            met[0] = True
            meta = hosts.disk("moved") / "meta.properties"
            meta.write_text(meta.read_text().replace("node.id=1", "node.id=2"))
            with (small / "filler").open("wb", buffering=0) as filler, suppress(OSError):
                while True:
                    filler.write(bytes(4096))
        return execute(self, context)

    monkeypatch.setattr(KafkatsJobOperator, "execute", meeting)
    run = rebuild.test(run_conf=given | {"volumes": ["good", "full", "moved"]}, logical_date=None)
    assert states(run)["apply"] == "failed"
    errors = hosts.errors(run.dag_id)
    assert "No space left on device" in errors
    assert "is another volume on host moved" in errors
    assert repaired() == ["good"]


@pytest.fixture
def three(fleet: Callable[..., Fleet]) -> Fleet:
    return fleet("one", "two", "three", of=OLD)


@pytest.fixture
def by_ssh(bag: Any, three: Fleet, spark_here: list[str]) -> Iterator[Run]:
    """Runs a DAG on three hosts. No job may run elsewhere, and no host keeps a file of a run."""
    policy = three.policy(topics={"*": EXPIRED})

    def run(dag: str, **conf: Any) -> Any:
        own = {"policy": policy, "folder": str(three.runs), "need_approval": False}
        given = {name: own.get(name, value) for name, value in bag.defaults[dag].items()}
        ended = bag.dags[dag].test(run_conf=given | conf, logical_date=None)
        assert str(ended.state) == "success", states(ended)
        assert not [kept for name in three.servers for kept in three.kept(name)], dag
        return ended

    yield run
    assert not spark_here
    assert {one.host for one in results(three)} == {*three.servers}


@pytest.mark.full(90)
@pytest.mark.root("makes hosts in namespaces")
def test_dags_that_repair_and_look_up_by_ssh(by_ssh: Run, three: Fleet) -> None:
    every_dag.repair_and_look_up(by_ssh, three.runs, [three.disk(name) for name in three.servers])


@pytest.mark.full(60)
@pytest.mark.root("makes hosts in namespaces")
def test_dags_that_roll_delete_and_clean_by_ssh(by_ssh: Run, three: Fleet) -> None:
    every_dag.roll_and_delete(by_ssh, three.runs, [three.disk(name) for name in three.servers])


@pytest.mark.full(90)
@pytest.mark.root("makes hosts in namespaces")
def test_the_dag_that_converts_by_ssh(by_ssh: Run, three: Fleet) -> None:
    every_dag.convert(by_ssh, {name: three.disk(name) for name in three.servers}, canary="one")
