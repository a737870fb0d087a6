"""The segments of large partitions, recovered each for itself before the starts are predicted.

A broker reads a partition with one thread. Here each segment that it would recover is a unit of
work, so that one large partition keeps all processors busy. The prediction of the partition takes
these results in the place of its own reading, and reads what is not among them. A plan has read its
segments already: `recoveries` makes the same results from its facts.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kafkats import paths
from kafkats.errors import KafkatsError, storage
from kafkats.formats import v2
from kafkats.plans.columns import batch_of
from kafkats.plans.rows import PartitionKey, SegmentRow, partition_of
from kafkats.recovery.decide import end_of, log_bytes, log_of, valid_bytes
from kafkats.recovery.reading import Recovery, Stops, recover
from kafkats.recovery.rules import StartRule

if TYPE_CHECKING:
    from kafkats.execution.executor import Executor

LARGE_BYTES: Final = 64 * 1024**2
"""Partitions with fewer bytes to recover are read by one task each."""
Recoveries = dict[int, Recovery]
"""The recovery of each segment of a partition, by base offset."""

_READ: Final = pa.schema([
    ("log_dir", pa.string()), ("partition_dir", pa.string()), ("base_offset", pa.int64()),
    *((name, pa.string() if name == "stop" else pa.int64()) for name in Recovery._fields),
])  # fmt: skip


@dataclass(frozen=True)
class SegmentUnit:
    """One segment to recover. It can be pickled."""

    log_dir: str
    partition_dir: str
    base_offset: int
    interval: int
    bytes: int
    newest_magic: int = v2.MAGIC


def recovered_logs(
    directory: Path, recovery_point: int, rule: StartRule, *, clean: bool
) -> Mapping[int, int]:
    """Return about which logs a start recovers: their bytes by base offset.

    These are the logs without an index, and after an unclean stop those from the recovery point on.
    Reads names only. A directory that cannot be listed has none: its prediction tells why.
    """
    logs: dict[int, os.DirEntry[str]] = {}
    indexed: set[int] = set()
    try:
        with storage(directory, "listing"), os.scandir(directory) as entries:
            for entry in entries:
                parsed = paths.parse_segment_file(entry.name)
                if parsed is None or parsed.suffix:
                    continue
                if parsed.kind == paths.LOG:
                    logs[parsed.base_offset] = entry
                elif parsed.kind == paths.OFFSET_INDEX:
                    indexed.add(parsed.base_offset)
        missing = logs.keys() - indexed if rule.missing_index_rebuilt else set()
        first = max((base for base in logs if base <= recovery_point), default=0)
        wanted = missing if clean else {base for base in logs if base >= first} | missing
        with storage(directory, "listing"):
            return {b: logs[b].stat(follow_symlinks=False).st_size for b in sorted(wanted)}
    except KafkatsError:
        return {}


def segments_of(
    log_dir: str,
    partition_dir: str,
    logs: Mapping[int, int],
    interval: int,
    newest_magic: int = v2.MAGIC,
) -> list[SegmentUnit]:
    """Return the segments to recover ahead: those of a large partition with more than one."""
    if len(logs) < 2 or sum(logs.values()) < LARGE_BYTES:
        return []
    return [
        SegmentUnit(log_dir, partition_dir, base, interval, size, newest_magic)
        for base, size in logs.items()
    ]


def recover_ahead(
    executor: Executor, units: Sequence[SegmentUnit]
) -> dict[PartitionKey, Recoveries]:
    """Return the recoveries of all `units` by log directory and partition directory."""
    if not units:
        return {}
    rows = executor.map("segments", units, _row, _READ, size=lambda unit: unit.bytes, threads=True)
    found: dict[PartitionKey, Recoveries] = {}
    for row in rows.to_pylist():
        of_it = found.setdefault(partition_of(row), {})
        of_it[row["base_offset"]] = Recovery(*(row[name] for name in Recovery._fields))
    return found


def _row(unit: SegmentUnit) -> pa.RecordBatch:
    """Return the row of one segment; none where it cannot be read: the prediction says so."""
    log = Path(unit.log_dir, unit.partition_dir, paths.segment_file(unit.base_offset))
    rows: Collection[Mapping[str, object]] = ()
    try:
        done = recover(log, unit.base_offset, unit.interval, newest_magic=unit.newest_magic)
    except (Stops, KafkatsError):
        pass
    else:
        place = {name: getattr(unit, name) for name in ("log_dir", "partition_dir", "base_offset")}
        rows = [{**place, **done._asdict()}]
    return batch_of(list(rows), _READ)


_OTHERWISE: Final = ("offsets-not-increasing", "offset-out-of-range")
"""Findings about a segment whose batches a broker reads in its own way."""


def recoveries(directory: Path, rows: Iterable[SegmentRow]) -> dict[int, Recovery]:
    """Return the recoveries by base offset, from facts.SEGMENTS of one partition.

    Of a damaged log the bytes behind its last good batch are read. A segment whose facts do not
    tell is left out. Epochs and the numbers of batches are not known.
    """
    found = {}
    for row in rows:
        if row["depth"] == "tail" or row["valid_bytes"] is None or row["blocked"]:
            continue
        if any(finding["kind"] in _OTHERWISE for finding in row["findings"]):
            continue
        base, end = row["base_offset"], end_of(row)
        if not row["stop"]:
            found[base] = Recovery(
                valid_bytes(row), end, log_bytes(row), -1, seen_to=end, producers_end=end
            )
            continue
        try:
            log = directory / log_of(row)
            found[base] = recover(log, base, start=valid_bytes(row), reached=end)
        except (Stops, KafkatsError):
            continue  # the prediction reads it, and tells the broker's words
    return found
