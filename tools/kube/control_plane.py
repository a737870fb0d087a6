"""Runs etcd, the API server, the controllers and the scheduler on loopback."""

from __future__ import annotations

import base64
import json
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import requests

from tools.kube import programs
from tools.ports import free_ports

Json = dict[str, Any]
READY_S: Final = 120
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"


class Api:
    """A client of the API server. A path begins with /api or /apis. Raises requests.HTTPError with the server's words."""

    def __init__(self, address: str, authority: Path, token: str) -> None:
        self.address, self.authority, self.token = address, authority, token

    def call(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        kind: str = "application/json",
        **query: str,
    ) -> Json:
        answer = requests.request(
            method, self.address + path, params=query, data=None if body is None else json.dumps(body),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": kind}, verify=str(self.authority), timeout=30,
        )  # fmt: skip
        if answer.status_code >= 400:
            raise requests.HTTPError(
                f"{method} {path}: {answer.status_code} {answer.text}", response=answer
            )
        return answer.json()

    def get(self, path: str, **query: str) -> Json:
        return self.call("GET", path, **query)

    def post(self, path: str, body: Json, **query: str) -> Json:
        return self.call("POST", path, body, **query)

    def patch(self, path: str, body: Json, kind: str = STRATEGIC) -> Json:
        return self.call("PATCH", path, body, kind)

    def delete(self, path: str, **options: Any) -> Json:
        return self.call("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", **options})

    def watch(self, path: str, **query: str) -> Iterator[Json]:
        """Yield the events of a watch, until the server ends it."""
        with requests.get(
            self.address + path, params={"watch": "1", **query}, stream=True, verify=str(self.authority),
            headers={"Authorization": f"Bearer {self.token}"}, timeout=(10, 600),
        ) as answer:  # fmt: skip
            answer.raise_for_status()
            for line in answer.iter_lines():
                yield json.loads(line)

    def as_user(self, token: str) -> Api:
        return Api(self.address, self.authority, token)


class ControlPlane:
    """The processes, with all their files in a folder. Raises programs.Missing where they cannot be had."""

    def __init__(self, folder: Path) -> None:
        programs.check()
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._port, self._etcd, self._peers = free_ports(3)
        self._token = secrets.token_hex(16)
        self.kubeconfig = folder / "kubeconfig"

    @property
    def api(self) -> Api:
        """A client that may do everything."""
        return Api(
            f"https://127.0.0.1:{self._port}", self.folder / "certs/apiserver.crt", self._token
        )

    def __enter__(self) -> ControlPlane:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self) -> None:
        key, public = self.folder / "accounts.key", self.folder / "accounts.pub"
        _quietly("openssl", "genrsa", "-out", key, "2048")
        _quietly("openssl", "rsa", "-in", key, "-pubout", "-out", public)
        (self.folder / "tokens.csv").write_text(f'{self._token},admin,1,"system:masters"\n')
        url = f"http://127.0.0.1:{self._etcd}"
        peers = f"http://127.0.0.1:{self._peers}"
        self._run(
            "etcd", "etcd", f"--data-dir={self.folder / 'etcd'}", f"--listen-client-urls={url}",
            f"--advertise-client-urls={url}", f"--listen-peer-urls={peers}",
        )  # fmt: skip
        self.start_api()
        self.kubeconfig.write_text(json.dumps(kubeconfig(self.api)))
        common = [f"--kubeconfig={self.kubeconfig}", "--leader-elect=false", "--secure-port=0"]
        program = str(programs.program())
        self._run(
            "controllers", program, "controllers", *common, f"--service-account-private-key-file={key}",
            f"--root-ca-file={self.folder / 'certs/apiserver.crt'}", "--use-service-account-credentials=false",
            "--node-monitor-period=1s", "--node-monitor-grace-period=8s", "--pvclaimbinder-sync-period=2s",
        )  # fmt: skip
        self._run("scheduler", program, "scheduler", *common)
        self._until(lambda: self.api.get("/api/v1/namespaces/default/serviceaccounts/default"))

    def start_api(self) -> None:
        """Start the API server, and wait until it is ready."""
        key, public = self.folder / "accounts.key", self.folder / "accounts.pub"
        self._run(
            "apiserver", str(programs.program()), "apiserver", f"--etcd-servers=http://127.0.0.1:{self._etcd}",
            "--service-account-issuer=https://kubernetes.default", f"--service-account-key-file={public}",
            f"--service-account-signing-key-file={key}", f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC", "--bind-address=127.0.0.1", f"--secure-port={self._port}",
            f"--cert-dir={self.folder / 'certs'}", "--service-cluster-ip-range=10.96.0.0/24",
            "--kubelet-preferred-address-types=InternalIP",
            # a client's WebSocket goes to the kubelet as it is, and not as SPDY
            "--feature-gates=TranslateStreamCloseWebsocketRequests=false",
        )  # fmt: skip
        self._until(lambda: self.api.get("/api/v1/namespaces/kube-system"))

    def stop_api(self, *, kill: bool = False) -> None:
        """Stop the API server, or kill it with -9."""
        _end(self._processes.pop("apiserver"), signal.SIGKILL if kill else signal.SIGTERM)

    def stop(self) -> None:
        for name in ("scheduler", "controllers", "apiserver", "etcd"):
            if process := self._processes.pop(name, None):
                _end(process, signal.SIGKILL)

    def account(self, namespace: str, name: str) -> Api:
        """Return a client with a token of a service account."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        asked = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {}}
        return self.api.as_user(self.api.post(path, asked)["status"]["token"])

    def _run(self, name: str, *words: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                words,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                env=_environment(),
            )

    def _until(self, ask: Any) -> None:
        end = time.monotonic() + READY_S
        while True:
            for name, process in self._processes.items():
                if process.poll() is not None:
                    log = (self.folder / f"{name}.log").read_text(errors="replace")
                    raise RuntimeError(f"{name} has ended: {log[-2000:]}")
            with suppress(requests.RequestException, OSError):
                ask()
                return
            if time.monotonic() > end:
                raise TimeoutError(f"the API server is not ready after {READY_S} s: {self.folder}")
            time.sleep(0.1)


def kubeconfig(api: Api, namespace: str = "default") -> Json:
    """Return a kubeconfig with the token of this client, as JSON (which is YAML, too)."""
    authority = base64.b64encode(api.authority.read_bytes()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "here",
                "cluster": {"server": api.address, "certificate-authority-data": authority},
            }
        ],
        "users": [{"name": "user", "user": {"token": api.token}}],
        "contexts": [
            {"name": "here", "context": {"cluster": "here", "user": "user", "namespace": namespace}}
        ],
        "current-context": "here",
    }


def _environment() -> dict[str, str]:
    """Return the environment without proxies: everything is on loopback. Go's programs use one core each."""
    kept = {
        name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")
    }
    return kept | {"GOMAXPROCS": "2"}


def _quietly(*words: object) -> None:
    subprocess.run([str(word) for word in words], check=True, capture_output=True)


def _end(process: subprocess.Popen[bytes], number: int) -> None:
    with suppress(ProcessLookupError):
        process.send_signal(number)
    with suppress(subprocess.TimeoutExpired):
        process.wait(30)
        return
    process.kill()
    process.wait()
