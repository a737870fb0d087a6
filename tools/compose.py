"""Starts the services of docker-compose.yml with podman, in one network of their own that has loopback only.

What our file uses is understood, and nothing else: its variables, environment, volumes, configs, health checks, and who
waits for whom.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

_VARIABLE: Final = re.compile(r"\$\{(\w+)(?::[-?]([^}]*))?\}")
_LIMITS: Final = ("--cgroups=disabled", "--ulimit=nofile=8192:8192", "--ulimit=nproc=8192:8192")
"""Podman asks for more than root may have inside a container."""
TRIES: Final = 60


def _podman(words: tuple[object, ...]) -> subprocess.CompletedProcess[str]:
    first, *rest = map(str, words)
    command = ["podman", first, *(_LIMITS if first == "run" else ()), *rest]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def podman(*words: object) -> str:
    """Run podman, and return what it printed. Ends with its errors if it fails."""
    done = _podman(words)
    if done.returncode:
        said = f"{done.stdout[-3000:]}{done.stderr[-3000:]}"
        sys.exit(f"tools.compose: podman {' '.join(map(str, words))[:600]}\n{said}")
    return done.stdout


def is_fine(*words: object) -> bool:
    """Run podman, and return whether it succeeded."""
    return _podman(words).returncode == 0


def services(text: str, settings: Mapping[str, str], folder: Path) -> dict[str, dict[str, Any]]:
    """Return the services of a compose file with the settings of its .env.

    Configs are written into `folder`, and a file of hosts: each service's name is this machine.
    """

    def value(match: re.Match[str]) -> str:
        return settings.get(match[1]) or match[2] or ""

    content = yaml.safe_load(_VARIABLE.sub(value, text).replace("$$", "$"))
    for name, config in content["configs"].items():
        (folder / name).write_text(config["content"])
    names = " ".join(content["services"])
    (folder / "hosts").write_text(f"127.0.0.1 localhost {names}\n")
    for service in content["services"].values():
        files = [f"{folder}/hosts:/etc/hosts:ro"]
        files += [
            f"{folder}/{one['source']}:{one['target']}:ro" for one in service.get("configs", ())
        ]
        service["volumes"] = [*service.get("volumes", ()), *files]
    return dict(content["services"])


@contextmanager
def network(image: str) -> Generator[str]:
    """A container whose network others share: loopback alone. Its name also begins theirs."""
    name = f"kafkats-{uuid.uuid4().hex[:8]}"
    try:
        podman("run", "--detach", f"--name={name}", "--network=none", image, "sleep", "infinity")
        yield name
    finally:
        _remove(name)


def _named(name: str) -> list[str]:
    """Return the containers whose names begin with `name`, this one last: the others depend on it."""
    found = podman("ps", "--all", f"--filter=name={name}", "--format={{.Names}}").split()
    return sorted(found, reverse=True)


def _remove(name: str) -> None:
    """Remove the containers and volumes whose names begin with `name`."""
    for _ in range(3):  # a container that does not end in time is removed by the next try
        for one in _named(name):
            is_fine("rm", "--force", "--time=5", one)
    volumes = podman("volume", "ls", f"--filter=name={name}", "--quiet").split()
    if _named(name) or (volumes and not is_fine("volume", "rm", "--force", *volumes)):
        print(f"tools.compose: {name}: podman could not remove it", file=sys.stderr)


class Containers:
    """A container for each service."""

    def __init__(self, services: Mapping[str, Mapping[str, Any]], shared: str) -> None:
        self._services, self._shared = services, shared
        self._started: set[str] = set()

    def start(self) -> None:
        """Start all services, each after those that it waits for. Ends if one is not well."""
        for name in self._services:
            self._start(name)
        for name in self._services:
            self._wait(name)

    def run(self, name: str, *words: str) -> str:
        """Run a command in the container of a service. Ends if it fails."""
        return podman("exec", f"{self._shared}-{name}", *words)

    def until(self, name: str, fine: Callable[[str], bool], *words: str) -> None:
        """Run a command in the container of a service until `fine` likes what it prints. Ends after TRIES."""
        for _ in range(TRIES):
            if fine(self.run(name, *words)):
                return
            time.sleep(3)
        sys.exit(f"tools.compose: {name}: {' '.join(words)} never succeeded\n{self._logs(name)}")

    def _start(self, name: str) -> None:
        if name in self._started:
            return
        self._started.add(name)
        service = self._services[name]
        for other in service.get("depends_on", {}):
            self._start(other)
            self._wait(other)
        given = {key: value for key, value in service["environment"].items() if value is not None}
        environment = [f"--env={key}={value}" for key, value in given.items()]
        image = service["image"]
        image = image if "/" in image else f"localhost/{image}"
        podman(
            "run", "--detach", f"--name={self._shared}-{name}", f"--network=container:{self._shared}", f"--hostname={name}", *environment,
            *self._volumes(service), image, *service["command"],
        )  # fmt: skip
        print(f"{name}: {' '.join(service['command'])[:80]!r}", flush=True)

    def _volumes(self, service: Mapping[str, Any]) -> Iterator[str]:
        for one in service.get("volumes", ()):
            if not one.startswith("unused:"):
                own = "" if one.startswith("/") else f"{self._shared}-"
                yield f"--volume={own}{one}"

    def _wait(self, name: str) -> None:
        """Wait until a service is well, or has ended if it is one that ends."""
        container, check = f"{self._shared}-{name}", self._services[name].get("healthcheck")
        if check is None:
            if (code := podman("wait", container).strip()) != "0":
                sys.exit(f"tools.compose: {name} ended with {code}\n{self._logs(name)}")
            return
        kind, *words = check["test"]
        command = words if kind == "CMD" else ["sh", "-c", *words]
        for _ in range(TRIES):
            if is_fine("exec", container, *command):
                print(f"{name}: well", flush=True)
                return
            if podman("inspect", "--format={{.State.Running}}", container).strip() != "true":
                break
            time.sleep(3)
        sys.exit(f"tools.compose: {name} is not well\n{self._logs(name)}")

    def _logs(self, name: str) -> str:
        done = _podman(("logs", "--tail=60", f"{self._shared}-{name}"))
        return done.stdout + done.stderr
