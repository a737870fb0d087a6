"""Read batch headers as rows: position, offsets, maximum timestamp, producer, leader epoch.

    headers(state, rows) -> why it returned

`state` is an int64 vector with one slot per name below. `rows` is int64 of shape (n, COLUMNS), one
row per batch. Reading stops where Kafka's FileLogInputStream stops, at an unknown magic, and at
impossible offsets. Checksums are not verified; walk does that. The first offset of a wrapper is
UNKNOWN, because only its content tells it. Fields that magic 0 and 1 lack are -1.
"""

from __future__ import annotations

from typing import Final

from kafkats.kernels import layout as f
from kafkats.kernels.batch import WHOLE, frame, impossible_offsets, timestamp_of
from kafkats.kernels.jit import kernel
from kafkats.kernels.memory import i16, i32, i64, u8
from kafkats.kernels.numbers import Int64s, int64

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


@kernel
def headers(state: Int64s, rows: Int64s) -> int:
    """Read headers from state[POSITION] on; see the module. Runs without the GIL."""
    address, origin, loaded = state[ADDRESS], state[ORIGIN], state[LOADED]
    limit, end = state[LIMIT], state[END]
    position, filled, only = state[POSITION], state[FILLED], state[PRODUCERS_ONLY]
    why = STOPPED
    if position < origin:
        return STOPPED
    while end - position >= f.MIN_LEFT:
        if position >= limit:
            why = AT_LIMIT
            break
        if filled == rows.shape[0]:
            why = FULL
            break
        needed = min(int64(f.HEADER), end - position)
        if position + needed > loaded:
            why, state[NEEDED] = NEED_BYTES, needed
            break
        at = address + (position - origin)
        what, total, magic = frame(at, end - position)
        if what != WHOLE or impossible_offsets(at, magic):
            break
        producer = i64(at + f.PRODUCER_ID_AT) if magic == 2 else int64(-1)
        if only == 0 or producer >= 0:
            row = rows[filled]
            row[AT], row[SIZE], row[MAGIC], row[PRODUCER_ID] = position, total, magic, producer
            row[FIRST_OFFSET] = row[LAST_OFFSET] = i64(at + f.OFFSET_AT)
            row[MAX_TIMESTAMP] = timestamp_of(at, magic)
            if magic == 2:
                row[ATTRIBUTES] = i16(at + f.ATTRIBUTES_AT)
                row[LAST_OFFSET] += i32(at + f.LAST_OFFSET_DELTA_AT)
                row[PRODUCER_EPOCH] = i16(at + f.PRODUCER_EPOCH_AT)
                row[BASE_SEQUENCE], row[COUNT] = i32(at + f.BASE_SEQUENCE_AT), i32(at + f.COUNT_AT)
                row[LEADER_EPOCH] = i32(at + f.LEADER_EPOCH_AT)
            else:
                row[PRODUCER_EPOCH] = row[BASE_SEQUENCE] = row[COUNT] = row[LEADER_EPOCH] = -1
                row[ATTRIBUTES] = u8(at + f.MESSAGE_FLAGS_AT)
                if row[ATTRIBUTES] & f.CODEC_MASK:
                    row[FIRST_OFFSET] = int64(UNKNOWN)
                else:
                    row[COUNT] = 1
            filled += 1
        position += total
    state[POSITION], state[FILLED] = position, filled
    return why
