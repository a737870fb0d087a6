"""A stand-in for the kubelet of a node: registers it, runs the pods that are bound to it, and fails on demand."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import requests

from tools.kube.containers import Image
from tools.kube.control_plane import MERGE, Api, Json
from tools.kube.pods import Node, Pod, Running, now
from tools.kube.streams import Server
from tools.ports import free_ports

BEAT_S: Final = 2.0
_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_CAPACITY: Final = {"cpu": "8", "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi"}


class Kubelet:
    """A node. `images` are known by name; a pod with any other waits in ImagePullBackOff.

    What a test may do to it: `pod(namespace, name)` gives a running pod, with `fail` (an eviction) and `kill` (out of memory);
    `lose` stops the node's heartbeat and everything on it, and `find_again` has it back. `disks` gives it folders of its own at
    paths that hostPath and local volumes name.
    """

    def __init__(self, api: Api, name: str, folder: Path, images: Mapping[str, Image]) -> None:
        self.api, self.name, self.disks = api, name, dict[str, Path]()
        self._folder = folder
        self._node = Node(api, folder, images, self.disks, self._event)
        folder.mkdir(parents=True, exist_ok=True)
        self._pods: dict[str, Pod] = {}
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self._certificate, self._key = make_certificate(folder, name)

    def __enter__(self) -> Kubelet:
        self.find_again()
        return self

    def __exit__(self, *_: object) -> None:
        self.lose()

    def find_again(self) -> None:
        """Start, or start again after `lose`."""
        self._over.clear()
        (self.port,) = free_ports(1)
        self._server = Server(self.port, self._certificate, self._key, self._find)
        self._register()
        self._threads = [
            threading.Thread(target=one, daemon=True) for one in (self._beat, self._watch)
        ]
        for one in self._threads:
            one.start()

    def lose(self) -> None:
        """Stop as if the machine had lost its power: no heartbeat, no answer, all processes are gone."""
        self._over.set()
        for pod in self._pods.values():
            pod.lost.set()
        for pod in self._pods.values():
            pod.join(30)
        for one in self._threads:
            one.join(1)
        self._server.close()
        self._pods.clear()

    def pod(self, namespace: str, name: str) -> Pod | None:
        """Return a pod that it runs, or that has ended here and is not deleted."""
        for pod in self._pods.values():
            meta = pod.pod["metadata"]
            if (meta["namespace"], meta["name"]) == (namespace, name) and pod.is_alive():
                return pod
        return None

    def _find(self, namespace: str, name: str, container: str) -> Running | None:
        pod = self.pod(namespace, name)
        return pod.find(container) if pod else None

    def _register(self) -> None:
        labels = {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
        }
        self._put(
            "/api/v1/nodes",
            {"kind": "Node", "apiVersion": "v1", "metadata": {"name": self.name, "labels": labels}},
        )
        self._say()
        self._put(
            _LEASES,
            {
                "kind": "Lease",
                "apiVersion": "coordination.k8s.io/v1",
                "metadata": {"name": self.name},
            },
        )
        self._renew()

    def _put(self, path: str, body: Json) -> None:
        try:
            self.api.post(path, body)
        except requests.HTTPError as error:
            if error.response is None or error.response.status_code != 409:
                raise

    def _say(self) -> None:
        address = [
            {"type": "InternalIP", "address": "127.0.0.1"},
            {"type": "Hostname", "address": self.name},
        ]
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "",
            "lastHeartbeatTime": now(),
        }
        self.api.patch(
            f"/api/v1/nodes/{self.name}/status",
            {
                "status": {
                    "addresses": address,
                    "capacity": _CAPACITY,
                    "allocatable": _CAPACITY,
                    "conditions": [ready],
                    "daemonEndpoints": {"kubeletEndpoint": {"Port": self.port}},
                }
            },
        )

    def _renew(self) -> None:
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": self.name, "leaseDurationSeconds": 8, "renewTime": at}
        self.api.patch(f"{_LEASES}/{self.name}", {"spec": spec}, MERGE)

    def _beat(self) -> None:
        """Renew the lease; the node's status from time to time, since a controller may have called it lost."""
        while not self._over.wait(BEAT_S):
            with suppress(requests.RequestException):
                self._renew()
                self._say()

    def _watch(self) -> None:
        mine = {"fieldSelector": f"spec.nodeName={self.name}"}
        while not self._over.is_set():
            with suppress(requests.RequestException, OSError):
                found = self.api.get("/api/v1/pods", **mine)
                for pod in found["items"]:
                    self._take(pod)
                self._forget({pod["metadata"]["uid"] for pod in found["items"]})
                version = found["metadata"]["resourceVersion"]
                for event in self.api.watch(
                    "/api/v1/pods", resourceVersion=version, timeoutSeconds="20", **mine
                ):
                    if self._over.is_set():
                        return
                    if event["type"] in ("ADDED", "MODIFIED"):
                        self._take(event["object"])
                    elif event["type"] == "DELETED":
                        self._gone(event["object"]["metadata"]["uid"])
                    else:
                        break
            self._over.wait(0.2)

    def _take(self, pod: Json) -> None:
        uid = pod["metadata"]["uid"]
        if uid in self._pods:
            self._pods[uid].changed(pod)
        elif pod["status"].get("phase") not in ("Succeeded", "Failed"):
            shutil.rmtree(self._folder / uid, ignore_errors=True)
            self._pods[uid] = Pod(self._node, pod)
            self._pods[uid].start()
        elif "deletionTimestamp" in pod["metadata"]:
            meta = pod["metadata"]
            with suppress(requests.RequestException):
                self.api.delete(
                    f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}",
                    gracePeriodSeconds=0,
                )

    def _forget(self, known: set[str]) -> None:
        for uid in self._pods.keys() - known:
            self._gone(uid)

    def _gone(self, uid: str) -> None:
        """End a pod whose object is gone, as after a forced deletion."""
        if pod := self._pods.pop(uid, None):
            pod.lost.set()

    def _event(self, pod: Json, kind: str, reason: str, message: str) -> None:
        meta, at = pod["metadata"], now()
        about = {
            "kind": "Pod",
            "apiVersion": "v1",
            "name": meta["name"],
            "namespace": meta["namespace"],
            "uid": meta["uid"],
        }
        with suppress(requests.RequestException):
            self.api.post(
                f"/api/v1/namespaces/{meta['namespace']}/events",
                {
                    "kind": "Event", "apiVersion": "v1", "metadata": {"generateName": f"{meta['name']}."}, "involvedObject": about,
                    "type": kind, "reason": reason, "message": message, "firstTimestamp": at, "lastTimestamp": at, "count": 1,
                    "source": {"component": "kubelet", "host": self.name},
                },
            )  # fmt: skip


def make_certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Make a certificate and its key for the HTTPS API of a node."""
    certificate, key = folder / "node.crt", folder / "node.key"
    made = ["-keyout", str(key), "-out", str(certificate), "-subj", f"/CN={name}"]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", *made],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate, key
