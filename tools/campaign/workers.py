"""Processes that judge inputs, many each; one that dies or hangs is an outcome, and is replaced."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from tools.campaign.draw import Input
from tools.campaign.work import SLOW_SECONDS

ONE_THREAD: Final = {"OMP_NUM_THREADS": "1", "ARROW_IO_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
"""A worker judges one small directory at a time: threads of Arrow's would wait for each other and for other workers."""
START_SECONDS = 300
"""How long a worker may take to load and compile its code."""


class Worker:
    """One process (tools.campaign.work) and the input that it has."""

    def __init__(self, base: Path, work: Path) -> None:
        self.base, self.folder = base, work
        self.process: subprocess.Popen[str] | None = None
        self.given: Input | None = None
        self.since = 0.0
        self._start()

    def _start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tools.campaign.work", str(self.base), str(self.folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            start_new_session=True, env=os.environ | ONE_THREAD,
        )  # fmt: skip
        if self._read(START_SECONDS) is None:
            raise RuntimeError("a worker did not start")

    def give(self, one: Input) -> None:
        assert self.process and self.process.stdin
        self.given, self.since = one, time.monotonic()
        self.process.stdin.write(
            json.dumps({"change": one.change, "verbs": one.verbs, "seed": one.seed}) + "\n"
        )
        self.process.stdin.flush()

    def answer(self, wait: float = 0.0) -> dict[str, Any] | None:
        """The verdict on what it was given; None while it is at work."""
        found = self._read(wait)
        if found is not None:
            return found
        assert self.process
        code = self.process.poll()
        if code is not None:
            return self._replaced(f"the process died: {_reason(code)}")
        if time.monotonic() - self.since > SLOW_SECONDS:
            return self._replaced(f"stuck for {SLOW_SECONDS:.0f} s")
        return None

    def _replaced(self, wrong: str) -> dict[str, Any]:
        self.stop()
        self._start()
        return {"wrong": [wrong], "lossy": False, "told": False, "findings": [], "exit_codes": {}}

    def _read(self, wait: float) -> dict[str, Any] | None:
        assert self.process and self.process.stdout
        ready, _, _ = select.select([self.process.stdout], [], [], wait)
        line = self.process.stdout.readline() if ready else ""
        return json.loads(line) if line else None

    def fileno(self) -> int:
        """Where its answers come from, for `select`."""
        assert self.process and self.process.stdout
        return self.process.stdout.fileno()

    def stop(self) -> None:
        if self.process:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            for stream in (self.process.stdin, self.process.stdout):
                if stream:
                    stream.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def answering(workers: Iterable[Worker], wait: float) -> list[Worker]:
    """Those that have an answer or have ended; after `wait` seconds without one all of them, to see who is stuck."""
    all_of_them = list(workers)
    ready, _, _ = select.select(all_of_them, [], [], wait)
    return ready or all_of_them


def _reason(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
