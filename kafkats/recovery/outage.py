"""Choose the logs to recover before a broker's start; the broker recovers the others itself.

Pure: both times are estimated from bytes and batches, and nothing is read. The broker recovers each
log directory with threads of its own, and each partition with one thread. Here all processors work
on all partitions; reading takes a fraction of the broker's time per batch, but each partition costs
flushes, and a process has to start. So small logs of large batches are left to the broker.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from kafkats.plans.rows import PartitionKey
from kafkats.recovery.rates import Rate


class Load(NamedTuple):
    """A partition that a broker recovers: bytes and batches from its recovery point on."""

    log_dir: str
    partition_dir: str
    segments: int
    log_bytes: int
    batches: int = 0
    """Of magic 2, about."""
    messages: int = 0
    """Messages and wrappers of magic 0 and 1, about."""

    @property
    def where(self) -> PartitionKey:
        return PartitionKey(self.log_dir, self.partition_dir)

    def seconds(self, rate: Rate) -> float:
        """Return how long one thread takes, at the speed of `rate`."""
        return (
            self.log_bytes / 1e9 * rate.per_gigabyte
            + self.batches * rate.per_batch
            + self.messages * rate.per_message
        )


class Ours(NamedTuple):
    """The time of a recovery here: a rate of one processor, and what comes on top."""

    rate: Rate
    per_segment: float
    per_partition: float
    """Seconds, whatever its logs have: looking at its files, and flushing the new ones."""
    start: float
    """Seconds until the first log is read."""


OURS: Final = Ours(Rate("kafkats", 0.20, 0.06e-6, 0.06e-6), 0.002, 0.012, 0.6)
"""For one processor, logs in memory: about what `scripts/bench guard` shows for 10 GB in 45
partitions, of batches of 16 KiB and of one record."""
BROKER_PARTITION: Final = 0.001
"""Seconds in which a broker opens and ends a partition's logs, besides reading them."""
_WORTH: Final = 0.85
"""The part of the broker's own time below which a recovery here saves time for certain: both are
estimates."""
_MARGIN: Final = 1.5
"""Seconds by which a start may take longer for a recovery here, where there is nothing to save: it
copies good batches that a broker deletes, and keeps what it cuts."""
_READING: Final = 16 * 1024**2
"""Bytes of a partition from which on reading takes longer than its flushes."""
_NEARLY: Final = 1.1
"""Partitions are recovered here, too, where that takes hardly longer than the best choice."""


class Machine(NamedTuple):
    """The processors, and the broker's recovery threads in each log directory."""

    processors: int
    threads: int


class Choice(NamedTuple):
    """Partitions to recover here, in the order of what they save, and those left to the broker.

    Seconds: `ours` here, `rest` of the broker afterwards, `alone` of the broker without us.
    """

    here: tuple[Load, ...]
    left: tuple[Load, ...]
    ours: float
    rest: float
    alone: float


class _Queues:
    """The broker's work in each log directory. Its log directories share the processors."""

    def __init__(self, rate: Rate, machine: Machine) -> None:
        self._rate, self._machine = rate, machine
        self._sums: dict[str, float] = {}
        self._longest: dict[str, float] = {}
        self._total = 0.0

    def add(self, load: Load) -> None:
        took, where = load.seconds(self._rate) + BROKER_PARTITION, load.log_dir
        self._sums[where] = self._sums.get(where, 0.0) + took
        self._longest[where] = max(self._longest.get(where, 0.0), took)
        self._total += took

    @property
    def seconds(self) -> float:
        threads, processors = self._machine.threads, self._machine.processors
        of_each = (max(self._sums[one] / threads, self._longest[one]) for one in self._sums)
        return max(self._total / processors, *of_each) if self._sums else 0.0


def broker_seconds(loads: Iterable[Load], rate: Rate, machine: Machine) -> float:
    """Return how long a broker takes to recover these partitions."""
    queues = _Queues(rate, machine)
    for load in loads:
        queues.add(load)
    return queues.seconds


def our_seconds(loads: Sequence[Load], ours: Ours, machine: Machine) -> float:
    """Return how long a recovery of these partitions takes here, without the process's start."""
    return sum(_ours(load, ours) for load in loads) / max(machine.processors, 1)


def _ours(load: Load, ours: Ours) -> float:
    each = load.segments * ours.per_segment + ours.per_partition
    return load.seconds(ours.rate) + each


def choose(loads: Sequence[Load], rate: Rate, machine: Machine, ours: Ours = OURS) -> Choice:
    """Return which partitions to recover here, so that the broker serves earliest.

    Those that save most come first. Where nothing can be saved, they are recovered here as long as
    the outage gets hardly longer.
    """
    costs = {load: (load.seconds(rate), _ours(load, ours)) for load in loads}
    order = sorted(loads, key=lambda one: (costs[one][1] - costs[one][0], one))
    here_seconds = [0.0, *accumulate(costs[one][1] for one in order)]
    rest = _Queues(rate, machine)
    outages: dict[int, float] = {}
    for n in range(len(order), -1, -1):
        begun = ours.start if n else 0.0
        outages[n] = begun + here_seconds[n] / machine.processors + rest.seconds
        if n:
            rest.add(order[n - 1])
    alone, best = outages[0], min(outages.values())
    if best < alone * _WORTH:
        best_n = max(n for n, outage in outages.items() if outage <= best * _NEARLY)
    else:  # all or nothing
        best_n = len(order) if outages[len(order)] <= alone + _MARGIN else 0
    here, left = tuple(order[:best_n]), tuple(order[best_n:])
    took = ours.start + our_seconds(here, ours, machine) if here else 0.0
    return Choice(here, left, took, broker_seconds(left, rate, machine), alone)


def with_here(choice: Choice, needed: Collection[PartitionKey]) -> Choice:
    """Return the choice with these partitions recovered here, before all others."""
    first = [load for load in (*choice.here, *choice.left) if load.where in needed]
    here = (*first, *(load for load in choice.here if load.where not in needed))
    return choice._replace(
        here=here, left=tuple(load for load in choice.left if load.where not in needed)
    )


def is_worth(
    loads: Sequence[Load], rate: Rate, machine: Machine, ours: Ours, *, took: float, alone: float
) -> bool:
    """Return whether to go on with these partitions here, after `took` seconds.

    `alone` are the seconds of the broker without us, for all partitions.
    """
    here = our_seconds(loads, ours, machine)
    return here < broker_seconds(loads, rate, machine) * _WORTH or took + here <= alone + _MARGIN


def next_slice(loads: Sequence[Load], seconds: float, ours: Ours, machine: Machine) -> int:
    """Return how many of the first partitions take about `seconds`, at least one.

    A slice is planned, applied and credited as a whole: what a stop loses is one slice at most.
    """
    took = 0.0
    for n, load in enumerate(loads):
        took += our_seconds([load], ours, machine)
        if took > seconds and n:
            return n
    return len(loads)


def learned(ours: Ours, loads: Sequence[Load], seconds: float, machine: Machine) -> Ours:
    """Return the time of a recovery here, as a finished slice shows it, which took `seconds`.

    What took longer than estimated counts for the flushes: how long these take, only the disk
    knows. What a slow disk adds to reading, it adds to the broker's reading, too.
    """
    expected = our_seconds(loads, ours, machine)
    more = (seconds - expected) * machine.processors / max(len(loads), 1)
    read = sum(load.log_bytes for load in loads) / len(loads) if loads else 0
    if more <= 0 or read > _READING:
        return ours
    return ours._replace(per_partition=ours.per_partition + more)
