"""The time that brokers take to recover a log: seconds per GB, of each release and format.

One partition with one segment, its indexes kept, nothing said to be flushed, and one recovery
thread. The figure is the CPU time of that thread, the smallest of two starts, with the files in
memory; beside it is the time that LogManager reports ("Loaded ... logs in ... ms", other work on
the machine included). A disk that reads more slowly is what limits a recovery of large batches.
`kafkats/recovery/rates.py` has these figures, and `kafkats preflight` tells the time from them.

The brokers of 0.9 to 1.1 do not start on this Java: of them Kafka's own LogSegment.recover is
measured in a new JVM.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.harness import MIB, Figure, Figures, scratch, tell
from bench.java import judge
from bench.segments import (
    V0_100,
    V1_100,
    V1_LZ4_100,
    V2_100,
    V2_SINGLE,
    Shape,
    write_indexes,
    write_segment,
)
from conformance.soaked import Broker, until
from kafkats.paths import CLEAN_SHUTDOWN, LOG_START, RECOVERY_POINT

ROUNDS: Final = 2
MIB_SMALL: Final = 256
MIB_LARGE: Final = 1024
START_S: Final = 180
_LOADED: Final = re.compile(r"Loaded \d+ logs in (\d+) ?ms")
_RECOVERING: Final = ("log-recovery", "pool-")
"""Names of threads that recover logs; the second one of 2.8."""
_BROKERS: Final = ("4.3.1", "4.1.0", "3.9.1", "2.8.2")
_CLASSES: Final = {
    "1.1.1": (V1_100, V1_LZ4_100, V2_SINGLE, V2_100),
    "0.10.2.2": (V0_100, V1_100, V1_LZ4_100),
    "0.9.0.1": (V0_100,),
}
_HEAP: Final = "-Xmx1g"


@dataclass(frozen=True)
class Volume:
    """A segment of one shape."""

    shape: Shape
    log: Path

    @property
    def size(self) -> int:
        return self.log.stat().st_size


def figures(*, small: bool = False) -> Figures:
    with scratch() as folder:
        volumes = {
            s: _volume(folder, s, small) for s in (V0_100, V1_100, V1_LZ4_100, V2_SINGLE, V2_100)
        }
        for version in _BROKERS:
            shapes = (V1_100, V1_LZ4_100, V2_SINGLE, V2_100)
            yield from _of_broker(version, [volumes[s] for s in shapes], folder / version)
        for version, old in _CLASSES.items():
            yield from _of_classes(version, [volumes[s] for s in old])


def _volume(folder: Path, shape: Shape, small: bool) -> Volume:
    mib = MIB_SMALL if shape.per_batch == 1 else MIB_LARGE
    log = write_segment(folder / shape.name.replace(" ", "-"), shape, (8 if small else mib) * MIB)
    write_indexes(log)
    return Volume(shape, log)


def _of_broker(version: str, volumes: list[Volume], home: Path) -> Iterator[Figure]:
    broker = Broker(version, home, level="info")
    try:
        broker.start()
        broker.stop()
        for one in volumes:
            cpu, wall = min(_loading(broker, one) for _ in range(ROUNDS))
            yield _figure(version, one, cpu, f"{wall:.1f} s until loaded")
    finally:
        broker.close()


def _loading(broker: Broker, one: Volume) -> tuple[float, float]:
    """Return the CPU seconds of the recovery thread, and the seconds until the log is loaded."""
    for file in (CLEAN_SHUTDOWN, RECOVERY_POINT, LOG_START):
        (broker.root / file).unlink(missing_ok=True)
    shutil.copytree(one.log.parent, broker.root / "recovered-0")
    said = broker.work / "broker.out"
    before = said.stat().st_size
    tell(f"Kafka {broker.version} recovers {one.size:,} bytes of {one.shape.name}")
    threads = _Threads(broker)
    threads.start()
    broker.start(at_rest=True)

    def loaded() -> re.Match[str] | None:
        return _LOADED.search(said.read_bytes()[before:].decode(errors="replace"))

    until(lambda: loaded() is not None, START_S, "the logs were not loaded")
    seconds = threads.end()
    broker.stop()  # a killed one stays registered at ZooKeeper for some seconds
    for used in broker.root.glob("recovered-0*"):  # a broker may have set it aside
        shutil.rmtree(used)
    found = loaded()
    assert found is not None
    return seconds, int(found[1]) / 1000


class _Threads(threading.Thread):
    """Reads the CPU time of the recovery threads of a broker that starts."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(daemon=True)
        self._broker, self._over = broker, threading.Event()
        self._seconds = 0.0

    def run(self) -> None:
        while not self._over.wait(0.05):
            process = self._broker._process
            if process is not None:
                self._seconds = max(self._seconds, _cpu_seconds(process.pid))

    def end(self) -> float:
        self._over.set()
        self.join()
        return self._seconds


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time of the busiest recovery thread so far."""
    found = 0.0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            name, _, rest = (task / "stat").read_text().rpartition(")")
            if name.partition("(")[2].startswith(_RECOVERING):
                fields = rest.split()
                found = max(found, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))
    return found


def _of_classes(version: str, volumes: list[Volume]) -> Iterator[Figure]:
    for one in volumes:
        best = 0.0
        for _ in range(ROUNDS):
            with judge(_HEAP, kafka=version) as ask:
                answer = ask("race", "recover", one.log, "--warmup", "0", "--runs", "1")
            best = max(best, float(answer["max"]))
        yield _figure(version, one, one.size / best / 1e6, "LogSegment.recover alone")


def _figure(version: str, one: Volume, seconds: float, more: str) -> Figure:
    name = f"recovery by Kafka {version}, {one.shape.name}"
    detail = f"{one.size / seconds / 1e6:,.0f} MB/s; {more}"
    return Figure(name, seconds / (one.size / 1e9), "s/GB", detail=detail)
