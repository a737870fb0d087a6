"""A real broker to be read beside: started, written to, killed, started again. Run by `conformance.soak`.

Broker("4.3.1", work)   KRaft
Broker("2.8.2", work)   with a ZooKeeper of the same jars
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from conformance.broker import java
from conformance.judge import JUDGE
from tools.ports import free_ports

START_S: Final = 180
STARTED: Final = re.compile(r"Kafka Server started|\[KafkaServer id=\d+\] started")
"""The line of a broker that has started."""
_LOGGING: Final = "4.3.1"
"""A version whose jars have a logging backend."""
_BOTH: Final = {
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": 2000,
    "log.cleaner.dedupe.buffer.size": 16 << 20,
    "log.cleaner.io.buffer.size": 1 << 20,
    "log.retention.check.interval.ms": 1000,
    "log.segment.delete.delay.ms": 1000,
    "log.flush.offset.checkpoint.interval.ms": 3000,
    "replica.high.watermark.checkpoint.interval.ms": 1000,
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 2,
    "group.initial.rebalance.delay.ms": 0,
    "auto.create.topics.enable": "false",
    "controlled.shutdown.enable": "false",
}
_AT_REST: Final = {
    "log.cleaner.enable": "false",
    "log.retention.check.interval.ms": 3_600_000,
    "log.initial.task.delay.ms": 3_600_000,  # brokers before 3.7 do not know it, and wait 30 s
}
"""A start that only recovers."""
_LOG4J: Final = """status = warn
appender.out.type = Console
appender.out.name = OUT
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %p %m (%c)%n
rootLogger.level = {level}
rootLogger.appenderRef.out.ref = OUT
"""


_KEPT: Final = "ZooKeeper keeps the killed broker"


class Broker:
    """One broker, its log.dirs root `root`, and what it needs beside it. `stop` and `kill` end it, `close` ends all."""

    memory = "512m"

    def __init__(self, version: str, work: Path, *, level: str = "warn") -> None:
        self.version, self.work, self.root = version, work, work / "data"
        self.port, self._controller = free_ports(2)
        self.classpath = _classpath(version)
        self._process: subprocess.Popen[bytes] | None = None
        self._zookeeper: subprocess.Popen[bytes] | None = None
        work.mkdir(parents=True, exist_ok=True)
        (work / "log4j2.properties").write_text(_LOG4J.format(level=level))

    @property
    def kraft(self) -> bool:
        return int(self.version.split(".")[0]) >= 4

    def start(self, *, at_rest: bool = False) -> None:
        """Start it and wait until it answers. `at_rest`: it recovers, and neither cleans nor deletes. Raises RuntimeError."""
        self._prepare()
        file = self.work / "server.properties"
        file.write_text(self.properties(at_rest=at_rest))
        self._process = self._java(
            "broker", "kafka.Kafka", str(file), memory=self.memory, options=self._java_options()
        )
        self._until_answers(self._process, self.port, "broker")

    def properties(self, *, at_rest: bool = False) -> str:
        """Return the text of server.properties."""
        properties = _BOTH | (_AT_REST if at_rest else {}) | self._own()
        return "".join(f"{key}={value}\n" for key, value in properties.items())

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None

    @property
    def ended(self) -> bool:
        """True if the process has ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def stop(self) -> None:
        """A clean stop."""
        assert self._process is not None
        _end(self._process)
        self._process = None

    def close(self) -> None:
        for process in (self._process, self._zookeeper):
            if process is not None:
                _end(process)
        self._process = self._zookeeper = None

    def _prepare(self) -> None:
        if self.kraft:
            self._format()
        elif self._zookeeper is None:
            self._start_zookeeper()
        else:
            until(lambda: not registered(self._controller, 1), START_S, _KEPT)

    def _own(self) -> dict[str, object]:
        own: dict[str, object] = {"log.dirs": self.root}
        if not self.kraft:
            return own | {
                "broker.id": 1,
                "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
                "zookeeper.connect": f"127.0.0.1:{self._controller}",
                "zookeeper.session.timeout.ms": 6000,
            }
        return own | {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self._controller}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "metadata.log.dir": self.work / "metadata",
        }

    def _features(self) -> tuple[str, ...]:
        """Return more words for the tool that formats the directory."""
        return ()

    def _java_options(self) -> tuple[str, ...]:
        """Return more options for the broker's virtual machine."""
        return ()

    def _format(self) -> None:
        if self.root.exists():
            return
        file = self.work / "format.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in self._own().items()))
        words = ("format", "-t", "c29ha3Nvc2Frc29ha3Nvcw", "-c", str(file), *self._features())
        process = self._java("format", "kafka.tools.StorageTool", *words, memory="128m")
        if process.wait():
            raise RuntimeError(f"the broker's directory was not formatted:\n{self._said('format')}")

    def _start_zookeeper(self) -> None:
        file = self.work / "zookeeper.properties"
        file.write_text(
            f"dataDir={self.work}/zookeeper\nclientPort={self._controller}\nclientPortAddress=127.0.0.1\n"
            "admin.enableServer=false\ntickTime=2000\nmaxClientCnxns=0\n"
            "4lw.commands.whitelist=dump\n"
        )
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        self._zookeeper = self._java("zookeeper", main, str(file), memory="128m")
        self._until_answers(self._zookeeper, self._controller, "zookeeper")

    def _java(
        self, what: str, main: str, *words: str, memory: str, options: Sequence[str] = ()
    ) -> subprocess.Popen[bytes]:
        options = (
            *options,
            f"-Xmx{memory}",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Dzookeeper.jmx.log4j.disable=true",
            f"-Dlog4j2.configurationFile={self.work}/log4j2.properties",
        )
        command = [java(), *options, "-cp", self.classpath, main, *words]
        with (self.work / f"{what}.out").open("ab") as out:
            return subprocess.Popen(
                command, cwd=self.work, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )

    def _until_answers(self, process: subprocess.Popen[bytes], port: int, what: str) -> None:
        until(
            lambda: process.poll() is not None or _answers(port), START_S, f"{what} did not start"
        )
        if process.poll() is not None:
            raise RuntimeError(f"the {what} ended:\n{self._said(what)}")

    def _said(self, what: str) -> str:
        return (self.work / f"{what}.out").read_text(errors="replace")[-3000:]


class Writers:
    """The process of `conformance.writers`: producers of all kinds, and topics that come and go."""

    def __init__(self, broker: Broker, *options: str) -> None:
        self._out = broker.work / "writers.out"
        with self._out.open("ab") as out:
            words = [sys.executable, "-m", "conformance.writers", str(broker.port), *options]
            self._process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=out
            )

    def wait_until_all_topics_are_there(self) -> None:
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            self._process.wait()
            raise RuntimeError(
                f"nothing is written:\n{self._out.read_text(errors='replace')[-3000:]}"
            )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def end(self) -> str:
        """Stop writing. Returns what the producers said of how much they wrote."""
        self._process.send_signal(signal.SIGTERM)
        try:
            said, _ = self._process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            said, _ = self._process.communicate()
        return said.decode(errors="replace").strip()


def _classpath(version: str) -> str:
    """Return the jars of a version; those before 4 come without a logging backend."""
    if int(version.split(".")[0]) >= 4:
        return f"{_jars(version)}/*"
    return os.pathsep.join([f"{_jars(version)}/*", *map(str, _jars(_LOGGING).glob("log4j-*.jar"))])


def _jars(version: str) -> Path:
    words = [str(JUDGE), "--kafka", version, "jars"]
    return Path(subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip())


def registered(zookeeper: int, broker: int) -> bool:
    """Return True while ZooKeeper holds the session of a killed broker. Then a start would fail."""
    with socket.create_connection(("127.0.0.1", zookeeper), timeout=10) as connection:
        connection.sendall(b"dump")
        with connection.makefile("r") as answer:
            return f"/brokers/ids/{broker}" in answer.read().split()


def until(condition: Callable[[], bool], seconds: float, what: str, *, pause: float = 0.2) -> None:
    """Wait for `condition`, and look every `pause` seconds. Raises TimeoutError."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} within {seconds:.0f} s")
        time.sleep(pause)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(START_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
