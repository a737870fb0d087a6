"""A spark-submit of the provider's hook, in a thread that talks to nobody but Spark."""

from __future__ import annotations

import threading
import time
from contextvars import copy_context
from typing import Final

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from kafkats_airflow.jobs.processes import end_session, leaders

_STARTS: Final = 0.05
_ENDS: Final = 30.0


class Submit:
    """A submit under way. Only its methods may be called while it is.

    JVM, driver and Python workers are one session of processes, of which the JVM is the leader.
    `error` is what the provider has raised.
    """

    def __init__(self, hook: SparkSubmitHook, script: str) -> None:
        self.hook, self.script = hook, script
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
            self.hook.submit(self.script, start_new_session=True)
        except Exception as e:
            self.error = e

    def _look(self) -> None:
        """Note the session of the submit: `start_new_session` makes it one of our children."""
        if not self._sessions:
            self._sessions = leaders() - self._others
