"""An API server with a broker's claim, as it was recorded: tests/dags/recorded has the answers of a real one to each test of pods.

    KAFKATS_RECORD=1 scripts/test tests/dags/test_pod_host.py      # records them again: as root, after scripts/kubernetes build

A test runs twice with --full where Kubernetes is compiled: by the recording, and on the server itself, whose answers must still lead
to the recorded requests. What a test does to the server (`Server.stage`) is done by the lab, and by nobody while the answers come
from the file. Programs in a pod run on this machine then, and see the folder of all runs. The few answers that no test can bring
about on a real server, such as that etcd is down, are put in place of others (`Server.refused`).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from difflib import unified_diff
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml
from kafkats_airflow import shipped
from requests import HTTPError

from tests.dags.pods import DEPLOY, IMAGE, USER
from tools.kube.control_plane import Api
from tools.kube.lab import Lab, until
from tools.kube.recording import Between, Recorder, Replay, about

FOLDER: Final = Path(__file__).with_name("recorded")
CLAIM: Final = "data-kafka-0"
DISK: Final = "/disk"
"""The path of the claim in a pod."""
LOGS: Final = "data 'x' \"y\" $(id);\n`id`"
RUNS: Final = "runs $(id) $(HOME) 'x'"
"""Names of a log directory, and of the folder of all runs, that no shell and no manifest may take for more than names."""
SECRET: Final = "planted-secret"


class Cluster(NamedTuple):
    """A namespace of a lab, whose files are those of one test. `api` is Airflow's account there."""

    lab: Lab
    namespace: str
    api: Api

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}"

    def pods(self, labels: str = "") -> list[Any]:
        """Return the pods, the newest last."""
        found = self.lab.api.get(f"{self.path}/pods", labelSelector=labels)["items"]
        return sorted(found, key=lambda pod: pod["metadata"]["creationTimestamp"])

    def running(self) -> Any:
        """Wait for a pod of ours to run, and return what its node runs."""
        labels = "app.kubernetes.io/managed-by=kafkats"

        def asked() -> Any:
            return [one for one in self.pods(labels) if one["status"].get("phase") == "Running"]

        [pod] = until(asked, 120)
        return self.lab.nodes[pod["spec"]["nodeName"]].pod(self.namespace, pod["metadata"]["name"])

    def broker_pod(self, *command: str, phase: str = "Running") -> None:
        """Run a pod on node-1 that mounts the claim, as a broker's does."""
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": CLAIM}}
        mounted = [{"name": "data", "mountPath": "/data"}]
        words = [*(command or ("sleep", "1000"))]
        container = {"name": "kafka", "image": IMAGE, "command": words, "volumeMounts": mounted}
        spec = {
            "nodeName": "node-1", "restartPolicy": "Never", "containers": [container], "volumes": [volume],
            "automountServiceAccountToken": False,
        }  # fmt: skip
        self.lab.api.post(f"{self.path}/pods", {"metadata": {"name": "kafka-0"}, "spec": spec})
        until(lambda: self.pods()[-1]["status"].get("phase") == phase)

    def in_phase(self, phase: str) -> None:
        until(lambda: self.pods()[-1]["status"].get("phase") == phase)


class Server(NamedTuple):
    """What a client meets at `between`. `root` is the log directory of a request, `disk` as only the test sees it."""

    between: Between
    cluster: Cluster | None
    folder: Path
    namespace: str

    @property
    def disk(self) -> Path:
        return self.folder / "disk" / LOGS

    @property
    def runs(self) -> Path:
        return self.folder / RUNS

    @property
    def root(self) -> Path:
        return Path(DISK, LOGS) if self.cluster else self.disk

    @property
    def refused(self) -> dict[str, tuple[int, str]]:
        return self.between.refused

    @property
    def asked(self) -> list[str]:
        """Every request: POST jobs, GET pods/exec."""
        return [about(one) for one in self.between.heard]

    @property
    def jobs(self) -> list[Any]:
        """Every manifest that was sent."""
        return [one["body"] for one in self.between.heard if about(one) == "POST jobs"]

    def stage(self, do: Callable[[Cluster], object]) -> None:
        """Change the real server, if there is one."""
        if self.cluster is not None:
            do(self.cluster)
        self.between.scene()

    def template(self, **pod: Any) -> str:
        """Write a template of Jobs with other fields of the pod, or other words of the container; return its path."""
        made = yaml.safe_load((shipped.KUBERNETES / "job.yaml").read_text())
        spec = made["spec"]["template"]["spec"]
        spec["containers"][0] |= {"command": pod.pop("command", spec["containers"][0]["command"])}
        (path := self.folder / "template.yaml").write_text(yaml.safe_dump(made))
        spec |= pod
        path.write_text(yaml.safe_dump(made))
        return str(path)

    def connection(self, **extra: Any) -> str:
        """Return a connection of Airflow to it, as JSON."""
        return connection(
            self.between.address,
            self.cluster.api.token if self.cluster else SECRET,
            **{"namespace": self.namespace, **extra},
        )


def connection(address: str, token: str = SECRET, **extra: Any) -> str:
    cluster = {"name": "c", "cluster": {"server": address}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [cluster], "contexts": [context],
        "users": [{"name": "u", "user": {"token": token}}],
    }  # fmt: skip
    given = {
        "kube_config": json.dumps(config), "kafkats_volumes": {DISK: CLAIM}, "kafkats_image": IMAGE,
        "password": SECRET,
    }  # fmt: skip
    return json.dumps({"conn_type": "kubernetes", "password": SECRET, "extra": given | extra})


def words(folder: Path) -> dict[str, str]:
    """Return what differs from run to run: the folder of all runs, and the same as the value of a variable."""
    runs = str(folder / RUNS)
    return {runs.replace("$", "$$"): "<runs, escaped>", runs: "<runs>"}


@contextmanager
def replayed(name: str, folder: Path) -> Generator[Server]:
    """Serve what was recorded under a name. Another request than the recorded ones is an error."""
    runs = str(folder / RUNS)

    def execute(words: list[str]) -> subprocess.Popen[bytes]:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        here = [sys.executable, "-m", "kafkats.detached", *words[1:]]
        return subprocess.Popen(here, env=os.environ | {"KAFKATS_FOLDER": runs}, **pipes)

    with Replay(FOLDER / f"{name}.jsonl", words(folder), execute) as between:
        yield Server(between, None, folder, name)
    assert not between.unlike, f"these requests were not recorded: {between.unlike}"
    assert not between.unasked, f"these requests were recorded, and not made: {between.unasked}"


@contextmanager
def real(name: str, folder: Path, lab: Lab, *, keep: bool, modes: tuple[str, ...]) -> Generator[Server]:  # fmt: skip
    """Let a client of a lab speak to its server. Its requests are recorded (`keep`), or compared with those that were."""
    (disk := folder / "disk").mkdir(exist_ok=True)
    for one in [disk, *disk.rglob("*")]:
        os.chown(one, USER, USER)
    lab.api.post("/api/v1/namespaces", {"metadata": {"name": name}})
    until(lambda: lab.api.get(f"/api/v1/namespaces/{name}/serviceaccounts")["items"])
    for one in yaml.safe_load_all((DEPLOY / "role.yaml").read_text()):
        kinds = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{name}/"
        lab.api.post(kinds + one["kind"].lower() + "s", one)
    lab.volume(f"disk-{name}", disk, modes=modes)
    lab.claim(CLAIM, f"disk-{name}", name, modes)
    cluster = Cluster(lab, name, lab.plane.account("airflow", "airflow"))
    file = (FOLDER if keep else folder) / f"{name}.jsonl"
    FOLDER.mkdir(exist_ok=True)
    try:
        with Recorder(lab.api, file, words(folder)) as between:
            yield Server(between, cluster, folder, name)
        if not keep:
            now, before = changes_in(file), changes_in(FOLDER / file.name)
            assert now == before, "\n".join(unified_diff(before, now, "recorded", "now", n=0))
    finally:
        _remove(cluster)


def _remove(cluster: Cluster) -> None:
    """Remove the Jobs and pods of a namespace. What else is in it ends with the lab."""
    jobs = f"/apis/batch/v1/namespaces/{cluster.namespace}/jobs"
    for one in cluster.lab.api.get(jobs)["items"]:
        cluster.lab.api.delete(f"{jobs}/{one['metadata']['name']}", propagationPolicy="Background")
    for one in cluster.pods():
        with suppress(HTTPError):  # it is gone by now
            path = f"{cluster.path}/pods/{one['metadata']['name']}"
            cluster.lab.api.delete(path, gracePeriodSeconds=0)


_NODE: Final = re.compile(r'"node-\d+"')
_ENDING: Final = re.compile(r'"affinity": \{"nodeAffinity": \{"preferred.*?"weight": 100\}\]\}\}, ')
"""The node of a pod that still ends when the next one begins."""


def changes_in(file: Path) -> list[str]:
    """Return the requests that changed something. How often a client reads, or tries again, depends on the speed of a machine,
    and on which node a pod runs, or ends, on the scheduler's choice.
    """
    found = [""]
    for line in file.read_text().splitlines():
        asked = json.loads(line).get("asked", {"method": "GET"})
        if asked["method"] == "DELETE":
            asked["body"] = None  # it names the object by its uid
        text = _ENDING.sub("", _NODE.sub('"node"', json.dumps(asked, sort_keys=True)))
        if asked["method"] != "GET" and found[-1] != text:
            found.append(text)
    return found
