"""One run of the command line: where its stages run, and what it found.

A shell, a Spark job and a scheduler run the same commands. They differ in this object only, which
click carries as `context.obj`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any, Final

import click

from kafkats.errors import KafkatsError
from kafkats.execution import Executor, U, Work
from kafkats.flow import OPEN, Deployment
from kafkats.result import first_remarks

if TYPE_CHECKING:
    import pyarrow as pa


_MOST_ROWS: Final = 200


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
    `scheduled`: a scheduler reads the result and keeps the output in a log. Then only the first
    rows are printed, as JSON, the deployment's approvers are asked for, and a broker without any of
    the topics is no error.
    """

    def __init__(self, executor: Executor | None = None, *, scheduled: bool = False) -> None:
        self.executor = executor
        self.scheduled = scheduled
        self.summary: dict[str, Any] = {}
        """What the command found: the `summary` of --json."""
        self.error: KafkatsError | None = None
        """Why the command ended, where it could not do its work."""

    @property
    def deployment(self) -> Deployment:
        """Who must have approved: a scheduler's deployment may name people.

        Raises UsageError for names that cannot be read.
        """
        return Deployment.of_environment() if self.scheduled else OPEN

    @property
    def most_rows(self) -> int | None:
        """The largest number of rows to print; None: all."""
        return _MOST_ROWS if self.scheduled else None

    def result(self) -> Mapping[str, Any]:
        """The JSON fields for whoever submitted this: the summary, and the error, if any."""
        found = {name: value for name, value in self.summary.items() if name != "exit_code"}
        if "remarks" in found:
            found["remarks"] = first_remarks(found["remarks"])
        return found if self.error is None else found | self.error.as_fields()


def session() -> Session:
    """The session of the running command; a shell's where there is none."""
    context = click.get_current_context(silent=True)
    return (context.find_object(Session) if context else None) or Session()
