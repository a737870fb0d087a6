"""The process of a detached request, which kafkats.detached.jobs starts.

It has a session of its own, and stops by itself at the next safe point, which is between two units
of work, when the worker that started it has given no sign of life for a set time.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic

from kafkats import clock, flow
from kafkats.deployment import Deployment
from kafkats.detached.jobs import Job, Process, Sent, machine
from kafkats.errors import KafkatsError, StorageFailed, Unattended
from kafkats.execution.executor import Executor, U, Work, pace
from kafkats.execution.local import LocalExecutor
from kafkats.plans.files import write_document, write_text
from kafkats.progress import Teller, telling
from kafkats.request import read_request
from kafkats.result import Result, write_result

if TYPE_CHECKING:
    import pyarrow as pa

_LOOKS_SECONDS: Final = 1.0


@dataclass(frozen=True)
class Stoppable(Generic[U]):
    """A function of units that does not begin one where the file `stop` is. Raises Unattended."""

    do: Callable[[U], pa.RecordBatch]
    stop: str

    def __call__(self, unit: U) -> pa.RecordBatch:
        if os.path.exists(self.stop):  # noqa: PTH110  # for each unit
            raise Unattended(Path(self.stop).read_text(encoding="utf-8"))
        return self.do(unit)


class StoppableExecutor(Executor):
    """Runs units on this machine until a file is there, and tells of its stages."""

    def __init__(self, stop: Path, tell: Callable[[dict[str, Any]], None]) -> None:
        self._stop, self._tell, self._units = stop, tell, 0
        self.local = LocalExecutor(display=self._shown)

    def run(self, stage: str, work: Work[U]) -> pa.Table:
        self._units = len(work.units)
        return self.local.run(stage, work._replace(do=Stoppable(work.do, str(self._stop))))

    @contextmanager
    def _shown(self, stage: str, total: int) -> Generator[Callable[[int], None]]:
        began, units, done, of_units = time.monotonic(), 0, 0, self._units

        def advance(more: int) -> None:
            nonlocal units, done
            units, done = units + 1, done + more
            gone = pace(done, total, time.monotonic() - began)
            self._tell({"units": units, "bytes": done} | gone)

        empty = {"units": 0, "bytes": 0, "seconds": 0.0, "seconds_left": None}
        self._tell({"stage": stage, "of_units": of_units, "of_bytes": total} | empty)
        yield advance


def work(job: Job) -> Result:
    """Do what the request in the folder says, and write its result."""
    sent = job.sent()
    with telling(job.progress) as teller, clock.every(_LOOKS_SECONDS, _watch(job, sent), "watch"):
        result = _result_of(job, teller)
        write_result(job.result, result)
    return result


def _result_of(job: Job, teller: Teller) -> Result:
    executor = StoppableExecutor(job.stop, teller.tell)
    try:
        request = read_request(job.request)
        teller.begin(request)
        deployment = Deployment.of_environment().bounded()
        with executor.local:
            return flow.run(request, executor, deployment=deployment)
    except KafkatsError as e:
        result = Result(verb="")
        result.fail(e)
        return result


def _watch(job: Job, sent: Sent | None) -> Callable[[], None]:
    """Return what stops the work when the last sign of life is too long ago. A storage that does
    not answer is looked at again.
    """
    limit = sent.silence_seconds if sent else 0

    def look() -> None:
        with suppress(OSError, StorageFailed):
            silence = time.time() - job.alive.stat().st_mtime
            if limit and silence > limit and not job.stop.exists():
                write_text(
                    job.stop,
                    "stopped between two units of work: nobody has asked for it for"
                    f" {silence:.0f} s; the next try continues with the rest",
                )

    return look


def main() -> int:
    """Run the request in the folder that is named, and return its exit code."""
    job = Job(Path(sys.argv[1]))
    process = Process(pid=os.getpid(), machine=machine())
    write_document(job.process, process.model_dump(), "noting the process")
    return work(job).exit_code
