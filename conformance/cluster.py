"""Three real brokers of one cluster on 127.0.0.1, with a KRaft controller or a ZooKeeper beside them.

Cluster("4.3.1", work)   a controller and three brokers
Cluster("2.8.2", work)   a ZooKeeper and three brokers
"""

from __future__ import annotations

import random
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Final

from conformance.broker import java
from conformance.soaked import START_S, STARTED, Broker, registered, until

BROKERS: Final = (1, 2, 3)
_CONTROLLER: Final = 9
_TOOL_S: Final = 120
_PORTS: Final = range(20_000, 32_000)
"""Below the ports that Linux gives to connections: a broker that starts again finds its own free."""
_REPLICATED: Final = {
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    "controlled.shutdown.enable": "true",
    "controlled.shutdown.retry.backoff.ms": 200,  # the last broker finds no other leader
    # Only the comparison chooses leaders, and a replica falls behind only when its broker is down.
    "auto.leader.rebalance.enable": "false",
    "replica.lag.time.max.ms": 60_000,
}
_SESSION_MS: Final = 9000
_ELR: Final = ("--feature", "eligible.leader.replicas.version=1")


class Member(Broker):
    """A broker of a cluster. Its controller or ZooKeeper is started and ended by the cluster."""

    memory = "256m"

    def __init__(self, version: str, number: int, work: Path, controller: int) -> None:
        super().__init__(version, work, level="info")
        self.number = number
        self.port, self._controller, self.metrics_port = free_port(), controller, free_port()

    @property
    def output(self) -> str:
        file = self.work / "broker.out"
        return file.read_text(errors="replace") if file.exists() else ""

    def start(self, *, at_rest: bool = False) -> None:
        """Start it, and wait until it has its place in the cluster. Raises RuntimeError, TimeoutError."""
        heard = len(self.output)
        super().start(at_rest=at_rest)

        def started() -> bool:
            return STARTED.search(self.output, heard) is not None

        until(lambda: started() or self.ended, START_S, f"broker {self.number} did not start")
        if not started():
            raise RuntimeError(f"broker {self.number} ended:\n{self.output[-3000:]}")

    def pause(self) -> None:
        """Stop the process as it is (SIGSTOP)."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def _prepare(self) -> None:
        if self.kraft:
            self._format()
        else:
            until(
                lambda: not registered(self._controller, self.number),
                START_S,
                "ZooKeeper keeps the killed broker",
            )

    def _own(self) -> dict[str, object]:
        own = _REPLICATED | {"log.dirs": self.root}
        if not self.kraft:
            return own | {
                "broker.id": self.number,
                "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
                "zookeeper.connect": f"127.0.0.1:{self._controller}",
                "zookeeper.session.timeout.ms": _SESSION_MS,
            }
        return own | {
            "process.roles": "broker",
            "node.id": self.number,
            "controller.quorum.voters": f"{_CONTROLLER}@127.0.0.1:{self._controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "metadata.log.dir": self.work / "metadata",
        }

    def _features(self) -> tuple[str, ...]:
        return (*super()._features(), *_ELR)

    def _java_options(self) -> tuple[str, ...]:
        beans = "-Dcom.sun.management.jmxremote"
        return (
            f"{beans}.port={self.metrics_port}",
            f"{beans}.rmi.port={self.metrics_port}",
            f"{beans}.host=127.0.0.1",
            f"{beans}.authenticate=false",
            f"{beans}.ssl=false",
            "-Djava.rmi.server.hostname=127.0.0.1",
        )


class Controller(Broker):
    """The KRaft controller of a cluster, or its ZooKeeper."""

    memory = "256m"

    def __init__(self, version: str, work: Path) -> None:
        super().__init__(version, work)
        self.port = self._controller = free_port()

    def start(self, *, at_rest: bool = False) -> None:
        if self.kraft:
            super().start(at_rest=at_rest)
        else:
            self._start_zookeeper()

    def _own(self) -> dict[str, object]:
        return {
            "process.roles": "controller",
            "node.id": _CONTROLLER,
            "controller.quorum.voters": f"{_CONTROLLER}@127.0.0.1:{self.port}",
            "listeners": f"CONTROLLER://127.0.0.1:{self.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "broker.session.timeout.ms": _SESSION_MS,
            "log.dirs": self.root,
        }

    def _features(self) -> tuple[str, ...]:
        return (*super()._features(), *_ELR)


class Cluster:
    """`with Cluster(...)`: every process that it started has ended afterwards."""

    def __init__(self, version: str, work: Path) -> None:
        self.version, self.work = version, work
        self.controller = Controller(version, work / "live" / "controller")
        self.brokers = {
            number: Member(
                version, number, work / "live" / f"broker-{number}", self.controller.port
            )
            for number in BROKERS
        }

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        for broker in self.brokers.values():
            if broker.runs:
                broker.resume()
                broker.kill()
        self.controller.close()

    def start(self, *numbers: int, at_rest: bool = False) -> None:
        """Start brokers, one after the other."""
        for number in numbers:
            self.brokers[number].start(at_rest=at_rest)

    def save(self, to: Path) -> None:
        """Copy all directories; no process runs."""
        shutil.copytree(self.work / "live", to)

    def restore(self, saved: Path) -> None:
        """Put a saved state in the place of all directories; no process runs."""
        shutil.rmtree(self.work / "live")
        shutil.copytree(saved, self.work / "live")

    def tool(self, main: str, *words: object) -> str:
        """Run one of Kafka's own tools; return what it prints. Raises RuntimeError."""
        broker = self.brokers[BROKERS[0]]
        command = [java(), "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += ["-cp", broker.classpath, main, *map(str, words)]
        done = subprocess.run(
            command, cwd=self.work, capture_output=True, text=True, timeout=_TOOL_S, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{main} {words}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout


def free_port() -> int:
    """Return a port that nothing listens on, and that no connection is given."""
    dice = random.SystemRandom()
    while True:
        port = dice.choice(_PORTS)
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
