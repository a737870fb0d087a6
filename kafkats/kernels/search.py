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

from typing import Final

from kafkats.kernels import layout as f
from kafkats.kernels.batch import (
    NOT_LOADED,
    TORN_TAIL,
    WHOLE,
    checksum_holds,
    codec_of,
    impossible_offsets,
    is_appended,
    message,
    next_frame,
    offset_shift,
    record_head,
    timestamp_of,
    wrapper_value,
)
from kafkats.kernels.jit import entry, kernel
from kafkats.kernels.memory import i32, i64, plus, u8
from kafkats.kernels.numbers import Int64Rows, Int64s, int64

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


@kernel
def _take(state: Int64s, offset: int, timestamp: int) -> bool:
    """Return whether this record qualifies; if so, write its offset and timestamp to the state."""
    if offset < state[START]:
        return False
    if (timestamp != state[TARGET]) if state[EQUAL] else (timestamp < state[TARGET]):
        return False
    state[OFFSET], state[TIMESTAMP] = offset, timestamp
    return True


@kernel
def _records(state: Int64s, header: int, at: int, end: int) -> int:
    """Search the records of the v2 batch at `header`; their plain bytes lie from `at` to `end`."""
    base, base_time = i64(header + f.OFFSET_AT), i64(header + f.BASE_TIMESTAMP_AT)
    appended, append_time = is_appended(u8(header + f.FLAGS_AT)), timestamp_of(header, 2)
    count = i32(header + f.COUNT_AT)
    if count < 0:
        return BAD
    for _ in range(count):
        record_end, delta, offset_delta, at = record_head(at, end)
        if record_end == 0 or at > record_end:
            return BAD
        if _take(
            state, plus(base, offset_delta), append_time if appended else plus(base_time, delta)
        ):
            return FOUND
        at = record_end
    return DONE


@kernel
def _message_set(state: Int64s, wrapper: int, start: int, end: int) -> int:
    """Search the messages of the wrapper at `wrapper`, decompressed from `start` to `end`."""
    at, last, count = start, int64(0), 0
    what, total, magic = message(at, end)
    while what == WHOLE:
        last = i64(at + f.OFFSET_AT)
        count += 1
        at += total
        what, total, magic = message(at, end)
    outer = u8(wrapper + f.MAGIC_AT)
    shift, sound = offset_shift(outer, i64(wrapper + f.OFFSET_AT), last)
    if what != TORN_TAIL or count == 0 or not sound:
        return BAD
    appended = outer == 1 and is_appended(u8(wrapper + f.MESSAGE_FLAGS_AT)) == 1
    at = start
    for _ in range(count):
        magic = u8(at + f.MAGIC_AT)
        timestamp = timestamp_of(wrapper if appended and magic == 1 else at, magic)
        if _take(state, plus(i64(at + f.OFFSET_AT), shift), timestamp):
            return FOUND
        at += f.OVERHEAD + i32(at + f.SIZE_AT)
    return DONE


@entry
def inside(state: Int64s, start: int, size: int) -> int:
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
        state[POSITION] += f.OVERHEAD + i32(at + f.SIZE_AT)
    return why


@entry
def search(state: Int64s) -> int:  # noqa: C901 - one loop
    """Search from POSITION on, which lies in the window or after it; see the module.

    Runs without the GIL.
    """
    address, origin, loaded = state[ADDRESS], state[ORIGIN], state[LOADED]
    limit, file_end = state[LIMIT], state[FILE_END]
    target, equal, position = state[TARGET], state[EQUAL], state[POSITION]
    crc32, crc32c = state[CRC32], state[CRC32C]
    why = DONE
    while file_end - position >= f.MIN_LEFT:
        if position >= limit:
            why, state[NEEDED] = NEED_BYTES, f.MIN_LEFT
            break
        what, total, magic = next_frame(address, origin, loaded, file_end, position)
        if what != WHOLE:
            if what != TORN_TAIL:
                why, state[NEEDED] = NEED_BYTES if what == NOT_LOADED else BAD, total
            break
        at = address + (position - origin)
        if not checksum_holds(at, total, magic, crc32, crc32c):
            why = BAD
            break
        state[BATCHES] += 1
        newest = timestamp_of(at, magic)
        if (newest != target) if equal else (newest < target):
            position += total
            continue

        # checked only here: a broker too skips a batch by its timestamp alone
        if impossible_offsets(at, magic):
            why = BAD
            break
        state[EPOCH] = i32(at + f.LEADER_EPOCH_AT) if magic == 2 else -1
        codec = codec_of(at, magic)
        found = DONE
        if codec != 0 and (magic < 2 or i32(at + f.COUNT_AT) > 0):
            start, length = at + f.HEADER, total - f.HEADER
            if magic < 2:
                start, length = wrapper_value(at, total, magic)
                if length < 0:
                    why = BAD
                    break
            state[CODEC], state[MAGIC] = codec, magic
            state[PACKED], state[PACKED_SIZE] = start, length
            why = COMPRESSED
            break
        if magic == 2:
            found = _records(state, at, at + f.HEADER, at + total)
        elif _take(state, i64(at + f.OFFSET_AT), newest):
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


@entry
def sweep(state: Int64s, targets: Int64s, starts: Int64s, found: Int64Rows) -> int:
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
