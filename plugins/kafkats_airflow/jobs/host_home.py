"""Requests on the host of a connection (kafkats_airflow.jobs.hosts).

The host's kafkats-host gets the request and its files, and starts a process that outlives the
connection (kafkats.detached). What takes longer than PATIENCE_SECONDS waits in the triggerer, and
holds no worker. The result and the changed files come back at the end; then the host forgets them.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from kafkats.detached.messages import Answer, Ask
from kafkats.errors import KafkatsError, StorageFailed
from kafkats.plans.files import write_document
from kafkats.request import Request
from kafkats_airflow import deployment
from kafkats_airflow.airflow_versions import AirflowTaskTimeout, TaskDeferred
from kafkats_airflow.jobs.homes import Task
from kafkats_airflow.jobs.hosts import Host, Unreached, host_at
from kafkats_airflow.jobs.providers import hook_class
from kafkats_airflow.jobs.sending import Parcel, parcel_of
from kafkats_airflow.jobs.waiting import UNDER_WAY, HostTrigger

_log: Final = logging.getLogger(__name__)

PATIENCE_SECONDS: Final = 15.0
"""How long a worker waits itself: a wait in the triggerer takes some seconds more."""
_FIRST_SECONDS: Final = 0.5
_LOOKS_SECONDS: Final = 3.0


class HostHome:
    """Runs requests on the host of a connection of this type."""

    def __init__(self, kind: str, conn_id: str) -> None:
        self.kind, self.conn_id = kind, conn_id
        self._host: Host | None = None
        self._under_way: Ask | None = None

    def ready(self, request: Request) -> None:
        """Raise UsageError where the provider is not installed, and Refused for what no approver
        has allowed: the host may not know who they are.
        """
        hook_class(self.kind)
        deployment.check_answer(request)

    def run(self, task: Task) -> Exception | None:
        """Start the request, or attach to it if it runs there or has ended. Raises Unreached and
        the errors of the host, besides those of Home.
        """
        parcel = parcel_of(task.request, task.folder)
        answer = self._begun(task, parcel)
        until = time.monotonic() + PATIENCE_SECONDS
        pause = _FIRST_SECONDS
        while answer.state in UNDER_WAY and time.monotonic() < until:
            time.sleep(pause)
            pause = min(2 * pause, _LOOKS_SECONDS)
            with suppress(Unreached):  # the work goes on
                answer = self._looked(task, parcel)
        if answer.state in UNDER_WAY:
            raise self._waits(task, parcel)
        return self._collected(task, parcel)

    def resumed(self, task: Task, event: dict[str, Any]) -> Exception | None:
        """Collect the result. Raises as `run`, and AirflowTaskTimeout after the limit."""
        self._under_way = _cancel(task)
        if event.get("why") == "timeout":  # whoever catches it ends the work
            raise AirflowTaskTimeout(f"not done within {task.limit}")
        parcel = parcel_of(task.request, task.folder)
        if self._looked(task, parcel).state in UNDER_WAY:
            raise self._waits(task, parcel)
        return self._collected(task, parcel)

    def end(self) -> None:
        """End the processes of the request on the host."""
        if self._under_way is not None:
            self._asked(self._under_way)

    def _at(self) -> Host:
        self._host = self._host or host_at(self.kind, self.conn_id)
        return self._host

    def _asked(self, ask: Ask, *more: Any, **named: Any) -> Answer:
        return self._at().asked(ask, *more, **named)

    def _begun(self, task: Task, parcel: Parcel) -> Answer:
        begin = _ask(
            task.request,
            parcel,
            "begin",
            {
                "request": task.request.model_dump(mode="json", exclude_defaults=True),
                "files": parcel.files,
                "ledgers": parcel.ledgers,
                "silence_seconds": self._at().silence_seconds,
            },
        )
        self._under_way = _cancel(task)
        answer = self._asked(begin)
        if answer.state == "none" or answer.wants:
            start = begin.model_copy(update={"do": "start"})
            answer = self._asked(start, (parcel.folder, answer.wants))
        return answer

    def _looked(self, task: Task, parcel: Parcel) -> Answer:
        """Look at the request, and start it where nothing is known of it: its pod runs only now."""
        answer = self._asked(_ask(task.request, parcel, "look"))
        if answer.state == "none":
            answer = self._begun(task, parcel)
        if answer.progress:
            told = answer.progress | {"ui": ""}  # no links of a host
            with suppress(StorageFailed):
                write_document(task.files.progress, told, "writing the progress", synced=False)
            task.tell()
        return answer

    def _waits(self, task: Task, parcel: Parcel) -> TaskDeferred:
        trigger = HostTrigger(
            kind=self.kind,
            conn_id=self.conn_id,
            ask=_ask(task.request, parcel, "look").model_dump(mode="json"),
            until_ms=task.request.made_ms + task.limit // timedelta(milliseconds=1),
            live=str(task.live),
        )
        return TaskDeferred(trigger=trigger, method_name="execute_complete")

    def _collected(self, task: Task, parcel: Parcel) -> Exception | None:
        """Take the result and the files, then let the host forget them."""
        answer = self._asked(_ask(task.request, parcel, "collect"), unpack=parcel.unpack)
        parcel.removed(answer)
        if answer.result is not None:
            write_document(task.files.result, answer.result, "writing the result")
        task.tell()
        try:
            self._asked(_ask(task.request, parcel, "forget"))
        except KafkatsError as e:  # nothing is lost: a host removes old files itself
            _log.warning("the host keeps the files of this request: %s", e)
        self._under_way = None
        return None if answer.result is not None else Told(answer)


class Told(Exception):
    """The output of a process that ended without a result."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.told.strip() or f"nothing was printed on {answer.host}")


def _cancel(task: Task) -> Ask:
    """Return the message that ends the work of a task, whatever can be read of its files."""
    folder = os.path.abspath(task.folder)  # noqa: PTH100  # as parcel_of
    return Ask(do="cancel", id=task.request.id, folder=Path(folder))


def _ask(request: Request, parcel: Parcel, do: str, more: Mapping[str, Any] = {}) -> Ask:
    about = {"id": request.id, "folder": parcel.folder, "mark": parcel.mark, "do": do}
    return Ask.model_validate({**about, "paths": parcel.paths, **more})
