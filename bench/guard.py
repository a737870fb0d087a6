"""The outage of a killed broker: `kafkats recover` before its start, and the broker alone. Wall time.

The broker's part is what its LogManager reports ("Loaded ... logs in ... ms"), less the same of a
clean start of the same logs; kafkats' part is its whole process. The broker has 45 partitions and
two recovery threads. No checkpoint says what it has flushed. Both copies must end with the same
logs. All logs are read into the page cache before each of the two; *cold*: dropped from it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from bench.broker import create_old, create_topic
from bench.harness import MIB, Figure, Figures, process, scratch, tell
from bench.java import KAFKA
from bench.restart import OLD, copy_home, loading_seconds, log_sizes
from bench.segments import V1_100, V2_100, V2_SINGLE, Shape, write_indexes, write_segment
from conformance import page_cache
from kafkats.paths import CLEAN_SHUTDOWN, LOG, RECOVERY_POINT

PARTITIONS: Final = 45
THREADS: Final = 2
SIZE: Final = int(os.environ.get("KAFKATS_GUARD_MIB", "10000"))
"""MiB in all partitions."""


class Mix(NamedTuple):
    """Logs of a killed broker, and the least ratio of the outages: alone / recovered first."""

    name: str
    shape: Shape
    kafka: str
    goal: float
    cold: bool = False
    partitions: int = PARTITIONS
    part: float = 1.0
    """Of SIZE."""


MIXES: Final = (
    Mix("v1 100 B, Kafka 2.8.2", V1_100, OLD, 8.0),
    Mix("v2 one record per batch", V2_SINGLE, KAFKA, 8.0),
    Mix("v2 16 KiB batches", V2_100, KAFKA, 1.5),
    Mix("v2 16 KiB batches, cold", V2_100, KAFKA, 0.95, cold=True),
    Mix(
        "v2 16 KiB batches in 1000 small partitions", V2_100, KAFKA, 0.0, partitions=1000, part=0.02
    ),
)
MOST_LONGER_S: Final = 2.0


class Times(NamedTuple):
    """Seconds: the broker alone, kafkats, the broker after it, and a clean start."""

    alone: float
    ours: float
    after: float
    clean: float

    @property
    def ratio(self) -> float:
        return max(self.alone - self.clean, 0.001) / max(self.ours + self.after - self.clean, 0.001)

    @property
    def longer(self) -> float:
        return self.ours + self.after - self.alone

    def __str__(self) -> str:
        return (
            f"alone {self.alone:.1f} s; recover {self.ours:.1f} s and broker {self.after:.1f} s;"
            f" clean start {self.clean:.1f} s"
        )


def figures(*, small: bool = False) -> Figures:
    for mix in MIXES:
        times = _measured(mix, SIZE // 64 if small else SIZE)
        detail = str(times)
        yield Figure(
            f"{mix.name}: outage alone / guarded", times.ratio, "x", mix.goal or None, detail=detail
        )
        yield Figure(
            f"{mix.name}: longer by",
            times.longer,
            "s",
            MOST_LONGER_S,
            at_least=False,
            detail=detail,
        )


def _measured(mix: Mix, mib: int) -> Times:
    with scratch() as folder:
        killed = folder / "killed"
        size = int(mib * mix.part * MIB) // mix.partitions
        tell(f"{mix.name}: writing {size * mix.partitions / 1e9:.2f} GB")
        create: Callable[..., list[Path]] = create_topic if mix.kafka == KAFKA else create_old
        for partition in create(killed, mix.partitions, THREADS):
            write_indexes(write_segment(partition, mix.shape, size))
        (killed / "data" / RECOVERY_POINT).unlink(missing_ok=True)
        (killed / "data" / CLEAN_SHUTDOWN).unlink(missing_ok=True)
        copies = {name: folder / name for name in ("alone", "first")}
        for copy in copies.values():
            copy_home(killed, copy)
        subprocess.run(["sync"], check=True)
        page_cache.drop(path for path in killed.rglob("*") if path.is_file())
        _ready(mix, copies["first"])
        ours = _recover(mix, copies["first"])
        after = loading_seconds(copies["first"], mix.kafka)
        _ready(mix, copies["alone"])
        alone = loading_seconds(copies["alone"], mix.kafka)
        if not log_sizes(copies["alone"]) == log_sizes(copies["first"]) == log_sizes(killed):
            raise RuntimeError("the two copies have other logs")
        # The other copy has no snapshot at its log ends: a broker that loads it reads the logs.
        (copies["first"] / "data" / CLEAN_SHUTDOWN).touch()
        clean = loading_seconds(copies["first"], mix.kafka)
        times = Times(alone, ours, after, clean)
        tell(str(times))
        for copy in copies.values():
            shutil.rmtree(copy)
        return times


def _ready(mix: Mix, home: Path) -> None:
    logs = sorted((home / "data").glob(f"*/*{LOG}"))
    (page_cache.drop if mix.cold else page_cache.fill)(logs)


def _recover(mix: Mix, home: Path) -> float:
    words = [sys.executable, "-m", "kafkats", "recover", "--kafka", mix.kafka]
    wall, _ = process([*words, "--server-properties", str(home / "server.properties")])
    return wall
