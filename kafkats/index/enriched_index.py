"""The index with timestamps of the enriched message proposal: offsets and times in one file.

It never shipped; it serves for comparison.

    entry   relative offset  int32    the batch's last offset minus the segment's base offset
            timestamp        int64    largest so far, epoch milliseconds; -1: none
            position         int32    where the batch begins in the .log

Big endian, 16 bytes, with entries at the same batches as the offset index. The proposal (KAFKA-979)
names the three fields in this order and requires a binary search by each. KIP-33, which rejected a
similar index, counts 16 bytes for an entry. The widths and the choice of timestamp are our reading.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kafkats.generations import INDEX_INTERVAL_BYTES
from kafkats.index.entries import Entries
from kafkats.segment.reader import Source
from kafkats.segment.walk import walk_points

ENTRY_SIZE: Final = 16
ENTRY: Final = np.dtype([("relative_offset", ">i4"), ("timestamp", ">i8"), ("position", ">i4")])
assert ENTRY.itemsize == ENTRY_SIZE

SUFFIX: Final = ".enriched.index"
"""Ours: the proposal does not name the file."""


def build(
    source: Source, base_offset: int, *, index_interval_bytes: int = INDEX_INTERVAL_BYTES
) -> bytes:
    """Return the index of a .log up to its first bad batch. Raises Vanished, StorageFailed."""
    points, _ = walk_points(source, base_offset, interval=index_interval_bytes)
    entries = np.empty(len(points), ENTRY)
    entries["position"] = points[:, 0]
    entries["relative_offset"] = points[:, 2] - base_offset
    entries["timestamp"] = np.maximum(points[:, 3], -1)
    return entries.tobytes()


def lookup(entries: Entries, targets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a position to start at for each of `targets` (ms, shape (n,)).

    No record before that position has the target time or a later one. It is the position of the
    last entry with an earlier timestamp: an entry with the same one may lie after the first such
    record.
    """
    numbers = np.searchsorted(entries["timestamp"].astype(np.int64), targets, side="left")
    return np.asarray(np.append(0, entries["position"].astype(np.int64))[numbers])
