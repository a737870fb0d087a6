"""Say in a sentence what is wrong with a pod, by its status, its events, and the clock."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

from kafkats.errors import KafkatsError, Refused, UsageError

TOLD_SECONDS: Final = 40.0
"""How long scheduler, volumes and quota may say no: a broker's pod may just be ending."""
PENDING_SECONDS: Final = 600.0
"""How long a pod may take to run, as for a large image."""
ENDS_SECONDS: Final = 60.0
"""How long a pod may still be there after it had to end: longer if its node does not answer."""
_WRONG: Final = frozenset({
    "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError",
    "CreateContainerError", "ImageInspectError",
})  # fmt: skip
"""Reasons for which a container waits that only a person can remove."""
_EVENTS: Final = frozenset({
    "FailedAttachVolume", "FailedMount", "FailedCreate", "FailedMapVolume", "FailedCreatePodSandBox"
})  # fmt: skip

NAME: Final = "kafkats"
"""The container of a Job that is ours: others may have been added to its pod."""

Phase = Literal["none", "pending", "running", "ending", "over"]


class PodFailed(KafkatsError):
    """The pod of a request ended, or does not run. Its work is done again, or continued."""

    retryable = True


class PodRefused(Refused):
    """The claim of a request is not free. Another try may find it free."""

    retryable = True


def phase_of(pod: Any) -> Phase:
    """Return how far a pod is; None is no pod. `ending`: it runs, and was told to end."""
    if pod is None:
        return "none"
    if pod.status.phase in {"Succeeded", "Failed"}:
        return "over"
    own = container_of(pod.status.container_statuses)
    running = own is not None and own.state and own.state.running
    if pod.metadata.deletion_timestamp is not None:
        return "ending"
    return "running" if running else "pending"


def container_of(containers: Iterable[Any] | None) -> Any:
    """Return our container, or its status; None if it is not there yet."""
    return next((one for one in containers or () if one.name == NAME), None)


def pending_error(pod: Any, events: Iterable[Any], waited: float) -> KafkatsError | None:
    """Return why there is no use in waiting for a pod any longer; None if there is."""
    own = container_of(pod.status.container_statuses) if pod is not None else None
    if own is not None and own.state:
        waiting = own.state.waiting
        if waiting is not None and waiting.reason in _WRONG:
            return UsageError(
                f"its container does not start: {waiting.reason}: {_short(waiting.message)}; the"
                " image is named in the connection's kafkats_image, or in the template"
            )
    if waited > TOLD_SECONDS and (why := _why(pod, events)):
        return PodFailed(f"its pod does not start: {why}")
    if waited > PENDING_SECONDS:
        return PodFailed(f"its pod does not run after {waited:.0f} s, and no event says why")
    return None


def over_error(pod: Any, said: str) -> KafkatsError:
    """Return what ended a pod. `said` are its last words."""
    why = ": ".join(filter(None, [pod.status.reason, _short(pod.status.message)]))
    own = container_of(pod.status.container_statuses)
    ended = own.state.terminated if own is not None and own.state else None
    if ended is not None and not why:
        why = f"{ended.reason or 'it ended'} (exit code {ended.exit_code})"
    if "OOMKilled" in why:
        why += "; raise the memory limit in the template"
    last = said.strip().splitlines()[-1:]
    told = f"; its last words: {_short(last[0])}" if last else ""
    return PodFailed(f"its pod on {_node(pod)} has ended: {why or pod.status.phase}{told}")


def ending_error(pod: Any, late: float) -> KafkatsError | None:
    """Return an error for a pod that had to end some seconds ago, and still may write."""
    if late < ENDS_SECONDS:
        return None
    return PodFailed(
        f"its pod was to end {late:.0f} s ago, and {_node(pod)} does not say that it has: it may"
        " still write, so no second one is started. When that node is off, remove its pods (kubectl"
        f" delete pod {pod.metadata.name} --force)"
    )


def _why(pod: Any, events: Iterable[Any]) -> str:
    for one in (pod.status.conditions or ()) if pod is not None else ():
        if one.type == "PodScheduled" and one.status == "False":
            return f"{one.reason}: {_short(one.message)}"
    found = [one for one in events if one.type == "Warning" and one.reason in _EVENTS]
    return f"{found[-1].reason}: {_short(found[-1].message)}" if found else ""


def _node(pod: Any) -> str:
    return f"node {pod.spec.node_name or '(none)'}"


def _short(message: str | None) -> str:
    return " ".join((message or "").split())[:400]
