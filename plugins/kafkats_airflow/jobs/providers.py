"""The hooks of Airflow's providers.

Only a worker needs a provider, and some bring much: each is imported when a task reaches for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final, NamedTuple

from kafkats.errors import UsageError


class _Hook(NamedTuple):
    module: str
    name: str
    provider: str
    lacks: str
    extra: str


_HOOKS: Final = {
    "spark": _Hook(
        "airflow.providers.apache.spark.hooks.spark_submit",
        "SparkSubmitHook",
        "Spark",
        "cannot submit jobs",
        "worker",
    ),
    "ssh": _Hook("airflow.providers.ssh.hooks.ssh", "SSHHook", "SSH", "reaches no host", "ssh"),
    "kubernetes": _Hook(
        "airflow.providers.cncf.kubernetes.hooks.kubernetes",
        "KubernetesHook",
        "Kubernetes",
        "starts no Job",
        "kubernetes",
    ),
}


def hook_class(kind: str) -> Any:
    """Return the hook of a type of connections. Raises UsageError without its provider."""
    hook = _HOOKS[kind]
    try:
        return getattr(import_module(hook.module), hook.name)
    except ImportError as e:
        raise UsageError(
            f"this worker has no {hook.provider} provider of Airflow, and {hook.lacks}: pip install"
            f" 'kafkats[{hook.extra}]' ({e})"
        ) from e
