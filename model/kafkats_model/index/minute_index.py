"""The minute-level index that KIP-31 and KIP-33 considered and rejected, `.time.index`.

It never shipped; it serves for measurement and comparison.

    entry   timestamp        int64    epoch milliseconds
            relative offset  int32    minus the segment's base offset

Big endian, 12 bytes, no header. The proposals describe two ways to fill it. The step (a minute, a
second) is not stored in the file:

    append-time   an entry at each offset-index entry whose time falls into a later step than the
                  last entry's. Timestamps increase. The proposals leave open which timestamp and
                  offset to store; here, as in the time index, the largest timestamp so far and the
                  last offset of its batch.
    create-time   one entry per step, for the segment's first record in that step, in log order.
                  Timestamps are multiples of the step, each once, in any order. Offsets increase.
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
from kafkats.segment.walk import walk_points

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
    """Return the index of a .log; records without a timestamp have no entry.

    Raises UsageError, CorruptBatch, Vanished, StorageFailed.
    """
    if option not in OPTIONS:
        raise UsageError(
            f"no way {option!r} to fill a minute index; there are {', '.join(OPTIONS)}"
        )
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
    points, _ = walk_points(source, base_offset, interval=interval)
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
    """Return an offset to start at for each of `targets` (ms, shape (n,)).

    The segment has no batch before that offset with a record of the target time or later.
    create-time knows only steps: it returns the lowest offset of the target's step and all later
    steps, or 2^63-1 if there is none.
    """
    times = entries["timestamp"].astype(np.int64)
    offsets = entries["relative_offset"].astype(np.int64) + base_offset
    if option == "append-time":
        return np.asarray(
            np.append(base_offset, offsets)[np.searchsorted(times, targets, side="right")]
        )
    by = np.argsort(times)
    least = np.minimum.accumulate(np.append(offsets[by], 2**63 - 1)[::-1])[::-1]
    return np.asarray(least[np.searchsorted(times[by], targets // step_ms * step_ms)])


def size_bytes(partitions: int, hours: float, *, step_ms: int = MINUTE_MS) -> int:
    """Return the bytes that partitions with a record in every step need after that many hours."""
    return round(partitions * hours * 3_600_000 / step_ms) * ENTRY_SIZE
