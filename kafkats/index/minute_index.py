"""The index by minutes that KIP-31 and KIP-33 looked at and rejected, `.time.index`: never shipped, here to be measured and compared.

    entry   timestamp        int64    epoch milliseconds
            relative offset  int32    minus the segment's base offset

Big endian, 12 bytes, no header. Two ways to fill it were described, and the step (a minute, a second) is not in the file:

    append-time   with an entry of the offset index, where the time is of a later step than the last entry's. Times increase.
                  Which time, and which offset, is left open: as in the time index, the largest so far and the end of its batch
    create-time   for each step the first record of the segment that falls into it, in the order in which they came: times are
                  multiples of the step, each once, in no order; offsets increase
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kafkats.errors import UsageError
from kafkats.generations import INDEX_INTERVAL_BYTES
from kafkats.index.entries import Entries
from kafkats.segment.columns import columns
from kafkats.segment.reader import Source
from kafkats.segment.walk import Points, walk

ENTRY_SIZE: Final = 12
ENTRY: Final = np.dtype([("timestamp", ">i8"), ("relative_offset", ">i4")])
assert ENTRY.itemsize == ENTRY_SIZE

SUFFIX: Final = ".time.index"
OPTIONS: Final = ("append-time", "create-time")
MINUTE_MS: Final = 60_000
_MAXIMUM: Final = 3  # columns of Points
_OF_MAXIMUM: Final = 4


def build(
    source: Source,
    base_offset: int,
    *,
    option: str = "append-time",
    step_ms: int = MINUTE_MS,
    index_interval_bytes: int = INDEX_INTERVAL_BYTES,
) -> bytes:
    """The index of a .log. Records without a timestamp have no entry. Raises UsageError, CorruptBatch, Vanished, StorageFailed."""
    if option not in OPTIONS:
        raise UsageError(f"no way {option!r} to fill a minute index; there are {', '.join(OPTIONS)}")
    if step_ms < 1:
        raise UsageError(f"a step of {step_ms} ms")
    find = _by_append_time if option == "append-time" else _by_create_time
    times, offsets = find(source, base_offset, step_ms, index_interval_bytes)
    entries = np.empty(len(times), ENTRY)
    entries["timestamp"], entries["relative_offset"] = times, offsets - base_offset
    return entries.tobytes()


def _by_append_time(
    source: Source, base_offset: int, step_ms: int, interval: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    parts: list[Points] = [np.empty((0, 5), np.int64)]
    walk(source, base_offset, interval=interval, on_points=lambda points: parts.append(points.copy()))
    points = np.concatenate(parts)
    points = points[points[:, _MAXIMUM] >= 0]
    _, first = np.unique(points[:, _MAXIMUM] // step_ms, return_index=True)
    return points[first, _MAXIMUM], points[first, _OF_MAXIMUM]


def _by_create_time(
    source: Source, base_offset: int, step_ms: int, interval: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    times, offsets = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for chunk in columns(source, key=False, value=False, headers=False, quiet_zeros=True):
        known = chunk.timestamp >= 0
        steps, first = np.unique(chunk.timestamp[known] // step_ms, return_index=True)
        times.append(steps * step_ms)
        offsets.append(chunk.offset[known][first])
    every, first = np.unique(np.concatenate(times), return_index=True)
    by_offset = np.argsort(first_offsets := np.concatenate(offsets)[first], kind="stable")
    return every[by_offset], first_offsets[by_offset]


def lookup(
    entries: Entries,
    base_offset: int,
    targets: NDArray[np.int64],
    *,
    option: str = "append-time",
    step_ms: int = MINUTE_MS,
) -> NDArray[np.int64]:
    """For each of `targets` (ms, shape (n,)) an offset to begin at, before which the segment has no record of that time or later.

    create-time, which knows no more than steps: the least offset of the target's and later ones, 2^63-1 where there is none.
    """
    times = entries["timestamp"].astype(np.int64)
    offsets = entries["relative_offset"].astype(np.int64) + base_offset
    if option == "append-time":
        return np.asarray(np.append(base_offset, offsets)[np.searchsorted(times, targets, side="right")])
    by = np.argsort(times)
    least = np.minimum.accumulate(np.append(offsets[by], 2**63 - 1)[::-1])[::-1]
    return np.asarray(least[np.searchsorted(times[by], targets // step_ms * step_ms)])


def size_bytes(partitions: int, hours: float, *, step_ms: int = MINUTE_MS) -> int:
    """What partitions with a record in every step have after so many hours."""
    return round(partitions * hours * 3_600_000 / step_ms) * ENTRY_SIZE
