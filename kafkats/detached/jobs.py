"""The folder of a detached request on its host: FOLDER/.jobs/<digest of its id>/

request.json     what to do
sent.json        with which files, and when to stop without a sign of life (Sent)
lock             held by the process that works, and by its workers, as long as they live
process.json     its process id, which is also that of its session
alive            touched by each sign of life of the worker that started it
stop             the work stops at its next safe point, for the reason in it
progress.json    how far it is (kafkats.progress)
result.json      what came of it
log.txt          what it printed
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess  # noqa: S404  # this Python, and a folder of ours
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ConfigDict

from kafkats.detached.messages import Files, State
from kafkats.errors import StorageFailed, storage
from kafkats.logdir.flocks import is_flocked
from kafkats.plans.files import make_folder, read_document, write_document
from kafkats.request import Request, write_request

JOBS: Final = ".jobs"
_TOLD_BYTES: Final = 16_384
_DIES_SECONDS: Final = 20.0
_PAUSE_SECONDS: Final = 0.05


class Sent(BaseModel):
    """The files and limits sent with a request. `alike` is `alike_of` the request."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    paths: tuple[Path, ...] = ()
    files: Files = {}
    silence_seconds: float = 0
    alike: str


class Process(BaseModel):
    """The process that works; its id names its session, too. `machine` is that of `machine()`."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    pid: int
    machine: str = ""


def machine() -> str:
    """Return the name of this host since its last boot: a process id says nothing elsewhere."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{socket.gethostname()} {boot}"
    return socket.gethostname()


def alike_of(request: Request) -> str:
    """Return a digest of what a request asks for.

    Each try of a task makes a new request, of a later moment and with a longer reservation: it asks
    for the same work.
    """
    content = request.model_dump(mode="json", exclude={"made_ms"})
    if content["reservation"]:
        content["reservation"].pop("until_ms", None)
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def digest_of(name: str) -> str:
    """Return what names the folder of the request with this id: 32 hex digits."""
    return hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:32]


class Job(NamedTuple):
    """The folder of a request. Another process may change it at any time."""

    folder: Path

    @classmethod
    def of(cls, runs: Path, name: str) -> Job:
        """Return the folder of the request with this id, in the folder of all runs."""
        return cls(runs / JOBS / digest_of(name))

    @property
    def request(self) -> Path:
        return self.folder / "request.json"

    @property
    def result(self) -> Path:
        return self.folder / "result.json"

    @property
    def progress(self) -> Path:
        return self.folder / "progress.json"

    @property
    def stop(self) -> Path:
        return self.folder / "stop"

    @property
    def alive(self) -> Path:
        return self.folder / "alive"

    @property
    def log(self) -> Path:
        return self.folder / "log.txt"

    @property
    def process(self) -> Path:
        return self.folder / "process.json"

    def state(self) -> State:
        """Return how the work stands. Raises StorageFailed."""
        with storage(self.folder, "looking at the work"):
            if not self.request.exists():
                return "none"
            if is_flocked(self._lock, fcntl.LOCK_SH):
                return "running"
            return "ended" if self.result.exists() else "lost"

    def sent(self) -> Sent | None:
        """Return what was sent, None before a start. Raises CorruptFile, StorageFailed."""
        return read_document(self.folder / "sent.json", Sent)

    def document(self, path: Path) -> dict[str, Any] | None:
        """Return a document of the folder as JSON; None if there is none that can be read."""
        with suppress(OSError, ValueError):
            found = json.loads(path.read_bytes())
            return found if isinstance(found, dict) else None
        return None

    def told(self) -> str:
        """Return the end of what the process printed."""
        with suppress(OSError), self.log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TOLD_BYTES))
            return file.read().decode(errors="replace")
        return ""

    def touch(self) -> None:
        """Note a sign of life. Raises StorageFailed."""
        with storage(self.alive, "noting a sign of life"):
            self.alive.touch()

    @contextmanager
    def only(self) -> Generator[None]:
        """Keep others from starting or ending this request meanwhile. Raises StorageFailed."""
        make_folder(self.folder.parent, "requests of other machines")
        with locked(self.folder.with_name(f"lock-{self.folder.name[0]}")):  # few: they stay
            yield

    def start(self, request: Request, sent: Sent) -> None:
        """Start the work, in a session of its own. Call it in `only`, while nothing runs.

        Raises StorageFailed.
        """
        self.forget()
        make_folder(self.folder, "a request")
        with storage(self.folder, "starting the work"):
            self.folder.chmod(0o700)
        write_document(self.folder / "sent.json", sent.model_dump(mode="json"), "writing")
        self.touch()
        write_request(self.request, request)
        with storage(self.folder, "starting the work"):
            lock = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                # The process inherits the lock: there is no moment in which nobody holds it.
                fcntl.flock(lock, fcntl.LOCK_EX)
                self._spawn(lock)
            finally:
                os.close(lock)

    def _spawn(self, lock: int) -> None:
        # Not -m: the names of its functions would be those of __main__, which workers do not know.
        start = "import sys; from kafkats.detached.working import main; sys.exit(main())"
        words = [sys.executable, "-c", start, str(self.folder)]
        with self.log.open("wb") as log:
            subprocess.Popen(  # noqa: S603  # this Python, and a folder of ours
                words,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=(lock,),
            )

    def end(self) -> None:
        """Kill the processes of the work, if there are any: what they write is made to be
        interrupted at any moment. Raises StorageFailed if some are still there, as one that waits
        for a disk, or work on another machine that shares the folder.
        """
        deadline = time.monotonic() + _DIES_SECONDS
        while self.state() == "running":
            if time.monotonic() > deadline:
                raise StorageFailed("its processes do not end", path=self.folder)
            found = self.document(self.process) or {}
            if (where := found.get("machine") or machine()) != machine():
                raise StorageFailed(f"its processes run on {where.split()[0]}", path=self.folder)
            kill(int(found.get("pid") or 0))
            time.sleep(_PAUSE_SECONDS)

    def forget(self) -> None:
        """Remove the folder. Raises StorageFailed."""
        with storage(self.folder, "removing it"), suppress(FileNotFoundError):
            shutil.rmtree(self.folder)

    @property
    def _lock(self) -> Path:
        return self.folder / "lock"


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Keep out whoever else locks this file. Nobody removes it. Raises StorageFailed."""
    with storage(path, "locking it"):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with storage(path, "locking it"):
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def kill(session: int) -> list[int]:
    """Kill the processes of a session that run, and return them. They may have begun others."""
    found = members(session)
    for pid in found:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return found


def members(session: int) -> list[int]:
    """Return the processes of a session that run; none of session 0, which is the kernel's, and of
    our own.
    """
    if session <= 1 or session == os.getsid(0):
        return []
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            with suppress(OSError, ValueError, IndexError):
                # Fields after the name of the program, which may contain anything.
                fields = (process / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == session and fields[0] not in "ZX":
                    found.append(int(process.name))
    return found
