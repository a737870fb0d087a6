"""Walk over a segment once: headers, checksums, facts, index points, and a check of index entries.

    walk(state, table, points) -> why it returned

`state` is an int64 vector with one slot per name below. The caller sets the window and the options;
the kernel writes all other slots. Another call with the same state continues where the last one
stopped. Positions are bytes in the file. A window is the part of the file in memory: file positions
ORIGIN to LOADED lie at ADDRESS.

`table` is int64 of shape (CELLS, CELL_COLUMNS): the census of the batches read. It has one row per
magic, codec and timestamp type: row (magic * CODECS + codec) * TYPES + timestamp type + 1.

The fingerprint is a 64-bit hash over bytes 0 to 20 of every batch: offset, size, checksum, magic,
and in magic 2 the leader epoch. The checksum covers the rest, so any change of a batch also changes
the fingerprint.

`points` is int64 of shape (n, 5), with one row per batch that gets an index entry: position, first
offset, last offset, largest timestamp so far, and the offset of that timestamp. The first offset of
a wrapper is UNKNOWN, because only its content tells it.

Rules: frames are read as by Kafka's FileLogInputStream, with a range check of the magic. Checksums
and index points follow LogSegment.recover.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kafkats.kernels.batch import (
    BAD_LENGTH,
    NOT_LOADED,
    WHOLE,
    checksum_holds,
    flags_of,
    impossible_offsets,
    is_appended,
    next_frame,
    timestamp_of,
)
from kafkats.kernels.jit import kernel
from kafkats.kernels.layout import (
    CODEC_MASK,
    CONTROL,
    COUNT_AT,
    DELETE_HORIZON,
    LAST_OFFSET_DELTA_AT,
    LEADER_EPOCH_AT,
    OFFSET_AT,
    PRODUCER_ID_AT,
    TRANSACTIONAL,
)
from kafkats.kernels.memory import i32, i64, minus, u32
from kafkats.kernels.numbers import Int64s, int64

# The window.
ADDRESS: Final = 0
ORIGIN: Final = 1
LOADED: Final = 2
LIMIT: Final = 3  # batches that begin here or later belong to the next call
FILE_END: Final = 4
# Options.
CRC32: Final = 5  # function addresses; 0: do not verify checksums
CRC32C: Final = 6
BASE_OFFSET: Final = 7
INTERVAL: Final = 8  # index.interval.bytes
# Existing entries: big endian as in the files, in order; the next one to check; their number.
OFFSET_ENTRIES: Final = 9
OFFSET_NEXT: Final = 10
OFFSET_COUNT: Final = 11
TIME_ENTRIES: Final = 12
TIME_NEXT: Final = 13
TIME_COUNT: Final = 14
# Results.
POSITION: Final = 15
LAST_INDEXED: Final = 16
POINTS: Final = 17  # number of rows in `points`
NEEDED: Final = 18  # bytes that must be loaded from POSITION on
STOP: Final = 19
BATCHES: Final = 20
FINGERPRINT: Final = 21
FIRST_OFFSET: Final = 22
LAST_OFFSET: Final = 23  # of the last batch
HIGHEST_OFFSET: Final = 24
FIRST_TIMESTAMP: Final = 25  # the first batch's maximum, on which time-based rolling depends
MAX_TIMESTAMP: Final = 26
MAX_TIMESTAMP_OFFSET: Final = 27
NOT_INCREASING: Final = 28  # positions; -1: none
OUT_OF_RANGE: Final = 29
BAD_HEADER: Final = 30
UNKNOWN_CODEC: Final = 31
LAST_EPOCH: Final = 32
OFFSET_WRONG: Final = 33  # number of wrong entries, and the index of the first
OFFSET_WRONG_FIRST: Final = 34
TIME_WRONG: Final = 35
TIME_WRONG_FIRST: Final = 36
LAST_BATCH: Final = 37  # position of the last good batch
STATE_SLOTS: Final = 38

# table: rows by magic, codec (0 to 7) and timestamp type (none, CreateTime, LogAppendTime); columns
MAGICS: Final = 3
CODECS: Final = 8
TYPES: Final = 3
CELLS: Final = MAGICS * CODECS * TYPES
CELL_BYTES: Final = 0
CELL_BATCHES: Final = 1
# v2 header counts and uncompressed v0/v1 messages; a wrapper's content is not counted
CELL_RECORDS: Final = 2
CELL_CONTROL: Final = 3
CELL_TRANSACTIONAL: Final = 4
CELL_DELETE_HORIZON: Final = 5
CELL_PRODUCER: Final = 6  # batches with a producer id
CELL_COLUMNS: Final = 8

POINT_COLUMNS: Final = 5
UNKNOWN: Final = -(2**63)

# Why the kernel returned.
STOPPED: Final = 0
AT_LIMIT: Final = 1
POINTS_FULL: Final = 2
NEED_BYTES: Final = 3

# STOP: one of these, or TORN_TAIL, BAD_LENGTH, BAD_MAGIC of `batch`
END: Final = 0
BAD_CRC: Final = 4
BAD_OFFSET: Final = 5

_ODD: Final = np.uint64(0x9E3779B97F4A7C15)
_HALF: Final = np.uint64(32)
_MOST_RELATIVE: Final = np.uint64(2**31 - 1)
_NO_OFFSET: Final = 2**63 - 1  # no batch that the kernel accepts ends there


def new_state() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return a state at the start of a file, without a window."""
    state = np.zeros(STATE_SLOTS, np.int64)
    for slot in (NOT_INCREASING, OUT_OF_RANGE, BAD_HEADER, UNKNOWN_CODEC, LAST_EPOCH, LAST_BATCH):
        state[slot] = -1
    for slot in (
        FIRST_OFFSET,
        LAST_OFFSET,
        FIRST_TIMESTAMP,
        MAX_TIMESTAMP,
        OFFSET_WRONG_FIRST,
        TIME_WRONG_FIRST,
    ):
        state[slot] = -1
    state[HIGHEST_OFFSET] = UNKNOWN
    return state


def new_table() -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Return a table of zeros."""
    return np.zeros((CELLS, CELL_COLUMNS), np.int64)


@kernel
def _mixed(fingerprint: np.uint64, address: int) -> np.uint64:
    """Return the fingerprint after mixing in the eight bytes at `address`."""
    mixed = (fingerprint ^ np.uint64(i64(address))) * _ODD
    return mixed ^ (mixed >> _HALF)


@kernel
def _absolute(base_offset: int, relative: int) -> int:
    """Return the offset of an index entry; 2^63-1, above any batch's, if it exceeds 64 bits."""
    if base_offset > 0 and relative > _NO_OFFSET - base_offset:
        return int64(_NO_OFFSET)
    return base_offset + relative


@kernel
def _position_of(entries: int, number: int, count: int) -> int:
    """Return the position of existing offset entry `number`; above any position if none is left."""
    return u32(entries + 8 * number + 4) if number < count else int64(_NO_OFFSET)


@kernel
def _offset_of(entries: int, number: int, count: int, base_offset: int) -> int:
    """Return the offset of the existing time entry `number`; above any offset if none is left."""
    return (
        _absolute(base_offset, i32(entries + 12 * number + 8))
        if number < count
        else int64(_NO_OFFSET)
    )


@kernel
def walk(state: Int64s, table: Int64s, points: Int64s) -> int:  # noqa: C901 - one loop, everything in registers
    """Walk from state[POSITION] on; see the module. Runs without the GIL."""
    address, origin, loaded = state[ADDRESS], state[ORIGIN], state[LOADED]
    limit, file_end = state[LIMIT], state[FILE_END]
    crc32, crc32c, base_offset, interval = (
        state[CRC32],
        state[CRC32C],
        state[BASE_OFFSET],
        state[INTERVAL],
    )
    offset_entries, offset_next, offset_count = (
        state[OFFSET_ENTRIES],
        state[OFFSET_NEXT],
        state[OFFSET_COUNT],
    )
    time_entries, time_next, time_count = state[TIME_ENTRIES], state[TIME_NEXT], state[TIME_COUNT]
    position, last_indexed, filled = state[POSITION], state[LAST_INDEXED], state[POINTS]
    batches, fingerprint = state[BATCHES], np.uint64(state[FINGERPRINT])
    highest, last = state[HIGHEST_OFFSET], state[LAST_OFFSET]
    max_timestamp, max_offset = state[MAX_TIMESTAMP], state[MAX_TIMESTAMP_OFFSET]
    last_batch = state[LAST_BATCH]
    capacity = points.shape[0]

    entry_position = _position_of(offset_entries, offset_next, offset_count)
    entry_offset = _offset_of(time_entries, time_next, time_count, base_offset)

    if position < origin:
        state[STOP] = BAD_LENGTH
        return STOPPED
    while True:  # each round ends the loop or advances by at least 26 bytes
        if position >= limit and position < file_end:
            why = AT_LIMIT
            break
        what, total, magic = next_frame(address, origin, loaded, file_end, position)
        if what != WHOLE:
            if what == NOT_LOADED:
                why, state[NEEDED] = NEED_BYTES, total
            else:
                why, state[STOP] = STOPPED, (END if position >= file_end else what)
            break
        if filled == capacity:  # this batch may need a point
            why = POINTS_FULL
            break
        at = address + (position - origin)
        if impossible_offsets(at, magic):
            why, state[STOP] = STOPPED, BAD_OFFSET
            break
        # The functions of `batch` ask for the magic again: inside a branch that costs nothing.
        if magic == 2:
            if not checksum_holds(at, total, magic, crc32, crc32c):
                why, state[STOP] = STOPPED, BAD_CRC
                break
            flags, timestamp = flags_of(at, magic), timestamp_of(at, magic)
            first = deep_first = i64(at + OFFSET_AT)
            delta, count = i32(at + LAST_OFFSET_DELTA_AT), i32(at + COUNT_AT)
            last = first + delta
            codec = flags & CODEC_MASK
            cell = (2 * CODECS + codec) * TYPES + 1 + is_appended(flags)
            table[cell, CELL_RECORDS] += count
            if flags & (TRANSACTIONAL | CONTROL | DELETE_HORIZON):
                table[cell, CELL_TRANSACTIONAL] += (flags >> 4) & 1
                table[cell, CELL_CONTROL] += (flags >> 5) & 1
                table[cell, CELL_DELETE_HORIZON] += (flags >> 6) & 1
            if i64(at + PRODUCER_ID_AT) >= 0:
                table[cell, CELL_PRODUCER] += 1
            state[LAST_EPOCH] = i32(at + LEADER_EPOCH_AT)
            if (delta < 0 or count < 0 or count > delta + 1) and state[BAD_HEADER] < 0:
                state[BAD_HEADER] = position
            if codec > 4 and state[UNKNOWN_CODEC] < 0:
                state[UNKNOWN_CODEC] = position
        else:
            if not checksum_holds(at, total, magic, crc32, crc32c):
                why, state[STOP] = STOPPED, BAD_CRC
                break
            first = last = deep_first = i64(at + OFFSET_AT)
            flags, timestamp = flags_of(at, magic), int64(-1)
            codec = flags & CODEC_MASK
            cell = (magic * CODECS + codec) * TYPES
            if magic == 1:
                timestamp = timestamp_of(at, magic)
                cell += 1 + is_appended(flags)
            if codec == 0:
                table[cell, CELL_RECORDS] += 1
            else:
                deep_first = int64(UNKNOWN)
                if codec > 3 and state[UNKNOWN_CODEC] < 0:
                    state[UNKNOWN_CODEC] = position

        table[cell, CELL_BYTES] += total
        table[cell, CELL_BATCHES] += 1
        fingerprint = _mixed(_mixed(_mixed(fingerprint, at), at + 8), at + 13)
        if batches == 0:
            state[FIRST_OFFSET], state[FIRST_TIMESTAMP] = deep_first, timestamp
        batches += 1
        if first <= highest and state[NOT_INCREASING] < 0 and batches > 1:
            state[NOT_INCREASING] = position
        in_range = np.uint64(minus(last, base_offset)) <= _MOST_RELATIVE
        if (not in_range or first < base_offset) and state[OUT_OF_RANGE] < 0:
            state[OUT_OF_RANGE] = position

        # Check the entries up to this batch. A lookup that lands on an entry must not skip the
        # batch that it looks for.
        if position >= entry_position:
            while offset_next < offset_count and position >= entry_position:
                relative_offset = i32(offset_entries + 8 * offset_next)
                holds = entry_position == position and highest < _absolute(
                    base_offset, relative_offset
                )
                if not holds:
                    if state[OFFSET_WRONG] == 0:
                        state[OFFSET_WRONG_FIRST] = offset_next
                    state[OFFSET_WRONG] += 1
                offset_next += 1
                entry_position = _position_of(offset_entries, offset_next, offset_count)
        if last >= entry_offset:
            while time_next < time_count and last >= entry_offset:
                if max_timestamp >= i64(time_entries + 12 * time_next):
                    if state[TIME_WRONG] == 0:
                        state[TIME_WRONG_FIRST] = time_next
                    state[TIME_WRONG] += 1
                time_next += 1
                entry_offset = _offset_of(time_entries, time_next, time_count, base_offset)

        highest = max(highest, last)
        if timestamp > max_timestamp:
            max_timestamp, max_offset = timestamp, last
        if position - last_indexed > interval and in_range:
            points[filled, 0] = position
            points[filled, 1] = deep_first
            points[filled, 2] = last
            points[filled, 3] = max_timestamp
            points[filled, 4] = max_offset
            filled += 1
            last_indexed = position
        last_batch = position
        position += total

    state[OFFSET_NEXT], state[TIME_NEXT] = offset_next, time_next
    state[POSITION], state[LAST_INDEXED], state[POINTS] = position, last_indexed, filled
    state[BATCHES], state[FINGERPRINT] = batches, int64(fingerprint)
    state[HIGHEST_OFFSET], state[LAST_OFFSET] = highest, last
    state[MAX_TIMESTAMP], state[MAX_TIMESTAMP_OFFSET] = max_timestamp, max_offset
    state[LAST_BATCH] = last_batch
    return why
