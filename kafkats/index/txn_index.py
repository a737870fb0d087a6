"""The index of aborted transactions, `.txnindex`, Kafka 0.11 and later. Read only here: it exists where a transaction was aborted.

    entry   version             int16   0
            producer id         int64
            first offset        int64   of the transaction
            last offset         int64   of its abort marker
            last stable offset  int64   when it was aborted

Big endian, 34 bytes, last offsets increasing. At start a broker looks through it: an entry of a newer version, or with a last offset below
the segment's base offset, makes it recover the segment.
"""

from __future__ import annotations

import os
from typing import Final

import numpy as np

from kafkats.errors import CorruptIndex, storage
from kafkats.index.entries import Entries, whole_entries
from kafkats.segment.reader import open_file

ENTRY_SIZE: Final = 34
ENTRY: Final = np.dtype([
    ("version", ">i2"),
    ("producer_id", ">i8"),
    ("first_offset", ">i8"),
    ("last_offset", ">i8"),
    ("last_stable_offset", ">i8"),
])  # fmt: skip
assert ENTRY.itemsize == ENTRY_SIZE


def read(path: str | os.PathLike[str]) -> Entries:
    """All entries: dtype ENTRY, shape (n,).

    Raises Vanished, StorageFailed, BadInput, CorruptIndex (length not a whole number of entries, version above 0).
    """
    with open_file(path) as fd, storage(path, "read"):
        data = os.pread(fd, os.fstat(fd).st_size, 0)
    if len(data) % ENTRY_SIZE:
        raise CorruptIndex(f"{len(data)} bytes are not a whole number of entries of {ENTRY_SIZE}", path=path)
    entries = whole_entries(data, ENTRY_SIZE, ENTRY)
    newer = np.flatnonzero(entries["version"] > 0)
    if newer.size:
        raise CorruptIndex(
            f"entry {newer[0]} has version {entries['version'][newer[0]]}; 0 is the only one known",
            path=path,
            position=int(newer[0]) * ENTRY_SIZE,
        )
    return entries
