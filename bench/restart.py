"""From kill -9 to loaded logs: a real broker alone, and kafkats before it. Wall time, files in memory.

The broker is Kafka 2.8.2 (ZooKeeper) for magic 1 and 4.3.1 (KRaft) for both formats, with 50
partitions of one segment, two recovery threads and 4 GB of heap. No checkpoint says what it has
flushed, as in its first half minute. Its time is the one that its LogManager reports ("Loaded ...
logs in ... ms", without the JVM start). The other copy is recovered first: `kafkats plan recover`
and `apply`, Python's start and all flushes included, and then the broker loads it. Both copies must
end with the same logs.

* **limit**: two threads that only read the same files into a buffer each, and two that only map
them and compute the CRC-32C of all bytes, in the same run. A recovery reads and checks every byte,
so with two processors it comes no lower. Where the broker takes less than three times the limit, a
slope three times as low as the broker's is out of reach
* **constant part**: what plan, apply and the broker's loading take beside the seconds per GB, from
two sizes
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Final, NamedTuple

from bench.broker import (
    LOADED,
    TOPIC,
    create_old,
    create_topic,
    running,
    wait_for,
    zookeeper,
    zookeeper_port,
)
from bench.harness import MIB, Figure, Figures, process, scratch, tell
from bench.java import KAFKA
from bench.reading import checking_seconds, reading_seconds
from bench.segments import V1_100, V2_100, Shape, write_indexes, write_segment
from kafkats.paths import LOG, RECOVERY_POINT

PARTITIONS: Final = 50
THREADS: Final = 2
OLD: Final = "2.8.2"
ROUNDS: Final = 2
HEAP: Final = ("-Xms4g", "-Xmx4g", "-XX:+UseG1GC")
SIZES: Final = (4096, 12288)
"""MiB in all partitions."""
GOAL: Final = 8.0
SLOPE_GOAL: Final = 3.0
CONSTANT_GOAL: Final = 3.0


class Times(NamedTuple):
    """Seconds of the broker alone; of plan; of apply; of the broker after them; and the bytes.

    `read` and `checked` are the limits: threads that only read, and that only compute checksums.
    """

    alone: float
    plan: float
    apply: float
    after: float
    read: float
    checked: float
    size: int

    @property
    def first(self) -> float:
        """Seconds of the copy that is recovered first."""
        return self.plan + self.apply + self.after

    def __str__(self) -> str:
        return (
            f"{self.size / 1e9:.1f} GB: broker {self.alone:.1f} s, plan {self.plan:.1f} s, apply"
            f" {self.apply:.1f} s and broker {self.after:.1f} s; only reading {self.read:.2f} s,"
            f" only CRC-32C {self.checked:.2f} s"
        )


def figures(*, small: bool = False) -> Figures:
    least, most = (size // 64 if small else size for size in SIZES)
    for kafka, goal in ((OLD, GOAL), (KAFKA, None)):
        times = _measured(V1_100, least, kafka)
        name = f"{V1_100.name}, Kafka {kafka}: alone / recovered first"
        yield Figure(name, times.alone / times.first, "x", goal, detail=str(times))
    if small:
        return
    yield from _slope(_measured(V2_100, least), _measured(V2_100, most))


def _slope(less: Times, more: Times) -> Figures:
    """Yield the figures of two sizes."""
    ratio = less.alone / less.first
    yield Figure(f"{V2_100.name}: alone / recovered first", ratio, "x", detail=str(less))
    per_byte = (more.first - less.first) / (more.size - less.size)
    alone = (more.alone - less.alone) / (more.size - less.size)
    yield Figure(
        f"{V2_100.name}: seconds per GB, alone / recovered first",
        alone / per_byte,
        "x",
        SLOPE_GOAL,
        detail=f"{alone * 1e9:.2f} / {per_byte * 1e9:.2f} s per GB; {more}",
    )
    for name, seconds in (("reading", more.read), ("CRC-32C", more.checked)):
        limit = seconds / more.size
        yield Figure(
            f"{V2_100.name}: seconds per GB, alone / only {name}", alone / limit, "x",
            detail=f"{alone * 1e9:.2f} / {limit * 1e9:.3f} s per GB; recovered first"
            f" {per_byte / limit:.2f} x that",
        )  # fmt: skip
    constant = less.first - per_byte * less.size
    yield Figure(
        f"{V2_100.name}: constant part", constant, "s", CONSTANT_GOAL, at_least=False,
        detail="plan, apply and broker",
    )  # fmt: skip


def _measured(shape: Shape, mib: int, kafka: str = KAFKA) -> Times:
    with scratch() as folder:
        killed = folder / "killed"
        tell(f"{shape.name}: writing {mib:,} MiB")
        create = create_topic if kafka == KAFKA else create_old
        for partition in create(killed, PARTITIONS, THREADS):
            write_indexes(write_segment(partition, shape, mib * MIB // PARTITIONS))
        (killed / "data" / RECOVERY_POINT).unlink(missing_ok=True)
        rounds = [_round(folder, killed, kafka) for _ in range(ROUNDS)]
    return Times(*(statistics.median(some) for some in zip(*rounds, strict=True)))


def _round(folder: Path, killed: Path, kafka: str) -> Times:
    alone, first, plan = (folder / name for name in ("alone", "first", "plan"))
    copy_home(killed, alone)
    copy_home(killed, first)
    words = [sys.executable, "-m", "kafkats"]
    subprocess.run(["sync"], check=True)
    logs = sorted((first / "data").glob(f"{TOPIC}-*/*{LOG}"))
    read = reading_seconds(logs, THREADS)
    checked = checking_seconds(logs, THREADS)
    planning, _ = process([*words, "plan", "recover", str(first / "data"), "-o", str(plan)])
    applying, _ = process([*words, "apply", str(plan), "--digest", "any", "--owner-stopped"])
    after = loading_seconds(first, kafka)
    alone_s = loading_seconds(alone, kafka)
    times = Times(
        alone_s, planning, applying, after, read, checked, sum(log_sizes(killed).values())
    )
    tell(str(times))
    if not log_sizes(alone) == log_sizes(first) == log_sizes(killed):
        raise RuntimeError("the two copies have other logs")
    for copy in (alone, first, plan, plan.with_name("plan.run")):
        shutil.rmtree(copy)
    return times


def copy_home(killed: Path, home: Path) -> None:
    """Copy a broker's home. Logs are links: nobody appends, and memory then holds them once."""

    def link(source: str, target: str) -> None:
        (os.link if source.endswith(LOG) else shutil.copy2)(source, target)

    shutil.copytree(killed, home, copy_function=link)
    properties = home / "server.properties"
    properties.write_text(properties.read_text().replace(str(killed), str(home)))


def loading_seconds(home: Path, kafka: str) -> float:
    subprocess.run(["sync"], check=True)
    port = zookeeper_port(home)
    with (
        zookeeper(home, port, kafka) if port else nullcontext(),
        running(home, heap=HEAP, kafka=kafka) as said,
    ):
        return int(wait_for(said, LOADED.pattern)[1]) / 1000


def log_sizes(home: Path) -> dict[str, int]:
    """Return the sizes of the logs that have records."""
    logs = (home / "data").glob(f"{TOPIC}-*/*{LOG}")
    sizes = {str(log.relative_to(home)): log.stat().st_size for log in sorted(logs)}
    return {name: size for name, size in sizes.items() if size}
