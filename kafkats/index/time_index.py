"""The time index, `.timeindex`, Kafka 0.10.1 and later: the offset to start at for a timestamp.

    entry   timestamp        int64    the largest timestamp so far, epoch milliseconds
            relative offset  int32    last offset of the earliest batch that holds it, minus the
                                      segment's base offset

Big endian, 12 bytes; timestamps strictly increase. The last entry holds the segment's maximum.
Retention by time and searches by time depend on it; without an entry they use the .log's mtime.
"""

from __future__ import annotations

import os
import struct
from typing import Final

import numpy as np

from kafkats.index.entries import Entries, read_entries
from kafkats.index.slots import Slot, Slots, lower_bound

ENTRY_SIZE: Final = 12
ENTRY: Final = np.dtype([("timestamp", ">i8"), ("relative_offset", ">i4")])
STRUCT: Final = struct.Struct(">qi")
assert ENTRY.itemsize == STRUCT.size == ENTRY_SIZE


def read(path: str | os.PathLike[str]) -> Entries:
    """Return all entries before the zeros of a preallocated file: dtype ENTRY, shape (n,).

    A file of exactly one entry of zeros holds that entry: timestamp 0 at the base offset. Raises
    Vanished, StorageFailed, BadInput, and CorruptIndex for a length that is not a whole number of
    entries.
    """
    entries, size = read_entries(path, ENTRY)
    return np.zeros(1, ENTRY) if not len(entries) and size == ENTRY_SIZE else entries


def lookup(data: Slots, count: int, timestamp: int, *, warm: bool) -> Slot:
    """Return the greatest of the first `count` entries at or before `timestamp` (ms).

    `key` is its timestamp, `value` its relative offset. If all entries are later, `number` is -1.
    """
    return lower_bound(data, count, STRUCT, timestamp, warm=warm)
