"""The index with timestamps of the enriched message proposal: one file for offsets and times. Never shipped, here to be compared.

    entry   relative offset  int32    the batch's last offset minus the segment's base offset
            timestamp        int64    largest so far, epoch milliseconds; -1: none
            position         int32    where the batch begins in the .log

Big endian, 16 bytes, an entry where the offset index has one. The proposal (KAFKA-979) names the three in this order and wants a binary
search by each; KIP-33, which rejected the like, counts 16 bytes for an entry. Widths, and which time, are ours to say from that.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kafkats.generations import INDEX_INTERVAL_BYTES
from kafkats.index.entries import Entries
from kafkats.segment.reader import Source
from kafkats.segment.walk import Points, walk

ENTRY_SIZE: Final = 16
ENTRY: Final = np.dtype([("relative_offset", ">i4"), ("timestamp", ">i8"), ("position", ">i4")])
assert ENTRY.itemsize == ENTRY_SIZE

SUFFIX: Final = ".enriched.index"
"""Ours: the proposal names no file."""


def build(source: Source, base_offset: int, *, index_interval_bytes: int = INDEX_INTERVAL_BYTES) -> bytes:
    """The index of a .log up to its first bad batch. Raises Vanished, StorageFailed."""
    parts: list[Points] = [np.empty((0, 5), np.int64)]
    walk(source, base_offset, interval=index_interval_bytes, on_points=lambda points: parts.append(points.copy()))
    points = np.concatenate(parts)
    entries = np.empty(len(points), ENTRY)
    entries["position"] = points[:, 0]
    entries["relative_offset"] = points[:, 2] - base_offset
    entries["timestamp"] = np.maximum(points[:, 3], -1)
    return entries.tobytes()


def lookup(entries: Entries, targets: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each of `targets` (ms, shape (n,)) a position to begin at, before which the segment has no record of that time or later: that
    of the last entry that is older. One of the same time may be behind the first record of it."""
    found = np.searchsorted(entries["timestamp"].astype(np.int64), targets, side="left")
    return np.asarray(np.append(0, entries["position"].astype(np.int64))[found])
