"""Compaction by key: one round of the log cleaner over 1 GiB of magic 2, beside Kafka 4.3's own class.

Uncompressed records of 100 B with keys of 8 bytes, in batches of 16 KiB, in one segment. With 0 % no
key comes twice; with 50 % keys are drawn at random, so that about half of the records stay and every
batch is built anew. Both sides have a map of 512 MiB, clean the same files in memory (/dev/shm if it
is there) and sync nothing. CPU of the cleaning thread; the JVM has done a round before.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.harness import MIB, Figure, Figures, cpu_seconds, take_turns, tell, times_cheaper
from bench.java import Ask, judge
from bench.segments import BEGIN_MS, V2_100, key_positions, make_log, seal_log, write_indexes
from kafkats.paths import LOG, segment_file
from kafkats_model.broker.active import create_active, open_active
from kafkats_model.broker.generation import generation
from kafkats_model.broker.partition_log import PartitionLog
from kafkats_model.broker.settings import settings_from, topic_of
from kafkats_model.compaction.cleaner import compact

MAP_BYTES = 512 * MIB
MOST_KEYS = MAP_BYTES // 24 * 9 // 10
NOW = BEGIN_MS + 86_400_000
JVM = "-Xms3g -Xmx3g -XX:+UseG1GC"
DISTINCT = {0: 1.0, 50: 0.63}
"""Keys per record, by the share of records that is deleted: k (1 - exp(-1/k)) of them stay."""


def figures(small: bool) -> Figures:
    """The figures of this family."""
    size = 16 * MIB if small else 1024 * MIB
    rounds = 1 if small else 3
    memory = Path("/dev/shm")
    with (
        tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder,
        judge(JVM) as ask,
    ):
        for share, distinct in DISTINCT.items():
            source = _partition(Path(folder) / f"{share}" / "t-0", size, distinct)
            tell(f"{share} % duplicates, {size // MIB} MiB")
            costs = take_turns(
                {
                    "kafkats": lambda s=source: _ours(s),
                    "Kafka 4.3.1": lambda s=source: _theirs(ask, s),
                },
                rounds,
            )
            ratio = times_cheaper(costs, "kafkats", "Kafka 4.3.1")
            ours, theirs = (min(costs[name]) for name in ("kafkats", "Kafka 4.3.1"))
            detail = f"{ours:.2f} s of CPU, Kafka's cleaner {theirs:.2f} s"
            yield Figure(f"compaction, {share} % duplicates", ratio, "x", 3.0, detail=detail)
            shutil.rmtree(source.parent)


def _partition(directory: Path, size: int, distinct: float) -> Path:
    """Write a partition: a segment of about `size` bytes with its indexes, and an empty last one."""
    directory.mkdir(parents=True)
    log = make_log(V2_100, size - 1)
    positions = key_positions(V2_100, log)
    chance = np.random.default_rng(1)
    count = len(positions)
    numbers = (
        np.arange(count) if distinct == 1 else chance.integers(0, int(count * distinct), count)
    )
    _put_keys(log, positions, numbers)
    path = directory / segment_file(0, LOG)
    path.write_bytes(seal_log(V2_100, log).data)
    write_indexes(path)
    create_active(directory, count, generation("4.3"), NOW)
    return directory


def _put_keys(
    log: NDArray[np.uint8], positions: NDArray[np.int64], numbers: NDArray[np.int64]
) -> None:
    keys = (numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.uint8).reshape(-1, 8)
    for byte in range(8):
        log[positions + byte] = keys[:, byte]


@contextmanager
def _linked(source: Path) -> Generator[Path, None, None]:
    with tempfile.TemporaryDirectory(dir=source.parent) as folder:
        directory = Path(folder) / "t-0"
        directory.mkdir()
        for path in source.iterdir():
            if path.suffix == LOG and path.stat().st_size:
                os.link(path, directory / path.name)
            else:
                shutil.copy2(path, directory / path.name)
        yield directory


def _ours(source: Path) -> float:
    rules = generation("4.3")
    topic = topic_of(
        settings_from({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0}), rules
    )
    with _linked(source) as directory:
        bases = sorted(int(path.stem) for path in directory.glob("*.log"))
        segments = [open_active(directory, base, rules, NOW) for base in bases]
        log = PartitionLog(directory, topic, rules, *segments)
        log.high_watermark = log.log_end_offset = bases[-1]
        return cpu_seconds(lambda: compact(log, NOW, most_keys=MOST_KEYS))


def _theirs(ask: Ask, source: Path) -> float:
    words = "--runs", "1", "--warmup", "0", "--map-bytes", str(MAP_BYTES), "--now", str(NOW)
    answer = ask("race", "compact", source, *words)
    rate: float = answer["cpu_runs"][0]
    size: int = answer["size"]
    return size / 1e6 / rate
