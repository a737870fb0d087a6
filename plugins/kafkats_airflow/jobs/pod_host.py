"""A pod with the volumes of a connection, as a host.

The Job of a request is started when the request begins; its name is that of the request, so there
is no second one. Its pod waits (kafkats.detached.keeping) while workers run kafkats-host in it. The
pod ends when the result was collected, and the server deletes the Job later. A Job that ended
without a result is replaced at the next begin.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import IO, Any, Final

from kafkats import __version__
from kafkats.detached.jobs import digest_of
from kafkats.detached.messages import Answer, Ask
from kafkats.errors import KafkatsError, UsageError
from kafkats_airflow.jobs import pod_job, pod_state
from kafkats_airflow.jobs.hosts import Host, Program, Sent, Unpack, Unreached
from kafkats_airflow.jobs.pod_api import Api
from kafkats_airflow.jobs.pod_job import MANAGED, REQUEST, Extra, Node
from kafkats_airflow.jobs.pod_state import PodFailed, PodRefused

WRITING: Final = frozenset({"apply", "undo", "recover"})
"""The verbs that change log directories."""
_REPLACES: Final = (0.5, 1.0, 2.0, 4.0)
"""Seconds between tries to create a Job whose predecessor is being deleted."""


class PodHost(Host):
    """The pod of each request of a connection. Raises UsageError for one that cannot be understood.

    `pod` is that of the request that is asked about, once it runs.
    """

    def __init__(self, conn_id: str) -> None:
        self._api = Api(conn_id)
        try:
            self.extra = Extra.of(self._api.extra)
        except ValueError as e:
            raise UsageError(f"the connection {conn_id!r}: {e}") from e
        self.silence_seconds = self.extra.silence_seconds
        self._pod: Any = None

    @property
    def name(self) -> str:
        return f"{self._api.name}: pod {self._pod.metadata.name}" if self._pod else self._api.name

    @property
    def remedy(self) -> str:
        return f"{self._command()!r} of its image has to start the same version of kafkats"

    def ask(self, ask: Ask, sent: Sent | None = None, unpack: Unpack | None = None) -> Answer:
        """Return the answer of the pod, or that it does not run yet. Raises as Host.ask, PodFailed,
        and Refused where the claim is not free.
        """
        digest = digest_of(ask.id)
        job = self._api.job(pod_job.name_of(digest))
        if ask.do == "begin":
            job = self._begun(ask, digest, job)
        pods = [one for one in self._pods(digest) if not _is_past(one, job)]
        self._pod = pods[-1] if pods else None
        phase = pod_state.phase_of(self._pod)
        if (job is None and phase != "ending") or (ask.do == "forget" and phase == "over"):
            return _answer("none")
        if ask.do == "cancel":
            return self._cancelled(ask, job)
        if (error := self._error(phase, job)) is not None:
            raise type(error)(f"{self.name}: {error}")
        if ask.do == "start" or (phase == "running" and self._lets_write(ask)):
            self._place(_verb_of(ask))  # the request may have waited long for its pod
        if phase == "running" or (phase == "ending" and ask.do != "begin"):
            answer = super().ask(ask, sent, unpack)
            return _answer("pending") if phase == "ending" and _is_idle(answer) else answer
        return _answer("pending")

    def _lets_write(self, ask: Ask) -> bool:
        """Return whether the pod begins to write at this message, which may have all files for it;
        otherwise it attaches to work that runs or is done.
        """
        if ask.do != "begin" or _verb_of(ask) not in WRITING:
            return False
        about: dict[str, Any] = {"request": {}, "files": {}, "ledgers": ()}
        state = super().ask(ask.model_copy(update={"do": "look", **about})).state
        if state == "ended":  # a new try does failed work again
            done = super().ask(ask.model_copy(update={"do": "collect", **about}))
            return bool((done.result or {}).get("error"))
        return state != "running"

    @contextmanager
    def started(self, message: IO[bytes], size: int, seconds: float) -> Generator[Program]:
        """Start the program in the pod."""
        command = [*self._command(), str(size)]
        with self._api.program(self._pod, command, message, seconds) as program:
            yield program

    def _command(self) -> list[str]:
        return list(pod_state.container_of(self._pod.spec.containers).command)

    def _pods(self, digest: str) -> list[Any]:
        """Return the pods of a request, the newest last."""
        return self._api.pods(f"{REQUEST}={digest}")

    def _begun(self, ask: Ask, digest: str, job: Any) -> Any:
        """Return the Job of a request, a new one if none is under way. Raises Unreached while a pod
        of an earlier Job may still write: the server tells it to end some time after its Job.
        """
        pods = self._pods(digest)
        pod = pods[-1] if pods else None
        if pod_state.phase_of(pod) == "ending":
            return job  # it may still write
        goes_on = job is not None and not (_is_over(job) or job.metadata.deletion_timestamp)
        goes_on = goes_on and pod_state.phase_of(pod) != "over"
        own = job.metadata.uid if goes_on else None
        for one in pods:
            if pod_state.phase_of(one) != "over" and not _is_of(one, own):
                raise Unreached(f"{self._api.name}: the earlier pod {one.metadata.name} still ends")
        if goes_on:
            return job
        if job is not None:
            self._api.delete(job)
        node = self._place(_verb_of(ask))
        made = pod_job.manifest(self.extra, digest, ask.id, ask.folder, node)
        for seconds in (*_REPLACES, None):
            if (created := self._api.create(made)) is not None:
                return created
            found = self._api.job(made["metadata"]["name"])
            if found is not None and not _is_over(found) and not found.metadata.deletion_timestamp:
                return found  # another worker was quicker
            if seconds is not None:
                time.sleep(seconds)
        raise Unreached(f"{self._api.name}: its earlier Job is still being deleted")

    def _place(self, verb: str) -> Node | None:
        """Return the node of the volumes. Raises Refused for volumes that others hold, UsageError
        for a claim that is not there.
        """
        pods = self._api.pods()
        node = Node(self.extra.node, must=True) if self.extra.node else None
        for named in self.extra.volumes.values():
            users = [one for one in pods if _mounts(one, named, self.extra.node)]
            now = [one for one in users if one.status.phase not in {"Succeeded", "Failed"}]
            others = [one.metadata.name for one in now if not _is_ours(one)]
            if verb in WRITING and others:
                raise PodRefused(
                    f"{self._api.name}: pod {others[0]} mounts {named}: nothing is written while a"
                    " broker's pod does; hold the broker still first (docs/deploying.md)"
                )
            if not named.startswith("/"):
                node = self._node(named, now, others, users) or node
        return node

    def _node(
        self, claim: str, now: list[Any], others: list[str], users: Iterable[Any]
    ) -> Node | None:
        found = self._api.claim(claim)
        if found is None:
            raise UsageError(f"{self._api.name}: there is no claim {claim!r}")
        modes = set(found.spec.access_modes or ())
        if "ReadWriteOncePod" in modes and others:
            raise PodRefused(
                f"{self._api.name}: pod {others[0]} mounts {claim}, and its access mode"
                " ReadWriteOncePod lets no second pod do so; hold the broker still first"
            )
        if "ReadWriteMany" in modes:
            return None
        held = [one.spec.node_name for one in now if one.spec.node_name]
        last = [one.spec.node_name for one in users if one.spec.node_name]
        if held:
            return Node(held[-1], must=True)
        return Node(last[-1], must=False) if last else None

    def _error(self, phase: str, job: Any) -> KafkatsError | None:
        """Return why there is no use in waiting for the pod, or in asking it."""
        pod = self._pod
        if phase == "running":
            return None
        if phase == "ending":
            return pod_state.ending_error(pod, -_seconds_until(pod.metadata.deletion_timestamp))
        if phase == "over":
            return pod_state.over_error(pod, self._api.said(pod))
        if pod is None and _is_over(job):
            return PodFailed(f"the pod of Job {job.metadata.name} is gone")
        names = [job.metadata.name, *([pod.metadata.name] if pod else [])]
        events = [event for name in names for event in self._api.events(name)]
        waited = -_seconds_until(job.metadata.creation_timestamp)
        error = pod_state.pending_error(pod, events, waited)
        if error is not None:
            with suppress(KafkatsError):  # nothing was sent to it yet
                self._api.delete(job)
        return error

    def _cancelled(self, ask: Ask, job: Any) -> Answer:
        """End the work at once if its pod can be reached, and the pod in any case."""
        with suppress(KafkatsError):
            if pod_state.phase_of(self._pod) in {"running", "ending"}:
                super().ask(ask)
        if job is not None:
            self._api.delete(job)
        return _answer("lost")


def _verb_of(ask: Ask) -> str:
    return str(ask.request.get("verb") or "")


def _is_idle(answer: Answer) -> bool:
    return answer.error is None and answer.state in {"none", "lost"}


def _is_over(job: Any) -> bool:
    conditions = job.status.conditions or () if job.status else ()
    return any(
        one.type in {"Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"}
        and one.status == "True"
        for one in conditions
    )


def _is_ours(pod: Any) -> bool:
    return MANAGED.items() <= (pod.metadata.labels or {}).items()


def _is_of(pod: Any, job_uid: str | None) -> bool:
    return any(one.uid == job_uid for one in pod.metadata.owner_references or ())


def _is_past(pod: Any, job: Any) -> bool:
    """Return whether a pod has ended whose Job was replaced: the server removes it later."""
    over = pod_state.phase_of(pod) == "over"
    return over and job is not None and not _is_of(pod, job.metadata.uid)


def _mounts(pod: Any, named: str, node: str) -> bool:
    """Return whether a pod mounts a claim, or a path of a node."""
    for one in pod.spec.volumes or ():
        claim, path = one.persistent_volume_claim, one.host_path
        if claim is not None and claim.claim_name == named:
            return True
        if path is not None and path.path == named and pod.spec.node_name == node:
            return True
    return False


def _seconds_until(moment: datetime) -> float:
    return (moment - datetime.now(UTC)).total_seconds()


def _answer(state: Any) -> Answer:
    return Answer(kafkats=__version__, state=state)
