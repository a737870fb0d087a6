"""The records of a partition as points of time and offset, and their lateness, for plots.

A cloud is built where the partition's files are, and is small enough to send to where it is drawn.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkats import paths
from kafkats.errors import KafkatsError
from kafkats.records.plan import ReadOptions, plan_read
from kafkats.records.settled import read_settled
from kafkats.search import PartitionUnit
from kafkats.segment.arrow import COLUMNS

CLOUDS: Final = pa.schema([
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("timestamps", pa.list_(pa.int64())),  # ms, of a sample of the records
    ("offsets", pa.list_(pa.int64())),     # offsets of the same records
    ("late", pa.list_(pa.int64())),        # counts of all records by lateness: LATE
    ("error", pa.string()),                # why the cloud ends early, or ""
])  # fmt: skip
"""One row per partition."""

LATE: Final = {
    "in order": 1,
    "< 10 ms": 10,
    "< 100 ms": 100,
    "< 1 s": 1000,
    "< 10 s": 10_000,
    "< 1 min": 60_000,
    "< 10 min": 600_000,
    "< 1 h": 3_600_000,
    "< 1 d": 86_400_000,
    "< 30 d": 30 * 86_400_000,
    "more": 2**63 - 1,
}
"""Lateness classes: by how much (ms, exclusive) a record is older than the newest before it."""
MOST_BYTES: Final = 256 * 1024**2
"""The most bytes to read of a partition."""
POINTS: Final = 20_000
_PIECE_BYTES: Final = 16 * 1024**2
_EDGES: Final = np.array(list(LATE.values())[:-1])
_READ: Final = pa.schema([COLUMNS.field(name) for name in ("offset", "timestampMs")])
_NONE: Final = np.empty(0, np.int64)

Ints = NDArray[np.int64]


class Cloud(NamedTuple):
    """Times (ms) and offsets of records in log order, int64, shape (n,).

    `late` has counts, shape (len(LATE),).
    """

    timestamp: Ints
    offset: Ints
    late: Ints


def cloud_of(timestamp: Ints, offset: Ints) -> Cloud:
    """Return the cloud of records in log order. Records without a time are left out."""
    has = timestamp != -1
    timestamp, offset = timestamp[has], offset[has]
    lateness = np.maximum.accumulate(timestamp) - timestamp
    late = np.bincount(np.searchsorted(_EDGES, lateness, side="right"), minlength=len(LATE))
    some = slice(None, None, max(-(-len(timestamp) // POINTS), 1))
    return Cloud(timestamp[some], offset[some], late)


def read_cloud(
    partition: Path, from_ms: int | None = None, to_ms: int | None = None
) -> tuple[Cloud, str]:
    """Return the cloud of a range of records, and why it ends early or "".

    The range begins with the first record of `from_ms` or later, ends with the first of `to_ms` or
    later, and has at most about MOST_BYTES. An unreadable place ends it.
    """
    times, offsets = [_NONE], [_NONE]
    error = ""
    try:
        options = ReadOptions(
            starting_timestamp=from_ms, ending_timestamp=to_ms, piece_bytes=_PIECE_BYTES
        )
        left = MOST_BYTES
        for piece in plan_read([partition], options):
            left -= piece.end - piece.start
            if left < 0:
                error = f"more than {MOST_BYTES} bytes"
                break
            for batch in read_settled(piece, _READ):
                offsets.append(batch["offset"].to_numpy())
                times.append(batch["timestampMs"].to_numpy())
    except KafkatsError as e:
        error = str(e)
    return cloud_of(np.concatenate(times), np.concatenate(offsets)), error


def cloud_unit(unit: PartitionUnit, from_ms: int, to_ms: int) -> pa.RecordBatch:
    """Return a row of CLOUDS, or none for anything but a partition's directory."""
    name = paths.parse_partition(unit.partition_dir)
    if name is None:
        return pa.RecordBatch.from_pylist([], CLOUDS)
    cloud, error = read_cloud(unit.path, from_ms, to_ms)
    values = (name.topic, name.partition, *cloud, error)
    columns = [pa.array([one], field.type) for one, field in zip(values, CLOUDS, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=CLOUDS)


def clouds_in(rows: pa.Table) -> dict[tuple[str, int], Cloud]:
    """Return the clouds in rows of CLOUDS, by partition."""
    return {
        (row["topic"], row["partition"]): Cloud(
            *(np.array(row[name], np.int64) for name in CLOUDS.names[2:5])
        )
        for row in rows.to_pylist()
    }
