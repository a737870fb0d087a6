"""One run of the command line: where its stages run, and what it found.

A shell, a Spark job and a scheduler run the same commands. They differ in this object only, which
click carries as `context.obj`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from kafkats.errors import KafkatsError
from kafkats.execution.executor import Executor, U, Work

# The list of commands is shown without what declares options and requests.
if TYPE_CHECKING:
    import pyarrow as pa

    from kafkats.deployment import Deployment


def _open() -> Deployment:
    from kafkats.deployment import OPEN

    return OPEN


def _of_environment() -> Deployment:
    from kafkats.deployment import Deployment

    return Deployment.of_environment()


class Front(NamedTuple):
    """The caller of the commands: a person in a shell, or a scheduler.

    `fields`: those that all its requests have. `separate`: proofs and blocked rows have tasks of
    their own, and a table gets one interval after another, whose open cells the next run finds
    again. `deployment` returns who must have approved, and raises UsageError for names that cannot
    be read. `most_rows`: the largest number of rows to print, as JSON; None: all, as tables.
    """

    fields: Mapping[str, bool] = {}
    separate: bool = False
    deployment: Callable[[], Deployment] = _open
    most_rows: int | None = None


SHELL: Final = Front()
JOB: Final = Front(
    fields={"no_topic_is_fine": True, "suspects": True},
    separate=True,
    deployment=_of_environment,
    most_rows=200,
)
"""A scheduler reads the result, and keeps the output in a log."""


class LazyExecutor(Executor):
    """Opens an executor at its first stage: wrong options never wait for one to start."""

    def __init__(self, open_it: Callable[[], AbstractContextManager[Executor]]) -> None:
        self._open = open_it
        self._stack = ExitStack()
        self._executor: Executor | None = None

    def __enter__(self) -> LazyExecutor:
        return self

    def __exit__(self, *error: object) -> None:
        self._executor = None
        self._stack.close()

    def run(self, stage: str, work: Work[U]) -> pa.Table:
        """Run a stage (Executor.run)."""
        if self._executor is None:
            self._executor = self._stack.enter_context(self._open())
        return self._executor.run(stage, work)


class Session:
    """The executor of a command's stages, and the command's result.

    `executor` runs the stages; None: worker processes on this machine, as `--jobs` says.
    `front` says who runs the command.
    """

    def __init__(self, executor: Executor | None = None, front: Front = SHELL) -> None:
        self.executor = executor
        self.front = front
        self.as_json = False
        """Whether the command prints JSON, as --json says."""
        self.summary: dict[str, Any] = {}
        """What the command found: the `summary` of --json."""
        self.error: KafkatsError | None = None
        """Why the command ended, where it could not do its work."""

    def result(self) -> Mapping[str, Any]:
        """The JSON fields for whoever submitted this: the summary, and the error, if any."""
        from kafkats.result import told

        return told(self.summary) | (self.error.as_fields() if self.error else {})


def session() -> Session:
    """The session of the running command; a shell's where there is none."""
    context = click.get_current_context(silent=True)
    return (context.find_object(Session) if context else None) or Session()
