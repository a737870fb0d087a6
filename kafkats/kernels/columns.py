"""Decode all records of batches of any magic into column buffers with Arrow's layout.

    columns(state, plain)   decodes the window from POSITION on; returns when the buffers are full,
                            bytes are missing, a batch is bad, or a batch is compressed

`state` is an int64 vector with one slot per name below. Column slots hold buffer addresses; 0
leaves the column out. The buffers hold the records of at most ROOM plain bytes (decompressed
batches without their headers) and at most ROWS_ROOM records. The caller writes the first entry of
each offsets buffer. Each batch is decoded as a whole or not at all: a bad batch leaves no rows.

`plain` is int64 of shape (n, PLAIN_COLUMNS), one row per compressed batch in file order: position
in the file, address and size of its plain bytes.

The kernel refuses what `formats` refuses, and therefore what Kafka's reader refuses.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from kafkats.kernels import layout as f
from kafkats.kernels.batch import (
    NOT_LOADED,
    TORN_TAIL,
    WHOLE,
    checksum_holds,
    codec_of,
    flags_of,
    impossible_offsets,
    is_appended,
    key_and_value,
    key_of,
    message,
    next_frame,
    offset_shift,
    record_head,
    sized,
    timestamp_of,
)
from kafkats.kernels.jit import entry, kernel
from kafkats.kernels.memory import (
    i16,
    i32,
    i64,
    own64,
    plus,
    put8,
    put_own16,
    put_own32,
    put_own64,
    u8,
)
from kafkats.kernels.numbers import Int64Rows, Int64s, int64
from kafkats.kernels.strings import append
from kafkats.kernels.varints import varint

# The window: file positions ORIGIN to LOADED lie at ADDRESS. Batches that begin at LIMIT or later
# belong to the next window.
ADDRESS: Final = 0
ORIGIN: Final = 1
LOADED: Final = 2
LIMIT: Final = 3
FILE_END: Final = 4
POSITION: Final = 5
NEEDED: Final = 6  # NEED_BYTES: bytes needed from POSITION on; FULL: plain bytes of the batch there
NEEDED_ROWS: Final = 7  # FULL: upper bound of the batch's record count
# Options.
CRC32: Final = 8  # function addresses; 0: do not verify checksums
CRC32C: Final = 9
CONTROL: Final = 10  # 0: decode the records of control batches, but leave them out
# Columns: buffer addresses.
ROOM: Final = 11
ROWS_ROOM: Final = 12
OFFSET: Final = 13  # int64
TIMESTAMP: Final = 14  # int64
TIMESTAMP_TYPE: Final = 15  # int8
KEY_DATA: Final = 16
KEY_OFFSETS: Final = 17  # int32
KEY_VALID: Final = 18  # bits, lowest first
VALUE_DATA: Final = 19
VALUE_OFFSETS: Final = 20
VALUE_VALID: Final = 21
HEADER_OFFSETS: Final = 22  # int32, records -> header entries
HEADER_KEY_DATA: Final = 23
HEADER_KEY_OFFSETS: Final = 24
HEADER_VALUE_DATA: Final = 25
HEADER_VALUE_OFFSETS: Final = 26
HEADER_VALUE_VALID: Final = 27
MAGIC: Final = 28  # int8; set this and the next five columns together, or none of them
ATTRIBUTES: Final = 29  # int16
LEADER_EPOCH: Final = 30  # int32
PRODUCER_ID: Final = 31  # int64
PRODUCER_EPOCH: Final = 32  # int16
SEQUENCE: Final = 33  # int32
# Fill levels.
USED: Final = 34  # plain bytes of the decoded batches
ROWS: Final = 35
KEY_BYTES: Final = 36
VALUE_BYTES: Final = 37
HEADERS: Final = 38
HEADER_KEY_BYTES: Final = 39
HEADER_VALUE_BYTES: Final = 40
KEY_NULLS: Final = 41
VALUE_NULLS: Final = 42
HEADER_NULLS: Final = 43
# `plain`: the next row to use, and the number of rows.
PLAIN_NEXT: Final = 44
PLAIN_COUNT: Final = 45
# For ahead(): function addresses (0: none), the buffer for plain bytes, the next position.
LZ4: Final = 46
ZSTD: Final = 47
ZSTD_CONTEXT: Final = 48
JOINED: Final = 49
JOINED_ROOM: Final = 50
JOINED_USED: Final = 51
AHEAD: Final = 52
# position, codec, magic, address and size of compressed bytes that the caller must decompress
PACKED: Final = 53
# The current batch.
_BATCH: Final = 58  # magic, attributes, leader epoch, producer id, producer epoch, base sequence
STATE_SLOTS: Final = 64

PLAIN_COLUMNS: Final = 3

# Why columns() returned.
DONE: Final = 0  # the quiet end of the log
NEED_BYTES: Final = 1
FULL: Final = 2
COMPRESSED: Final = 3  # `plain` has no row for the batch at POSITION
BAD: Final = 4  # the batch at POSITION is corrupt

Column: TypeAlias = tuple[int, int, int]
"""Addresses of a column's data, offsets and validity bits."""
Filled: TypeAlias = tuple[int, int, int, int]
"""Bytes of keys and of values, then nulls of both."""

_SEQUENCES: Final = 2**31


@kernel
def _fields(state: Int64s, row: int, offset_delta: int) -> None:
    """Write the batch fields, which all records of a batch share, and the record's sequence."""
    put8(state[MAGIC] + row, state[_BATCH])
    put_own16(state[ATTRIBUTES] + 2 * row, state[_BATCH + 1])
    put_own32(state[LEADER_EPOCH] + 4 * row, state[_BATCH + 2])
    put_own64(state[PRODUCER_ID] + 8 * row, state[_BATCH + 3])
    put_own16(state[PRODUCER_EPOCH] + 2 * row, state[_BATCH + 4])
    sequence = state[_BATCH + 5]
    if sequence >= 0:
        sequence += offset_delta
        if sequence >= _SEQUENCES:
            sequence -= _SEQUENCES
    else:
        sequence = -1
    put_own32(state[SEQUENCE] + 4 * row, sequence)


@kernel
def _record_headers(state: Int64s, at: int, end: int) -> int:
    """Append the record headers at `at`.

    Returns the address after them, or 0 if they are malformed.
    """
    wanted, entry = state[HEADER_OFFSETS] != 0, state[HEADERS]
    count, at = varint(at, end)
    if at == 0 or count < 0 or count > end - at:
        return int64(0)
    for _ in range(count):
        start, length, at = sized(at, end)
        if start == 0 or length < 0:  # a header key is never null
            return int64(0)
        if wanted:
            data, offsets = state[HEADER_KEY_DATA], state[HEADER_KEY_OFFSETS]
            filled = state[HEADER_KEY_BYTES]
            filled = append(data, offsets, int64(0), entry, filled, start, length)
            state[HEADER_KEY_BYTES] = filled
        start, length, at = sized(at, end)
        if start == 0:
            return int64(0)
        if wanted:
            data, offsets = state[HEADER_VALUE_DATA], state[HEADER_VALUE_OFFSETS]
            valid, filled = state[HEADER_VALUE_VALID], state[HEADER_VALUE_BYTES]
            filled = append(data, offsets, valid, entry, filled, start, length)
            state[HEADER_VALUE_BYTES] = filled
            state[HEADER_NULLS] += int64(length < 0)
            entry += 1
            state[HEADERS] = entry
    return at


@kernel
def _area(
    state: Int64s,
    key: Column,
    value: Column,
    row: int,
    filled: Filled,
    at: int,
    end: int,
    count: int,
    base: int,
    times: tuple[int, int, int],
) -> Filled:
    """Append the `count` records of a v2 batch from address `at` to `end`.

    `times`: timestamp type, base timestamp, maximum timestamp. Arguments and result as in _message.
    """
    bad = int64(-1), int64(0), int64(0), int64(0)
    key_bytes, value_bytes, key_nulls, value_nulls = filled
    kind, base_time, append_time = times
    offset_at, time_at, type_at = state[OFFSET], state[TIMESTAMP], state[TIMESTAMP_TYPE]
    header_offsets, fields = state[HEADER_OFFSETS], state[MAGIC] != 0
    for _ in range(count):
        record_end, delta, offset_delta, at = record_head(at, end)
        if record_end == 0:
            return bad
        put_own64(offset_at + 8 * row, plus(base, offset_delta))
        put_own64(time_at + 8 * row, append_time if kind == 1 else plus(base_time, delta))
        put8(type_at + row, kind)
        start, length, at = sized(at, end)
        if start == 0:
            return bad
        if key[1] != 0:
            key_bytes = append(key[0], key[1], key[2], row, key_bytes, start, length)
            key_nulls += int64(length < 0)
        start, length, at = sized(at, end)
        if start == 0:
            return bad
        if value[1] != 0:
            value_bytes = append(value[0], value[1], value[2], row, value_bytes, start, length)
            value_nulls += int64(length < 0)
        if at < end and u8(at) == 0:
            at += 1
        else:
            at = _record_headers(state, at, end)
        if at != record_end:
            return bad
        if header_offsets != 0:
            put_own32(header_offsets + 4 * (row + 1), state[HEADERS])
        if fields:
            _fields(state, row, offset_delta)
        row += 1
    return (key_bytes, value_bytes, key_nulls, value_nulls) if at == end else bad


@kernel
def _message(
    key: Column, value: Column, row: int, filled: Filled, at: int, end: int, magic: int
) -> Filled:
    """Append key and value of the magic-0 or magic-1 message between `at` and `end`.

    `key` and `value` hold the addresses of data, offsets and validity bits. `filled` holds bytes
    and nulls of both columns. Returns the new `filled`; a negative first number means malformed.
    """
    bad = int64(-1), int64(0), int64(0), int64(0)
    key_bytes, value_bytes, key_nulls, value_nulls = filled
    key_at, key_length, value_at, value_length = key_and_value(key_of(at, magic), end)
    if key_at == 0:
        return bad
    if key[1] != 0:
        key_bytes = append(key[0], key[1], key[2], row, key_bytes, key_at, key_length)
        key_nulls += int64(key_length < 0)
    if value[1] != 0:
        value_bytes = append(value[0], value[1], value[2], row, value_bytes, value_at, value_length)
        value_nulls += int64(value_length < 0)
    return key_bytes, value_bytes, key_nulls, value_nulls


@kernel
def _old_row(state: Int64s, row: int, offset: int, time: int, kind: int) -> None:
    """Write the other columns of a magic-0 or magic-1 record."""
    put_own64(state[OFFSET] + 8 * row, offset)
    put_own64(state[TIMESTAMP] + 8 * row, time)
    put8(state[TIMESTAMP_TYPE] + row, kind)
    if state[HEADER_OFFSETS] != 0:
        put_own32(state[HEADER_OFFSETS] + 4 * (row + 1), state[HEADERS])
    if state[MAGIC] != 0:
        _fields(state, row, int64(0))


@kernel
def _message_set(
    state: Int64s,
    key: Column,
    value: Column,
    row: int,
    filled: Filled,
    at: int,
    end: int,
    wrapper: int,
    times: tuple[int, int],
) -> tuple[int, Filled]:
    """Append the messages between `at` and `end`, the content of the wrapper at address `wrapper`.

    `times`: timestamp type and timestamp of the wrapper. Returns the number of rows (0: malformed)
    and the new `filled` of _message.
    """
    first, last, kind = row, int64(0), times[0]
    what, total, magic = message(at, end)
    while what == WHOLE:
        last = i64(at + f.OFFSET_AT)
        filled = _message(key, value, row, filled, at, at + total, magic)
        if filled[0] < 0:
            return int64(0), filled
        if magic == 0:
            _old_row(state, row, last, -1, -1)
        else:
            _old_row(state, row, last, times[1] if kind == 1 else timestamp_of(at, magic), kind)
        row += 1
        at += total
        what, total, magic = message(at, end)
    shift, sound = offset_shift(u8(wrapper + f.MAGIC_AT), i64(wrapper + f.OFFSET_AT), last)
    if what != TORN_TAIL or not sound:
        return int64(0), filled
    if shift != 0:
        for n in range(first, row):
            to = state[OFFSET] + 8 * n
            put_own64(to, plus(own64(to), shift))
    return row - first, filled


@kernel
def _batch_fields(state: Int64s, at: int) -> None:
    """Read the batch fields of the batch at address `at`."""
    magic = u8(at + f.MAGIC_AT)
    state[_BATCH], state[_BATCH + 1] = magic, u8(at + f.MESSAGE_FLAGS_AT)
    state[_BATCH + 2] = state[_BATCH + 3] = state[_BATCH + 4] = state[_BATCH + 5] = -1
    if magic == 2:
        state[_BATCH + 1], state[_BATCH + 2] = (
            i16(at + f.ATTRIBUTES_AT),
            i32(at + f.LEADER_EPOCH_AT),
        )
        state[_BATCH + 3], state[_BATCH + 4] = (
            i64(at + f.PRODUCER_ID_AT),
            i16(at + f.PRODUCER_EPOCH_AT),
        )
        state[_BATCH + 5] = i32(at + f.BASE_SEQUENCE_AT)


@entry
def columns(state: Int64s, plain: Int64Rows) -> int:  # noqa: C901 - one loop, everything in registers
    """Decode from POSITION on and return why it stopped; see the module. Runs without the GIL."""
    address, origin, loaded = state[ADDRESS], state[ORIGIN], state[LOADED]
    limit, file_end = state[LIMIT], state[FILE_END]
    crc32, crc32c, room, rows_room = state[CRC32], state[CRC32C], state[ROOM], state[ROWS_ROOM]
    control = state[CONTROL]
    key = state[KEY_DATA], state[KEY_OFFSETS], state[KEY_VALID]
    value = state[VALUE_DATA], state[VALUE_OFFSETS], state[VALUE_VALID]
    position, used, row = state[POSITION], state[USED], state[ROWS]
    filled = state[KEY_BYTES], state[VALUE_BYTES], state[KEY_NULLS], state[VALUE_NULLS]
    why = DONE
    if position < origin:
        return BAD
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
        if impossible_offsets(at, magic):
            why = BAD
            break

        if magic < 2 and codec_of(at, magic) == 0:
            if used + total > room or row == rows_room:
                why, state[NEEDED], state[NEEDED_ROWS] = FULL, total, 1
                break
            if not checksum_holds(at, total, magic, crc32, crc32c):
                why = BAD
                break
            after = _message(key, value, row, filled, at, at + total, magic)
            if after[0] < 0:
                why = BAD
                break
            filled = after
            if state[MAGIC] != 0:
                _batch_fields(state, at)
            if magic == 0:
                _old_row(state, row, i64(at + f.OFFSET_AT), -1, -1)
            else:
                kind = is_appended(flags_of(at, magic))
                _old_row(state, row, i64(at + f.OFFSET_AT), timestamp_of(at, magic), kind)
            row += 1
            used += total
            position += total
            continue

        start, length, count = at + f.HEADER, total - f.HEADER, int64(0)
        flags = flags_of(at, magic)
        packed = flags & f.CODEC_MASK != 0
        if magic == 2:
            count = i32(at + f.COUNT_AT)
            packed = packed and count > 0  # Kafka ignores the bytes of an empty batch
        if packed:
            number = state[PLAIN_NEXT]
            if number == state[PLAIN_COUNT] or plain[number, 0] != position:
                why = COMPRESSED
                break
            start, length = plain[number, 1], plain[number, 2]
        most = length // f.MIN_MESSAGE
        if magic == 2:
            most = max(min(count, length // f.MIN_RECORD), int64(0))
        if used + length > room or row + most > rows_room:
            why, state[NEEDED], state[NEEDED_ROWS] = FULL, length, most
            break
        if state[MAGIC] != 0:
            _batch_fields(state, at)
        if not checksum_holds(at, total, magic, crc32, crc32c) or (magic == 2 and count != most):
            why = BAD
            break
        kind = is_appended(flags) if magic else int64(-1)
        if magic == 2:
            times = kind, i64(at + f.BASE_TIMESTAMP_AT), timestamp_of(at, magic)
            entries, nulls = state[HEADERS], state[HEADER_NULLS]
            names, values = state[HEADER_KEY_BYTES], state[HEADER_VALUE_BYTES]
            after = filled
            if count > 0:
                base = i64(at + f.OFFSET_AT)
                after = _area(
                    state, key, value, row, filled, start, start + length, count, base, times
                )
            if after[0] >= 0 and (control != 0 or flags & f.CONTROL == 0):
                filled = after
                row += count
            else:
                state[HEADERS], state[HEADER_NULLS] = entries, nulls
                state[HEADER_KEY_BYTES], state[HEADER_VALUE_BYTES] = names, values
            if after[0] < 0:
                why = BAD
                break
        else:
            wrapper_times = kind, timestamp_of(at, magic)
            rows, after = _message_set(
                state, key, value, row, filled, start, start + length, at, wrapper_times
            )
            if rows == 0:
                why = BAD
                break
            filled = after
            row += rows
        if packed:
            state[PLAIN_NEXT] += 1
        used += length
        position += total
    state[POSITION], state[USED], state[ROWS] = position, used, row
    state[KEY_BYTES], state[VALUE_BYTES], state[KEY_NULLS], state[VALUE_NULLS] = filled
    return why
