"""Check the records inside batches: they decode, and their maximum timestamp is the batch's.

    deep(state)         checks the good batches of a window; returns at each compressed batch, which
                        the caller must decompress
    area(state)         checks the records of one v2 batch
    message_set(state)  checks the messages of one wrapper

`state` is an int64 vector with one slot per name below. The kernels refuse what `formats` refuses,
and therefore what Kafka's reader refuses.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from kafkats.kernels.jit import kernel
from kafkats.kernels.memory import i32, i64, plus, u8
from kafkats.kernels.varints import varint, varlong

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
FIRST_OFFSET: Final = 22  # of the first message in a wrapper
STATE_SLOTS: Final = 23

# Why deep() returned.
DONE: Final = 0
AT_LIMIT: Final = 1
NEED_BYTES: Final = 2
COMPRESSED: Final = 3
MOVED: Final = 4  # no batch of magic 0 to 2 begins at POSITION: the file changed after the walk

_HEADER_V2: Final = 61


def new_state() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return a state at the start of a file, without a window."""
    state = np.zeros(STATE_SLOTS, np.int64)
    state[UNDECODABLE_FIRST] = state[WRONG_MAXIMUM_FIRST] = -1
    return state


@kernel
def _skip_bytes(at: Any, end: Any) -> Any:
    """Return the address after nullable bytes with a varint length, or 0 if they do not fit."""
    length, at = varint(at, end)
    if at == 0 or length > end - at:
        return np.int64(0)
    return at + max(length, 0)


@kernel
def _skip_headers(at: Any, end: Any) -> Any:
    """Return the address after the record headers, or 0 if they are malformed."""
    count, at = varint(at, end)
    if at == 0 or count < 0 or count > end - at:
        return np.int64(0)
    for _ in range(count):
        length, at = varint(at, end)
        if at == 0 or length < 0 or length > end - at:  # a header key is never null
            return np.int64(0)
        at = _skip_bytes(at + length, end)
        if at == 0:
            return np.int64(0)
    return at


@kernel
def _area(state: Any, at: Any, end: Any) -> bool:
    """Decode COUNT records from address `at` to `end`; FOUND_MAXIMUM gets the largest timestamp."""
    base, maximum = state[BASE_TIMESTAMP], np.int64(-1)
    for _ in range(state[COUNT]):
        length, at = varint(at, end)
        if at == 0:
            return False
        record_end = at + length
        if record_end > end:
            return False
        delta, at = varlong(at + 1, end)  # skip the attributes byte
        if at == 0:
            return False
        maximum = max(maximum, plus(base, delta))
        _, at = varint(at, end)  # offset delta
        if at == 0:
            return False
        at = _skip_bytes(at, end)
        if at == 0:
            return False
        at = _skip_bytes(at, end)
        if at == 0:
            return False
        if at < end and u8(at) == 0:
            at += 1
        else:
            at = _skip_headers(at, end)
        if at == 0 or at != record_end:
            return False
    state[FOUND_MAXIMUM] = maximum
    return bool(at == end)


@kernel
def _message(at: int, end: int, magic: int) -> bool:
    """Return whether key and value of the message between `at` and `end` fit."""
    at += 18 if magic == 0 else 26
    for _ in range(2):
        if end - at < 4:
            return False
        length = i32(at)
        at += 4
        if length > end - at:
            return False
        at += max(length, 0)
    return True


@kernel
def area(state: Any) -> bool:
    """Return whether the SIZE bytes of records at ADDRESS decode.

    COUNT, BASE_TIMESTAMP and others must hold the values of the batch header.
    """
    return _area(state, state[ADDRESS], state[ADDRESS] + state[SIZE])


@kernel
def message_set(state: Any) -> bool:
    """Return whether the SIZE bytes of messages at ADDRESS, from a wrapper, decode.

    Writes the number of messages to COUNT.
    """
    at, end = state[ADDRESS], state[ADDRESS] + state[SIZE]
    count, maximum, last, first = 0, np.int64(-1), np.int64(0), np.int64(0)
    while end - at >= 12:
        size = i32(at + 8)
        if size < 14:
            return False
        if 12 + size > end - at:
            break
        magic = u8(at + 16)
        if magic > 1 or u8(at + 17) & 7 or not _message(at, at + 12 + size, magic):
            return False
        last = i64(at)
        if count == 0:
            first = last
        if magic == 1:
            maximum = max(maximum, i64(at + 18))
        count += 1
        at += 12 + size
    state[COUNT], state[FOUND_MAXIMUM], state[FIRST_OFFSET] = count, maximum, first
    relative = state[MAGIC] == 1 and state[OFFSET] != 0
    return count > 0 and not (relative and state[OFFSET] < last)


@kernel
def judge(state: Any, position: int, decodes: bool) -> None:
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


@kernel
def deep(state: Any) -> int:  # noqa: C901 - one loop
    """Check batches from POSITION to END, which the walk found whole. Runs without the GIL."""
    address, origin, loaded = state[ADDRESS], state[ORIGIN], state[LOADED]
    limit, end = state[LIMIT], state[END]
    if state[POSITION] < origin:
        return MOVED
    while state[POSITION] < end:
        position = state[POSITION]
        if position >= limit:
            return AT_LIMIT
        if position + 18 > loaded:
            if end - position < 18:
                return MOVED
            state[NEEDED] = 18
            return NEED_BYTES
        at = address + (position - origin)
        total, magic = 12 + i32(at + 8), u8(at + 16)
        if total < 26 or total > end - position:
            return MOVED
        if position + total > loaded:
            state[NEEDED] = total
            return NEED_BYTES
        if magic == 2:
            if total < _HEADER_V2:
                return MOVED
            attributes = u8(at + 22)
            state[COUNT], state[BASE_TIMESTAMP], state[MAX_TIMESTAMP] = (
                i32(at + 57),
                i64(at + 27),
                i64(at + 35),
            )
            state[APPENDED] = attributes & 8
            if state[COUNT] <= 0:  # Kafka ignores the bytes of an empty batch
                judge(state, position, state[COUNT] == 0)
            elif attributes & 7:
                state[SIZE], state[MAGIC], state[CODEC] = total, magic, attributes & 7
                return COMPRESSED
            else:
                judge(state, position, _area(state, at + _HEADER_V2, at + total))
        else:
            if magic > 2:
                return MOVED
            attributes = u8(at + 17)
            if attributes & 7:
                if total < 26 + 8 * magic:
                    return MOVED
                state[SIZE], state[MAGIC], state[CODEC], state[OFFSET] = (
                    total,
                    magic,
                    attributes & 7,
                    i64(at),
                )
                # magic 0 has no timestamp to check
                state[APPENDED] = attributes & 8 if magic == 1 else 1
                state[MAX_TIMESTAMP] = i64(at + 18) if magic == 1 else -1
                return COMPRESSED
            if _message(at, at + total, magic):
                state[RECORDS] += 1
            else:
                state[COUNT] = 1
                judge(state, position, False)
        state[POSITION] = position + total
    return DONE
