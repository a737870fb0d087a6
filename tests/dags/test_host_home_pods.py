"""Requests in pods under a real control plane, by Airflow's hook and the Role of deploy/: each is done once, whatever ends its pod.

Pods that do not start, and what the server refuses: tests/dags/test_pod_host.py.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.sdk.exceptions import AirflowTaskTimeout, TaskDeferred
from kafkats_airflow.jobs import host_home, pod_state
from kafkats_airflow.jobs.hosts import Unreached
from kafkats_airflow.jobs.pod_state import PodFailed, PodRefused
from kafkats_airflow.jobs.waiting import HostTrigger

from kafkats.errors import KafkatsError
from tests import loops
from tests.dags import hosts, pods
from tests.dags.hosts import Asked
from tests.dags.pods import JOBS, PODS, Disk
from tests.dags.runs import REBUILD
from tools.kube.lab import Lab, until

pytestmark = [
    pytest.mark.root("runs containers in namespaces"),
    pytest.mark.full(20),
]
_NUMBERS = count()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    yield from pods.labs(tmp_path_factory.mktemp("lab"))


@pytest.fixture
def make(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Disk]]:
    """Makes claims, each with a damaged log directory."""

    def made(**volume: Any) -> Disk:
        return pods.disk(lab, tmp_path / f"broker{next(_NUMBERS)}", monkeypatch, **volume)

    yield made
    pods.removed(lab)


@pytest.fixture
def disk(make: Callable[..., Disk]) -> Disk:
    return make()


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    (runs := tmp_path / "runs").mkdir()
    return runs


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_home, "PATIENCE_SECONDS", 120.0)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_home, "PATIENCE_SECONDS", 0.0)


def plan(disk: Disk, runs: Path) -> Asked:
    return disk.asked(runs, **hosts.plan(disk.root, runs))


def under_way(disk: Disk, runs: Path) -> tuple[Asked, Any]:
    """Plan, begin to apply, and return that request when its units wait at the gate, with its pod. Who began it asks no more."""
    disk.gate.unlink(missing_ok=True)
    with pytest.MonkeyPatch.context() as patch:  # a pod starts while a worker asks
        patch.setattr(host_home, "PATIENCE_SECONDS", 120.0)
        planned = plan(disk, runs).run()
        disk.gate.touch()
        first = disk.asked(runs, **hosts.apply(planned, runs))
        ended: list[BaseException | None] = []
        thread = threading.Thread(target=lambda: ended.append(run_out(first)), daemon=True)
        thread.start()
        until(lambda: disk.waiting.exists() or ended, 120)
        assert disk.waiting.exists(), ended
    disk.waiting.unlink()
    vars(first.home)["_looked"] = reaches_nothing
    one = again(disk, first)
    return one, disk.running(one)


def run_out(one: Asked) -> BaseException | None:
    try:
        return one.home.run(one.task)
    except (KafkatsError, TaskDeferred) as e:
        return e


def reaches_nothing(*_: Any) -> None:
    raise Unreached("the worker is off")


def again(disk: Disk, one: Asked) -> Asked:
    """Return the next try of a request."""
    content = one.task.request.model_dump(mode="json", exclude_defaults=True)
    return disk.asked(one.task.folder, **content | {"made_ms": one.task.request.made_ms + 1})


def event_of(trigger: Any) -> Any:
    async def first() -> Any:
        return await anext(trigger.run())

    return loops.run(first()).payload


def test_a_plan_is_made_and_applied_in_pods(disk: Disk, runs: Path, lab: Lab) -> None:
    planned = plan(disk, runs).run()
    assert planned.plan
    assert planned.plan.totals["files"] == 1
    applied = disk.asked(runs, **hosts.apply(planned, runs)).run()
    assert applied.runs[0].outcomes == {"done": 1}
    assert disk.wrong.stat().st_uid == pods.USER
    jobs = lab.api.get(JOBS)["items"]
    until(lambda: all(one["status"].get("succeeded") for one in lab.api.get(JOBS)["items"]))
    assert len(jobs) == 2
    secret = json.loads(
        json.loads(os.environ[f"AIRFLOW_CONN_{disk.conn_id.upper()}"])["extra"]["kube_config"]
    )
    token = secret["users"][0]["user"]["token"]
    told = json.dumps(jobs) + "".join(
        path.read_bytes().decode(errors="replace") for path in runs.rglob("*") if path.is_file()
    )
    assert token not in told


def test_one_run_of_a_dag_repairs_two_brokers_and_holds_no_worker_while_it_waits(
    bag: Any, make: Callable[..., Disk], runs: Path, impatient: None
) -> None:
    disks = [make(node="node-0"), make(node="node-1")]
    volumes = [
        {"broker": one.claim, "path": str(one.root), "connection": one.conn_id} for one in disks
    ]
    policy = runs / "policy.yaml"
    policy.write_text(yaml.safe_dump({"volumes": volumes}))
    conf = REBUILD | {"policy": str(policy), "folder": str(runs), "need_approval": False}
    run = bag.dags["rebuild_time_indexes"].test(run_conf=conf, logical_date=None)
    assert run.state == "success"
    assert all(one.wrong.exists() for one in disks)
    [report] = runs.glob("rebuild_time_indexes/*/report.json")
    assert json.loads(report.read_bytes())["files_proved"] == 2


def test_a_broker_s_pod_is_respected(disk: Disk, runs: Path, lab: Lab) -> None:
    pods.broker_pod(lab, "kafka-0", disk.claim)
    planned = plan(disk, runs).run()  # reading beside it is fine, on its node
    applying = disk.asked(runs, **hosts.apply(planned, runs))
    with pytest.raises(PodRefused, match="pod kafka-0 mounts"):
        applying.run()
    assert not disk.wrong.exists()
    lab.api.delete(f"{PODS}/kafka-0", gracePeriodSeconds=0)
    until(
        lambda: (
            not [one for one in lab.api.get(PODS)["items"] if one["metadata"]["name"] == "kafka-0"]
        )
    )
    assert again(disk, applying).run().runs[0].outcomes == {"done": 1}


@pytest.mark.parametrize("how", ["Evicted", "OOMKilled"])
def test_a_pod_that_is_ended_in_mid_apply_is_finished_by_the_next_try(
    disk: Disk, runs: Path, how: str
) -> None:
    one, running = under_way(disk, runs)
    if how == "Evicted":
        running.fail("Evicted", "The node was low on resource: memory.")
    else:
        running.kill()
    until(lambda: (pod := disk.pod(one)) and pod["status"]["phase"] == "Failed")
    with pytest.raises(PodFailed, match=how):
        one.resumed()
    disk.gate.unlink()
    result = again(disk, one).run()
    assert result.runs and result.runs[0].outcomes == {"done": 1}, result
    assert disk.wrong.exists()


def test_the_next_try_attaches_and_starts_no_second(
    disk: Disk, runs: Path, lab: Lab, impatient: None
) -> None:
    one, _ = under_way(disk, runs)
    uid = disk.pod(one)["metadata"]["uid"]
    second = again(disk, one)
    with pytest.raises(TaskDeferred) as waits:
        second.run()
    assert disk.pod(one)["metadata"]["uid"] == uid
    disk.gate.unlink()
    assert event_of(waits.value.trigger) == {"why": "ended"}
    assert second.resumed().runs[0].outcomes == {"done": 1}
    until(lambda: disk.pod(one)["status"]["phase"] == "Succeeded")


def test_a_restart_of_the_api_server_ends_no_work(disk: Disk, runs: Path, lab: Lab) -> None:
    one, _ = under_way(disk, runs)
    lab.plane.stop_api(kill=True)
    lab.plane.start_api()
    disk.gate.unlink()
    assert again(disk, one).run().runs[0].outcomes == {"done": 1}


def test_work_for_which_nobody_asks_stops_and_its_pod_ends(
    disk: Disk, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = disk.connection(kafkats_silence_seconds=60)
    monkeypatch.setenv(f"AIRFLOW_CONN_{disk.conn_id.upper()}", given)
    one, _ = under_way(disk, runs)
    with monkeypatch.context() as patch:
        patch.setattr(host_home.HostHome, "_looked", reaches_nothing)  # who began it asks no more
        time.sleep(75)
        disk.gate.unlink()
        until(lambda: (pod := disk.pod(one)) and pod["status"]["phase"] == "Succeeded", 120)
    assert not disk.wrong.exists()
    assert again(disk, one).run().runs[0].outcomes == {"done": 1}


def test_a_person_and_a_time_limit_end_the_pod_of_a_task_that_waits(
    disk: Disk, runs: Path, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for how in ("person", "limit"):
        one, _ = under_way(disk, runs)
        second = again(disk, one)
        with pytest.raises(TaskDeferred) as waits:
            second.run()
        _, given = waits.value.trigger.serialize()
        if how == "person":
            loops.run(HostTrigger(**given).on_kill())
        else:
            assert event_of(HostTrigger(**given | {"until_ms": 1})) == {"why": "timeout"}
            with pytest.raises(AirflowTaskTimeout):
                second.resumed("timeout")
            second.home.end()  # as the operator does
        until(partial(disk.is_gone, one))
        assert not disk.wrong.exists()
    disk.gate.unlink()
    monkeypatch.setattr(host_home, "PATIENCE_SECONDS", 120.0)
    assert again(disk, one).run().runs[0].outcomes == {"done": 1}


def test_a_lost_node_gets_no_second_pod_until_it_is_known_to_be_off(
    make: Callable[..., Disk], runs: Path, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_state, "ENDS_SECONDS", 0.0)
    disk = make()
    one, _ = under_way(disk, runs)
    pod = disk.pod(one)
    name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
    lab.nodes[node].lose()
    lab.api.delete(f"{PODS}/{name}", gracePeriodSeconds=1)  # as the server does after five minutes
    with pytest.raises(KafkatsError) as told:
        until(lambda: again(disk, one).run(), 30)
    assert "may still write" in str(told.value)
    assert disk.pod(one)["metadata"]["name"] == name
    lab.nodes[node].find_again()
