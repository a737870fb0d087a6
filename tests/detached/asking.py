"""Messages to a host that is this process, about a folder of runs and a log directory of a test."""

from __future__ import annotations

import io
import os
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import pytest

from kafkats.detached import jobs, parcels
from kafkats.detached.jobs import Job
from kafkats.detached.messages import Answer, Ask, Files, read_message, write_message
from kafkats.detached.serving import serve
from kafkats.plans.files import write_document

ID = "night/run 1/plan/0"


class Host(NamedTuple):
    """A host whose folder of all runs is `runs`."""

    runs: Path

    def ask(self, do: Any, parcel: bytes = b"", **fields: Any) -> tuple[Answer, IO[bytes]]:
        """Return the answer to a message, and the stream behind it."""
        asked, told = io.BytesIO(), io.BytesIO()
        write_message(asked, Ask(**{"do": do, "id": ID, "folder": self.runs, **fields}))
        asked.write(parcel)
        asked.seek(0)
        serve(asked, told)
        told.seek(0)
        return read_message(told, Answer), told

    def job(self) -> Job:
        return Job.of(self.runs, ID)


def plan_of(root: Path, into: Path, **fields: Any) -> dict[str, Any]:
    """Return a request to plan a rebuild of `root` into a folder."""
    options = {"PlanFolder": {"into": str(into), "go_on": True}}
    request = {"verb": "plan", "operation": "rebuild", "id": ID, "made_ms": 1_795_500_000_000}
    return {**request, "log_dirs": [{"path": str(root)}], "options": options, **fields}


def packed(folder: Path, files: Files) -> bytes:
    stream = io.BytesIO()
    parcels.pack(stream, folder, files)
    return stream.getvalue()


@contextmanager
def pretended(
    monkeypatch: pytest.MonkeyPatch, *words: str
) -> Generator[list[subprocess.Popen[bytes]]]:
    """Let a start run these words in place of the work. Yield the processes that were started."""
    started: list[subprocess.Popen[bytes]] = []

    def spawn(self: Job, lock: int) -> None:
        one = subprocess.Popen(words or ("sleep", "600"), start_new_session=True, pass_fds=(lock,))
        write_document(self.process, {"pid": one.pid}, "noting the process")
        started.append(one)

    monkeypatch.setattr(jobs.Job, "_spawn", spawn)
    try:
        yield started
    finally:
        for one in started:
            for pid in jobs.members(one.pid):
                os.kill(pid, 9)
            one.wait()


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds; the limit of pytest ends a test that waits for ever."""
    while not holds():
        time.sleep(0.05)
