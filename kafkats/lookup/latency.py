"""The delay between a record's timestamp and its append: the margin for a fail-over.

It is use case 5 of KIP-33.

A stored record has one time, CreateTime or LogAppendTime. Two sources still have both:

    append-time  a magic-2 batch under LogAppendTime keeps its first CreateTime in the header
                 (baseTimestamp) beside the append time (maxTimestamp). If the broker rewrote the
                 batch, both are equal.
    mtime        the .log of a CreateTime partition was last written when its last batch was
                 appended. That is one sample per segment. It is worthless where a copy or a tool
                 changed the mtime.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkats import paths, search
from kafkats.errors import KafkatsError
from kafkats.formats import v2
from kafkats.kernels import headers_state as k
from kafkats.logdir.steady import steady
from kafkats.segment.headers import batch_headers

LATENCY: Final = pa.schema([
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("source", pa.string()),   # append-time, mtime
    ("samples", pa.int64()),   # batches; for mtime, segments
    # batches with equal times: rewritten by the broker, or no delay; not samples
    ("same", pa.int64()),
    ("unknown", pa.int64()),   # batches under LogAppendTime without a CreateTime in the header
    ("least_ms", pa.int64()),  # of the samples; all are 0 without samples
    ("median_ms", pa.int64()),
    ("p99_ms", pa.int64()),
    ("most_ms", pa.int64()),
    ("reason", pa.string()),   # why the partition cannot be read, or ""
])  # fmt: skip
"""One row per partition and source with data, or one with source "" for a partition without any."""
Row = dict[str, int | str]
"""A row of LATENCY."""

_BASE_TIMESTAMP_AT: Final = 27


def latency(partitions: Iterable[search.PartitionUnit]) -> pa.Table:
    """Return rows of LATENCY from every batch header.

    An unreadable partition becomes a row, not an error. A negative latency comes from a clock that
    is ahead or an mtime that was set back. It is counted as it is.
    """
    rows = [row for unit in partitions for row in _at_rest(unit)]
    return pa.Table.from_pylist(rows, LATENCY)


def most_ms(table: pa.Table, source: str = "append-time") -> int:
    """Return the largest latency of a source over all partitions, at least 0.

    It is the `margin_ms` of a fail-over or a safe search.
    """
    rows = table.to_pylist()
    known: list[int] = [
        row["most_ms"] for row in rows if row["source"] == source and row["samples"]
    ]
    return max([0, *known])


def _at_rest(unit: search.PartitionUnit) -> list[Row]:
    """Return the rows of a partition, [] if a running broker deleted it meanwhile."""

    def failed(rows: list[Row]) -> bool:
        return any(row["reason"] for row in rows)

    return steady(unit.path, lambda: _of_partition(unit), failed, live=unit.live) or []


def _of_partition(unit: search.PartitionUnit) -> list[Row]:
    name = paths.partition_name(unit.partition_dir)
    by_append: list[NDArray[np.int64]] = []
    by_mtime: list[NDArray[np.int64]] = []
    same = unknown = 0
    reason = unit.hidden
    try:
        if not reason:
            with search.open_unit(unit) as partition:
                for segment in partition.segments:
                    appended, written, equal, without = _of_segment(segment)
                    by_append.append(appended)
                    by_mtime.append(written)
                    same, unknown = same + equal, unknown + without
    except KafkatsError as e:
        reason = str(e)

    def row(source: str, samples: list[NDArray[np.int64]], same: int, unknown: int) -> Row:
        values = np.concatenate([np.empty(0, np.int64), *samples])
        names = ("least_ms", "median_ms", "p99_ms", "most_ms")
        points = [0] * len(names)
        if len(values):
            points = np.percentile(values, [0, 50, 99, 100], method="higher").astype(int).tolist()
        return {
            "topic": name.topic,
            "partition": name.partition,
            "source": source,
            "samples": len(values),
            "same": same,
            "unknown": unknown,
            **dict(zip(names, points, strict=True)),
            "reason": reason,
        }

    rows = [row("append-time", by_append, same, unknown), row("mtime", by_mtime, 0, 0)]
    known = [one for one in rows if one["samples"] or one["same"] or one["unknown"]]
    return known or [row("", [], 0, 0)]


def _of_segment(segment: search.Segment) -> tuple[NDArray[np.int64], NDArray[np.int64], int, int]:
    """Return latencies by append time, latencies by mtime (one or none), and two counts of batches.

    The counts are those of batches with equal times and of batches without a CreateTime.
    """
    source = segment.log.source
    delays: list[NDArray[np.int64]] = []
    same = unknown = 0
    created = -1
    """The largest CreateTime of the last batch, -1 without one."""
    for rows in batch_headers(source, quiet_zeros=True):
        rows = rows[(rows[:, k.ATTRIBUTES] & v2.CONTROL_BIT) == 0]
        if not len(rows):
            continue
        appended = (rows[:, k.ATTRIBUTES] & v2.LOG_APPEND_TIME_BIT) != 0
        created = -1 if appended[-1] else int(rows[-1, k.MAX_TIMESTAMP])
        kept = (
            appended
            & (rows[:, k.MAGIC] == 2)
            & ((rows[:, k.ATTRIBUTES] & v2.DELETE_HORIZON_BIT) == 0)
        )
        ends = rows[kept, k.MAX_TIMESTAMP]
        begins = np.array(
            [
                int.from_bytes(source.read(int(at) + _BASE_TIMESTAMP_AT, 8), "big", signed=True)
                for at in rows[kept, k.AT]
            ],
            np.int64,
        )
        known = (begins >= 0) & (ends >= 0)
        other = known & (begins != ends)
        delays.append(ends[other] - begins[other])
        same += int((known & ~other).sum())
        unknown += int(appended.sum() - known.sum())
    by_mtime = np.array([segment.mtime_ms - created] if created >= 0 else [], np.int64)
    return np.concatenate([np.empty(0, np.int64), *delays]), by_mtime, same, unknown
