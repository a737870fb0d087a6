"""Simulate rolling: the segments that these batches would be in under other settings.

The batches of a partition are appended again to an empty log with these settings, each at the time
of its timestamp.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Final, Required, TypedDict

import pyarrow as pa

from kafkats import paths
from kafkats.clock import DAY_MS
from kafkats.config.policy import Policy
from kafkats.errors import KafkatsError, UsageError
from kafkats.execution.executor import Executor
from kafkats.generations import (
    DEFAULT_RETENTION_RULE,
    DEFAULT_ROLL_RULE,
    RETENTION_RULES,
    ROLL_RULES,
)
from kafkats.kernels import headers_state as k
from kafkats.logdir.steady import steady
from kafkats.plans.columns import batch_of, schema_of
from kafkats.plans.rows import PartitionRow
from kafkats.plans.units import Unit, list_again
from kafkats.retention.rules import Limits
from kafkats.rolling.early_rolls import count_early_rolls
from kafkats.rolling.replay import (
    Rolled,
    after_retention,
    began,
    draw_jitter,
    replay,
    simulate,
)
from kafkats.rolling.rules import Batch, settings_of
from kafkats.segment.headers import batch_headers
from kafkats.segment.reader import open_source

FILES: Final = 3
"""The files of a segment that a broker keeps open."""


class DayRow(TypedDict):
    """A day."""

    day_ms: int  # midnight UTC
    segments: int  # actual segments whose first batch was appended on that day
    simulated: int  # the same of simulated ones


class SimulatedRow(PartitionRow, total=False):
    """One partition. What is about the simulated segments is None without batches."""

    batches: int
    segments: Required[int]  # actual
    simulated: int  # simulated
    rolled_by: str  # reasons and their counts
    open_files: Required[int]  # actual
    simulated_open_files: int  # after retention by the policy's limits
    largest_bytes: int  # of a simulated segment
    # from a segment's first timestamp to its deletion by time; None: never, or no limit
    longest_kept_ms: int | None
    # the settings of the simulation; segment_ms is bounded by max.compaction.lag.ms
    segment_ms: int
    segment_bytes: int
    segment_jitter_ms: int
    days: list[DayRow]
    error: Required[str]
    early_rolls: int  # see early_rolls; stored tables do not have it


SIMULATED_NOW: Final = schema_of(SimulatedRow)
SIMULATED: Final = SIMULATED_NOW.remove(SIMULATED_NOW.get_field_index("early_rolls"))


@dataclass(frozen=True)
class SimulateOptions:
    """Rules and moment of a simulation. `seed` draws the jitter that segment.jitter.ms allows."""

    now_ms: int
    rule: str = DEFAULT_ROLL_RULE.name
    retention_rule: str = DEFAULT_RETENTION_RULE.name
    seed: int = 0


def partitions(units: Sequence[Unit]) -> Iterator[list[Unit]]:
    """Yield the segments of each partition."""
    real = (unit for unit in units if unit.base_offset >= 0)
    for _, some in groupby(real, lambda unit: (unit.log_dir, unit.partition_dir)):
        yield list(some)


def simulate_units(
    executor: Executor, units: Sequence[Unit], policy: Policy, options: SimulateOptions
) -> pa.Table:
    """Return SIMULATED_NOW, a row per partition of these segments. Raises UsageError."""
    return executor.map(
        "simulate",
        list(partitions(units)),
        partial(simulate_partition, policy=policy, options=options),
        SIMULATED_NOW,
        size=lambda some: sum(unit.bytes for unit in some),
    )


def simulate_partition(
    units: Sequence[Unit], policy: Policy, options: SimulateOptions
) -> pa.RecordBatch:
    """Return a row of SIMULATED_NOW for the segments of one partition.

    The row has the error of an unreadable partition. A partition that a running broker deleted
    meanwhile has no row. Raises UsageError for an unknown rule.
    """
    if options.rule not in ROLL_RULES or options.retention_rule not in RETENTION_RULES:
        raise UsageError(f"unknown rule: {options.rule!r} or {options.retention_rule!r}")
    looked = steady(
        Path(units[0].log_dir, units[0].partition_dir),
        _Looking(units),
        lambda seen: bool(seen[2]),
        live=units[0].live,
    )
    if looked is None:
        return batch_of([], SIMULATED_NOW)
    units, read, error = looked
    first = units[0]
    row: SimulatedRow = {
        "log_dir": first.log_dir,
        "partition_dir": first.partition_dir,
        "segments": len(units),
        "open_files": FILES * len(units),
        "error": error,
    }
    if not error:
        row["batches"] = sum(len(batches) for batches, _ in read)
        if row["batches"]:
            row = _simulated(row, first, read, policy, options)
    return batch_of([row], SIMULATED_NOW)


class _Looking:
    """Reads the batches of these units. Lists the units again from the second call on."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self._units, self._again = units, False

    def __call__(self) -> tuple[Sequence[Unit], list[tuple[list[Batch], int]], str]:
        try:
            if self._again:
                listed = [unit for unit in list_again(self._units[0]) if unit.base_offset >= 0]
                self._units = listed or self._units
            self._again = True
            return self._units, [_batches(unit) for unit in self._units], ""
        except KafkatsError as e:
            return self._units, [], str(e)


def _simulated(
    row: SimulatedRow,
    first: Unit,
    read: Sequence[tuple[list[Batch], int]],
    policy: Policy,
    options: SimulateOptions,
) -> SimulatedRow:
    """Return the row with what is about the simulated segments."""
    topic = paths.partition_name(first.partition_dir).topic
    settings = settings_of(policy.settings(topic))
    rule = ROLL_RULES[options.rule]
    rolled: list[Rolled] = simulate(
        replay(read),
        settings,
        rule,
        base_offset=first.base_offset,
        jitter=draw_jitter(settings, options.seed),
    )
    limits = Limits(*policy.limits(topic), 0, rolled[-1].end_offset)
    after = after_retention(
        rolled, limits, RETENTION_RULES[options.retention_rule], rule, now_ms=options.now_ms
    )
    reasons = [segment.reason for segment in rolled if segment.reason]
    kept = [ms for ms in after.kept_ms if ms is not None]
    return {
        **row,
        "simulated": len(rolled),
        "rolled_by": ", ".join(f"{why} {reasons.count(why)}" for why in dict.fromkeys(reasons)),
        "simulated_open_files": after.open_files,
        "largest_bytes": max(segment.bytes for segment in rolled),
        "longest_kept_ms": max(kept) if kept and limits.retention_ms >= 0 else None,
        "segment_ms": settings.longest_ms,
        "segment_bytes": settings.segment_bytes,
        "segment_jitter_ms": settings.segment_jitter_ms,
        "days": _days(began(read), [segment.created_ms for segment in rolled]),
        "early_rolls": count_early_rolls(rolled, settings.longest_ms),
    }


def _days(actual_ms: Iterable[int], simulated_ms: Iterable[int]) -> list[DayRow]:
    """Return the segments that began on each day (UTC), by day."""
    actual, simulated = (
        Counter(ms // DAY_MS * DAY_MS for ms in times) for times in (actual_ms, simulated_ms)
    )
    return [
        {"day_ms": day, "segments": actual[day], "simulated": simulated[day]}
        for day in sorted(actual.keys() | simulated.keys())
    ]


def _batches(unit: Unit) -> tuple[list[Batch], int]:
    batches: list[Batch] = []
    with open_source(unit.log, mapped=not unit.live) as source:
        for rows in batch_headers(source, quiet_zeros=True):
            for row in rows.tolist():
                offset = -1 if row[k.FIRST_OFFSET] == k.UNKNOWN else row[k.FIRST_OFFSET]
                size, timestamp = row[k.SIZE], row[k.MAX_TIMESTAMP]
                batches.append(Batch(offset, row[k.LAST_OFFSET], size, timestamp))
        return batches, source.mtime_ms
