"""The time to recover a whole directory: a real broker after kill -9, and kafkats rebuilding every
index. Wall time.

The broker is Kafka 4.3.1 (KRaft) with one partition of four segments of uncompressed magic 1 and
100 B values. Its indexes are kept, which is its best case. Its time is the one that its LogManager
reports ("Loaded ... logs in ... ms", without the JVM start). kafkats begins without any index: it
verifies every segment, plans, builds again, writes, syncs and swaps all files. Recovery does more
than indexes: it also rebuilds the state of producers, of which there are none here.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pyarrow as pa

from bench.harness import MIB, Figure, Figures, process, scratch, tell, wall_seconds
from bench.java import KAFKA, java_command
from bench.segments import V1_100, write_indexes, write_segment
from kafkats.paths import LEADER_EPOCH, LOG, META_PROPERTIES
from tools.ports import free_ports

SEGMENTS = 4
ROUNDS = 2
TOPIC = "replayed"
START_SECONDS = 240
_MESSAGE_BYTES = 12 + 22 + 8 + 100
HEAP = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC")
LOADED = re.compile(r"Loaded \d+ logs in (\d+)ms")
_LOG4J = """status = warn
appender.out.type = Console
appender.out.name = OUT
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %p %m (%c)%n
rootLogger.level = info
rootLogger.appenderRef.out.ref = OUT
"""


def figures(*, small: bool = False) -> Figures:
    size = (8 if small else 256) * MIB
    with scratch() as folder:
        home = folder / "broker"
        (partition,) = create_topic(home)
        bases = write_logs(partition, size)
        logs = sorted(partition.glob(f"*{LOG}"))
        log_bytes = sum(log.stat().st_size for log in logs)
        theirs, ours, processes = [], [], []
        for n in range(ROUNDS):
            tell(f"round {n + 1}: the broker recovers {log_bytes:,} bytes")
            theirs.append(_recovery_seconds(home))
            tell(f"it took {theirs[-1]:.1f} s")
            root = _copy(folder / f"ours-{n}", logs)
            ours.append(wall_seconds(partial(_rebuild, root)))
            processes.append(
                _rebuild_by_command(_copy(folder / f"command-{n}", logs), folder / f"plan-{n}")
            )
    detail = (
        f"{len(bases)} segments, {log_bytes / 1e9:.2f} GB: broker {statistics.median(theirs):.1f} s"
    )
    ratio = statistics.median(t / o for t, o in zip(theirs, ours, strict=True))
    yield Figure(
        "whole directory / broker's recovery",
        ratio,
        "x",
        20,
        detail=f"{detail}, kafkats {statistics.median(ours):.2f} s",
    )
    ratio = statistics.median(t / o for t, o in zip(theirs, processes, strict=True))
    yield Figure(
        "the same by two commands, Python's start included", ratio, "x",
        detail=f"{detail}, plan and apply {statistics.median(processes):.2f} s",
    )  # fmt: skip


def create_topic(home: Path, partitions: int = 1, threads: int = 1) -> list[Path]:
    """Create the topic on a broker, kill it, and return the directories of its partitions.

    They are empty. At its starts the broker recovers logs with `threads`.
    """
    home.mkdir()
    port, controller = free_ports(2)
    _configure(home, {
        "process.roles": "broker,controller", "node.id": 1, "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT", "controller.listener.names": "CONTROLLER",
        "log.dirs": home / "data", "num.recovery.threads.per.data.dir": threads, "log.cleaner.enable": "false",
        "log.retention.ms": -1, "offsets.topic.replication.factor": 1, "offsets.topic.num.partitions": 1,
    })  # fmt: skip
    cluster = "S2Fma2F0c0JlbmNoMDAwMA"
    process(
        java_command(
            "kafka.tools.StorageTool",
            "format",
            "-t",
            cluster,
            "-c",
            str(home / "server.properties"),
        )
    )
    with running(home) as said:
        wait_for(said, "Kafka Server started")
        process(java_command(
            "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", f"127.0.0.1:{port}", "--create", "--topic", TOPIC,
            "--partitions", str(partitions), "--replication-factor", "1", "--config", "retention.ms=-1",
        ))  # fmt: skip
        made = [home / "data" / f"{TOPIC}-{n}" for n in range(partitions)]
        _until(lambda: all((one / "partition.metadata").exists() for one in made))
    for one in made:
        for empty in one.glob("0*"):
            empty.unlink()
    return made


def create_old(home: Path, partitions: int, threads: int) -> list[Path]:
    """Return the empty partition directories of a broker of a release with ZooKeeper.

    Such a broker loads each partition that lies in its directory.
    """
    home.mkdir()
    port, controller = free_ports(2)
    _configure(home, {
        "broker.id": 1, "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "zookeeper.connect": f"127.0.0.1:{controller}", "log.dirs": home / "data",
        "num.recovery.threads.per.data.dir": threads, "log.cleaner.enable": "false", "log.retention.ms": -1,
    })  # fmt: skip
    made = [home / "data" / f"{TOPIC}-{n}" for n in range(partitions)]
    for one in made:
        one.mkdir(parents=True)
        (one / LEADER_EPOCH).write_text("0\n0\n")
    (home / "data" / META_PROPERTIES).write_text("version=0\nbroker.id=1\n")
    return made


def _configure(home: Path, properties: Mapping[str, object]) -> None:
    (home / "log4j2.properties").write_text(_LOG4J)
    lines = (f"{key}={value}\n" for key, value in properties.items())
    (home / "server.properties").write_text("".join(lines))


def zookeeper_port(home: Path) -> int | None:
    """Return the port at which a broker looks for ZooKeeper. None: it is its own controller."""
    found = re.search(r"zookeeper.connect=.*:(\d+)", (home / "server.properties").read_text())
    return int(found[1]) if found else None


def write_logs(partition: Path, size: int) -> list[int]:
    bases, base = [], 0
    for _ in range(SEGMENTS):
        log = write_segment(partition, V1_100, size, base)
        write_indexes(log)
        bases.append(base)
        base += log.stat().st_size // _MESSAGE_BYTES
    return bases


def _recovery_seconds(home: Path) -> float:
    for checkpoint in ("recovery-point-offset-checkpoint", ".kafka_cleanshutdown"):
        (home / "data" / checkpoint).unlink(missing_ok=True)
    with running(home) as said:
        return int(wait_for(said, LOADED.pattern)[1]) / 1000


@contextmanager
def running(
    home: Path, heap: Sequence[str] = HEAP, *, kafka: str = KAFKA
) -> Generator[Path, None, None]:
    """Run a broker in the `with` block, and kill it at the end. `heap` are options of Java.

    Yields the file of its log lines.
    """
    words = ("kafka.Kafka", str(home / "server.properties"))
    with _java(home, "broker", *words, options=heap, kafka=kafka) as said:
        yield said


@contextmanager
def zookeeper(home: Path, port: int, kafka: str) -> Generator[None, None, None]:
    """Run an empty ZooKeeper of a release's own jars in the `with` block."""
    folder = home / "zookeeper"
    shutil.rmtree(folder, ignore_errors=True)
    file = home / "zookeeper.properties"
    file.write_text(
        f"dataDir={folder}\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
        "admin.enableServer=false\n"
    )
    words = ("org.apache.zookeeper.server.quorum.QuorumPeerMain", str(file))
    options = ("-Xmx128m", "-Dzookeeper.jmx.log4j.disable=true")
    with _java(home, "zookeeper", *words, options=options, kafka=kafka) as said:
        wait_for(said, "binding to port")
        yield


@contextmanager
def _java(
    home: Path, name: str, main: str, file: str, *, options: Sequence[str], kafka: str
) -> Generator[Path, None, None]:
    """Run one of Kafka's programs in the `with` block, and kill it at the end."""
    said = home / f"{name}.log"
    options = (*options, f"-Dlog4j2.configurationFile={home / 'log4j2.properties'}")
    command = java_command(main, file, options=options, kafka=kafka)
    with said.open("wb") as out:
        program = subprocess.Popen(
            command, cwd=home, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
        )
    try:
        yield said
    finally:
        with suppress(ProcessLookupError):
            program.send_signal(signal.SIGKILL)
        program.wait()


def wait_for(said: Path, pattern: str) -> re.Match[str]:
    found: list[re.Match[str]] = []

    def there() -> bool:
        found.extend(m for m in [re.search(pattern, said.read_text(errors="replace"))] if m)
        return bool(found)

    try:
        _until(there)
    except TimeoutError:
        raise RuntimeError(
            f"the broker never said {pattern!r}:\n{said.read_text(errors='replace')[-3000:]}"
        ) from None
    return found[0]


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + START_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.2)


def _copy(home: Path, logs: list[Path]) -> Path:
    """Create a root with the same logs and no index. Return the root."""
    partition = home / "data" / f"{TOPIC}-0"
    partition.mkdir(parents=True)
    for log in logs:
        os.link(log, partition / log.name)
    return home / "data"


def _rebuild(root: Path) -> None:
    from kafkats.flow.apply import apply_partition, partition_works
    from kafkats.inspect import verify
    from kafkats.plans.facts import ACTIONS
    from kafkats.plans.run import run_of
    from kafkats.plans.units import list_units
    from kafkats.rebuild import plan as rebuild

    options = verify.VerifyOptions()
    segments = pa.Table.from_batches([
        verify.verify_unit(unit, options) for unit in list_units([root])
    ])
    plan = rebuild.plan_rebuild(segments, rebuild.RebuildOptions())
    works = partition_works(plan, run_of(plan, place=None, owner_stopped=True))
    actions = pa.Table.from_batches([apply_partition(work) for work in works], schema=ACTIONS)
    if actions["outcome"].to_pylist() != ["done"] * (2 * SEGMENTS):
        raise RuntimeError(f"not every index was rebuilt: {actions.to_pylist()}")


def _rebuild_by_command(root: Path, plan: Path) -> float:
    wall, _ = process([sys.executable, "-m", "kafkats", "plan", "rebuild", root, "-o", plan])
    more, _ = process([
        sys.executable,
        "-m",
        "kafkats",
        "apply",
        plan,
        "--digest",
        "any",
        "--owner-stopped",
    ])
    shutil.rmtree(root.parent)
    return wall + more
