"""The offset map of a cleaning: the last offset of each key of the dirty section.

Like Kafka's it holds hashes of the keys, of 128 bits, and takes 24 bytes for each. Kafka's is
limited by log.cleaner.dedupe.buffer.size. When it is full, the section ends at the last offset that
was put. Source: SkimpyOffsetMap of Kafka 0.8 to 4.3.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

import numpy as np

from kafkats.errors import CorruptBatch
from kafkats.findings import KINDS
from kafkats.formats import dispatch, v2
from kafkats.formats.model import Batch
from kafkats.kernels.crc import crc_addresses
from kafkats.kernels.numbers import Int64s
from kafkats.primitives import view
from kafkats.segment.reader import Bytes
from kafkats_model.kernels import compaction as k

MOST_KEYS: Final = 5_033_164
"""Keys that fit with Kafka's defaults: 90 % of 128 MiB, 24 bytes each."""
_LEAST_SLOTS: Final = 1024
_MOST_RECORDS: Final = 65_536
"""Records of a batch that the kernels take."""


class OffsetMap:
    """The last offset of each key."""

    def __init__(self, most: int = MOST_KEYS, expected: int = 0) -> None:
        """`most` is the number of keys that fit, `expected` an estimate of those that come."""
        self.state: Int64s = np.zeros(k.STATE_SLOTS, np.int64)
        """The kernels' state; those of later passes share it."""
        self.state[k.SEED], self.state[k.SEED_2] = np.frombuffer(os.urandom(16), np.int64)
        self.state[k.MOST], self.state[k.LATEST] = most, -1
        slots = _LEAST_SLOTS
        while 3 * slots < 4 * min(expected, most):
            slots *= 2
        self.table: Int64s = np.zeros((slots, 3), np.int64)
        self.seen: Int64s = np.empty((_MOST_RECORDS, k.SEEN), np.int64)

    @property
    def latest_offset(self) -> int:
        """The last offset that the map covers, -1 if there is none."""
        return int(self.state[k.LATEST])

    def reach(self, offset: int) -> None:
        """Note that the map covers all records up to `offset`."""
        self.state[k.LATEST] = offset

    def put(self, key: bytes, offset: int) -> bool:
        """Note a record. Returns False if the map is full."""
        if 4 * int(self.state[k.KEYS]) >= 3 * len(self.table):
            self._grow()
        held = np.frombuffer(key, np.uint8)
        why = k.put(self.state, self.table, held.ctypes.data, len(key), offset)
        return why == k.DONE

    def get(self, key: bytes) -> int:
        """Return the last offset of a key, -1 if the map does not have it."""
        held = np.frombuffer(key, np.uint8)
        return int(k.get(self.state, self.table, held.ctypes.data, len(key)))

    def fill(self, log: Bytes, first: int, other: Callable[[Batch], bool]) -> bool:
        """Put the records of a log from offset `first` on into the map. False: it is full.

        `other` is called with each batch that the kernels leave, and returns False if the map is
        full. Raises CorruptBatch.
        """
        s = self.state
        point_at(s, log)
        s[k.FIRST] = first
        while (why := k.fill(s, self.table, self.seen)) != k.DONE:
            if why == k.FULL:
                return False
            position = int(s[k.POSITION])
            # The kernels ask for room before they read the records, so the count may be wrong.
            if why == k.GROW and _count_at(log, position) <= _MOST_RECORDS:
                self._grow()
                continue
            batch = next(dispatch.batches(log, position), None)
            if batch is None:
                break
            if not other(batch):
                return False
            s[k.POSITION] = batch.end
        check_read_whole(s)
        return True

    def _grow(self) -> None:
        table = np.zeros((2 * len(self.table), 3), np.int64)
        k.grow(self.table, table)
        self.table = table


def _count_at(log: Bytes, position: int) -> int:
    """Return the number of records in the header of the batch of magic 2 at `position`."""
    return v2.BatchHeader._make(v2.HEADER.unpack_from(view(log), position)).record_count


def check_read_whole(state: Int64s) -> None:
    """Raise CorruptBatch if the pass ended before the end of the log.

    A cleaning deletes the bytes that it does not read, so it takes no log with a quiet end.
    """
    if state[k.POSITION] < state[k.END]:
        raise CorruptBatch(KINDS["torn-tail"][1], position=int(state[k.POSITION]))


def point_at(state: Int64s, log: Bytes) -> None:
    """Let the kernels read `log`, which must live as long, from its begin."""
    state[k.ADDRESS], state[k.END], state[k.POSITION] = log.ctypes.data, len(log), 0
    state[k.CRC32C] = crc_addresses().crc32c
