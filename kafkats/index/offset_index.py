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
import struct
from typing import Final

import numpy as np

from kafkats.index.entries import Entries, read_entries
from kafkats.index.slots import Slot, Slots, lower_bound

ENTRY_SIZE: Final = 8
ENTRY: Final = np.dtype([("relative_offset", ">i4"), ("position", ">i4")])
STRUCT: Final = struct.Struct(">ii")
assert ENTRY.itemsize == STRUCT.size == ENTRY_SIZE


def read(path: str | os.PathLike[str]) -> Entries:
    """Return all entries before the zeros of a preallocated file: dtype ENTRY, shape (n,).

    Raises Vanished, StorageFailed, BadInput, and CorruptIndex for a length that is not a whole
    number of entries.
    """
    return read_entries(path, ENTRY)[0]


def lookup(data: Slots, count: int, relative_offset: int, *, warm: bool) -> Slot:
    """Return the greatest of the first `count` entries at or below `relative_offset`.

    `key` is its relative offset, `value` its position in the log: start reading there. Where all
    entries are greater, `number` is -1: start at the log's beginning.
    """
    return lower_bound(data, count, STRUCT, relative_offset, warm=warm)
