"""A container: a process in mount, PID and UTS namespaces of its own, with a root laid over its image's. Needs root."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_DEVICES: Final = {"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9}
_START_S: Final = 30
UNSHARE: Final = ("unshare", "--mount", "--pid", "--uts", "--fork", "--kill-child")
"""As in tests/sshd.py; /proc is mounted within the root."""


class Mount(NamedTuple):
    """A folder or file of this machine, and its path in the container."""

    real: Path
    path: str
    read_only: bool = False


class Image(NamedTuple):
    """An image: a root, what lies over it, what its configuration says, and folders of the root that only root could enter."""

    root: Path = Path("/")
    mounts: tuple[Mount, ...] = ()
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}
    user: int = 0
    opened: tuple[Path, ...] = ()


def this_machine(folder: Path) -> Image:
    """Return an image of this machine's root, with `kafkats` and `kafkats-host` of this clone in /opt/kafkats, as in the slim image.

    Their files are made in a folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    mounts = []
    for name, module in {"kafkats": "kafkats", "kafkats-host": "kafkats.detached"}.items():
        (folder / name).write_text(
            f'#!/bin/sh\nPYTHONPATH=${{PYTHONPATH:+$PYTHONPATH:}}{ROOT} exec {sys.executable} -m {module} "$@"\n'
        )
        (folder / name).chmod(0o755)
        mounts.append(Mount(folder / name, f"/opt/kafkats/{name}", read_only=True))
    homes = {Path(sys.executable), Path(sys.base_prefix), ROOT}
    opened = {one for home in homes for one in home.parents if one.stat().st_mode & 0o005 != 0o005}
    return Image(
        mounts=tuple(mounts),
        environment={"PATH": f"/opt/kafkats:{PATH}", "PYTHONDONTWRITEBYTECODE": "1"},
        opened=tuple(sorted(opened)),
    )


class Process(NamedTuple):
    """The command of a container, and its user."""

    words: Sequence[str]
    environment: Mapping[str, str]
    folder: str = "/"
    user: int = 0
    group: int = 0
    groups: tuple[int, ...] = ()
    no_new_privileges: bool = False

    def privileged(self) -> list[str]:
        """Return the words that become this user and run the program."""
        groups = (
            ["--groups", ",".join(map(str, self.groups))] if self.groups else ["--clear-groups"]
        )
        denied = ["--no-new-privs"] if self.no_new_privileges else []
        who = ["--reuid", str(self.user), "--regid", str(self.group), *groups, *denied]
        return ["setpriv", *who, "--", "env", "--chdir", self.folder, "--", *self.words]


class Container:
    """A running or ended container. Its lines are in `log`: `2026-11-27T21:00:00.000000000Z stdout F LINE`, as a kubelet writes them."""

    def __init__(
        self, folder: Path, name: str, image: Image, process: Process, mounts: Sequence[Mount], *,
        read_only_root: bool = False, stdin: bool = False,
    ) -> None:  # fmt: skip
        self.log = folder / "log"
        self.reason: str | None = None
        self._killed = False
        self._process = process
        root = folder / "root"
        for one in ("upper", "work", "root"):
            (folder / one).mkdir(parents=True)
        script = "\n".join(_script(folder, root, name, image, mounts, read_only_root))
        self._started = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *UNSHARE, "/bin/sh", "-c", script, "sh", *process.privileged()],
            env={"PATH": PATH, **process.environment}, cwd="/",
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._copies = [_Lines(self.log, stream, name) for name, stream in self._streams()]
        self.pid = self._first(root)
        self.stdin = self._started.stdin

    def _streams(self) -> list[tuple[str, IO[bytes]]]:
        assert self._started.stdout and self._started.stderr
        return [("stdout", self._started.stdout), ("stderr", self._started.stderr)]

    def _first(self, root: Path) -> int | None:
        """Return the first process of the container once it has its root, or None if it has ended already."""
        own, end = self._started.pid, time.monotonic() + _START_S
        while self._started.poll() is None and time.monotonic() < end:
            with suppress(OSError, IndexError):
                pid = int(Path(f"/proc/{own}/task/{own}/children").read_text().split()[0])
                if Path(f"/proc/{pid}/root").readlink() == root:
                    return pid
            time.sleep(0.005)
        return None

    def exit_code(self) -> int | None:
        """Return the exit code, 128 + N if signal N ended it; None while it runs."""
        code = self._started.poll()
        if code is None:
            return None
        for one in self._copies:
            one.join(5)
        if (
            self._killed and code == 1
        ):  # unshare cannot end itself by SIGKILL, as it does by other signals of its child
            return 128 + signal.SIGKILL
        return 128 - code if code < 0 else code

    def signal(self, number: int, reason: str | None = None) -> None:
        """Send a signal to its first process. `reason` is reported when it has ended."""
        self.reason = reason or self.reason
        self._killed |= number == signal.SIGKILL and self._started.poll() is None
        with suppress(ProcessLookupError):
            os.kill(self.pid or self._started.pid, number)

    def kill(self, reason: str | None = None) -> None:
        self.signal(signal.SIGKILL, reason)
        self._started.wait()

    def execute(self, words: Sequence[str], *, stdin: bool) -> subprocess.Popen[bytes]:
        """Start another program in the container, as its user."""
        enter = [
            "nsenter",
            "--target",
            str(self.pid),
            "--mount",
            "--pid",
            "--uts",
            "--root",
            "--wd",
        ]
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *enter, *self._process._replace(words=words).privileged()],
            env={"PATH": PATH, **self._process.environment},
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip


class _Lines(threading.Thread):
    """Writes the lines of a stream to a log."""

    def __init__(self, log: Path, stream: IO[bytes], name: str) -> None:
        super().__init__(daemon=True)
        self._log, self._stream, self._name = log, stream, name
        self._log.touch()
        self.start()

    def run(self) -> None:
        with self._log.open("ab", buffering=0) as log:
            for line in self._stream:
                if line.startswith(b"unshare: "):
                    continue  # it complains of a child that was killed by SIGKILL
                now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
                log.write(f"{now} {self._name} F ".encode() + line.rstrip(b"\n") + b"\n")


def _script(
    folder: Path, root: Path, name: str, image: Image, mounts: Sequence[Mount], read_only_root: bool
) -> list[str]:
    """Return the lines of a shell that make the root of a container and become its process."""
    laid = f"lowerdir={image.root},upperdir={folder / 'upper'},workdir={folder / 'work'}"
    lines = [
        "set -e",
        _line("hostname", name),
        _line("mount", "-t", "overlay", "overlay", "-o", laid, root),
    ]
    lines += [_line("chmod", "755", f"{root}{one}") for one in image.opened]
    lines += [
        _line("mkdir", "-p", root / "proc", root / "dev"),
        _line("mount", "-t", "proc", "proc", root / "proc"),
    ]
    lines += [
        _line("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", root / "dev"),
        _line("mkdir", "-m", "1777", root / "dev/shm"),
    ]
    lines += [
        _line("mknod", "-m", "666", root / "dev" / device, "c", 1, minor)
        for device, minor in _DEVICES.items()
    ]
    lines += [_line("ln", "-s", "/proc/self/fd", root / "dev/fd")]
    for one in sorted([*image.mounts, *mounts], key=lambda mount: mount.path):
        at = Path(f"{root}{one.path}")
        if one.real.is_dir():
            lines.append(_line("mkdir", "-p", at))
        else:
            lines += [_line("mkdir", "-p", at.parent), _line("touch", at)]
        lines.append(_line("mount", "--bind", one.real, at))
        if one.read_only:
            lines.append(_line("mount", "-o", "remount,bind,ro", at))
    if read_only_root:
        lines.append(_line("mount", "-o", "remount,ro", root))
    return [*lines, f'exec chroot {shlex.quote(str(root))} "$@"']


def _line(*words: object) -> str:
    return shlex.join(str(word) for word in words)


def remove(folder: Path) -> None:
    """Remove the files of an ended container but its log."""
    for one in ("upper", "work", "root"):
        shutil.rmtree(folder / one, ignore_errors=True)
