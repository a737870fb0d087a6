"""Read batch headers as rows: position, offsets, maximum timestamp, producer, leader epoch.

    headers(state, rows) -> why it returned

`state` is an int64 vector with one slot per name of headers_state. `rows` is int64 of shape
(n, COLUMNS), one row per batch. Reading stops where Kafka's FileLogInputStream stops, at an unknown
magic, and at impossible offsets. Checksums are not verified; walk does that. The first offset of a
wrapper is UNKNOWN, because only its content tells it. Fields that magic 0 and 1 lack are -1.
"""

from __future__ import annotations

from kafkats.kernels import headers_state as k
from kafkats.kernels import layout as f
from kafkats.kernels.batch import WHOLE, frame, impossible_offsets, timestamp_of
from kafkats.kernels.jit import entry
from kafkats.kernels.memory import i16, i32, i64, u8
from kafkats.kernels.numbers import Int64Rows, Int64s, int64


@entry
def headers(state: Int64s, rows: Int64Rows) -> int:
    """Read headers from state[POSITION] on; see the module. Runs without the GIL."""
    address, origin, loaded = state[k.ADDRESS], state[k.ORIGIN], state[k.LOADED]
    limit, end = state[k.LIMIT], state[k.END]
    position, filled, only = state[k.POSITION], state[k.FILLED], state[k.PRODUCERS_ONLY]
    why = k.STOPPED
    if position < origin:
        return k.STOPPED
    while end - position >= f.MIN_LEFT:
        if position >= limit:
            why = k.AT_LIMIT
            break
        if filled == rows.shape[0]:
            why = k.FULL
            break
        needed = min(int64(f.HEADER), end - position)
        if position + needed > loaded:
            why, state[k.NEEDED] = k.NEED_BYTES, needed
            break
        at = address + (position - origin)
        what, total, magic = frame(at, end - position)
        if what != WHOLE or impossible_offsets(at, magic):
            break
        producer = i64(at + f.PRODUCER_ID_AT) if magic == 2 else int64(-1)
        if only == 0 or producer >= 0:
            row = rows[filled]
            row[k.AT], row[k.SIZE], row[k.MAGIC] = position, total, magic
            row[k.PRODUCER_ID] = producer
            row[k.FIRST_OFFSET] = row[k.LAST_OFFSET] = i64(at + f.OFFSET_AT)
            row[k.MAX_TIMESTAMP] = timestamp_of(at, magic)
            if magic == 2:
                row[k.ATTRIBUTES] = i16(at + f.ATTRIBUTES_AT)
                row[k.LAST_OFFSET] += i32(at + f.LAST_OFFSET_DELTA_AT)
                row[k.PRODUCER_EPOCH] = i16(at + f.PRODUCER_EPOCH_AT)
                row[k.BASE_SEQUENCE] = i32(at + f.BASE_SEQUENCE_AT)
                row[k.COUNT] = i32(at + f.COUNT_AT)
                row[k.LEADER_EPOCH] = i32(at + f.LEADER_EPOCH_AT)
            else:
                row[k.PRODUCER_EPOCH] = row[k.BASE_SEQUENCE] = -1
                row[k.COUNT] = row[k.LEADER_EPOCH] = -1
                row[k.ATTRIBUTES] = u8(at + f.MESSAGE_FLAGS_AT)
                if row[k.ATTRIBUTES] & f.CODEC_MASK:
                    row[k.FIRST_OFFSET] = int64(k.UNKNOWN)
                else:
                    row[k.COUNT] = 1
            filled += 1
        position += total
    state[k.POSITION], state[k.FILLED] = position, filled
    return why
