"""The stand-in for a kubelet under a real control plane: Jobs on claims, their logs and exec, and each fault on demand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import requests

from tools.kube.control_plane import kubeconfig
from tools.kube.lab import IMAGE, Lab, until

pytestmark = [
    pytest.mark.full(5),
    pytest.mark.root("runs containers in namespaces"),
]
PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"


def job(name: str, *words: str, claim: str = "", image: str = IMAGE, **spec: Any) -> dict[str, Any]:
    """A Job of one pod that runs once."""
    container: dict[str, Any] = {"name": "main", "image": image, "command": list(words)}
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "containers": [container],
        **spec,
    }
    if claim:
        container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
        pod["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return {"metadata": {"name": name}, "spec": {"backoffLimit": 0, "template": {"spec": pod}}}


def pod_of(lab: Lab, name: str) -> dict[str, Any] | None:
    """The pod of a Job."""
    found = lab.api.get(PODS, labelSelector=f"job-name={name}")["items"]
    return found[0] if found else None


def in_phase(lab: Lab, name: str, *phases: str) -> dict[str, Any]:
    """Wait for a phase of a Job's pod."""

    def ask() -> dict[str, Any] | None:
        pod = pod_of(lab, name)
        return pod if pod and pod["status"].get("phase") in phases else None

    return until(ask)


def node_of(lab: Lab, pod: dict[str, Any]) -> Any:
    return lab.nodes[pod["spec"]["nodeName"]].pod("default", pod["metadata"]["name"])


def events(lab: Lab, pod: dict[str, Any]) -> list[str]:
    about = f"involvedObject.uid={pod['metadata']['uid']}"
    found = lab.api.get("/api/v1/namespaces/default/events", fieldSelector=about)["items"]
    return [f"{one['reason']}: {one['message']}" for one in found]


@pytest.fixture(scope="module")
def client(lab: Lab) -> Any:
    """The Python client, as Airflow's hook uses it."""
    kubernetes = pytest.importorskip("kubernetes")
    made = kubernetes.config.new_client_from_config_dict(kubeconfig(lab.api))
    return kubernetes.client.CoreV1Api(made)


def volume(lab: Lab, folder: Path, name: str, **more: Any) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    modes = more.pop("modes", ("ReadWriteOnce",))
    lab.volume(name, folder, modes=modes, **more)
    lab.claim(name, name, modes=modes)


def test_a_job_writes_to_its_claim_and_its_log_is_read(
    lab: Lab, client: Any, tmp_path: Path
) -> None:
    volume(lab, tmp_path / "disk", "disk", node="node-1")
    lab.api.post(
        JOBS,
        job("writes", "sh", "-c", "hostname | tee /data/written; kafkats --version", claim="disk"),
    )
    pod = in_phase(lab, "writes", "Succeeded", "Failed")
    assert pod["status"]["phase"] == "Succeeded", pod["status"]
    assert pod["spec"]["nodeName"] == "node-1"
    name = pod["metadata"]["name"]
    assert (tmp_path / "disk/written").read_text() == f"{name}\n"
    told = client.read_namespaced_pod_log(
        name, "default", follow=True, timestamps=True, _preload_content=False
    )
    said = told.data.decode()
    assert said.splitlines()[0].endswith(f"Z {name}")
    assert "kafkats, version" in said
    until(lambda: lab.api.get(f"{JOBS}/writes")["status"].get("succeeded"))


def test_a_program_is_started_in_a_pod_with_an_input(lab: Lab, client: Any) -> None:
    from kubernetes.stream import stream

    lab.api.post(
        JOBS, job("waits", "sleep", "1000", securityContext={"runAsUser": 1000, "runAsGroup": 1000})
    )
    pod = in_phase(lab, "waits", "Running")
    opened = stream(
        client.connect_get_namespaced_pod_exec, pod["metadata"]["name"], "default", container="main",
        command=["sh", "-c", "id -u; head -c 5; echo wrong >&2; exit 4"], stdin=True, stdout=True, stderr=True, tty=False,
        _preload_content=False,
    )  # fmt: skip
    opened.write_stdin("12345")
    opened.run_forever(timeout=30)
    assert opened.read_stdout() == "1000\n12345"
    assert opened.read_stderr() == "wrong\n"
    assert opened.returncode == 4
    lab.api.delete(f"{JOBS}/waits", propagationPolicy="Foreground", gracePeriodSeconds=0)
    until(lambda: pod_of(lab, "waits") is None)


def test_an_image_that_is_not_there_keeps_a_pod_pending(lab: Lab) -> None:
    lab.api.post(JOBS, job("imageless", "true", image="registry.example/none"))
    pod = until(
        lambda: (one := pod_of(lab, "imageless")) and "containerStatuses" in one["status"] and one
    )
    waiting = pod["status"]["containerStatuses"][0]["state"]["waiting"]
    assert (pod["status"]["phase"], waiting["reason"]) == ("Pending", "ImagePullBackOff")
    assert any("Failed to pull image" in one for one in events(lab, pod))


def test_a_pod_for_no_node_is_pending_with_the_scheduler_s_reason(lab: Lab) -> None:
    lab.api.post(JOBS, job("nowhere", "true", nodeSelector={"zone": "none"}))
    pod = until(lambda: pod_of(lab, "nowhere"))
    told = until(lambda: [one for one in events(lab, pod) if one.startswith("FailedScheduling")])
    assert "didn't match Pod's node affinity/selector" in told[0]


@pytest.mark.parametrize("how", ["evicted", "killed for memory"])
def test_a_pod_is_ended_from_outside(lab: Lab, how: str) -> None:
    name = how.split()[0]
    lab.api.post(JOBS, job(name, "sleep", "1000"))
    pod = in_phase(lab, name, "Running")
    running = node_of(lab, pod)
    running.fail(
        "Evicted", "The node was low on resource: ephemeral-storage."
    ) if name == "evicted" else running.kill()
    status = in_phase(lab, name, "Failed")["status"]
    if name == "evicted":
        assert status["reason"] == "Evicted"
    else:
        ended = status["containerStatuses"][0]["state"]["terminated"]
        assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)
    until(lambda: lab.api.get(f"{JOBS}/{name}")["status"].get("failed"))


def test_a_disk_that_another_node_holds_is_not_mounted(lab: Lab, tmp_path: Path) -> None:
    volume(lab, tmp_path / "cloud", "cloud")
    lab.api.post(JOBS, job("holds", "sleep", "1000", claim="cloud", nodeName="node-0"))
    in_phase(lab, "holds", "Running")
    lab.api.post(JOBS, job("wants", "true", claim="cloud", nodeName="node-1"))
    pod = until(lambda: pod_of(lab, "wants"))
    told = until(lambda: [one for one in events(lab, pod) if one.startswith("FailedAttachVolume")])
    assert "Multi-Attach error" in told[0]
    lab.api.delete(f"{JOBS}/holds", propagationPolicy="Background")
    in_phase(lab, "wants", "Succeeded")


def test_a_volume_of_one_pod_alone_is_told_by_the_scheduler(lab: Lab, tmp_path: Path) -> None:
    volume(lab, tmp_path / "one", "one", modes=("ReadWriteOncePod",))
    lab.api.post(JOBS, job("first", "sleep", "1000", claim="one"))
    in_phase(lab, "first", "Running")
    lab.api.post(JOBS, job("second", "true", claim="one"))
    pod = until(lambda: pod_of(lab, "second"))
    told = until(lambda: [one for one in events(lab, pod) if one.startswith("FailedScheduling")])
    assert "ReadWriteOncePod" in told[0]


def test_quota_and_role_are_the_server_s_own(lab: Lab) -> None:
    lab.api.post("/api/v1/namespaces", {"metadata": {"name": "small"}})
    lab.api.post(
        "/api/v1/namespaces/small/resourcequotas",
        {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "0"}}},
    )
    until(
        lambda: (
            "hard" in lab.api.get("/api/v1/namespaces/small/resourcequotas/few").get("status", {})
        )
    )
    made = {"metadata": {"name": "one"}, "spec": {"containers": [{"name": "main", "image": IMAGE}]}}
    with pytest.raises(requests.HTTPError, match="exceeded quota"):
        lab.api.post("/api/v1/namespaces/small/pods", made)
    lab.api.post("/api/v1/namespaces/small/serviceaccounts", {"metadata": {"name": "nobody"}})
    with pytest.raises(requests.HTTPError, match="forbidden"):
        lab.plane.account("small", "nobody").get("/api/v1/namespaces/small/pods")


def test_pods_outlive_a_restart_of_the_api_server(lab: Lab) -> None:
    lab.api.post(JOBS, job("outlives", "sh", "-c", "sleep 8; echo over"))
    in_phase(lab, "outlives", "Running")
    lab.plane.stop_api(kill=True)
    lab.plane.start_api()
    assert in_phase(lab, "outlives", "Succeeded", "Failed")["status"]["phase"] == "Succeeded"


def test_a_lost_node_is_told_by_its_conditions(lab: Lab) -> None:
    lab.api.post(JOBS, job("lost", "sleep", "1000", nodeName="node-0"))
    in_phase(lab, "lost", "Running")
    lab.nodes["node-0"].lose()

    def unknown() -> bool:
        conditions = lab.api.get("/api/v1/nodes/node-0")["status"]["conditions"]
        return any((one["type"], one["status"]) == ("Ready", "Unknown") for one in conditions)

    until(unknown)
    lab.nodes["node-0"].find_again()
    until(lambda: not unknown())
