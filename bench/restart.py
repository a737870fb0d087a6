"""From kill -9 to loaded logs: a real broker alone, and kafkats before it. Wall time, files in memory.

The broker is Kafka 4.3.1 (KRaft) with 50 partitions of one segment and two recovery threads. No
checkpoint says what it has flushed, as in its first half minute. Its time is the one that its
LogManager reports ("Loaded ... logs in ... ms", without the JVM start). The other copy is recovered
first: `kafkats plan recover` and `apply`, Python's start and all flushes included, and then the
broker loads it. Both copies must end with the same logs.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

from bench.broker import LOADED, TOPIC, create_topic, running, wait_for
from bench.harness import MIB, Figure, Figures, process, scratch, tell
from bench.segments import V1_100, V2_100, Shape, write_indexes, write_segment
from kafkats.paths import LOG, RECOVERY_POINT

PARTITIONS: Final = 50
THREADS: Final = 2
SIZES: Final = ((V1_100, 4096), (V2_100, 4096))
"""MiB in all partitions."""
GOAL: Final = 8.0


class Times(NamedTuple):
    """Seconds of the broker alone; of plan and apply; of the broker after them."""

    alone: float
    kafkats: float
    after: float


def figures(*, small: bool = False) -> Figures:
    for shape, mib in SIZES[:1] if small else SIZES:
        size = (64 if small else mib) * MIB
        with scratch() as folder:
            times = _restart(folder, shape, size)
        detail = (
            f"{size / 1e9:.1f} GB: broker {times.alone:.1f} s, plan and apply {times.kafkats:.1f} s"
            f" and broker {times.after:.1f} s"
        )
        ratio = times.alone / (times.kafkats + times.after)
        goal = GOAL if shape is V1_100 else None
        yield Figure(f"{shape.name}: alone / recovered first", ratio, "x", goal, detail=detail)


def _restart(folder: Path, shape: Shape, size: int) -> Times:
    alone, first, plan = (folder / name for name in ("alone", "first", "plan"))
    for partition in create_topic(alone, PARTITIONS, THREADS):
        write_indexes(write_segment(partition, shape, size // PARTITIONS))
    (alone / "data" / RECOVERY_POINT).unlink(missing_ok=True)
    shutil.copytree(alone, first)
    properties = first / "server.properties"
    properties.write_text(properties.read_text().replace(str(alone), str(first)))
    words = [sys.executable, "-m", "kafkats"]
    tell(f"{shape.name}: kafkats recovers {size:,} bytes")
    subprocess.run(["sync"], check=True)
    planning, _ = process([*words, "plan", "recover", str(first / "data"), "-o", str(plan)])
    applying, _ = process([*words, "apply", str(plan), "--digest", "any", "--owner-stopped"])
    after = _loading_seconds(first)
    tell(f"{planning:.1f} + {applying:.1f} + {after:.1f} s; the broker recovers the other copy")
    times = Times(_loading_seconds(alone), planning + applying, after)
    if _digests(alone) != _digests(first):
        raise RuntimeError("the two copies have other logs")
    return times


def _loading_seconds(home: Path) -> float:
    subprocess.run(["sync"], check=True)
    with running(home) as said:
        return int(wait_for(said, LOADED.pattern)[1]) / 1000


def _digests(home: Path) -> dict[str, str]:
    logs = (home / "data").glob(f"{TOPIC}-*/*{LOG}")
    return {
        str(log.relative_to(home)): hashlib.file_digest(log.open("rb"), "sha256").hexdigest()
        for log in sorted(logs)
        if log.stat().st_size
    }
