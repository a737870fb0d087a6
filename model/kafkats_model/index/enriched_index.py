"""The index with timestamps of the enriched message proposal: offsets and times in one file.

It never shipped; it serves for comparison.

    entry   relative offset  int32    the batch's last offset minus the segment's base offset
            timestamp        int64    largest so far, epoch milliseconds; -1: none
            position         int32    where the batch begins in the .log

Big endian, 16 bytes, with entries at the same batches as the offset index. The proposal (KAFKA-979)
names the three fields in this order and requires a binary search by each. A partition of the
dialect `enriched` has this content in its .index. KIP-33, which rejected a
similar index, counts 16 bytes for an entry. The widths and the choice of timestamp are our reading.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkats.generations import INDEX_INTERVAL_BYTES
from kafkats.index.entries import Entries, read_entries
from kafkats.segment.reader import Source
from kafkats.segment.walk import walk_points
from kafkats_model.formats import enriched
from kafkats_model.segment import read_batches

ENTRY_SIZE: Final = 16
ENTRY: Final = np.dtype([("relative_offset", ">i4"), ("timestamp", ">i8"), ("position", ">i4")])
assert ENTRY.itemsize == ENTRY_SIZE

SUFFIX: Final = ".enriched.index"
"""Ours: the proposal does not name the file."""


class Point(NamedTuple):
    """One entry."""

    relative_offset: int
    timestamp: int
    position: int


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


def build_dialect(
    source: Source, base_offset: int, *, index_interval_bytes: int = INDEX_INTERVAL_BYTES
) -> bytes:
    """Return the `.index` of a segment of the dialect `enriched`.

    Raises CorruptBatch, NotConvertible as segment.dialects.read_batches; StorageFailed.
    """
    points: list[Point] = []
    largest, unindexed = -1, 0
    for position, data, batch in read_batches(source, "enriched"):
        largest = max(largest, enriched.largest_time(data, batch))
        if unindexed > index_interval_bytes:
            relative = enriched.last_offset(data, batch) - base_offset
            points.append(Point(relative, largest, position))
            unindexed = 0
        unindexed += len(data)
    return encode(points)


def encode(entries: Sequence[Point]) -> bytes:
    """Return entries as they are in a file."""
    return np.array([tuple(one) for one in entries], ENTRY).tobytes()


def read(path: str | os.PathLike[str]) -> Entries:
    """Return the entries of a file: dtype ENTRY, shape (n,). Raises as offset_index.read."""
    return read_entries(path, ENTRY)[0]


def position_of(entries: Entries, relative_offset: int) -> int:
    """Return the position of the last entry at or below an offset: start reading there."""
    number = int(np.searchsorted(entries["relative_offset"], relative_offset, side="right"))
    return int(entries["position"][number - 1]) if number else 0


def lookup(entries: Entries, targets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a position to start at for each of `targets` (ms, shape (n,)).

    No record before that position has the target time or a later one. It is the position of the
    last entry with an earlier timestamp: an entry with the same one may lie after the first such
    record.
    """
    numbers = np.searchsorted(entries["timestamp"].astype(np.int64), targets, side="left")
    return np.asarray(np.append(0, entries["position"].astype(np.int64))[numbers])
