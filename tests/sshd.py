"""A real sshd on loopback, with its own configuration, keys and port; as a host of its own if root may make namespaces."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tests.privileges import refuse, refuse_without
from tools import hosts
from tools.ports import free_ports

PROGRAM = shutil.which("sshd") or "/usr/sbin/sshd"
COMMAND = f"{sys.executable} -m kafkats.detached"
ROOT = Path(__file__).parents[1]
CONFIG = """
ListenAddress 127.0.0.1:{port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxStartups 100
LogLevel VERBOSE
SetEnv {environment}
"""


class Sshd(NamedTuple):
    """A server. `folder` has its keys and its log."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes]

    def connection(self, **extra: object) -> str:
        """Return a connection of Airflow to it, as JSON."""
        known = (self.folder / "host_key.pub").read_text().split()[:2]
        given = {
            "key_file": str(self.folder / "key"),
            "host_key": " ".join(known),
            "kafkats_host": COMMAND,
        }
        given |= extra
        content = {"conn_type": "ssh", "host": "127.0.0.1", "port": self.port, "login": user()}
        return json.dumps(
            content | {"extra": {name: one for name, one in given.items() if one is not None}}
        )

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def cut(self) -> int:
        """Cut all its connections, and return how many processes served them; what they started goes on."""
        import psutil

        killed = 0
        for pid in _below(self.process.pid):
            with suppress(psutil.Error):
                one = psutil.Process(pid)
                above = one.parent()
                if one.name().startswith("sshd") and above and above.name().startswith("sshd"):
                    one.kill()
                    killed += 1
        return killed


def user() -> str:
    import pwd

    return pwd.getpwuid(os.getuid()).pw_name


@contextmanager
def sshd(
    folder: Path, environment: Mapping[str, str], inside: tuple[str, ...] = ()
) -> Generator[Sshd]:
    """Run a server. Its sessions have this environment. `inside` are words before its command line, such as unshare."""
    if not os.access(PROGRAM, os.X_OK):
        refuse("there is no sshd here: scripts/sshd gets it")
    folder.mkdir(parents=True)
    for name in ("host_key", "key"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True
        )
    shutil.copy(folder / "key.pub", folder / "authorized_keys")
    given = {"PYTHONPATH": str(ROOT), **environment}
    words = " ".join(f'"{name}={value}"' for name, value in given.items())
    (port,) = free_ports(1)
    (folder / "config").write_text(CONFIG.format(folder=folder, port=port, environment=words))
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    command = [*inside, PROGRAM, "-D", "-e", "-f", str(folder / "config")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stderr=log, stdout=log, start_new_session=True)
    try:
        _answers(port, process)
        yield Sshd(folder, port, process)
    finally:
        for pid in [*_below(process.pid), process.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


def _answers(port: int, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise RuntimeError("sshd has ended")


def _below(pid: int) -> list[int]:
    import psutil

    with suppress(psutil.Error):
        sessions = psutil.Process(pid).children(recursive=True)
        return [one.pid for one in sessions]
    return []


def apart(name: str, *mounts: tuple[Path, Path]) -> tuple[str, ...]:
    """Return words that make a server a host of its own (tools.hosts.inside)."""
    if os.getuid() != 0:
        refuse_without("makes hosts in namespaces")
    return hosts.inside(name, *mounts)
