"""Runs one pod as a kubelet does: volumes, init containers, containers and their restarts, probes, the end; and says its status."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import requests

from tools.kube.containers import Container, Image, Mount, Process, remove
from tools.kube.control_plane import Api, Json
from tools.kube.volumes import NotYet, field_of, folder_of, own, values_of

TICK_S: Final = 0.1
BACK_OFF_S: Final = 1.0
"""Before a container is started again; a kubelet begins with 10 s and doubles them up to 300."""
_PULL: Final = "ImagePullBackOff"


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class Running:
    """A container of a pod over all its restarts."""

    spec: Json
    init: bool = False
    container: Container | None = None
    restarts: int = 0
    state: Json = field(default_factory=lambda: {"waiting": {"reason": "PodInitializing"}})
    last: Json = field(default_factory=dict)
    again_at: float = 0.0
    probes: Json = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.spec["name"]

    @property
    def sidecar(self) -> bool:
        return self.init and self.spec.get("restartPolicy") == "Always"

    @property
    def code(self) -> int | None:
        """The exit code if it has ended and is not started again."""
        return self.state.get("terminated", {}).get("exitCode")

    @property
    def runs(self) -> bool:
        return "running" in self.state

    @property
    def started(self) -> bool:
        """Return whether it runs and its startup probe has succeeded."""
        return self.runs and self.probes.get("started", "startupProbe" not in self.spec)

    def status(self) -> Json:
        ready = self.started or (self.init and self.code == 0)
        return {
            "name": self.name, "image": self.spec["image"], "imageID": self.spec["image"], "ready": ready,
            "started": self.started, "restartCount": self.restarts, "state": self.state, "lastState": self.last,
        }  # fmt: skip


class Node(NamedTuple):
    """The resources of a node that its pods use. `disks` has real folders by the paths at which this node alone has them."""

    api: Api
    folder: Path
    images: Mapping[str, Image]
    disks: Mapping[str, Path]
    event: Callable[[Json, str, str, str], None]


class Pod(threading.Thread):
    """A pod on a node. `changed` is called with each change of the pod, and the thread ends with the pod."""

    def __init__(self, node: Node, pod: Json) -> None:
        super().__init__(daemon=True)
        self.node, self.pod, self.folder = node, pod, node.folder / pod["metadata"]["uid"]
        self._said: Json = {}
        self._told: set[str] = set()
        spec = pod["spec"]
        self.init = [Running(one, init=True) for one in spec.get("initContainers", [])]
        self.main = [Running(one) for one in spec["containers"]]
        self._mounted: dict[str, Path] = {}
        self._since = time.monotonic()
        self._failed: tuple[str, str] | None = None
        self._deleted: float | None = None
        if pod["status"].get("phase") == "Running" and self.policy == "Never":
            self._note_restart_of_node()
        self.lost = threading.Event()

    @property
    def path(self) -> str:
        meta = self.pod["metadata"]
        return f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"

    @property
    def uid(self) -> str:
        return self.pod["metadata"]["uid"]

    @property
    def policy(self) -> str:
        return self.pod["spec"].get("restartPolicy", "Always")

    def _note_restart_of_node(self) -> None:
        """A pod that ran before its node was lost is not run again."""
        for one in self.init:
            one.state = {"terminated": {"exitCode": 0, "reason": "Completed"}}
        for one in self.main:
            one.state = {
                "terminated": {
                    "exitCode": 255,
                    "reason": "Unknown",
                    "message": "The node was restarted",
                }
            }

    def find(self, name: str) -> Running | None:
        """Return a container by name."""
        return next((one for one in [*self.init, *self.main] if one.name == name), None)

    # what a test or the API server asks of it

    def changed(self, pod: Json) -> None:
        self.pod = pod

    def fail(self, reason: str, message: str) -> None:
        """End the pod for good, as an eviction does."""
        self._failed = (reason, message)

    def kill(self, name: str = "", reason: str = "OOMKilled") -> None:
        """Kill a container (the first one), as the kernel does when memory is short."""
        one = self.find(name) if name else self.main[0]
        if one and one.container:
            one.container.kill(reason)

    # the loop

    def run(self) -> None:
        try:
            over = False
            while not self.lost.is_set() and not over:
                with suppress(requests.RequestException):  # the API server is away: again
                    over = self._step()
                self.lost.wait(TICK_S)
        finally:
            for one in [*self.init, *self.main]:
                if one.container and one.container.exit_code() is None:
                    one.container.kill()

    def _step(self) -> bool:
        """Do what is due, and say the status if it has changed. Returns whether the pod is over."""
        if self._deleted is None and "deletionTimestamp" in self.pod["metadata"]:
            self._deleted = time.monotonic()
            self._signal(signal.SIGTERM)
        limit = self.pod["spec"].get("activeDeadlineSeconds")
        if limit and not self._failed and time.monotonic() - self._since > limit:
            self._failed = (
                "DeadlineExceeded",
                "Pod was active on the node longer than the specified deadline",
            )
        if self._failed or self._deleted is not None:
            over = self._ending()
        else:
            self._starting()
            over = all(one.code is not None for one in self.main) or self._init_failed()
            if over:
                self._end_sidecars()
        self._say(over)
        if not over or self._deleted is None:
            return False  # a pod that has ended stays as an object until it is deleted
        self._remove()
        return True

    def _starting(self) -> None:
        if not self._ready_volumes():
            return
        for one in self.init:
            self._tend(one)
            if not (one.runs if one.sidecar else one.code == 0):
                return
        for one in self.main:
            self._tend(one)

    def _init_failed(self) -> bool:
        return any(one.code not in (None, 0) for one in self.init if not one.sidecar)

    def _end_sidecars(self) -> None:
        for one in self.init:
            if one.sidecar and one.runs and one.container:
                one.container.signal(signal.SIGTERM)
                self._note_end(one)

    def _ending(self) -> bool:
        """Stop the containers; after the grace period kill them. Returns whether all have ended."""
        grace = self.pod["metadata"].get("deletionGracePeriodSeconds", 30)
        since = self._deleted if self._deleted is not None else 0.0
        for one in [*self.init, *self.main]:
            if one.container and one.runs:
                if self._failed or time.monotonic() - since >= grace:
                    one.container.kill()
                self._note_end(one)
        return not any(one.runs for one in [*self.init, *self.main])

    def _signal(self, number: int) -> None:
        for one in [*self.init, *self.main]:
            if one.container and one.runs:
                one.container.signal(number)

    def _ready_volumes(self) -> bool:
        spec = self.pod["spec"]
        try:
            for volume in spec.get("volumes", []):
                if volume["name"] not in self._mounted:
                    made = self.folder / "volumes" / volume["name"]
                    found = folder_of(self.node.api, self.pod, volume, made, self.node.disks)
                    context = spec.get("securityContext", {})
                    if "fsGroup" in context and "hostPath" not in volume:
                        own(found, context["fsGroup"], context.get("fsGroupChangePolicy", "Always"))
                    self._mounted[volume["name"]] = found
        except NotYet as error:
            self._tell("Warning", error.reason, error.message)
            for one in [*self.init, *self.main]:
                one.state = {
                    "waiting": {"reason": "PodInitializing" if self.init else "ContainerCreating"}
                }
            return False
        return True

    # one container

    def _tend(self, one: Running) -> None:
        """Start it, note its end, start it again as the policy says."""
        if one.runs:
            self._note_end(one)
            if one.runs:
                self._probe(one)
                return
        if one.code is not None:
            always = one.sidecar or (self.policy == "Always" and not one.init)
            again = always or (self.policy != "Never" and one.code != 0)
            if not again:
                return
            one.last, one.restarts, one.again_at = (
                one.state,
                one.restarts + 1,
                time.monotonic() + BACK_OFF_S,
            )
            one.state = {
                "waiting": {
                    "reason": "CrashLoopBackOff",
                    "message": f"back-off restarting failed container {one.name}",
                }
            }
        if time.monotonic() >= one.again_at:
            self._start(one)

    def _start(self, one: Running) -> None:
        image = self.node.images.get(one.spec["image"])
        if image is None:
            one.state = {
                "waiting": {
                    "reason": _PULL,
                    "message": f'Back-off pulling image "{one.spec["image"]}"',
                }
            }
            self._tell(
                "Warning", "Failed", f'Failed to pull image "{one.spec["image"]}": not found'
            )
            return
        context = {
            **self.pod["spec"].get("securityContext", {}),
            **one.spec.get("securityContext", {}),
        }
        user = context.get("runAsUser", image.user)
        if context.get("runAsNonRoot") and user == 0:
            one.state = {
                "waiting": {
                    "reason": "CreateContainerConfigError",
                    "message": "container has runAsNonRoot and image will run as root",
                }
            }
            return
        group = context.get("fsGroup")
        try:
            process = Process(
                [*(one.spec.get("command") or image.entrypoint), *(one.spec.get("args") or (() if one.spec.get("command") else image.command))],
                dict(image.environment) | self._environment(one.spec),
                one.spec.get("workingDir", "/"), user, context.get("runAsGroup", 0),
                (*([] if group is None else [group]), *context.get("supplementalGroups", [])),
                no_new_privileges=context.get("allowPrivilegeEscalation") is False,
            )  # fmt: skip
        except NotYet as error:
            one.state = {
                "waiting": {"reason": "CreateContainerConfigError", "message": error.message}
            }
            return
        folder = self.folder / one.name / str(one.restarts)
        folder.mkdir(parents=True)
        last_words = folder / "termination-log"
        last_words.touch()
        last_words.chmod(0o666)
        mounts = [self._mount(given) for given in one.spec.get("volumeMounts", [])]
        mounts.append(
            Mount(last_words, one.spec.get("terminationMessagePath", "/dev/termination-log"))
        )
        one.probes = {}
        one.container = Container(
            folder, self.pod["spec"].get("hostname") or self.pod["metadata"]["name"], image, process, mounts,
            read_only_root=bool(context.get("readOnlyRootFilesystem")), stdin=bool(one.spec.get("stdin")),
        )  # fmt: skip
        one.state = {"running": {"startedAt": now()}}

    def _mount(self, given: Json) -> Mount:
        real = self._mounted[given["name"]]
        if below := given.get("subPath"):
            real /= below
            if not real.exists():
                real.mkdir(parents=True)
                shutil.copystat(real.parent, real)
        return Mount(real, given["mountPath"], given.get("readOnly", False))

    def _environment(self, spec: Json) -> dict[str, str]:
        namespace, found = self.pod["metadata"]["namespace"], dict[str, str]()
        for source in spec.get("envFrom", []):
            for kind, plural in (("configMapRef", "configmaps"), ("secretRef", "secrets")):
                if given := source.get(kind):
                    values = values_of(self.node.api, namespace, plural, given)
                    prefix = source.get("prefix", "")
                    found |= {prefix + name: value.decode() for name, value in values.items()}
        for one in spec.get("env", []):
            found[one["name"]] = _expanded(one.get("value", ""), found)
            given = one.get("valueFrom", {})
            if "fieldRef" in given:
                found[one["name"]] = field_of(self.pod, given["fieldRef"]["fieldPath"])
            for kind, plural in (("configMapKeyRef", "configmaps"), ("secretKeyRef", "secrets")):
                if key := given.get(kind):
                    values = values_of(self.node.api, namespace, plural, key)
                    found[one["name"]] = values.get(key["key"], b"").decode()
        return found

    def _note_end(self, one: Running) -> None:
        code = one.container.exit_code() if one.container else None
        if code is None or one.container is None:
            return
        folder = one.container.log.parent
        words = (folder / "termination-log").read_text(errors="replace")
        if (
            not words
            and code
            and one.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError"
        ):
            lines = one.container.log.read_text(errors="replace").splitlines()[-80:]
            words = "\n".join(line.split(" ", 3)[3] for line in lines)
        reason = one.container.reason or ("Completed" if code == 0 else "Error")
        ended = {
            "exitCode": code,
            "reason": reason,
            "startedAt": one.state["running"]["startedAt"],
            "finishedAt": now(),
        }
        one.state = {"terminated": ended | ({"message": words[-4096:]} if words else {})}
        remove(folder)

    # probes

    def _probe(self, one: Running) -> None:
        """Ask the startup probe; once it holds, the liveness probe. Too many failures kill the container."""
        kind = (
            "startupProbe"
            if "startupProbe" in one.spec and not one.probes.get("started")
            else "livenessProbe"
        )
        probe = one.spec.get(kind)
        one.probes.setdefault("started", "startupProbe" not in one.spec)
        if probe is None or one.container is None:
            return
        wait = one.probes.setdefault(
            f"{kind} at", time.monotonic() + probe.get("initialDelaySeconds", 0)
        )
        if time.monotonic() < wait:
            return
        one.probes[f"{kind} at"] = time.monotonic() + probe.get("periodSeconds", 10)
        if _holds(probe, one):
            one.probes["failed"] = 0
            one.probes["started"] = True
            return
        one.probes["failed"] = one.probes.get("failed", 0) + 1
        if one.probes["failed"] >= probe.get("failureThreshold", 3):
            word = kind.removesuffix("Probe")
            self.node.event(
                self.pod,
                "Normal",
                "Killing",
                f"Container {one.name} failed {word} probe, will be restarted",
            )
            one.container.signal(signal.SIGTERM)
            one.probes = {}

    # the status

    def _say(self, over: bool) -> None:
        status = self.status(over)
        if status == self._said:
            return
        with suppress(requests.RequestException):
            self.node.api.patch(
                f"{self.path}/status", {"metadata": {"uid": self.uid}, "status": status}
            )
            self._said = status

    def status(self, over: bool) -> Json:
        started = all(one.runs or one.code is not None or one.restarts for one in self.main)
        phase = "Running" if started else "Pending"
        codes = [one.code for one in self.main]
        status: Json = {}
        if self._failed:
            phase = "Failed" if over else phase
            if over:
                status = {"reason": self._failed[0], "message": self._failed[1]}
        elif over:
            phase = "Succeeded" if all(code == 0 for code in codes) else "Failed"
        initialized = all(one.runs if one.sidecar else one.code == 0 for one in self.init)
        ready = phase == "Running" and all(one.status()["ready"] for one in self.main)
        conditions = {"Initialized": initialized, "ContainersReady": ready, "Ready": ready}
        return status | {
            "phase": phase, "hostIP": "127.0.0.1", "podIP": "127.0.0.1",
            "startTime": self._said.get("startTime") or self.pod["status"].get("startTime") or now(),
            "containerStatuses": [one.status() for one in self.main],
            "initContainerStatuses": [one.status() for one in self.init],
            "conditions": [{"type": name, "status": str(value)} for name, value in conditions.items()],
        }  # fmt: skip

    def _remove(self) -> None:
        """Take the object away, as a kubelet does when a deleted pod has ended."""
        with suppress(requests.RequestException):
            self.node.api.delete(self.path, gracePeriodSeconds=0, preconditions={"uid": self.uid})
        shutil.rmtree(self.folder, ignore_errors=True)

    def _tell(self, kind: str, reason: str, message: str) -> None:
        if message not in self._told:
            self._told.add(message)
            self.node.event(self.pod, kind, reason, message)


def _holds(probe: Json, one: Running) -> bool:
    limit = probe.get("timeoutSeconds", 1)
    if "tcpSocket" in probe:
        with (
            suppress(OSError),
            socket.create_connection(("127.0.0.1", _port(probe["tcpSocket"]["port"], one)), limit),
        ):
            return True
        return False
    if "exec" in probe and one.container:
        ran = one.container.execute(probe["exec"]["command"], stdin=False)
        try:
            return ran.wait(limit) == 0
        except subprocess.TimeoutExpired:
            ran.kill()
            return False
    return True


def _port(given: Any, one: Running) -> int:
    if isinstance(given, int):
        return given
    return next(port["containerPort"] for port in one.spec["ports"] if port.get("name") == given)


def _expanded(value: str, known: Mapping[str, str]) -> str:
    """Return a value of an environment with $(NAME) of earlier ones; $$ is one that begins none."""

    def put(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else known.get(found[1], found[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", put, value)
