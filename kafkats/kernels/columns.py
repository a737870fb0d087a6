"""Decode all records of batches of any magic into column buffers with Arrow's layout.

    columns(state, plain)   decodes the window from POSITION on; returns when the buffers are full,
                            bytes are missing, a batch is bad, or a batch is compressed
    ahead(state, plain)     decompresses the next compressed batches of the window, up to one that
                            the caller must decompress

`state` is an int64 vector with one slot per name below. Column slots hold buffer addresses; 0
leaves the column out. The buffers hold the records of at most ROOM plain bytes (decompressed
batches without their headers) and at most ROWS_ROOM records. The caller writes the first entry of
each offsets buffer. Each batch is decoded as a whole or not at all: a bad batch leaves no rows.

`plain` is int64 of shape (n, PLAIN_COLUMNS), one row per compressed batch in file order: position
in the file, address and size of its plain bytes.

The kernel refuses what `formats` refuses, and therefore what Kafka's reader refuses.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from kafkats.kernels.jit import kernel
from kafkats.kernels.memory import (
    copy,
    crc32_by,
    crc32c_by,
    i16,
    i32,
    i64,
    lz4_by,
    minus,
    move4,
    move8,
    own64,
    plus,
    put8,
    put_own16,
    put_own32,
    put_own64,
    u8,
    u32,
    zstd_by,
)
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

MIN_RECORD: Final = 7
"""Bytes of the smallest v2 record; bounds the record count by the number of plain bytes."""
_MIN_MESSAGE: Final = 26
_HEADER_V2: Final = 61
_SEQUENCES: Final = 2**31
_LZ4_BLOCK: Final = 64 * 1024


@kernel
def _copy(to: Any, start: Any, size: Any) -> None:
    """Copy up to 16 bytes with two moves that may overlap.

    Most keys are short, so this avoids a call.
    """
    if size > 16:
        copy(to, start, size)
    elif size >= 8:
        move8(to, start)
        move8(to + size - 8, start + size - 8)
    elif size >= 4:
        move4(to, start)
        move4(to + size - 4, start + size - 4)
    else:
        for n in range(size):
            put8(to + n, u8(start + n))


@kernel
def _append(
    data: Any, offsets: Any, valid: Any, row: Any, filled: Any, start: Any, length: Any
) -> Any:
    """Write `length` bytes from `start` as entry `row`; a negative length is null.

    `filled` is the number of bytes in the column before. Returns the number after.
    """
    if length > 0:
        _copy(data + filled, start, length)
        filled += length
    put_own32(offsets + 4 * (row + 1), filled)
    if valid != 0:
        at, bit = valid + (row >> 3), row & 7
        put8(at, (u8(at) & ((1 << bit) - 1)) | (np.int64(length >= 0) << bit))
    return filled


@kernel
def _fields(state: Any, row: Any, offset_delta: Any) -> None:
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
def _record_headers(state: Any, at: Any, end: Any) -> Any:
    """Append the record headers at `at`.

    Returns the address after them, or 0 if they are malformed.
    """
    wanted, entry = state[HEADER_OFFSETS] != 0, state[HEADERS]
    count, at = varint(at, end)
    if at == 0 or count < 0 or count > end - at:
        return np.int64(0)
    for _ in range(count):
        length, at = varint(at, end)
        if at == 0 or length < 0 or length > end - at:  # a header key is never null
            return np.int64(0)
        if wanted:
            filled = state[HEADER_KEY_BYTES]
            filled = _append(
                state[HEADER_KEY_DATA],
                state[HEADER_KEY_OFFSETS],
                np.int64(0),
                entry,
                filled,
                at,
                length,
            )
            state[HEADER_KEY_BYTES] = filled
        length, at = varint(at + length, end)
        if at == 0 or length > end - at:
            return np.int64(0)
        if wanted:
            data, offsets, valid = (
                state[HEADER_VALUE_DATA],
                state[HEADER_VALUE_OFFSETS],
                state[HEADER_VALUE_VALID],
            )
            state[HEADER_VALUE_BYTES] = _append(
                data, offsets, valid, entry, state[HEADER_VALUE_BYTES], at, length
            )
            state[HEADER_NULLS] += np.int64(length < 0)
            entry += 1
            state[HEADERS] = entry
        at += max(length, 0)
    return at


@kernel
def _area(  # noqa: C901 - one loop, everything in registers
    state: Any,
    key: Any,
    value: Any,
    row: Any,
    filled: Any,
    at: Any,
    end: Any,
    count: Any,
    base: Any,
    times: Any,
) -> Any:
    """Append the `count` records of a v2 batch from address `at` to `end`.

    `times`: timestamp type, base timestamp, maximum timestamp. Arguments and result as in _message.
    """
    bad = np.int64(-1), np.int64(0), np.int64(0), np.int64(0)
    key_bytes, value_bytes, key_nulls, value_nulls = filled
    kind, base_time, append_time = times
    offset_at, time_at, type_at = state[OFFSET], state[TIMESTAMP], state[TIMESTAMP_TYPE]
    header_offsets, fields = state[HEADER_OFFSETS], state[MAGIC] != 0
    for _ in range(count):
        length, at = varint(at, end)
        if at == 0:
            return bad
        record_end = at + length
        if record_end > end:
            return bad
        delta, at = varlong(at + 1, end)
        if at == 0:
            return bad
        offset_delta, at = varint(at, end)
        if at == 0:
            return bad
        put_own64(offset_at + 8 * row, plus(base, offset_delta))
        put_own64(time_at + 8 * row, append_time if kind == 1 else plus(base_time, delta))
        put8(type_at + row, kind)
        length, at = varint(at, end)
        if at == 0 or length > end - at:
            return bad
        if key[1] != 0:
            key_bytes = _append(key[0], key[1], key[2], row, key_bytes, at, length)
            key_nulls += np.int64(length < 0)
        length, at = varint(at + max(length, 0), end)
        if at == 0 or length > end - at:
            return bad
        if value[1] != 0:
            value_bytes = _append(value[0], value[1], value[2], row, value_bytes, at, length)
            value_nulls += np.int64(length < 0)
        at += max(length, 0)
        if at < end and u8(at) == 0:
            at += 1
        else:
            at = _record_headers(state, at, end)
        if at == 0 or at != record_end:
            return bad
        if header_offsets != 0:
            put_own32(header_offsets + 4 * (row + 1), state[HEADERS])
        if fields:
            _fields(state, row, offset_delta)
        row += 1
    return (key_bytes, value_bytes, key_nulls, value_nulls) if at == end else bad


@kernel
def _message(key: Any, value: Any, row: Any, filled: Any, at: Any, end: Any, magic: Any) -> Any:
    """Append key and value of the magic-0 or magic-1 message between `at` and `end`.

    `key` and `value` hold the addresses of data, offsets and validity bits. `filled` holds bytes
    and nulls of both columns. Returns the new `filled`; a negative first number means malformed.
    """
    bad = np.int64(-1), np.int64(0), np.int64(0), np.int64(0)
    key_bytes, value_bytes, key_nulls, value_nulls = filled
    at += 18 if magic == 0 else 26
    if end - at < 4:
        return bad
    length = i32(at)
    at += 4
    if max(length, 0) > end - at - 4:
        return bad
    if key[1] != 0:
        key_bytes = _append(key[0], key[1], key[2], row, key_bytes, at, length)
        key_nulls += np.int64(length < 0)
    at += max(length, 0)
    length = i32(at)
    at += 4
    if length > end - at:
        return bad
    if value[1] != 0:
        value_bytes = _append(value[0], value[1], value[2], row, value_bytes, at, length)
        value_nulls += np.int64(length < 0)
    return key_bytes, value_bytes, key_nulls, value_nulls


@kernel
def _old_row(state: Any, row: Any, offset: Any, time: Any, kind: Any) -> None:
    """Write the other columns of a magic-0 or magic-1 record."""
    put_own64(state[OFFSET] + 8 * row, offset)
    put_own64(state[TIMESTAMP] + 8 * row, time)
    put8(state[TIMESTAMP_TYPE] + row, kind)
    if state[HEADER_OFFSETS] != 0:
        put_own32(state[HEADER_OFFSETS] + 4 * (row + 1), state[HEADERS])
    if state[MAGIC] != 0:
        _fields(state, row, np.int64(0))


@kernel
def _message_set(
    state: Any,
    key: Any,
    value: Any,
    row: Any,
    filled: Any,
    at: Any,
    end: Any,
    wrapper: Any,
    times: Any,
) -> Any:
    """Append the messages between `at` and `end`, the content of the wrapper at address `wrapper`.

    `times`: timestamp type and timestamp of the wrapper. Returns the number of rows (0: malformed)
    and the new `filled` of _message.
    """
    first, last = row, np.int64(0)
    while end - at >= 12:
        size = i32(at + 8)
        if size < 14:
            return np.int64(0), filled
        if 12 + size > end - at:
            break
        magic = u8(at + 16)
        if magic > 1 or u8(at + 17) & 7 or size < 14 + 8 * magic:
            return np.int64(0), filled
        last = i64(at)
        filled = _message(key, value, row, filled, at, at + 12 + size, magic)
        if filled[0] < 0:
            return np.int64(0), filled
        if magic == 0:
            _old_row(state, row, last, -1, -1)
        else:
            _old_row(state, row, last, times[1] if times[0] == 1 else i64(at + 18), times[0])
        row += 1
        at += 12 + size
    offset = i64(wrapper)
    if u8(wrapper + 16) == 1 and offset != 0:
        if offset < last:
            return np.int64(0), filled
        for n in range(first, row):
            to = state[OFFSET] + 8 * n
            put_own64(to, plus(own64(to), minus(offset, last)))
    return row - first, filled


@kernel
def _batch_fields(state: Any, at: Any) -> None:
    """Read the batch fields of the batch at address `at`."""
    state[_BATCH], state[_BATCH + 1] = u8(at + 16), u8(at + 17)
    state[_BATCH + 2] = state[_BATCH + 3] = state[_BATCH + 4] = state[_BATCH + 5] = -1
    if state[_BATCH] == 2:
        state[_BATCH + 1], state[_BATCH + 2] = i16(at + 21), i32(at + 12)
        state[_BATCH + 3], state[_BATCH + 4], state[_BATCH + 5] = (
            i64(at + 43),
            i16(at + 51),
            i32(at + 53),
        )


@kernel
def columns(state: Any, plain: Any) -> int:  # noqa: C901 - one loop, everything in registers
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
    while file_end - position >= 18:
        if position >= limit or position + 18 > loaded:
            why, state[NEEDED] = NEED_BYTES, 18
            break
        at = address + (position - origin)
        size = i32(at + 8)
        total = size + 12
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
        if impossible_offsets(at, magic):
            why = BAD
            break

        if magic < 2 and u8(at + 17) & 7 == 0:
            if used + total > room or row == rows_room:
                why, state[NEEDED], state[NEEDED_ROWS] = FULL, total, 1
                break
            if crc32 != 0 and crc32_by(crc32, at + 16, total - 16) != u32(at + 12):
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
                _old_row(state, row, i64(at), -1, -1)
            else:
                _old_row(state, row, i64(at), i64(at + 18), (u8(at + 17) >> 3) & 1)
            row += 1
            used += total
            position += total
            continue

        start, length, count = np.int64(0), np.int64(total), np.int64(0)
        packed = magic < 2 or u8(at + 22) & 7 != 0
        if magic == 2:
            length, count = total - _HEADER_V2, i32(at + 57)
            packed = packed and count > 0  # Kafka ignores the bytes of an empty batch
        if packed:
            number = state[PLAIN_NEXT]
            if number == state[PLAIN_COUNT] or plain[number, 0] != position:
                why = COMPRESSED
                break
            start, length = plain[number, 1], plain[number, 2]
        most = (
            length // _MIN_MESSAGE
            if magic < 2
            else max(min(count, length // MIN_RECORD), np.int64(0))
        )
        if used + length > room or row + most > rows_room:
            why, state[NEEDED], state[NEEDED_ROWS] = FULL, length, most
            break
        if state[MAGIC] != 0:
            _batch_fields(state, at)
        if magic == 2:
            if not packed:
                start = at + _HEADER_V2
            if (
                crc32c != 0 and crc32c_by(crc32c, at + 21, total - 21) != u32(at + 17)
            ) or count != most:
                why = BAD
                break
            attributes = u8(at + 22)
            times = np.int64((attributes >> 3) & 1), i64(at + 27), i64(at + 35)
            entries, names, values, nulls = (
                state[HEADERS], state[HEADER_KEY_BYTES], state[HEADER_VALUE_BYTES], state[HEADER_NULLS]
            )  # fmt: skip
            after = filled
            if count > 0:
                after = _area(
                    state, key, value, row, filled, start, start + length, count, i64(at), times
                )
            if after[0] >= 0 and (control != 0 or attributes & 0x20 == 0):
                filled = after
                row += count
            else:
                state[HEADERS], state[HEADER_KEY_BYTES], state[HEADER_VALUE_BYTES], state[HEADER_NULLS] = (
                    entries, names, values, nulls
                )  # fmt: skip
            if after[0] < 0:
                why = BAD
                break
        else:
            if crc32 != 0 and crc32_by(crc32, at + 16, total - 16) != u32(at + 12):
                why = BAD
                break
            wrapper_times = np.int64(-1), np.int64(-1)
            if magic == 1:
                wrapper_times = np.int64((u8(at + 17) >> 3) & 1), i64(at + 18)
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


@kernel
def _lz4(state: Any, at: Any, size: Any, old: Any, to: Any, room: Any) -> Any:
    """Decompress an LZ4 frame in the form that Kafka writes. `old`: accept any header checksum.

    Returns the number of plain bytes, or -1 if the caller must decompress the frame.
    """
    function = state[LZ4]
    if (
        function == 0
        or size < 11
        or u32(at) != 0x04224D18
        or u8(at + 4) != 0x60
        or u8(at + 5) != 0x40
    ):
        return -1
    if not old and u8(at + 6) != 0x82:
        return -1
    at, end, filled = at + 7, at + size, np.int64(0)
    while at + 4 <= end:
        block = u8(at) | u8(at + 1) << 8 | u8(at + 2) << 16 | u8(at + 3) << 24
        at += 4
        if block == 0:
            return filled
        stored, block = block >> 31, block & 0x7FFFFFFF
        left = min(room - filled, _LZ4_BLOCK)
        if block > min(_LZ4_BLOCK, end - at):
            return -1
        if stored:
            if block > left:
                return -1
            copy(to + filled, at, block)
            got = block
        else:
            got = lz4_by(function, at, to + filled, block, left)
            if got < 0:
                return -1
        at, filled = at + block, filled + got
    return -1


@kernel
def ahead(state: Any, plain: Any) -> bool:  # noqa: C901 - one loop
    """Decompress batches from AHEAD on into JOINED while they fit; add a row to `plain` for each.

    Returns True if the caller must decompress the bytes that PACKED describes. This function
    reports no corruption: columns() reads the same batches and reports it.
    """
    address, origin, loaded = state[ADDRESS], state[ORIGIN], state[LOADED]
    position, number = state[AHEAD], state[PLAIN_COUNT]
    wants = False
    while number < len(plain) and position >= origin and position + 18 <= loaded and not wants:
        at = address + (position - origin)
        total = 12 + i32(at + 8)
        magic = u8(at + 16)
        if (
            magic > 2
            or total < (_HEADER_V2 if magic == 2 else _MIN_MESSAGE + 8 * magic)
            or position + total > loaded
        ):
            break
        codec = u8(at + (22 if magic == 2 else 17)) & 7
        start, size = at + _HEADER_V2, np.int64(total - _HEADER_V2)
        if magic == 2:
            if i32(at + 57) <= 0:
                codec = np.int64(0)
        else:
            # The value of a wrapper follows the key, which normally is null.
            start = at + _MIN_MESSAGE - 8 + 8 * magic
            key_length = max(i32(start), 0)
            if codec and key_length > at + total - start - 8:
                break
            if codec:
                start += 4 + key_length
                size = i32(start)
                start += 4
                if size < 0 or size > at + total - start:
                    break
        if codec != 0:
            got, to, room = (
                np.int64(-1),
                state[JOINED] + state[JOINED_USED],
                state[JOINED_ROOM] - state[JOINED_USED],
            )
            if codec == 3:
                got = np.int64(_lz4(state, start, size, magic == 0, to, room))
            elif codec == 4 and magic == 2 and state[ZSTD] != 0 and size > 0:
                got = zstd_by(state[ZSTD], state[ZSTD_CONTEXT], to, room, start, size)
                # error codes are the highest numbers
                got = got if got >= 0 and got <= room else np.int64(-1)
            if got < 0:
                if number > 0 and room < state[JOINED_ROOM] // 2:
                    break  # the buffer may be too small: retry with an empty one
                wants = True
                state[PACKED], state[PACKED + 1], state[PACKED + 2] = position, codec, magic
                state[PACKED + 3], state[PACKED + 4] = start, size
            else:
                plain[number, 0], plain[number, 1], plain[number, 2] = position, to, got
                state[JOINED_USED] += got
                number += 1
        position += total
    state[AHEAD], state[PLAIN_COUNT] = position, number
    return wants
