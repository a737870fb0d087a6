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

from kafkats.kernels import layout as f
from kafkats.kernels import walk_state as k
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
from kafkats.kernels.jit import entry, kernel
from kafkats.kernels.memory import i32, i64, minus, u32
from kafkats.kernels.numbers import Int64Rows, Int64s, int64

_ODD: Final = np.uint64(0x9E3779B97F4A7C15)
_HALF: Final = np.uint64(32)
_MOST_RELATIVE: Final = np.uint64(2**31 - 1)
_NO_OFFSET: Final = 2**63 - 1  # no batch that the kernel accepts ends there


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


@entry
def walk(state: Int64s, table: Int64Rows, points: Int64Rows) -> int:  # noqa: C901 - registers
    """Walk from state[POSITION] on; see the module. Runs without the GIL."""
    address, origin, loaded = state[k.ADDRESS], state[k.ORIGIN], state[k.LOADED]
    limit, file_end = state[k.LIMIT], state[k.FILE_END]
    crc32, crc32c = state[k.CRC32], state[k.CRC32C]
    base_offset, interval = state[k.BASE_OFFSET], state[k.INTERVAL]
    offset_entries, time_entries = state[k.OFFSET_ENTRIES], state[k.TIME_ENTRIES]
    offset_next, offset_count = state[k.OFFSET_NEXT], state[k.OFFSET_COUNT]
    time_next, time_count = state[k.TIME_NEXT], state[k.TIME_COUNT]
    position, last_indexed, filled = state[k.POSITION], state[k.LAST_INDEXED], state[k.POINTS]
    batches, fingerprint = state[k.BATCHES], np.uint64(state[k.FINGERPRINT])
    highest, last = state[k.HIGHEST_OFFSET], state[k.LAST_OFFSET]
    max_timestamp, max_offset = state[k.MAX_TIMESTAMP], state[k.MAX_TIMESTAMP_OFFSET]
    capacity = points.shape[0]

    entry_position = _position_of(offset_entries, offset_next, offset_count)
    entry_offset = _offset_of(time_entries, time_next, time_count, base_offset)

    if position < origin:
        state[k.STOP] = BAD_LENGTH
        return k.STOPPED
    while True:  # each round ends the loop or advances by at least 26 bytes
        if position >= limit and position < file_end:
            why = k.AT_LIMIT
            break
        what, total, magic = next_frame(address, origin, loaded, file_end, position)
        if what != WHOLE:
            if what == NOT_LOADED:
                why, state[k.NEEDED] = k.NEED_BYTES, total
            else:
                why, state[k.STOP] = k.STOPPED, (k.END if position >= file_end else what)
            break
        if filled == capacity:  # this batch may need a point
            why = k.POINTS_FULL
            break
        at = address + (position - origin)
        if impossible_offsets(at, magic):
            why, state[k.STOP] = k.STOPPED, k.BAD_OFFSET
            break
        # The functions of `batch` ask for the magic again: inside a branch that costs nothing.
        if magic == 2:
            if not checksum_holds(at, total, magic, crc32, crc32c):
                why, state[k.STOP] = k.STOPPED, k.BAD_CRC
                break
            flags, timestamp = flags_of(at, magic), timestamp_of(at, magic)
            first = deep_first = i64(at + f.OFFSET_AT)
            delta, count = i32(at + f.LAST_OFFSET_DELTA_AT), i32(at + f.COUNT_AT)
            last = first + delta
            codec = flags & f.CODEC_MASK
            cell = (2 * k.CODECS + codec) * k.TYPES + 1 + is_appended(flags)
            table[cell, k.CELL_RECORDS] += count
            if flags & (f.TRANSACTIONAL | f.CONTROL | f.DELETE_HORIZON):
                table[cell, k.CELL_TRANSACTIONAL] += (flags >> 4) & 1
                table[cell, k.CELL_CONTROL] += (flags >> 5) & 1
                table[cell, k.CELL_DELETE_HORIZON] += (flags >> 6) & 1
            if i64(at + f.PRODUCER_ID_AT) >= 0:
                table[cell, k.CELL_PRODUCER] += 1
            state[k.HIGHEST_EPOCH] = max(state[k.HIGHEST_EPOCH], i32(at + f.LEADER_EPOCH_AT))
            if (delta < 0 or count < 0 or count > delta + 1) and state[k.BAD_HEADER] < 0:
                state[k.BAD_HEADER] = position
            if codec > 4 and state[k.UNKNOWN_CODEC] < 0:
                state[k.UNKNOWN_CODEC] = position
        else:
            if not checksum_holds(at, total, magic, crc32, crc32c):
                why, state[k.STOP] = k.STOPPED, k.BAD_CRC
                break
            first = last = deep_first = i64(at + f.OFFSET_AT)
            flags, timestamp = flags_of(at, magic), int64(-1)
            codec = flags & f.CODEC_MASK
            cell = (magic * k.CODECS + codec) * k.TYPES
            if magic == 1:
                timestamp = timestamp_of(at, magic)
                cell += 1 + is_appended(flags)
            if codec == 0:
                table[cell, k.CELL_RECORDS] += 1
            else:
                deep_first = int64(k.UNKNOWN)
                if codec > 3 and state[k.UNKNOWN_CODEC] < 0:
                    state[k.UNKNOWN_CODEC] = position

        table[cell, k.CELL_BYTES] += total
        table[cell, k.CELL_BATCHES] += 1
        fingerprint = _mixed(_mixed(_mixed(fingerprint, at), at + 8), at + 13)
        if batches == 0:
            state[k.FIRST_OFFSET], state[k.FIRST_TIMESTAMP] = deep_first, timestamp
        batches += 1
        if first <= highest and state[k.NOT_INCREASING] < 0 and batches > 1:
            state[k.NOT_INCREASING] = position
        in_range = np.uint64(minus(last, base_offset)) <= _MOST_RELATIVE
        if (not in_range or first < base_offset) and state[k.OUT_OF_RANGE] < 0:
            state[k.OUT_OF_RANGE] = position

        # Check the entries up to this batch. A lookup that lands on an entry must not skip the
        # batch that it looks for.
        if position >= entry_position:
            while offset_next < offset_count and position >= entry_position:
                relative_offset = i32(offset_entries + 8 * offset_next)
                holds = entry_position == position and highest < _absolute(
                    base_offset, relative_offset
                )
                if not holds:
                    if state[k.OFFSET_WRONG] == 0:
                        state[k.OFFSET_WRONG_FIRST] = offset_next
                    state[k.OFFSET_WRONG] += 1
                offset_next += 1
                entry_position = _position_of(offset_entries, offset_next, offset_count)
        if last >= entry_offset:
            while time_next < time_count and last >= entry_offset:
                if max_timestamp >= i64(time_entries + 12 * time_next):
                    if state[k.TIME_WRONG] == 0:
                        state[k.TIME_WRONG_FIRST] = time_next
                    state[k.TIME_WRONG] += 1
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
        position += total

    state[k.OFFSET_NEXT], state[k.TIME_NEXT] = offset_next, time_next
    state[k.POSITION], state[k.LAST_INDEXED], state[k.POINTS] = position, last_indexed, filled
    state[k.BATCHES], state[k.FINGERPRINT] = batches, int64(fingerprint)
    state[k.HIGHEST_OFFSET], state[k.LAST_OFFSET] = highest, last
    state[k.MAX_TIMESTAMP], state[k.MAX_TIMESTAMP_OFFSET] = max_timestamp, max_offset
    return why
