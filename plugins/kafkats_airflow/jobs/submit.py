"""A spark-submit of the provider's hook, in a thread that talks to Spark only."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from contextvars import copy_context
from typing import TYPE_CHECKING, Final

from kafkats.errors import UsageError
from kafkats_airflow import settings
from kafkats_airflow.deployment import Place
from kafkats_airflow.jobs.processes import end_session, leaders
from kafkats_airflow.jobs.providers import hook_class

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

_STARTS: Final = 0.05
_ENDS: Final = 30.0


def hook_of(connection: str, name: str, words: list[str]) -> SparkSubmitHook:
    """Return the hook of a submit with these words. Raises UsageError if a provider is missing."""
    hook: type[SparkSubmitHook] = hook_class("spark")
    try:
        return hook(conn_id=connection, name=name, application_args=words)
    except (NameError, RuntimeError) as e:  # of Kubernetes, by the version of the Spark provider
        raise UsageError(
            f"the master of connection {connection!r} is Kubernetes, and this worker cannot submit"
            f" to it: pip install apache-airflow-providers-cncf-kubernetes ({e})"
        ) from e


def environment(place: Place) -> dict[str, str]:
    """Return the environment of a submit: its driver checks requests by the policy and folder of
    this set.

    Executors run `settings.job_python`, and the driver, too, unless PYSPARK_DRIVER_PYTHON names
    another. KAFKATS_JOB_PYTHON is for both.
    """
    found = {**os.environ, "PYSPARK_PYTHON": settings.job_python()}
    if settings.JOB_PYTHON:
        found["PYSPARK_DRIVER_PYTHON"] = settings.JOB_PYTHON
    return {**found, "KAFKATS_POLICY": place.policy, "KAFKATS_FOLDER": place.folder}


class Submit:
    """A submit under way. Only its methods may be called while it is.

    JVM, driver and Python workers are one session of processes, of which the JVM is the leader.
    `error` is what the provider has raised.
    """

    def __init__(self, hook: SparkSubmitHook, script: str, environ: Mapping[str, str]) -> None:
        self.hook, self.script, self.environ = hook, script, environ
        self.error: Exception | None = None
        self._others = leaders()
        self._sessions: set[int] = set()
        inherited = copy_context()  # of the task's log
        self._thread = threading.Thread(
            target=inherited.run, args=(self._run,), daemon=True, name="spark-submit"
        )

    def start(self) -> None:
        """Start the JVM, and wait until it is known."""
        self._thread.start()
        while self._thread.is_alive() and not self._sessions:
            self._look()
            time.sleep(_STARTS)

    def wait(self, seconds: float) -> bool:
        """Wait at most so long for the end of the submit, and return whether it has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def end(self) -> None:
        """Kill what is left of the submit."""
        self._look()
        if self._thread.is_alive():
            self.hook.on_kill()
        for session in self._sessions:
            end_session(session)
        self._thread.join(_ENDS)

    def _run(self) -> None:
        try:
            self.hook.submit(self.script, start_new_session=True, env=self.environ)
        except Exception as e:
            self.error = e

    def _look(self) -> None:
        """Note the session of the submit: `start_new_session` makes it one of our children."""
        if not self._sessions:
            self._sessions = leaders() - self._others
