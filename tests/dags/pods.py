"""A Kubernetes of this machine with a broker's volume, as Airflow's workers see it: by the Role of deploy/ alone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from kafkats_airflow.jobs.pod_job import REQUEST
from requests import HTTPError

from kafkats.detached.jobs import digest_of
from tests.contained import lab_or_skip
from tests.dags.hosts import NEW, WRONG, Asked, asked, damaged
from tools.kube.containers import Mount
from tools.kube.control_plane import kubeconfig
from tools.kube.lab import IMAGE as MACHINE
from tools.kube.lab import Lab, until

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy" / "kubernetes"
IMAGE = f"registry.test/kafkats@sha256:{'1' * 64}"
PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
GATE = """
import os, time
if os.path.exists("/disk/gate"):
    import kafkats.detached.working as working
    call = working.Stoppable.__call__
    def waiting(self, unit):
        while os.path.exists("/disk/gate"):
            open("/disk/waiting", "w").close()
            time.sleep(0.05)
        return call(self, unit)
    working.Stoppable.__call__ = waiting
"""
USER = 1000
"""The user of the template and of the broker."""


def labs(folder: Path, nodes: int = 2) -> Iterator[Lab]:
    """Yield a lab whose image is as the slim one, and in which Airflow's account has the Role."""
    with lab_or_skip(folder, nodes) as lab:
        put_image(lab, folder)
        lab.api.post("/api/v1/namespaces", {"metadata": {"name": "airflow"}})
        lab.api.post(
            "/api/v1/namespaces/airflow/serviceaccounts", {"metadata": {"name": "airflow"}}
        )
        for one in yaml.safe_load_all((DEPLOY / "role.yaml").read_text()):
            kinds = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/"
            lab.api.post(kinds + one["kind"].lower() + "s", one)
        yield lab


def put_image(lab: Lab, folder: Path) -> None:
    """Add the image: its units wait as long as the file `gate` is on the volume."""
    (site := folder / "site").mkdir()
    site.chmod(0o755)
    (site / "sitecustomize.py").write_text(GATE)
    machine = lab.images[MACHINE]
    mounts = (*machine.mounts, Mount(site, "/site", True))
    environment = {**machine.environment, "PYTHONPATH": "/site"}
    lab.images[IMAGE] = machine._replace(mounts=mounts, environment=environment)


def connection(lab: Lab, volumes: dict[str, str], **extra: Any) -> str:
    """Return a connection of Airflow's account, as JSON."""
    account = lab.plane.account("airflow", "airflow")
    given = {
        "kube_config": json.dumps(kubeconfig(account)), "namespace": "default", "kafkats_volumes": volumes,
        "kafkats_image": IMAGE,
    }  # fmt: skip
    return json.dumps({"conn_type": "kubernetes", "extra": given | extra})


def broker_pod(lab: Lab, name: str, claim: str) -> None:
    """Run a pod that mounts a claim, as a broker's does."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
    mounted = {"name": "data", "mountPath": "/data"}
    container = {
        "name": "kafka",
        "image": IMAGE,
        "command": ["sleep", "1000"],
        "volumeMounts": [mounted],
    }
    spec = {"containers": [container], "volumes": [volume], "automountServiceAccountToken": False}
    lab.api.post(PODS, {"metadata": {"name": name}, "spec": spec})
    until(lambda: lab.api.get(f"{PODS}/{name}")["status"].get("phase") == "Running")


class Disk(NamedTuple):
    """A claim with a broker's log directory, and its real folder. `conn_id` reaches it."""

    lab: Lab
    claim: str
    real: Path
    conn_id: str

    @property
    def root(self) -> Path:
        """The log directory as a pod sees it."""
        return Path("/disk/data")

    @property
    def wrong(self) -> Path:
        return self.real / "data" / WRONG

    @property
    def gate(self) -> Path:
        return self.real / "gate"

    @property
    def waiting(self) -> Path:
        """There when a unit waits at the gate."""
        return self.real / "waiting"

    def connection(self, **extra: Any) -> str:
        """Return the connection, as JSON."""
        return connection(self.lab, {"/disk": self.claim}, **extra)

    def pod(self, one: Asked) -> Any:
        """Return the newest pod of a request, None if there is none."""
        label = f"{REQUEST}={digest_of(one.task.request.id)}"
        found = self.lab.api.get(PODS, labelSelector=label)["items"]
        found.sort(key=lambda pod: pod["metadata"]["creationTimestamp"])
        return found[-1] if found else None

    def is_gone(self, one: Asked) -> bool:
        """Return whether a request has no pod."""
        return self.pod(one) is None

    def running(self, one: Asked) -> Any:
        """Wait for the pod of a request, and return the one that its node runs."""
        pod = until(
            lambda: (p := self.pod(one)) and p["status"].get("phase") == "Running" and p, 120
        )
        return self.lab.nodes[pod["spec"]["nodeName"]].pod("default", pod["metadata"]["name"])

    def asked(self, runs: Path, **fields: Any) -> Asked:
        """Return a request of its own for this claim: that of another test may still be tried."""
        named = {"id": f"d/{self.claim}/{fields['verb']}/0"}
        return asked(runs, self.conn_id, kind="kubernetes", **named | fields)


def disk(
    lab: Lab, real: Path, monkeypatch: pytest.MonkeyPatch, of: str = NEW, **volume: Any
) -> Disk:
    """Make a claim with a damaged log directory, and a connection to it."""
    name = f"data-{real.name}"
    damaged(real / "data", of)
    for one in [real, *real.rglob("*")]:
        os.chown(one, USER, USER)
    modes = volume.pop("modes", ("ReadWriteOnce",))
    lab.volume(name, real, modes=modes, **volume)
    lab.claim(name, name, modes=modes)
    made = Disk(lab, name, real, name.replace("-", "_"))
    monkeypatch.setenv(f"AIRFLOW_CONN_{made.conn_id.upper()}", made.connection())
    return made


def removed(lab: Lab) -> None:
    """Remove all Jobs and pods, and wait until they are gone."""
    for one in lab.api.get(JOBS)["items"]:
        lab.api.delete(f"{JOBS}/{one['metadata']['name']}", propagationPolicy="Background")
    for one in lab.api.get(PODS)["items"]:
        with suppress(HTTPError):  # it is gone by now
            lab.api.delete(f"{PODS}/{one['metadata']['name']}", gracePeriodSeconds=0)
    until(lambda: not lab.api.get(PODS)["items"])
