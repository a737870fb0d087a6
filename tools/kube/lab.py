"""A control plane with some nodes, a storage class, and what a test wants to know of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final, TypeVar

from tools.kube.containers import Image, this_machine
from tools.kube.control_plane import Api, ControlPlane, Json
from tools.kube.kubelet import Kubelet

IMAGE: Final = "registry.example/kafkats@sha256:" + "0" * 64
"""The image of this machine with this clone's `kafkats`. A name by digest, as the manifests ask for."""
CLASS: Final = "local"
Found = TypeVar("Found")


class Lab:
    """A control plane in a folder, and nodes named node-0, node-1 ... Needs root. Raises programs.Missing."""

    def __init__(self, folder: Path, nodes: int = 1) -> None:
        self.folder = folder
        self.plane = ControlPlane(folder / "control-plane")
        self.images: dict[str, Image] = {IMAGE: this_machine(folder / "image")}
        self._names = [f"node-{number}" for number in range(nodes)]
        self.nodes: dict[str, Kubelet] = {}
        self._stack = ExitStack()

    @property
    def api(self) -> Api:
        return self.plane.api

    def __enter__(self) -> Lab:
        with ExitStack() as stack:
            stack.enter_context(self.plane)
            for name in self._names:
                self.nodes[name] = stack.enter_context(
                    Kubelet(self.api, name, self.folder / name, self.images)
                )
            self.api.post(
                "/apis/storage.k8s.io/v1/storageclasses",
                {
                    "metadata": {"name": CLASS},
                    "provisioner": "kubernetes.io/no-provisioner",
                    "volumeBindingMode": "WaitForFirstConsumer",
                },
            )
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def volume(
        self,
        name: str,
        real: Path,
        *,
        node: str | None = None,
        modes: tuple[str, ...] = ("ReadWriteOnce",),
        size: str = "1Gi",
    ) -> None:
        """Make a persistent volume of a folder: of one node (kind local), or one that any node may mount, like a cloud's disk."""
        spec: Json = {
            "capacity": {"storage": size},
            "accessModes": list(modes),
            "storageClassName": CLASS,
        }
        if node:
            here = {
                "matchExpressions": [
                    {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
                ]
            }
            spec |= {
                "local": {"path": str(real)},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [here]}},
            }
        else:
            spec["hostPath"] = {"path": str(real), "type": "Directory"}
        self.api.post("/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": spec})

    def claim(
        self,
        name: str,
        volume: str,
        namespace: str = "default",
        modes: tuple[str, ...] = ("ReadWriteOnce",),
    ) -> None:
        """Claim a volume. The claim is bound when a pod uses it."""
        spec = {
            "accessModes": list(modes), "storageClassName": CLASS, "volumeName": volume, "resources": {"requests": {"storage": "1Gi"}},
        }  # fmt: skip
        self.api.post(
            f"/api/v1/namespaces/{namespace}/persistentvolumeclaims",
            {"metadata": {"name": name}, "spec": spec},
        )


def until(ask: Callable[[], Found | None], seconds: float = 60) -> Found:
    """Ask until the answer is not empty, and return it. Raises TimeoutError."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := ask():
            return found
        time.sleep(0.1)
    raise TimeoutError(f"not within {seconds} s")
