"""One search by time, as a broker of 4.x does it and exactly, in a partition of four segments.

CPU time of the thread, the median over 2 000 random times, each of another record.

open       the files are open and the segment was searched before
cold       the directory is listed, files are opened and mapped, one search runs, and everything is
           closed again; the page cache is warm
tail       time indexes are trusted if their structure and the end of the log confirm them
full       every batch header and checksum of the partition was read once, whose cost is shown; then
           no index is needed
live       a broker may truncate the files: they are read, not mapped
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable
from pathlib import Path

from bench import segments
from bench.harness import MIB, Figure, Figures, cpu_seconds, scratch, tell
from bench.segments import BEGIN_MS, Shape, make_log, write_indexes
from kafkats import search
from kafkats.compression import Codec
from kafkats.paths import LOG, segment_file

SIZE = 256 * MIB
SEGMENTS = 4
SEARCHES = 2000
COLD = 300
OPEN_GOAL, COLD_GOAL = 100, 200
SHAPES = (
    segments.V2_100,
    segments.V2_SINGLE,
    segments.V1_100,
    Shape("v2 lz4, 100 B, 16 KiB batches", 2, 100, per_batch=0, codec=Codec.LZ4),
    Shape("v2 zstd, 100 B, 16 KiB batches", 2, 100, per_batch=0, codec=Codec.ZSTD),
)


def figures(*, small: bool = False) -> Figures:
    for shape in SHAPES:
        with scratch() as folder:
            tell(f"writing {shape.name}")
            partition, records = _partition(folder, shape, SIZE // 64 if small else SIZE)
            yield from _searches(partition, records, shape)


def _partition(folder: Path, shape: Shape, size: int) -> tuple[Path, int]:
    """Create a partition. Return its directory and the number of records.

    Record n has the time BEGIN_MS + n, so the batches' times rise.
    """
    records = 0
    folder = folder / "searched-0"
    folder.mkdir()
    for _ in range(SEGMENTS):
        log = folder / segment_file(records, LOG)
        log.write_bytes(make_log(shape, size // SEGMENTS, records, BEGIN_MS + records).data)
        write_indexes(log)
        with search.Partition(folder) as partition:
            records = partition.log_end_offset
    return folder, records


def _searches(path: Path, records: int, shape: Shape) -> Figures:
    chance = random.Random(shape.name)
    targets = [BEGIN_MS + chance.randrange(records) for _ in range(SEARCHES)]
    with search.Partition(path, clean=True) as partition:
        yield _open(f"kafka, {shape.name}", targets, lambda t: search.find(partition, t))
        yield _open(
            f"exact, tail, {shape.name}",
            targets,
            lambda t: search.find_exact(partition, t, depth="tail"),
        )
        seconds = cpu_seconds(lambda: search.find_exact(partition, 2**62))
        told = f"after {seconds * 1000:.0f} ms for all headers"
        yield _open(
            f"exact, full, {shape.name}", targets, lambda t: search.find_exact(partition, t), told
        )
    with search.Partition(path, live=True) as partition:
        yield _open(f"kafka, live, {shape.name}", targets, lambda t: search.find(partition, t))

    def cold(target: int) -> search.Answer:
        with search.Partition(path, clean=True) as opened:
            return search.find(opened, target)

    yield _figure(f"cold, {shape.name}", [_timed(cold, t) for t in targets[:COLD]][20:], COLD_GOAL)


def _open(
    name: str, targets: list[int], find: Callable[[int], search.Answer], told: str = ""
) -> Figure:
    for target in targets[:50]:
        find(target)
    return _figure(f"open, {name}", [_timed(find, target) for target in targets], OPEN_GOAL, told)


def _timed(find: Callable[[int], search.Answer], target: int) -> float:
    found: list[search.Answer] = []
    seconds = cpu_seconds(lambda: found.append(find(target)))
    if found[0].timestamp < target or found[0].offset < 0:
        raise RuntimeError(f"{target} found {found[0]}")
    return seconds


def _figure(name: str, seconds: list[float], goal: float, told: str = "") -> Figure:
    worst = statistics.quantiles(seconds, n=100)[98]
    detail = f"99 of 100 below {worst * 1e6:.0f} µs" + (f"; {told}" if told else "")
    return Figure(name, statistics.median(seconds) * 1e6, "µs", goal, at_least=False, detail=detail)
