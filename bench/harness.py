"""The measurement of every figure: contestants take turns in one run; the median counts.

Other work on the machine slows all contestants of a round alike. So the ratio is computed within
each round, and the median of the rounds is the result. Absolute numbers of different runs are not
comparable.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
MB = 1_000_000
MIB = 1024 * 1024


@dataclass(frozen=True)
class Figure:
    """One measured number. `goal` is None for numbers without a goal."""

    name: str
    value: float
    unit: str
    goal: float | None = None
    at_least: bool = True
    detail: str = ""

    @property
    def verdict(self) -> str:
        if self.goal is None:
            return ""
        met = self.value >= self.goal if self.at_least else self.value <= self.goal
        return "PASS" if met else "FAIL"

    @property
    def goal_text(self) -> str:
        return (
            ""
            if self.goal is None
            else f"{'≥' if self.at_least else '≤'} {self.goal:g} {self.unit}".rstrip()
        )

    @property
    def value_text(self) -> str:
        digits = (
            0 if self.value >= 100 or self.unit.startswith("of") else 1 if self.value >= 10 else 2
        )
        return f"{self.value:,.{digits}f} {self.unit}".rstrip()


@dataclass(frozen=True)
class Table:
    """A table that belongs to the figures."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def text(self) -> str:
        """The table for a terminal."""
        widths = [
            max(len(row[n]) for row in (self.head, *self.rows)) for n in range(len(self.head))
        ]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            for row in (self.head, *self.rows)
        ]
        return "\n".join([self.title, *(f"     {line.rstrip()}" for line in lines)])

    @property
    def markdown(self) -> str:
        rows = [self.head, ("---",) * len(self.head), *self.rows]
        return "\n".join([f"### {self.title}", "", *(f"| {' | '.join(row)} |" for row in rows)])


Figures = Iterator["Figure | Table"]


def take_turns(
    contestants: Mapping[str, Callable[[], float]], rounds: int, warm: int = 1
) -> dict[str, list[float]]:
    """Return the costs of each contestant (seconds, or seconds per byte) in rounds A B C, ..."""
    costs: dict[str, list[float]] = {name: [] for name in contestants}
    for n in range(-warm, rounds):
        for name, run in contestants.items():
            cost = run()
            if n >= 0:
                costs[name].append(cost)
    return costs


def times_cheaper(costs: Mapping[str, Sequence[float]], us: str, them: str) -> float:
    """Return how many times more `them` cost than `us`: the median of the rounds."""
    return statistics.median(b / a for a, b in zip(costs[us], costs[them], strict=True))


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the CPU time of this thread while `work` runs, including the kernel's part."""
    began = time.thread_time()
    work()
    return time.thread_time() - began


def wall_seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def process(
    command: Sequence[str | Path], *, codes: Sequence[int] = (0,), **more: str
) -> tuple[float, float]:
    """Run a process and return its wall and CPU seconds, including its children.

    The output is discarded. `more` is added to the environment.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(
            [str(part) for part in command], cwd=ROOT, env=os.environ | more, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=said, check=False,
        )  # fmt: skip
        if done.returncode not in codes:
            said.seek(0)
            raise RuntimeError(
                f"{command} ended with {done.returncode}:\n{said.read()[-4000:].decode(errors='replace')}"
            )
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@contextmanager
def scratch() -> Generator[Path, None, None]:
    """Create a temporary folder in $TMPDIR, removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="kafkats-bench-") as folder:
        yield Path(folder)


def tell(text: str) -> None:
    """Print progress to standard error."""
    print(f"  {text}", file=sys.stderr, flush=True)
