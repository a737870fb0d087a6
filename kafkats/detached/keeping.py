"""The main process of a container in which a request is done: `kafkats-host wait JOB SECONDS`.

A container ends with its main process, and whatever it has not written into a volume is gone. So
this process waits: for the request, for the end of the work, and until the worker has the result.
It ends early when nobody has asked for so long. It prints what the work prints, since a container's
log is what is left of it, and waits for the processes that lost their parent.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from kafkats import deployment
from kafkats.detached.jobs import JOBS, Job
from kafkats.errors import StorageFailed, UsageError
from kafkats.plans.files import write_text

KEPT_SECONDS: Final = 3600.0
"""How long a result is kept that nobody collects: until then the container holds its volumes."""
_LOOKS_SECONDS: Final = 0.5
_STOP: Final = "stopped between two units of work: its pod was told to end; the next try goes on"


class Keeper:
    """Waits for the work in a folder. After `seconds` without a sign of life it ends, unless work
    is under way, which then stops by itself; 0: never.
    """

    def __init__(self, job: Job, seconds: float) -> None:
        self.job, self.seconds = job, seconds
        self.told = self._began = False
        self._born = time.time()
        self._shown = 0

    def wait(self) -> str:
        """Wait, and return why the wait is over."""
        while (why := self._looked()) is None:
            _reap()
            self._show()
            time.sleep(_LOOKS_SECONDS)
        self._show()
        return why

    def end(self, *_signal: object) -> None:
        """Let the work stop at its next safe point, and end then. A result is kept until the worker
        has it: whoever tells a container to end kills it later.
        """
        self.told = True

    def _looked(self) -> str | None:
        with suppress(StorageFailed):  # it is looked at again
            return self._over()
        return None

    def _over(self) -> str | None:
        state = self.job.state()
        if state == "running":
            self._began = True
            self._stop()
            return None
        if self.told and state != "ended":
            return "told to end"
        if state == "none" and self._began:
            with self.job.only():  # whoever starts other work removes the folder first
                return "the result was collected" if self.job.state() == "none" else None
        self._began = self._began or state != "none"
        # What was stopped is done again: there is no result for which the volumes would be held.
        kept = self._began and not self.job.stop.exists()
        limit = max(KEPT_SECONDS, self.seconds) if kept else self.seconds
        silence = self._silence()
        over = self.seconds and silence > limit
        return f"nobody has asked for {silence:.0f} s" if over else None

    def _stop(self) -> None:
        if self.told and not self.job.stop.exists():
            with suppress(StorageFailed):
                write_text(self.job.stop, _STOP)

    def _silence(self) -> float:
        last = self._born
        with suppress(OSError):
            last = max(last, self.job.alive.stat().st_mtime)
        return time.time() - last

    def _show(self) -> None:
        """Print what the work has printed meanwhile."""
        with suppress(OSError), self.job.log.open("rb") as file:
            if os.fstat(file.fileno()).st_size < self._shown:
                self._shown = 0
            file.seek(self._shown)
            while piece := file.read(1 << 16):
                self._shown += len(piece)
                sys.stderr.buffer.write(piece)
            sys.stderr.flush()


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def main(words: list[str]) -> int:
    """Wait as the words say, which are the name of the job's folder and seconds.

    Raises UsageError.
    """
    seconds = _seconds(words[1]) if len(words) == 2 and words[0].isalnum() else math.nan
    if not 0 <= seconds < math.inf:
        raise UsageError(f"wait JOB SECONDS, and not {words!r}")
    keeper = Keeper(Job(Path(deployment.folder(), JOBS, words[0])), seconds)
    signal.signal(signal.SIGTERM, keeper.end)
    print(keeper.wait(), file=sys.stderr)
    return 0


def _seconds(word: str) -> float:
    with suppress(ValueError):
        return float(word)
    return math.nan
