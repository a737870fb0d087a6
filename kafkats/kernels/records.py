"""Check the records inside batches: they decode, and their maximum timestamp is the batch's.

    deep(state)         checks the good batches of a window; returns at each compressed batch, which
                        the caller must decompress
    area(state)         checks the records of one v2 batch
    message_set(state)  checks the messages of one wrapper

`state` is an int64 vector with one slot per name below. The kernels refuse what `formats` refuses,
and therefore what Kafka's reader refuses.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kafkats.kernels import layout as f
from kafkats.kernels.batch import (
    NOT_LOADED,
    TORN_TAIL,
    WHOLE,
    flags_of,
    key_and_value,
    key_of,
    message,
    next_frame,
    offset_shift,
    record_head,
    skip_headers,
    skip_sized,
    timestamp_of,
)
from kafkats.kernels.jit import entry, kernel
from kafkats.kernels.memory import i32, i64, plus
from kafkats.kernels.numbers import Int64s, int64

# The window: file positions ORIGIN to LOADED lie at ADDRESS. Good batches end at END.
ADDRESS: Final = 0
ORIGIN: Final = 1
LOADED: Final = 2
LIMIT: Final = 3
END: Final = 4
POSITION: Final = 5
NEEDED: Final = 6
# One batch: set by deep() when it returns COMPRESSED; input of area() and message_set().
SIZE: Final = 7
MAGIC: Final = 8
CODEC: Final = 9
COUNT: Final = 10
BASE_TIMESTAMP: Final = 11
MAX_TIMESTAMP: Final = 12
APPENDED: Final = 13  # nonzero: LogAppendTime, all records have the header's timestamp
OFFSET: Final = 14
# Results: area() and message_set() set them for one batch; judge() adds them up.
FOUND_MAXIMUM: Final = 15
RECORDS: Final = 16
UNDECODABLE: Final = 17
UNDECODABLE_FIRST: Final = 18
WRONG_MAXIMUM: Final = 19
WRONG_MAXIMUM_FIRST: Final = 20
WRONG_MAXIMUM_FOUND: Final = 21
STATE_SLOTS: Final = 22

# Why deep() returned.
DONE: Final = 0
AT_LIMIT: Final = 1
NEED_BYTES: Final = 2
COMPRESSED: Final = 3
MOVED: Final = 4  # no batch of magic 0 to 2 begins at POSITION: the file changed after the walk


def new_state() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return a state at the start of a file, without a window."""
    state = np.zeros(STATE_SLOTS, np.int64)
    state[UNDECODABLE_FIRST] = state[WRONG_MAXIMUM_FIRST] = -1
    return state


@kernel
def _area(state: Int64s, at: int, end: int) -> bool:
    """Decode COUNT records from address `at` to `end`; FOUND_MAXIMUM gets the largest timestamp."""
    base, maximum = state[BASE_TIMESTAMP], int64(-1)
    for _ in range(state[COUNT]):
        record_end, delta, _, at = record_head(at, end)
        if record_end == 0:
            return False
        maximum = max(maximum, plus(base, delta))
        at = skip_sized(at, end)  # key
        if at == 0:
            return False
        at = skip_sized(at, end)  # value
        if at == 0:
            return False
        _, at = skip_headers(at, end)
        if at != record_end:
            return False
    state[FOUND_MAXIMUM] = maximum
    return bool(at == end)


@entry
def area(state: Int64s) -> bool:
    """Return whether the SIZE bytes of records at ADDRESS decode.

    COUNT, BASE_TIMESTAMP and others must hold the values of the batch header.
    """
    return _area(state, state[ADDRESS], state[ADDRESS] + state[SIZE])


@entry
def message_set(state: Int64s) -> bool:
    """Return whether the SIZE bytes of messages at ADDRESS, from a wrapper, decode.

    Writes the number of messages to COUNT.
    """
    at, end = state[ADDRESS], state[ADDRESS] + state[SIZE]
    count, maximum, last = 0, int64(-1), int64(0)
    what, total, magic = message(at, end)
    while what == WHOLE:
        key, _, _, _ = key_and_value(key_of(at, magic), at + total)
        if key == 0:
            return False
        last = i64(at + f.OFFSET_AT)
        maximum = max(maximum, timestamp_of(at, magic))
        count += 1
        at += total
        what, total, magic = message(at, end)
    if what != TORN_TAIL:
        return False
    state[COUNT], state[FOUND_MAXIMUM] = count, maximum
    _, sound = offset_shift(state[MAGIC], state[OFFSET], last)
    return bool(count > 0 and sound)


@entry
def judge(state: Int64s, position: int, decodes: bool) -> None:
    """Count the result for the batch at `position`."""
    if not decodes:
        if state[UNDECODABLE] == 0:
            state[UNDECODABLE_FIRST] = position
        state[UNDECODABLE] += 1
        return
    state[RECORDS] += state[COUNT]
    if (
        state[COUNT]
        and not state[APPENDED]
        and state[FOUND_MAXIMUM] != max(state[MAX_TIMESTAMP], -1)
    ):
        if state[WRONG_MAXIMUM] == 0:
            state[WRONG_MAXIMUM_FIRST], state[WRONG_MAXIMUM_FOUND] = position, state[FOUND_MAXIMUM]
        state[WRONG_MAXIMUM] += 1


@entry
def deep(state: Int64s) -> int:
    """Check batches from POSITION to END, which the walk found whole. Runs without the GIL."""
    address, origin, loaded = state[ADDRESS], state[ORIGIN], state[LOADED]
    limit, end = state[LIMIT], state[END]
    if state[POSITION] < origin:
        return MOVED
    while state[POSITION] < end:
        position = state[POSITION]
        if position >= limit:
            return AT_LIMIT
        what, total, magic = next_frame(address, origin, loaded, end, position)
        if what == NOT_LOADED:
            state[NEEDED] = total
            return NEED_BYTES
        if what != WHOLE:
            return MOVED
        at = address + (position - origin)
        if magic == 2:
            flags, count = flags_of(at, magic), i32(at + f.COUNT_AT)
            state[COUNT], state[BASE_TIMESTAMP] = count, i64(at + f.BASE_TIMESTAMP_AT)
            state[MAX_TIMESTAMP] = timestamp_of(at, magic)
            state[APPENDED] = flags & f.LOG_APPEND_TIME
            if count <= 0:  # Kafka ignores the bytes of an empty batch
                judge(state, position, count == 0)
            elif flags & f.CODEC_MASK:
                state[SIZE], state[MAGIC], state[CODEC] = total, magic, flags & f.CODEC_MASK
                return COMPRESSED
            else:
                judge(state, position, _area(state, at + f.HEADER, at + total))
        else:
            flags = flags_of(at, magic)
            if flags & f.CODEC_MASK:
                state[SIZE], state[MAGIC], state[CODEC] = total, magic, flags & f.CODEC_MASK
                state[OFFSET], state[MAX_TIMESTAMP] = i64(at + f.OFFSET_AT), timestamp_of(at, magic)
                # magic 0 has no timestamp to check
                state[APPENDED] = flags & f.LOG_APPEND_TIME if magic == 1 else 1
                return COMPRESSED
            key, _, _, _ = key_and_value(key_of(at, magic), at + total)
            if key != 0:
                state[RECORDS] += 1
            else:
                state[COUNT] = 1
                judge(state, position, False)
        state[POSITION] = position + total
    return DONE
