"""The demo of hosts by SSH: three brokers' hosts, each with its own disk at the same path; one DAG run repairs all of them.

Called by scripts/demo, which sets the environment. Needs root, for namespaces, and an sshd. The hosts are real sshd on loopback, each
in mount, PID and UTS namespaces of its own. While the run works all connections are cut every second. The proof at the end
uses none of our code: every file must have the sha256 that was recorded when Kafka itself had written it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import yaml

from tests.golden import case
from tests.sshd import Sshd, apart, sshd
from tools.demo_stage import (
    HOME,
    POLICY,
    REPORTS,
    begin,
    console,
    differences,
    end,
    run_dag,
    show_jobs,
    unpack,
)
from tools.demos.rebuild import CASES, damage

DISK = HOME / "disk"
"""The path of every host's disk; in no other mount namespace is there anything."""


def main() -> int:
    if os.getuid():
        console.print(
            "[red]this demo makes hosts in namespaces[/]: run it as root, with openssh-server installed"
        )
        return 1
    began = time.monotonic()
    begin()
    for folder in (DISK, REPORTS):
        folder.mkdir()
    console.rule("[bold]1 Three hosts by SSH, each with a killed broker's disk at the same path")
    roots = {broker: unpack(broker, case(name)) for broker, name in CASES.items()}
    damaged = {broker: len(damage(root)) for broker, root in roots.items()}
    with ExitStack() as stack:
        servers = {broker: stack.enter_context(host(broker, roots[broker])) for broker in CASES}
        for broker, server in servers.items():
            name = f"host_{broker[-1]}"
            os.environ[f"AIRFLOW_CONN_{name.upper()}"] = server.connection()
            console.print(
                f"  {broker}: {damaged[broker]} time indexes damaged; 127.0.0.1:{server.port}, connection {name}"
            )
        write_policy()
        console.rule(
            "[bold]2 airflow dags test rebuild_time_indexes, with all connections cut again and again"
        )
        with_cuts = Cuts(servers)
        report = run_dag("rebuild_time_indexes", need_approval=False)
        with_cuts.end()
    if report is None:
        return 1
    console.rule("[bold]3 What ran where")
    show_jobs("host")
    console.print(f"  connections cut: {with_cuts.count}")
    console.rule("[bold]4 Proof: compared with what Kafka itself had written")
    wrong = [
        line for broker, root in roots.items() for line in differences(root, case(CASES[broker]))
    ]
    wrong += [f"{one}: left on a host" for broker in CASES for one in left(broker)]
    fine = (
        "every file of the three disks is as Kafka had written it, and no host has kept a file of"
        " the run"
    )
    return end(wrong, fine, report, began)


def host(broker: str, root: Path) -> AbstractContextManager[Sshd]:
    """Return a server that sees the disk of a broker at DISK, and a folder of runs of its own."""
    (runs := HOME / broker / "runs").mkdir()
    inside = apart(broker, (root.parent, DISK), (runs, REPORTS))
    return sshd(HOME / "sshd" / broker, {"KAFKATS_FOLDER": str(REPORTS)}, inside)


def write_policy() -> None:
    volumes = [
        {
            "broker": broker,
            "path": str(DISK / "data"),
            "connection": f"host_{broker[-1]}",
            "owner_stopped": True,
        }
        for broker in CASES
    ]
    POLICY.write_text(yaml.safe_dump({"volumes": volumes}))


class Cuts:
    """Cuts all connections of the servers, every fifteen seconds."""

    def __init__(self, servers: Mapping[str, Sshd]) -> None:
        self.count = 0
        self._servers, self._over = servers, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(15):
            for server in self._servers.values():
                self.count += server.cut()

    def end(self) -> None:
        self._over.set()
        self._thread.join()


def left(broker: str) -> list[str]:
    """Return the files of runs that a host still has."""
    files = (HOME / broker / "runs").rglob("*")
    return [str(path) for path in files if path.is_file() and "lock-" not in path.name]


if __name__ == "__main__":
    sys.exit(main())
