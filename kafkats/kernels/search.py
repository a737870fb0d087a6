"""Find the first record at or after a timestamp, from a position in a segment on.

Only batch headers are read until a batch qualifies; then its records are searched.

    search(state)               searches a window; returns when it finds a record or needs something
    inside(state, start, size)  searches the batch at POSITION, which the caller decompressed
    sweep(state, targets, starts, found)  searches for many ascending timestamps in one pass

`state` is an int64 vector with one slot per name below. A record qualifies when its own timestamp
and its batch's maximum are TARGET or later, and its offset is START or higher. With EQUAL both
timestamps must equal TARGET, and only the first such batch is searched. With STRICT the search ends
at a batch whose maximum promises a qualifying record but which holds none, as in Kafka 0.10. The
checksums of skipped batches are verified.

Rules: FileRecords.searchForTimestamp (Kafka 0.11 to 4.3), and RecordBatch.offsetOfMaxTimestamp (3.8
and later).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from kafkats.kernels.jit import kernel
from kafkats.kernels.memory import crc32_by, crc32c_by, i32, i64, minus, plus, u8, u32
from kafkats.kernels.offsets import impossible_offsets
from kafkats.kernels.varints import varint, varlong

# The window: file positions ORIGIN to LOADED lie at ADDRESS. Batches that begin at LIMIT or later
# belong to the next window.
ADDRESS: Final = 0
ORIGIN: Final = 1
LOADED: Final = 2
LIMIT: Final = 3
FILE_END: Final = 4
POSITION: Final = 5
NEEDED: Final = 6  # NEED_BYTES: bytes needed from POSITION on
# Options.
CRC32: Final = 7  # function addresses
CRC32C: Final = 8
TARGET: Final = 9
START: Final = 10
EQUAL: Final = 11
STRICT: Final = 12
# Results.
OFFSET: Final = 13
TIMESTAMP: Final = 14
EPOCH: Final = 15
BATCHES: Final = 16  # number of batches read
# COMPRESSED: the batch at POSITION.
CODEC: Final = 17
MAGIC: Final = 18
PACKED: Final = 19  # address and size of its compressed bytes
PACKED_SIZE: Final = 20
# State of a sweep.
NUMBER: Final = 21  # index of the next target
STEP: Final = 22  # BEGIN, SEARCH (continue at POSITION) or NOTE (a record was found)
LAST: Final = 23  # position of the batch of the last record found
STATE_SLOTS: Final = 24

BEGIN: Final = 0
SEARCH: Final = 1
NOTE: Final = 2

# Why a kernel returned.
DONE: Final = 0  # the quiet end of the log; from inside(): no such record in this batch
NEED_BYTES: Final = 1
FOUND: Final = 2
COMPRESSED: Final = 3
BAD: Final = 4  # the batch at POSITION is corrupt
ABSENT: Final = 5  # STRICT or EQUAL: the batch at POSITION holds no such record

_HEADER_V2: Final = 61


@kernel
def _take(state: Any, offset: Any, timestamp: Any) -> bool:
    """Return whether this record qualifies; if so, write its offset and timestamp to the state."""
    if offset < state[START]:
        return False
    if (timestamp != state[TARGET]) if state[EQUAL] else (timestamp < state[TARGET]):
        return False
    state[OFFSET], state[TIMESTAMP] = offset, timestamp
    return True


@kernel
def _records(state: Any, header: Any, at: Any, end: Any) -> int:
    """Search the records of the v2 batch at `header`; their plain bytes lie from `at` to `end`."""
    base, base_time, append_time = i64(header), i64(header + 27), i64(header + 35)
    appended, count = (u8(header + 22) >> 3) & 1, i32(header + 57)
    if count < 0:
        return BAD
    for _ in range(count):
        length, at = varint(at, end)
        if at == 0 or length < 1 or length > end - at:
            return BAD
        record_end = at + length
        delta, at = varlong(at + 1, record_end)
        if at == 0:
            return BAD
        offset_delta, at = varint(at, record_end)
        if at == 0:
            return BAD
        if _take(
            state, plus(base, offset_delta), append_time if appended else plus(base_time, delta)
        ):
            return FOUND
        at = record_end
    return DONE


@kernel
def _message_set(state: Any, wrapper: Any, start: Any, end: Any) -> int:
    """Search the messages of the wrapper at `wrapper`, decompressed from `start` to `end`."""
    at, last, count = start, np.int64(0), 0
    while end - at >= 12:
        size = i32(at + 8)
        if size < 14:
            return BAD
        if 12 + size > end - at:
            break
        magic = u8(at + 16)
        if magic > 1 or u8(at + 17) & 7 or size < 14 + 8 * magic:
            return BAD
        last = i64(at)
        count += 1
        at += 12 + size
    if count == 0:
        return BAD
    offset, relative = i64(wrapper), np.int64(0)
    appended = False
    if u8(wrapper + 16) == 1:
        appended = (u8(wrapper + 17) >> 3) & 1 == 1
        if offset != 0:
            if offset < last:
                return BAD
            relative = minus(offset, last)
    at = start
    for _ in range(count):
        timestamp = np.int64(-1)
        if u8(at + 16) == 1:
            timestamp = i64(wrapper + 18) if appended else i64(at + 18)
        if _take(state, plus(i64(at), relative), timestamp):
            return FOUND
        at += 12 + i32(at + 8)
    return DONE


@kernel
def inside(state: Any, start: Any, size: Any) -> int:
    """Search the batch at POSITION; its `size` plain bytes lie at address `start`.

    If it returns DONE, POSITION is that of the next batch.
    """
    at = state[ADDRESS] + (state[POSITION] - state[ORIGIN])
    if state[MAGIC] == 2:
        why = _records(state, at, start, start + size)
    else:
        why = _message_set(state, at, start, start + size)
    if why == DONE:
        if state[EQUAL] or state[STRICT]:
            return ABSENT
        state[POSITION] += 12 + i32(at + 8)
    return why


@kernel
def search(state: Any) -> int:  # noqa: C901 - one loop
    """Search from POSITION on, which lies in the window or after it; see the module.

    Runs without the GIL.
    """
    address, origin, loaded = state[ADDRESS], state[ORIGIN], state[LOADED]
    limit, file_end = state[LIMIT], state[FILE_END]
    target, equal, position = state[TARGET], state[EQUAL], state[POSITION]
    why = DONE
    while file_end - position >= 18:
        if position >= limit or position + 18 > loaded:
            why, state[NEEDED] = NEED_BYTES, 18
            break
        at = address + (position - origin)
        size = i32(at + 8)
        total = np.int64(size) + 12
        if size < 14:
            why = BAD
            break
        if total > file_end - position:
            break
        magic = u8(at + 16)
        if magic > 2 or (magic == 2 and total < _HEADER_V2) or (magic == 1 and size < 22):
            why = BAD
            break
        if position + total > loaded:
            why, state[NEEDED] = NEED_BYTES, total
            break
        if magic == 2:
            good = crc32c_by(state[CRC32C], at + 21, total - 21) == u32(at + 17)
        else:
            good = crc32_by(state[CRC32], at + 16, total - 16) == u32(at + 12)
        if not good:
            why = BAD
            break
        state[BATCHES] += 1
        newest = np.int64(-1)
        if magic > 0:
            newest = i64(at + 35) if magic == 2 else i64(at + 18)
        if (newest != target) if equal else (newest < target):
            position += total
            continue

        # checked only here: a broker too skips a batch by its timestamp alone
        if impossible_offsets(at, magic):
            why = BAD
            break
        state[EPOCH] = i32(at + 12) if magic == 2 else -1
        codec = u8(at + (22 if magic == 2 else 17)) & 7
        found = DONE
        if codec != 0 and (magic < 2 or i32(at + 57) > 0):
            state[CODEC], state[MAGIC] = codec, magic
            start, length = at + _HEADER_V2, total - _HEADER_V2
            if magic < 2:
                # The value of a wrapper follows the key, which normally is null.
                start = at + 18 + 8 * magic
                key = np.int64(max(i32(start), 0))
                if key > at + total - start - 8:
                    why = BAD
                    break
                start += 4 + key
                length = np.int64(i32(start))
                start += 4
                if length < 0 or length > at + total - start:
                    why = BAD
                    break
            state[PACKED], state[PACKED_SIZE] = start, length
            why = COMPRESSED
            break
        if magic == 2:
            found = _records(state, at, at + _HEADER_V2, at + total)
        elif _take(state, i64(at), newest):
            found = FOUND
        if found != DONE:
            why = found
            break
        if equal or state[STRICT]:
            why = ABSENT
            break
        position += total
    state[POSITION] = position
    return why


@kernel
def sweep(state: Any, targets: Any, starts: Any, found: Any) -> int:
    """Find the first record for each of `targets` (int64 timestamps, ascending).

    `starts` holds the position to search from for each target, ascending. Writes offset, timestamp
    and leader epoch to the rows of `found`. One record answers every target up to its own
    timestamp. The search for the next target begins at that record's batch or later. After DONE,
    NUMBER is the number of answered targets.
    """
    number, step, why = state[NUMBER], state[STEP], DONE
    while True:
        if step == NOTE:
            while number < len(targets) and targets[number] <= state[TIMESTAMP]:
                found[number, 0], found[number, 1] = state[OFFSET], state[TIMESTAMP]
                found[number, 2] = state[EPOCH]
                number += 1
            state[LAST], step = state[POSITION], BEGIN
        if number == len(targets):
            why = DONE
            break
        if step == BEGIN:
            state[TARGET], state[POSITION] = targets[number], max(starts[number], state[LAST])
            if state[POSITION] < state[ORIGIN]:
                why = BAD
                break
            step = SEARCH
        why = search(state)
        if why != FOUND:
            break
        step = NOTE
    state[NUMBER], state[STEP] = number, step
    return why
