"""Rebuild's apply in worker processes of this machine, as `kafkats apply --jobs` runs it: every index
of a log directory is built, synced, read back and swapped. And what a plan reads, in threads. Wall
time, warm page cache.

two workers        beside one worker of the same kind; both have loaded everything before
two threads        every segment verified, beside one thread
limits             two threads beside one that only read the files, and that only compute checksums
memory per worker  RssAnon that applying one partition adds to a process, which has imported
                   everything and applied a partition of one batch
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
from functools import partial
from pathlib import Path

import pyarrow as pa

from bench.harness import (
    MB,
    MIB,
    ROOT,
    Figure,
    Figures,
    scratch,
    take_turns,
    tell,
    times_cheaper,
    wall_seconds,
)
from bench.memory import anonymous, most_while
from bench.reading import checking_seconds, reading_seconds
from bench.segments import V1_100, write_segment
from kafkats.execution.local import LocalExecutor
from kafkats.flow.apply import apply_partition, partition_works
from kafkats.flow.looking import LogStages
from kafkats.inspect.verify import VerifyOptions, verify_unit
from kafkats.paths import CLEAN_SHUTDOWN, LOCK, LOG
from kafkats.plans.facts import ACTIONS, SEGMENTS
from kafkats.plans.run import PartitionWork, run_of
from kafkats.plans.units import list_units
from kafkats.rebuild.plan import RebuildOptions, plan_rebuild

PARTITIONS = 50
SIZE = 86 * MIB
ROUNDS = 5
MEMORY_MB = 128


def figures(*, small: bool = False) -> Figures:
    with scratch() as folder:
        logs = folder / "logs"
        tell(f"writing {PARTITIONS} partitions")
        for n in range(PARTITIONS):
            write_segment(logs / f"rebuilt-{n}", V1_100, SIZE // (16 if small else 1))
        yield _two(folder, logs)
        yield _two_threads(logs)
        yield from _limits(logs)
        yield _memory(folder, (1024 if not small else 32) * MIB)


def _two(folder: Path, logs: Path) -> Figure:
    with LocalExecutor(1) as one, LocalExecutor(2) as two:
        costs = take_turns(
            {
                "one": lambda: _applied(one, folder, logs),
                "two": lambda: _applied(two, folder, logs),
            },
            ROUNDS,
        )
    total = sum(log.stat().st_size for log in logs.rglob(f"*{LOG}"))
    seconds = {name: statistics.median(cost) for name, cost in costs.items()}
    return Figure(
        "rebuild's apply in two workers / in one",
        times_cheaper(costs, "two", "one"),
        "x",
        1.7,
        detail=f"{total / 1e9:.2f} GB of {V1_100.name} in {PARTITIONS} partitions:"
        f" {seconds['two']:.2f} / {seconds['one']:.2f} s",
    )


def _two_threads(logs: Path) -> Figure:
    units = list(list_units([log.parent for log in logs.rglob(f"*{LOG}")]))
    with LocalExecutor(1) as one, LocalExecutor(2) as two:
        costs = take_turns(
            {
                name: partial(wall_seconds, partial(LogStages(executor).verify, units))
                for name, executor in (("one", one), ("two", two))
            },
            ROUNDS,
        )
    seconds = {name: statistics.median(cost) for name, cost in costs.items()}
    return Figure(
        "verify in two threads / in one",
        times_cheaper(costs, "two", "one"),
        "x",
        1.7,
        detail=f"{seconds['two']:.2f} / {seconds['one']:.2f} s",
    )


def _limits(logs: Path) -> Figures:
    files = sorted(logs.rglob(f"*{LOG}"))
    for what, seconds in (("reads", reading_seconds), ("computes CRC-32C", checking_seconds)):
        costs = take_turns(
            {"one": partial(seconds, files, 1), "two": partial(seconds, files, 2)}, ROUNDS
        )
        one, two = (statistics.median(costs[name]) for name in ("one", "two"))
        yield Figure(
            f"what only {what}, in two threads / in one",
            times_cheaper(costs, "two", "one"),
            "x",
            detail=f"{two:.2f} / {one:.2f} s",
        )


def _applied(executor: LocalExecutor, folder: Path, logs: Path) -> float:
    root = folder / "data"
    works = _planned(root, logs)
    os.sync()
    seconds = wall_seconds(partial(_apply, executor, works))
    shutil.rmtree(root)
    return seconds


def _planned(root: Path, logs: Path) -> list[PartitionWork]:
    """Make a log directory of the same logs and no index. Return the work of rebuilding them."""
    for log in logs.rglob(f"*{LOG}"):
        partition = root / log.parent.name
        partition.mkdir(parents=True)
        os.link(log, partition / log.name)
    (root / LOCK).touch()
    (root / CLEAN_SHUTDOWN).touch()
    segments = pa.Table.from_batches(
        [verify_unit(unit, VerifyOptions()) for unit in list_units([root])], SEGMENTS
    )
    plan = plan_rebuild(segments, RebuildOptions())
    return partition_works(plan, run_of(plan, place=None, owner_stopped=True))


def _apply(executor: LocalExecutor, works: list[PartitionWork]) -> None:
    size = sum(item["log_valid_bytes"] for work in works for item in work.items) // len(works)
    actions = executor.map("apply", works, apply_partition, ACTIONS, size=lambda work: size)
    if set(actions["outcome"].to_pylist()) != {"done"}:
        raise RuntimeError(f"not every index was rebuilt: {actions.to_pylist()}")


def _memory(folder: Path, size: int) -> Figure:
    tiny, large = folder / "tiny", folder / "large"
    write_segment(tiny / "rebuilt-0", V1_100, 1)
    log = write_segment(large / "rebuilt-0", V1_100, size)
    said = subprocess.run(
        [sys.executable, "-m", "bench.workers", str(tiny), str(large)],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    before, most = (int(word) / MB for word in said.stdout.split())
    return Figure(
        f"memory of rebuild's apply, {log.stat().st_size / 2**30:.2f} GiB of {V1_100.name}",
        most - before,
        "MB",
        MEMORY_MB,
        at_least=False,
        detail=f"{before:,.0f} MB with everything imported, {most:,.0f} MB at most",
    )


def main() -> None:
    tiny, large = (Path(word) for word in sys.argv[1:])
    with LocalExecutor(1) as executor:
        _apply(executor, _planned(tiny.with_name("tiny-data"), tiny))
        works = _planned(large.with_name("large-data"), large)
        before = anonymous()
        print(before, most_while(lambda: _apply(executor, works)))


if __name__ == "__main__":
    main()
