"""Reach the volumes of a connection: one small interface for every type of connection.

A home carries out a task's request where the log directories are, and writes its result to a file.
`spark` submits a job whose driver runs on this worker. `ssh` runs the request on the host itself,
and `kubernetes` in a pod with the volume (kafkats_airflow.jobs.host_home). Any other type is
Spark's, which has several.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from kafkats.request import Request
from kafkats_airflow.jobs.job_files import JobFiles
from kafkats_airflow.jobs.providers import hook_class
from kafkats_airflow.jobs.submit import Submit

if TYPE_CHECKING:
    from airflow.sdk import Context

SECONDS: Final = 0.5
"""How often the progress is looked at."""


class Task(NamedTuple):
    """A task under way. `folder` is that of all runs, `live` the file with the progress for pages.

    `tell` reads the progress of the job from its file, and tells people. After `limit` the work is
    ended.
    """

    context: Context
    job: str
    request: Request
    files: JobFiles
    folder: Path
    live: Path
    limit: timedelta
    tell: Callable[[], None]


class Home(Protocol):
    """A connection, and how it reaches its volumes."""

    def ready(self, request: Request) -> None:
        """Check what this worker needs, before anything is written.

        Raises UsageError, Refused.
        """

    def run(self, task: Task) -> Exception | None:
        """Carry out the request, and return what went wrong with it if it left no result.

        Raises TaskDeferred for work that takes long, if the home can wait without a worker: then
        `resumed` ends it. Raises KafkatsError.
        """

    def resumed(self, task: Task, event: dict[str, Any]) -> Exception | None:
        """Do what is left of `run` after the event for which the task waited. Raises as `run`, and
        AirflowTaskTimeout.
        """

    def end(self) -> None:
        """End the work at once, whatever state it is in."""


class SparkHome:
    """Submits a job of spark_jobs/ to the connection's Spark. It holds the worker meanwhile."""

    def __init__(self, submitting: Callable[[Task], Submit]) -> None:
        self._submitting = submitting
        self._submit: Submit | None = None

    def ready(self, _request: Request) -> None:
        """Raise UsageError where Airflow's Spark provider is not installed."""
        hook_class("spark")

    def run(self, task: Task) -> Exception | None:
        """Run the job, and return what the provider raised. Only this thread talks to Airflow."""
        self._submit = submit = self._submitting(task)
        try:
            submit.start()
            while not submit.wait(SECONDS):
                task.tell()
        finally:
            submit.end()
        task.tell()
        return submit.error

    def resumed(self, _task: Task, _event: dict[str, Any]) -> Exception | None:
        raise AssertionError("a submit does not wait for an event")

    def end(self) -> None:
        """Kill what is left of the submit."""
        if self._submit is not None:
            self._submit.end()
