"""The offset index, `.index`: the position in the .log at which to start reading for an offset.

    entry   relative offset  int32    the batch's last offset (Kafka 2.0 and later) minus the
                                      segment's base offset
            position         int32    where the batch begins in the .log

Big endian, 8 bytes; offsets and positions strictly increase. The index is sparse, and the first
batch has no entry. The file has no header and no checksum, so a preallocated file that was never
truncated looks like one that ends with entries of zeros.
"""

from __future__ import annotations

import os
from typing import Final, NamedTuple

import numpy as np

from kafkats.errors import CorruptIndex
from kafkats.index.entries import Entries, read_index_bytes, whole_entries

ENTRY_SIZE: Final = 8
ENTRY: Final = np.dtype([("relative_offset", ">i4"), ("position", ">i4")])
assert ENTRY.itemsize == ENTRY_SIZE


class OffsetEntry(NamedTuple):
    """Start reading at `position` to find `offset` and later offsets."""

    offset: int
    position: int


def read(path: str | os.PathLike[str]) -> Entries:
    """Return all entries before the zeros of a preallocated file: dtype ENTRY, shape (n,).

    Raises Vanished, StorageFailed, BadInput, and CorruptIndex for a length that is not a whole
    number of entries.
    """
    data, size = read_index_bytes(path, ENTRY_SIZE)
    if size % ENTRY_SIZE:
        raise CorruptIndex(f"{size} bytes are not a whole number of entries of {ENTRY_SIZE}", path=path, position=size)
    return whole_entries(data, ENTRY_SIZE, ENTRY)


def lookup(entries: Entries, base_offset: int, target: int) -> OffsetEntry:
    """Return the greatest entry at or below `target`, or else (base offset, 0).

    Entries must increase, as in Kafka's search.
    """
    found = int(np.searchsorted(entries["relative_offset"].astype(np.int64), target - base_offset, side="right")) - 1
    if found < 0:
        return OffsetEntry(base_offset, 0)
    entry = entries[found]
    return OffsetEntry(base_offset + int(entry["relative_offset"]), int(entry["position"]))
