"""Calls of a Kubernetes API server by the provider's hook, with errors of ours."""

from __future__ import annotations

import io
import json
import logging
import math
import re
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import IO, TYPE_CHECKING, Any, Final

from kafkats.errors import KafkatsError, UsageError
from kafkats_airflow.jobs.hosts import PIECE, Program, Unreached
from kafkats_airflow.jobs.pod_state import NAME, PodFailed
from kafkats_airflow.jobs.providers import hook_class

if TYPE_CHECKING:
    from kubernetes.stream.ws_client import WSClient

_OUT: Final = 1
_ERR: Final = 2
_STATUS: Final = 3
_KILLED: Final = 128
"""Exit codes from here on are 128 and the number of a signal."""
_LOOKS_SECONDS: Final = 1.0
_FORBIDS_SECONDS: Final = 60.0
_LACKS_ROLES: Final = re.compile(r'"system:[\w-]+" not found')
"""Words of a server that has not read its own roles yet."""
_LIMITS: Final = {"_request_timeout": (10.0, 60.0)}
"""Seconds until a call has a connection, and then until its answer. The client has no limits."""
_LOADING: Final = threading.Lock()
"""The client loads a configuration into a variable of the process, and copies it from there: in a
triggerer another thread would get that of another cluster.
"""
_PERSONS: Final = frozenset({400, 401, 403, 404, 405, 415, 422})
"""Answers that stay the same until a person changes something."""


class Api:
    """An API server, and the namespace of a connection. Raises UsageError for one that cannot be
    understood. All calls raise Unreached, UsageError and PodFailed.
    """

    def __init__(self, conn_id: str) -> None:
        logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
        self._forbidden = -math.inf
        try:
            self._hook = hook_class("kubernetes")(conn_id=conn_id)
            self.extra: dict[str, Any] = self._hook.conn_extras
            self.namespace: str = self._hook.get_namespace() or "default"
            with _LOADING:
                _ = self._hook.api_client  # it keeps it
        except KafkatsError:
            raise
        except Exception as e:  # whatever the provider says of an extra
            raise UsageError(f"the connection {conn_id!r}: {e}") from e
        self.name = f"namespace {self.namespace} (connection {conn_id!r})"

    def job(self, name: str) -> Any:
        """Return a Job, None if there is none."""
        with self._in_our_words("reading a Job"):
            return self._found(self._hook.batch_v1_client.read_namespaced_job, name)

    def create(self, manifest: Any) -> Any:
        """Create a Job and return it; None if there is one of this name."""
        from kubernetes.client import ApiException

        with self._in_our_words("creating a Job"):
            try:
                return self._hook.batch_v1_client.create_namespaced_job(
                    self.namespace, manifest, field_validation="Strict", **_LIMITS
                )
            except ApiException as e:
                if e.status == 409:
                    return None
                raise

    def delete(self, job: Any) -> None:
        """Delete this Job and no later one of its name, and with it its pod."""
        from kubernetes.client import ApiException, V1DeleteOptions, V1Preconditions

        only = V1DeleteOptions(
            propagation_policy="Background", preconditions=V1Preconditions(uid=job.metadata.uid)
        )
        with self._in_our_words("deleting a Job"):
            try:
                self._hook.batch_v1_client.delete_namespaced_job(
                    job.metadata.name, self.namespace, body=only, **_LIMITS
                )
            except ApiException as e:
                if e.status not in {404, 409}:
                    raise

    def pods(self, labels: str = "") -> list[Any]:
        """Return the pods with these labels, the newest last."""
        with self._in_our_words("listing pods"):
            found = self._hook.core_v1_client.list_namespaced_pod(
                self.namespace, label_selector=labels, **_LIMITS
            ).items
        return sorted(found, key=lambda pod: pod.metadata.creation_timestamp)

    def claim(self, name: str) -> Any:
        """Return a PersistentVolumeClaim, None if there is none."""
        with self._in_our_words("reading a claim"):
            return self._found(
                self._hook.core_v1_client.read_namespaced_persistent_volume_claim, name
            )

    def events(self, name: str) -> list[Any]:
        """Return the events about an object."""
        with self._in_our_words("listing events"):
            found: list[Any] = self._hook.core_v1_client.list_namespaced_event(
                self.namespace, field_selector=f"involvedObject.name={name}", **_LIMITS
            ).items
        return found

    def said(self, pod: Any) -> str:
        """Return the last lines of a pod, "" if there are none any more."""
        with suppress(KafkatsError), self._in_our_words("reading a log"):
            answer = self._hook.core_v1_client.read_namespaced_pod_log(
                pod.metadata.name,
                self.namespace,
                container=NAME,
                tail_lines=20,
                _preload_content=False,  # else the client returns how Python shows the bytes
                **_LIMITS,
            )
            return str(answer.data.decode(errors="replace"))
        return ""

    @contextmanager
    def program(
        self, pod: Any, command: Sequence[str], message: IO[bytes], seconds: float
    ) -> Generator[Program]:
        """Run a program in a pod, and send it a message. It may say nothing for so long."""
        from websocket import WebSocketException

        with self._in_our_words("running kafkats-host"):
            client = self._client_of(pod, command)
            try:
                with suppress(
                    OSError, WebSocketException
                ):  # a program that ends at once reads nothing
                    while piece := message.read(PIECE):
                        client.write_stdin(piece)
                name = f"{self.name}: pod {pod.metadata.name}"
                output = _Output(client, name, seconds)
                yield Program(io.BufferedReader(output, PIECE), output.said)
            finally:
                with suppress(Exception):  # it is over, whatever the socket says
                    client.close()

    def _client_of(self, pod: Any, command: Sequence[str]) -> WSClient:
        """Start a program in a pod, and return the socket to it. Raises ApiException."""
        from kubernetes.client import ApiException
        from kubernetes.stream import stream
        from kubernetes.stream.ws_client import websocket_call

        try:
            return stream.func(  # the plain `stream` also keeps all that it has read
                partial(websocket_call, capture_all=False),
                None,
                self._hook.core_v1_client.connect_get_namespaced_pod_exec,
                pod.metadata.name,
                self.namespace,
                container=NAME,
                command=[*command],
                stdin=True,
                stdout=True,
                stderr=True,
                tty=False,
                binary=True,
                _preload_content=False,
            )
        except AttributeError as e:  # the client trips over its own error, which has no body
            if isinstance(e.__context__, ApiException):
                raise e.__context__ from None
            raise

    def _found(self, read: Any, name: str) -> Any:
        from kubernetes.client import ApiException

        try:
            return read(name, self.namespace, **_LIMITS)
        except ApiException as e:
            if e.status == 404:
                return None
            raise

    @contextmanager
    def _in_our_words(self, doing: str) -> Generator[None]:
        from kubernetes.client import ApiException
        from kubernetes.config import ConfigException
        from urllib3.exceptions import HTTPError
        from websocket import WebSocketException

        try:
            yield
        except ApiException as e:
            raise self._refused(e, doing) from e
        except ConfigException as e:
            raise UsageError(f"{self.name}: {e}") from e
        except (HTTPError, OSError, EOFError, WebSocketException) as e:
            if "CERTIFICATE_VERIFY_FAILED" in str(e):
                raise UsageError(
                    f"{self.name}: the certificate of its API server is not trusted: {e}"
                ) from e
            raise Unreached(f"{self.name}: {doing}: {e or 'the connection was lost'}") from e

    def _refused(self, error: Any, doing: str) -> KafkatsError:
        """Return an answer of the server as an error of ours."""
        status, message = int(error.status or 0), _message(error)
        if not status and (found := re.search(r"Handshake status (\d+)", str(error.reason))):
            status = int(found[1])
        if "exceeded quota" in message:
            return PodFailed(f"{self.name}: {doing}: {message}")
        if status == 403 and (
            _LACKS_ROLES.search(message) or self._is_starting() or not self._forbids_again()
        ):
            return Unreached(f"{self.name}: {doing}: forbidden, as by a server that just started")
        if status == 403:
            return UsageError(
                f"{self.name}: {doing}: the server forbids it: {message}; the Role is"
                " deploy/kubernetes/role.yaml"
            )
        if status in _PERSONS:
            return UsageError(f"{self.name}: {doing}: {message}")
        return Unreached(f"{self.name}: {doing}: {message}")

    def _forbids_again(self) -> bool:
        """Return whether the server has forbidden something within the last minute, too.

        One that has just become ready may still forbid all for a moment.
        """
        before, self._forbidden = self._forbidden, time.monotonic()
        return self._forbidden - before < _FORBIDS_SECONDS

    def _is_starting(self) -> bool:
        """Return whether the server is not ready: it forbids all until it has read the Roles.

        By default every account may ask for that.
        """
        from kubernetes.client import ApiException
        from urllib3.exceptions import HTTPError

        try:
            self._hook.core_v1_client.api_client.call_api(
                "/readyz", "GET", auth_settings=["BearerToken"], _preload_content=False, **_LIMITS
            )
        except ApiException as e:
            return int(e.status or 0) not in _PERSONS
        except (HTTPError, OSError):
            return True
        return False


def _message(error: Any) -> str:
    with suppress(ValueError, TypeError, KeyError):
        return str(json.loads(error.body)["message"])[:500]
    text = str(error.reason or error)
    found = re.search(r'"message":"((?:[^"\\]|\\.)*)"', text)
    return (found[1] if found else text)[:500]


def _exit_code(status: str) -> int:
    """Return the exit code in the status of a program, -1 if there is none."""
    with suppress(ValueError, TypeError, LookupError, StopIteration):
        found = json.loads(status)
        if found["status"] == "Success":
            return 0
        causes = found["details"]["causes"]
        return int(next(one["message"] for one in causes if one["reason"] == "ExitCode"))
    return -1


class _Output(io.RawIOBase):
    """The output of a program in a pod, and its status when it has ended."""

    def __init__(self, client: WSClient, name: str, seconds: float) -> None:
        self._client, self._name, self._seconds = client, name, seconds
        self._here = self._errors = self._status = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        until = time.monotonic() + self._seconds
        while not self._here and self._client.is_open():
            if time.monotonic() > until:
                raise Unreached(f"{self._name}: no answer in {self._seconds:.0f} s")
            self._client.update(timeout=_LOOKS_SECONDS)
            self._take()
        if not self._here:
            self._take()
        if not self._here and not self._status:
            raise Unreached(f"{self._name}: the connection was lost")
        piece, self._here = self._here[: len(buffer)], self._here[len(buffer) :]
        buffer[: len(piece)] = piece
        return len(piece)

    def said(self) -> str:
        """Return why there is no answer. Raises Unreached for a program that was killed, as with
        its pod, or that its node could not start: its pod's status says more.
        """
        while self.read(PIECE):
            pass
        status = self._status.decode(errors="replace")
        if not 0 <= _exit_code(status) < _KILLED:
            raise Unreached(f"{self._name}: its program was killed, or did not start: {status}")
        return self._errors.decode(errors="replace") or status

    def _take(self) -> None:
        self._status += self._client.read_channel(_STATUS)
        self._errors = (self._errors + self._client.read_channel(_ERR))[-4096:]
        self._here += self._client.read_channel(_OUT)
