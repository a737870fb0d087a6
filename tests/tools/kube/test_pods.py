"""The status of a pod that the stand-in for a kubelet runs, and the answers of its HTTPS API. No API server is asked."""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.privileges import refuse_without
from tools.kube.containers import this_machine
from tools.kube.pods import Node, Pod

pytestmark = pytest.mark.root("runs containers in namespaces")
IMAGE = "image"


class Api:
    """Keeps the statuses that it gets. There is one ConfigMap, `one`."""

    def __init__(self) -> None:
        self.statuses: list[dict[str, Any]] = []
        self.deleted: list[str] = []

    def get(self, path: str) -> dict[str, Any]:
        if path.endswith("/configmaps/one"):
            return {"data": {"key": "value"}}
        answer = requests.Response()
        answer.status_code = 404
        raise requests.HTTPError("404", response=answer)

    def patch(self, path: str, body: dict[str, Any]) -> None:
        self.statuses.append(body["status"])

    def delete(self, path: str, **_: object) -> None:
        self.deleted.append(path)


def script(text: str, **more: object) -> dict[str, Any]:
    return {"name": "main", "image": IMAGE, "command": ["sh", "-c", text], **more}


@contextmanager
def running(
    folder: Path,
    *containers: dict[str, Any],
    phase: str = "",
    disks: dict[str, Path] | None = None,
    **spec: Any,
) -> Generator[tuple[Pod, Api]]:
    if os.getuid():
        refuse_without("runs containers in namespaces")
    api = Api()
    spec = {"nodeName": "node", "restartPolicy": "Never", "containers": [*containers], **spec}
    given = {
        "metadata": {"namespace": "default", "name": "one", "uid": "1"},
        "spec": spec,
        "status": {"phase": phase} if phase else {},
    }
    events: list[str] = []
    images = {IMAGE: this_machine(folder / "image")}
    node = Node(api, folder, images, disks or {}, lambda *words: events.append(words[2]))
    pod = Pod(node, given)
    pod.events = events
    pod.start()
    try:
        yield pod, api
    finally:
        pod.lost.set()
        pod.join(30)
        assert not pod.is_alive()


def phase(api: Api, wanted: str) -> dict[str, Any]:
    end = time.monotonic() + 60
    while not (api.statuses and api.statuses[-1]["phase"] == wanted):
        assert time.monotonic() < end, api.statuses
        time.sleep(0.02)
    return api.statuses[-1]


def ended(status: dict[str, Any]) -> tuple[int, str, str]:
    told = status["containerStatuses"][0]["state"]["terminated"]
    return told["exitCode"], told["reason"], told.get("message", "")


@pytest.mark.parametrize(
    ("text", "wanted", "told"),
    [
        ("echo over >/dev/termination-log", "Succeeded", (0, "Completed", "over\n")),
        ("exit 3", "Failed", (3, "Error", "")),
    ],
)
def test_a_pod_ends_as_its_container_does(
    tmp_path: Path, text: str, wanted: str, told: object
) -> None:
    with running(tmp_path, script(text)) as (_, api):
        assert ended(phase(api, wanted)) == told


def test_an_init_container_runs_once_and_its_container_again_and_again(tmp_path: Path) -> None:
    mount = {"volumeMounts": [{"name": "kept", "mountPath": "/kept"}]}
    init = script("echo init >>/kept/starts", **mount) | {"name": "init"}
    main = script("cat /kept/starts; echo main >>/kept/starts; exit 1", **mount)
    spec: dict[str, Any] = {
        "initContainers": [init],
        "volumes": [{"name": "kept", "emptyDir": {}}],
        "restartPolicy": "Always",
    }
    with running(tmp_path, main, **spec) as (pod, api):
        end = time.monotonic() + 60
        while pod.main[0].restarts < 2 and time.monotonic() < end:
            time.sleep(0.05)
        states = [one["containerStatuses"][0] for one in api.statuses]
        assert "CrashLoopBackOff" in {
            one["state"].get("waiting", {}).get("reason") for one in states
        }
        log = tmp_path / "1/main/1/log"
        assert [line.split(" ", 3)[3] for line in log.read_text().splitlines()] == ["init", "main"]


def test_a_deleted_pod_gets_its_grace_period(tmp_path: Path) -> None:
    text = "trap 'echo asked; exit 0' TERM; while true; do sleep 0.1; done"
    with running(tmp_path, script(text)) as (pod, api):
        phase(api, "Running")
        log = pod.main[0].container.log
        at = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
        pod.changed({**pod.pod, "metadata": {**pod.pod["metadata"], **at}})
        end = time.monotonic() + 25
        said = ""
        while not api.deleted and time.monotonic() < end:
            said = log.read_text() if log.exists() else said
            time.sleep(0.01)
        assert api.deleted == [pod.path]
        assert phase(api, "Succeeded" if "asked" in said else "Running")


def test_evicted_and_killed_for_memory(tmp_path: Path) -> None:
    for number, how in enumerate(("Evicted", "OOMKilled")):
        (folder := tmp_path / str(number)).mkdir()
        with running(folder, script("sleep 100")) as (pod, api):
            phase(api, "Running")
            pod.fail(how, "short of disk") if how == "Evicted" else pod.kill()
            status = phase(api, "Failed")
            assert status.get("reason") == (how if how == "Evicted" else None)
            assert ended(status)[:2] == (137, how if how == "OOMKilled" else "Error")


def test_a_pod_waits_for_its_image_and_for_its_configuration(tmp_path: Path) -> None:
    (first := tmp_path / "1").mkdir()
    (second := tmp_path / "2").mkdir()
    with running(first, script("true") | {"image": "none"}) as (pod, api):
        status = phase(api, "Pending")
        while not status["containerStatuses"][0]["state"]["waiting"]["reason"].startswith(
            "ImagePull"
        ):
            status = api.statuses[-1]
        assert pod.events == ["Failed"]
    of = {"volumes": [{"name": "given", "configMap": {"name": "two"}}]}
    with running(second, script("true"), **of) as (pod, api):
        assert (
            phase(api, "Pending")["containerStatuses"][0]["state"]["waiting"]["reason"]
            == "ContainerCreating"
        )
        assert pod.events == ["FailedMount"]


def test_configuration_comes_as_files_and_as_environment(tmp_path: Path) -> None:
    key = {"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "one", "key": "key"}}}
    name = {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    both = {"name": "BOTH", "value": "$(KEY) $$(KEY) $(NONE)"}
    text = """[ "$KEY$NAME$BOTH" = 'valueonevalue $(KEY) $(NONE)' ] && cat /given/key >/dev/termination-log"""
    main = script(
        text, env=[key, name, both], volumeMounts=[{"name": "given", "mountPath": "/given"}]
    )
    with running(tmp_path, main, volumes=[{"name": "given", "configMap": {"name": "one"}}]) as (
        _,
        api,
    ):
        assert ended(phase(api, "Succeeded")) == (0, "Completed", "value")


def test_a_startup_probe_is_asked_until_it_holds(tmp_path: Path) -> None:
    probe = {
        "exec": {"command": ["test", "-e", "/up"]},
        "periodSeconds": 0.1,
        "failureThreshold": 100,
    }
    with running(tmp_path, script("sleep 0.5; touch /up; sleep 100", startupProbe=probe)) as (
        _,
        api,
    ):
        phase(api, "Running")
        end = time.monotonic() + 30
        while not api.statuses[-1]["containerStatuses"][0]["ready"] and time.monotonic() < end:
            time.sleep(0.05)
        ready = [one["containerStatuses"][0]["ready"] for one in api.statuses]
        assert ready[0] is False and ready[-1] is True


def test_a_pod_that_ran_before_its_node_was_lost_is_not_run_again(tmp_path: Path) -> None:
    with running(tmp_path, script("touch /dev/termination-log"), phase="Running") as (pod, api):
        assert ended(phase(api, "Failed"))[0] == 255
        assert pod.main[0].container is None


def test_a_node_has_a_folder_of_its_own_at_a_path(tmp_path: Path) -> None:
    (disk := tmp_path / "disk").mkdir()
    main = script("touch /data/of-this-node", volumeMounts=[{"name": "data", "mountPath": "/data"}])
    volumes = [{"name": "data", "hostPath": {"path": "/no/such/path", "type": "Directory"}}]
    with running(tmp_path, main, disks={"/no/such/path": disk}, volumes=volumes) as (_, api):
        phase(api, "Succeeded")
    assert (disk / "of-this-node").exists()
