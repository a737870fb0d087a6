"""The progress of a job, as a small document that is replaced every few seconds while it runs.

It has no result. Whoever started the job reads it: `written_ms` shows that the driver lives, also
while it decides between two stages.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import NonNegativeInt

from kafkats import clock
from kafkats.errors import StorageFailed
from kafkats.plans.files import write_document
from kafkats.request import Request
from kafkats.result import Rate

SECONDS: Final = 2.0


class Stage(Rate):
    """The progress of a stage under way. `ui` is Spark's page."""

    ui: str = ""


class Progress(Stage):
    """The progress of a job. Times are epoch milliseconds.

    `request` is the id of its request, `pid` and `session` those of the driver on `host`.
    """

    format: Literal[1] = 1
    request: str = ""
    verb: str = ""
    pid: int
    session: int
    host: str
    began_ms: NonNegativeInt
    written_ms: NonNegativeInt = 0
    state: Literal["starting", "running", "ended"] = "starting"

    def of_stage(self) -> dict[str, Any]:
        """Return the fields about the stage, without those that are not known."""
        return self.model_dump(include=set(Stage.model_fields), exclude_none=True)


class Teller:
    """Keeps the progress of this process in a file; an error of that file ends no work."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()
        self._fields: dict[str, Any] = {
            "pid": os.getpid(),
            "session": os.getsid(0),
            "host": socket.gethostname(),
            "began_ms": clock.now_ms(),
        }

    def tell(self, fields: Mapping[str, object]) -> None:
        """Keep these fields; the file has them at its next replacement."""
        with self._lock:
            self._fields |= fields

    def begin(self, request: Request) -> None:
        """Keep whose progress this is."""
        self.tell({"request": request.id, "verb": request.verb, "state": "running"})

    def write(self) -> None:
        """Replace the file."""
        with self._lock, suppress(StorageFailed):
            made = Progress.model_validate(self._fields | {"written_ms": clock.now_ms()})
            content = made.model_dump(mode="json", exclude_none=True)
            write_document(self._path, content, "writing the progress", synced=False)


@contextmanager
def telling(path: Path) -> Generator[Teller]:
    """Replace the file at once, every SECONDS and at the end."""
    teller = Teller(path)
    teller.write()
    try:
        with clock.every(SECONDS, teller.write, "progress of the job"):
            yield teller
    finally:
        teller.tell({"state": "ended"})
        teller.write()
