"""Read and check the index of aborted transactions, `.txnindex`, Kafka 0.11 and later.

The file exists only where a transaction was aborted. This module does not write it.

    entry   version             int16   0
            producer id         int64
            first offset        int64   of the transaction
            last offset         int64   of its abort marker
            last stable offset  int64   when it was aborted

Big endian, 34 bytes; last offsets increase. A starting broker checks the file. An entry of a newer
version, or with a last offset below the segment's base offset, makes it recover the segment.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import numpy as np

from kafkats.errors import CorruptIndex, storage
from kafkats.findings import Finding
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

_MOST_BYTES: Final = 256 * 1024 * 1024


def read(path: str | os.PathLike[str]) -> Entries:
    """Return all entries: dtype ENTRY, shape (n,).

    Raises Vanished, StorageFailed, BadInput, and CorruptIndex for a length that is not a whole
    number of entries and for a version above 0.
    """
    with open_file(path) as fd, storage(path, "read"):
        size = os.fstat(fd).st_size
        if size > _MOST_BYTES:
            raise CorruptIndex(
                f"{size} bytes: no broker writes that many aborted transactions", path=path
            )
        data = os.pread(fd, size, 0)
    if len(data) % ENTRY_SIZE:
        raise CorruptIndex(
            f"{len(data)} bytes are not a whole number of entries of {ENTRY_SIZE}", path=path
        )
    entries = whole_entries(data, ENTRY_SIZE, ENTRY)
    newer = np.flatnonzero(entries["version"] > 0)
    if newer.size:
        raise CorruptIndex(
            f"entry {newer[0]} has version {entries['version'][newer[0]]}; 0 is the only one known",
            path=path,
            position=int(newer[0]) * ENTRY_SIZE,
        )
    return entries


def check(path: str | os.PathLike[str], base_offset: int) -> list[Finding]:
    """Return findings for which a broker would recover the segment (TransactionIndex.sanityCheck).

    Raises Vanished, StorageFailed, BadInput.
    """
    name = Path(path).name
    try:
        last = read(path)["last_offset"].astype(np.int64)
    except CorruptIndex as e:
        reason = f"{e.reason}; a broker recovers the segment at its next start"
        return [Finding("unreadable", name, reason, -1 if e.position is None else e.position)]
    below = np.flatnonzero(last < base_offset)
    if not below.size:
        return []
    n = int(below[0])
    reason = (
        f"entry {n} ends at offset {last[n]}, below the segment's base: a broker"
        " recovers the segment"
    )
    return [
        Finding(
            "below-base", name, reason, n * ENTRY_SIZE, n, f"{base_offset} or above", str(last[n])
        )
    ]
