"""Judge by the ends of logs, indexes and checkpoints which records a start loses.

This takes a fraction of a millisecond for each partition. A corrupt batch is not seen.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafkats import paths
from kafkats.errors import KafkatsError
from kafkats.findings import DEFECTS
from kafkats.plans.facts import rows_with
from kafkats.plans.operation import Stages
from kafkats.plans.rows import PartitionKey, partition_of, partitions_of
from kafkats.plans.units import Unit

_LOSSES: Final = ("missing-records", "end-not-flushed")
_UNREAD: Final = ("unreadable", "vanished")
_AT_ONCE: Final = 500
"""Partitions after which the time is looked at."""
_BYTES_PER_SECOND: Final = 1e8
"""So fast is a segment read from a cold disk, at least."""


class Judged(NamedTuple):
    """By partition which records are lost, and the partitions of which their ends do not tell it:
    these are damaged, could not be read, or the time was up.
    """

    lost: dict[PartitionKey, str]
    untold: set[PartitionKey]


def judge_ends(
    stages: Stages, units: Mapping[PartitionKey, Sequence[Unit]], until: float
) -> Judged:
    """Look at the ends of partitions, up to `until` (time.monotonic).

    Directories that a broker was moving or deleting have no checkpoints of their own.
    """
    judged = Judged({}, set())
    keys = [key for key in units if not _is_moved(key)]
    for n in range(0, len(keys), _AT_ONCE):
        some = keys[n : n + _AT_ONCE]
        if time.monotonic() >= until:
            judged.untold.update(some)
            continue
        try:
            ends = stages.ends(_ending(units, some))
        except KafkatsError:
            judged.untold.update(some)
            continue
        judged.lost.update(_lost(ends))
        defects = ends.filter(pc.is_in(ends["worst"], pa.array(DEFECTS)))
        judged.untold.update(partitions_of(defects) - judged.lost.keys())
    return judged


def judge_last_segments(
    stages: Stages, units: Mapping[PartitionKey, Sequence[Unit]], ends: Judged, until: float
) -> Judged:
    """Read the last segments of the partitions whose ends do not tell it, up to `until`.

    Where a broker has stopped cleanly, nothing else reads them before its start.
    """
    judged = Judged({**ends.lost}, set())
    for key in sorted(ends.untold):
        last = [*_ending(units, [key])]
        takes = sum(unit.bytes for unit in last) / _BYTES_PER_SECOND
        if time.monotonic() + takes >= until:
            judged.untold.add(key)
            continue
        try:
            found = stages.verify(last)
        except KafkatsError:
            judged.untold.add(key)
            continue
        judged.lost.update(_lost(found))
        judged.untold.update(partition_of(row) for row, _ in rows_with(found, _UNREAD))
    return judged


def _is_moved(key: PartitionKey) -> bool:
    name = paths.parse_partition(key.partition_dir)
    return name is not None and bool(name.state)


def _ending(
    units: Mapping[PartitionKey, Sequence[Unit]], keys: Sequence[PartitionKey]
) -> Iterator[Unit]:
    """Yield the last segment of each partition, and the directory itself."""
    for key in keys:
        yield from (unit for unit in units[key] if unit.active or unit.base_offset < 0)


def _lost(ends: pa.Table) -> dict[PartitionKey, str]:
    """Return which records the logs lack at their ends, from rows of facts.SEGMENTS."""
    told: dict[PartitionKey, dict[str, None]] = {}
    for row, finding in rows_with(ends, _LOSSES):
        if int(finding["expected"]) > int(finding["found"]):
            told.setdefault(partition_of(row), {})[finding["reason"]] = None
    return {where: "; ".join(reasons) for where, reasons in told.items()}
