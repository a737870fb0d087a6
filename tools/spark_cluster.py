"""A Spark standalone cluster on loopback, whose workers are hosts of their own (tools.hosts): they may see different volumes.

    with SparkCluster(folder) as cluster:
        one = cluster.start("host-1", (disk, Path("/kafka/a")))
        cluster.submit("plan", "rebuild", "/kafka/a", "-o", plan)
        one.kill()

Each worker has one slot and a loopback address, by which Spark knows it.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

import pyspark

from tools.hosts import inside

ROOT: Final = Path(__file__).parents[1]
START_S: Final = 180
SUBMIT_S: Final = 900
_QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_CLASS: Final = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
_AT: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_FOUND: Final = "Successfully registered with master"


class Worker:
    """A host with a Spark worker. `kill` ends all its processes, as a loss of power does."""

    def __init__(
        self, name: str, address: str, log: Path, process: subprocess.Popen[bytes]
    ) -> None:
        self.name, self.address, self.log = name, address, log
        self._process = process

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """Stop the Python processes of its tasks as they are."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        import psutil

        with suppress(psutil.Error):
            for one in psutil.Process(self._process.pid).children(recursive=True):
                with suppress(psutil.Error):
                    if one.name().startswith("python"):
                        one.send_signal(number)


class SparkCluster:
    """`with SparkCluster(folder)`: every process that it started has ended afterwards."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workers: list[Worker] = []
        self._address = 1

    def __enter__(self) -> SparkCluster:
        self.folder.mkdir(parents=True)
        log = self.folder / "master.log"
        words = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        self._master = _started((_CLASS, "org.apache.spark.deploy.master.Master", *words), log, {})
        try:
            self.url = _wait(self._master, log, _AT)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        for worker in self.workers:
            worker.kill()
        self._master.kill()
        self._master.wait()

    def start(
        self, name: str, *mounts: tuple[Path, Path], environment: Mapping[str, str] | None = None
    ) -> Worker:
        """Start a host that sees these folders (tools.hosts.inside), and wait until the master knows it."""
        self._address += 1
        address, log = f"127.0.0.{self._address}", self.folder / f"{name}-{self._address}.log"
        words = ["--host", address, "--cores", "1", "--memory", "1g", "--webui-port", "0"]
        words += ["--work-dir", str(self.folder / f"{name}-{self._address}"), self.url]
        command = (*inside(name, *mounts), _CLASS, "org.apache.spark.deploy.worker.Worker", *words)
        process = _started(command, log, {"SPARK_LOCAL_IP": address, **(environment or {})})
        worker = Worker(name, address, log, process)
        self.workers.append(worker)
        _wait(process, log, re.compile(f"({_FOUND})"))
        return worker

    def submitting(
        self, job: str, *words: object, conf: Mapping[str, str] | None = None
    ) -> list[str]:
        """Return the command line of a job on this cluster."""
        given = {"spark.executor.memory": "512m", "spark.ui.enabled": "false", **(conf or {})}
        settings = [word for one in given.items() for word in ("--conf", "=".join(one))]
        script = str(ROOT / "spark_jobs" / f"{job}.py")
        return ["spark-submit", "--master", self.url, *settings, script, *map(str, words)]

    def submit(
        self,
        job: str,
        *words: object,
        conf: Mapping[str, str] | None = None,
        seconds: int = SUBMIT_S,
    ) -> subprocess.CompletedProcess[str]:
        """Run a job to its end, for so many seconds at most, and return what it printed."""
        return subprocess.run(
            self.submitting(job, *words, conf=conf),
            env=environment(),
            text=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=seconds,
            check=False,
        )

    def begin(
        self, log: Path, job: str, *words: object, conf: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a job, which writes what it prints into a file."""
        return _started(self.submitting(job, *words, conf=conf), log, {})


def environment() -> dict[str, str]:
    """Return the environment of a Spark driver, and of a worker that has this kafkats."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    own = {"PATH": path, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    return os.environ | {"JDK_JAVA_OPTIONS": _QUICK, "PYTHONPATH": str(ROOT), **own}


def _started(
    command: tuple[str, ...] | list[str], log: Path, more: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    with log.open("wb") as file:
        return subprocess.Popen(
            command,
            env={**environment(), **more},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _wait(process: subprocess.Popen[bytes], log: Path, what: re.Pattern[str]) -> str:
    """Return the group of the pattern when a log has it. Raises RuntimeError, TimeoutError."""
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        if found := what.search(log.read_text(errors="replace")):
            return found[1]
        if process.poll() is not None:
            raise RuntimeError(f"has ended: {log}:\n{log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.2)
    raise TimeoutError(f"is not there after {START_S} s: {log}")
