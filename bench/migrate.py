"""A whole migration of v1 to v2 in one process: look, forecast, plan and its digest, then convert,
compare both logs record by record, build the indexes, sync, read back and swap. CPU time of all
threads of the process, warm page cache, kernels loaded.

memcpy + new file  copies the same logs in pieces of 1 MiB through one buffer into new files

The tables have the CPU time of each part in one more round, under a profiler: the kernels with the
page faults of what they read and write, system calls, hashes, and the rest of Python. New files are
read back from the disk, not from memory.
"""

from __future__ import annotations

import cProfile
import pstats
import shutil
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa

from bench import segments
from bench.convert import copied_to_file
from bench.harness import MB, MIB, Figure, Figures, Table, scratch, take_turns, tell, times_cheaper
from bench.segments import Shape, write_indexes, write_segment
from kafkats.flow.apply import apply_partition, partition_works
from kafkats.inspect.verify import VerifyOptions, verify_unit
from kafkats.migration.forecast import FORECAST, forecast_unit, target_of
from kafkats.migration.plan import MigrateOptions, decide_migrate
from kafkats.paths import CLEAN_SHUTDOWN, LOCK, LOG
from kafkats.plans.facts import ACTIONS
from kafkats.plans.run import run_of
from kafkats.plans.units import list_units

SIZE = 128 * MIB
SEGMENTS = 2
ROUNDS = 5
_CALLS = {
    "hash": ("blake3", "HASH", "sha256"),
    "sync": ("fsync",),
    "read back": ("'readinto' of", "posix_fadvise"),
    "read": (".pread", "'read' of"),
    "write": ("'write' of", ".pwrite", "copy_file_range"),
    "map": ("mmap", "'close' of"),
}
"""Parts of built-in functions by words in their names."""


def figures(*, small: bool = False) -> Figures:
    with scratch() as folder:
        for shape in (segments.V1_100, segments.V1_1K):
            tell(shape.name)
            root = folder / shape.name.replace(" ", "-").replace(",", "")
            yield from _shape(shape, root, SIZE // (16 if small else 1))


def _shape(shape: Shape, root: Path, size: int) -> Figures:
    partition = root / "migrated-0"
    partition.mkdir(parents=True)
    (root / LOCK).touch()
    (root / CLEAN_SHUTDOWN).touch()
    base = 0
    for _ in range(SEGMENTS):
        log = write_segment(partition, shape, size, base)
        write_indexes(log)
        base += log.stat().st_size // (12 + 22 + 8 + shape.value_bytes)
    logs = sorted(partition.glob(f"*{LOG}"))
    total = sum(log.stat().st_size for log in logs)
    times: list[dict[str, float]] = []
    costs = take_turns(
        {
            "plan and apply": partial(_whole, root, root.with_name("ours"), times),
            "memcpy + new file": lambda: _cpu(partial(_copy_all, logs, root / "new.log")),
        },
        ROUNDS,
    )
    steps = sorted(times, key=lambda one: sum(one.values()))[len(times) // 2]
    told = ", ".join(f"{name} {total / MB / took:,.0f}" for name, took in steps.items())
    yield Figure(
        f"plan migrate and apply, {shape.name} to v2 / memcpy + new file",
        times_cheaper(costs, "plan and apply", "memcpy + new file"),
        "x",
        detail=f"MB/s: {told}",
    )
    copy = statistics.median(costs["memcpy + new file"])
    profile = cProfile.Profile(time.process_time)
    _whole(root, root.with_name("ours"), [], profile)
    parts = _parts(profile)
    rows = [
        (name, f"{took:.3f}", f"{took / copy:.2f}")
        for name, took in sorted(parts.items(), key=lambda part: -part[1])
    ]
    title = f"{shape.name} to v2, {total / 1e9:.2f} GB: CPU seconds of each part"
    yield Table(title, ("part", "seconds", "of memcpy + new file"), tuple(rows))


def _parts(profile: cProfile.Profile) -> dict[str, float]:
    """Return the CPU seconds by part."""
    parts: dict[str, float] = {}
    for (path, _, name), (_, _, own, _, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        part = _part_of(path, name)
        parts[part] = parts.get(part, 0.0) + own
    return parts


def _part_of(path: str, name: str) -> str:
    """Return the part that a function belongs to; a built-in one has no path."""
    if "/kernels/" in path:
        return f"kernel {Path(path).stem}"
    for part, words in _CALLS.items():
        if path == "~" and any(word in name for word in words):
            return part
    return "Python"


def _whole(
    root: Path,
    ours: Path,
    times: list[dict[str, float]],
    profile: cProfile.Profile | None = None,
) -> float:
    """Migrate a copy of `root`. Return the CPU seconds, and add those of each step to `times`."""
    shutil.copytree(root, ours)
    target, options = target_of(2, "producer"), MigrateOptions(to_magic=2)
    took: dict[str, float] = {}

    def step(name: str, work: Callable[[], pa.Table]) -> pa.Table:
        began = time.process_time()
        done = profile.runcall(work) if profile else work()
        took[name] = time.process_time() - began
        return done

    units = list(list_units([ours]))
    looked = step("look", lambda: pa.Table.from_batches(
        [verify_unit(unit, VerifyOptions()) for unit in units]))  # fmt: skip
    forecast = step("forecast", lambda: pa.Table.from_batches(
        [forecast_unit(unit, target) for unit in units], FORECAST))  # fmt: skip
    plan, _ = decide_migrate(looked, forecast, options)
    works = partition_works(plan, run_of(plan, place=None, owner_stopped=True))
    actions = step("apply", lambda: pa.Table.from_batches(
        [apply_partition(work) for work in works], schema=ACTIONS))  # fmt: skip
    if set(actions["outcome"].to_pylist()) != {"done"}:
        raise RuntimeError(f"not every file was migrated: {actions.to_pylist()}")
    shutil.rmtree(ours)
    times.append(took)
    return sum(took.values())


def _copy_all(logs: list[Path], new: Path) -> None:
    for log in logs:
        copied_to_file(log, new)


def _cpu(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
