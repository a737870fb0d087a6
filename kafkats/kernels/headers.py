"""Read batch headers as rows: position, offsets, maximum timestamp, producer, leader epoch.

    headers(state, rows) -> why it returned

`state` is an int64 vector with one slot per name below. `rows` is int64 of shape (n, COLUMNS), one
row per batch. Reading stops where Kafka's FileLogInputStream stops, at an unknown magic, and at
impossible offsets. Checksums are not verified; walk does that. The first offset of a wrapper is
UNKNOWN, because only its content tells it. Fields that magic 0 and 1 lack are -1.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from kafkats.kernels.jit import kernel
from kafkats.kernels.memory import i8, i16, i32, i64, u8
from kafkats.kernels.offsets import impossible_offsets

# The window: file positions ORIGIN to LOADED lie at ADDRESS. Batches that begin at LIMIT or later
# belong to the next call.
ADDRESS: Final = 0
ORIGIN: Final = 1
LOADED: Final = 2
LIMIT: Final = 3
END: Final = 4
POSITION: Final = 5
NEEDED: Final = 6  # bytes that must be loaded from POSITION on
FILLED: Final = 7  # number of rows written
PRODUCERS_ONLY: Final = 8  # 1: write rows only for batches with a producer id
STATE_SLOTS: Final = 9

# Columns of `rows`.
AT: Final = 0  # position
SIZE: Final = 1
MAGIC: Final = 2
ATTRIBUTES: Final = 3
FIRST_OFFSET: Final = 4
LAST_OFFSET: Final = 5
MAX_TIMESTAMP: Final = 6
PRODUCER_ID: Final = 7
PRODUCER_EPOCH: Final = 8
BASE_SEQUENCE: Final = 9
COUNT: Final = 10
LEADER_EPOCH: Final = 11
COLUMNS: Final = 12

UNKNOWN: Final = -(2**63)

# Why the kernel returned.
STOPPED: Final = 0
AT_LIMIT: Final = 1
FULL: Final = 2
NEED_BYTES: Final = 3

_HEADER_V2: Final = 61


@kernel
def headers(state: Any, rows: Any) -> int:  # noqa: C901 - one loop
    """Read headers from state[POSITION] on; see the module. Runs without the GIL."""
    address, origin, loaded = state[ADDRESS], state[ORIGIN], state[LOADED]
    limit, end = state[LIMIT], state[END]
    position, filled, only = state[POSITION], state[FILLED], state[PRODUCERS_ONLY]
    why = STOPPED
    if position < origin:
        return STOPPED
    while end - position >= 18:
        if position >= limit:
            why = AT_LIMIT
            break
        if filled == rows.shape[0]:
            why = FULL
            break
        needed = min(np.int64(_HEADER_V2), end - position)
        if position + needed > loaded:
            why, state[NEEDED] = NEED_BYTES, needed
            break
        at = address + (position - origin)
        size, magic = i32(at + 8), i8(at + 16)
        total = size + 12
        if size < 14 or total > end - position or magic < 0 or magic > 2:
            break
        if (magic == 2 and total < _HEADER_V2) or (magic == 1 and size < 22):
            break
        if impossible_offsets(at, magic):
            break
        producer = i64(at + 43) if magic == 2 else np.int64(-1)
        if only == 0 or producer >= 0:
            row = rows[filled]
            row[AT], row[SIZE], row[MAGIC] = position, total, magic
            row[FIRST_OFFSET] = row[LAST_OFFSET] = i64(at)
            row[PRODUCER_ID] = producer
            row[PRODUCER_EPOCH] = row[BASE_SEQUENCE] = row[COUNT] = row[MAX_TIMESTAMP] = row[
                LEADER_EPOCH
            ] = -1
            if magic == 2:
                row[ATTRIBUTES] = i16(at + 21)
                row[LAST_OFFSET] += i32(at + 23)
                row[MAX_TIMESTAMP] = i64(at + 35)
                row[PRODUCER_EPOCH] = i16(at + 51)
                row[BASE_SEQUENCE], row[COUNT] = i32(at + 53), i32(at + 57)
                row[LEADER_EPOCH] = i32(at + 12)
            else:
                row[ATTRIBUTES] = u8(at + 17)
                if row[ATTRIBUTES] & 7:
                    row[FIRST_OFFSET] = np.int64(UNKNOWN)
                else:
                    row[COUNT] = 1
                if magic == 1:
                    row[MAX_TIMESTAMP] = i64(at + 18)
            filled += 1
        position += total
    state[POSITION], state[FILLED] = position, filled
    return why
