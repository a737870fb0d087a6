"""The checks of a leader on message sets before it appends them, for `appends` and `append_builds`.

The checks are those of `broker.validate` for sets that are common and right. What a check declines
is left to `broker.validate`, which also says what is wrong.

`state` is an int64 vector with one slot per name below. A row of `rows` is of int64 with the slots
FIRST to OFFSET_OF_LARGEST: first and last offset, bytes, the largest timestamp, and the offset
that is kept with it.
"""

from __future__ import annotations

from typing import Final

from kafkats.kernels.batch import (
    WHOLE,
    checksum_holds,
    flags_of,
    frame,
    impossible_offsets,
    key_and_value,
    key_of,
    message,
    record_head,
    sized,
    skip_headers,
    skip_sized,
    timestamp_of,
)
from kafkats.kernels.jit import inlined, kernel
from kafkats.kernels.layout import (
    ATTRIBUTES_AT,
    BASE_SEQUENCE_AT,
    CODEC_MASK,
    COUNT_AT,
    CRC32C_AT,
    LAST_OFFSET_DELTA_AT,
    LEADER_EPOCH_AT,
    LOG_APPEND_TIME,
    MAX_TIMESTAMP_AT,
    MIN_LEFT,
    OFFSET_AT,
    PRODUCER_ID_AT,
    TRANSACTIONAL,
)
from kafkats.kernels.lz4 import decompress_lz4
from kafkats.kernels.memory import crc32c_by, i16, i32, i64, plus, put16, put32, put64, u8
from kafkats.kernels.numbers import Int64s, int64
from kafkats.kernels.snappy import decompress_snappy

# The set NUMBER is the next one; the caller sets the slots up to PLAIN at each call.
NUMBER: Final = 0
OFFSET: Final = 1  # of the next record
EPOCH: Final = 2
NOW: Final = 3
LOWEST: Final = 4  # timestamps that are in range
HIGHEST: Final = 5
PLAIN: Final = 6  # the content of set NUMBER, decompressed; 0: not yet
PLAIN_SIZE: Final = 7
AT_PACKED: Final = 8  # what the caller decompresses, in bytes from the first set on
SIZE_PACKED: Final = 9
CODEC_PACKED: Final = 10
OLD_LZ4: Final = 11  # nonzero: it is of magic 0
NEWEST: Final = 12  # a set to be built: the largest timestamp, and the number of its record
NUMBER_OF_NEWEST: Final = 13
MAGIC: Final = 14  # of the topic
CODEC: Final = 15  # of the topic; -1: the producer's
APPENDED: Final = 16  # nonzero: LogAppendTime
UNTIMED: Final = 17  # nonzero: -1 is in range, too
KEYED: Final = 18  # nonzero: every record needs a key
RECORD_OF_MAXIMUM: Final = 19  # nonzero: the largest timestamp is kept with its record's offset
BUILT_LAST: Final = 20  # nonzero: in a set that is built anew, the broker's time is of the last
STAMP_INNER: Final = 21  # nonzero: the messages of a wrapper that is built anew have it, too
MOST: Final = 22  # bytes of a set
MAGICS: Final = 23  # that the request carries, one bit for each
LAST_CODEC: Final = 24  # the codecs that the request carries
CRC32: Final = 25  # function addresses
CRC32C: Final = 26
LZ4: Final = 27  # address of LZ4_decompress_safe, or 0
ROOM: Final = 28  # where content is decompressed to, and how many bytes it may have
ROOM_SIZE: Final = 29
JUDGE_SLOTS: Final = 30

# Slots of a row.
FIRST: Final = 0
LAST: Final = 1
BYTES: Final = 2
LARGEST: Final = 3
OFFSET_OF_LARGEST: Final = 4
ROW_SLOTS: Final = 5

LAST_WRAPPER_CODEC: Final = 3
_TOP: Final = 2**62
_SHORT: Final = 16
"""Bytes from a record on that lie before the end, where its numbers are read without a look."""
_SNAPPY: Final = 2
_LZ4: Final = 3


@inlined
def head(state: Int64s, at: int, end: int) -> tuple[int, int, int]:
    """Return magic, size and codec of the first batch of the set from `at` to `end`.

    The magic is -1 if the set is declined.
    """
    none = int64(-1)
    if end - at < MIN_LEFT or end - at > state[MOST] or state[OFFSET] > _TOP:
        return none, none, none
    what, total, magic = frame(at, end - at)
    if what != WHOLE or (state[MAGICS] >> magic) & 1 == 0 or impossible_offsets(at, magic):
        return none, none, none
    return magic, total, flags_of(at, magic) & CODEC_MASK


@inlined
def _fits(state: Int64s, timestamp: int) -> bool:
    return bool(
        state[LOWEST] <= timestamp <= state[HIGHEST] or (timestamp == -1 and state[UNTIMED] != 0)
    )


@inlined
def _short_varint(at: int) -> tuple[int, int]:
    """Return the varint of up to two bytes at `at`, and the address after it; 0 if it is longer."""
    byte, second = u8(at), u8(at + 1)
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    if second < 0x80:
        return ((byte & 0x7F) >> 1 | second << 6) ^ -(byte & 1), at + 2
    return int64(0), int64(0)


@inlined
def _short_record(at: int, end: int) -> tuple[int, int, int, int]:
    """As `_record` if numbers take one or two bytes each, and there are no headers. Else 0."""
    none = int64(0)
    if end - at < _SHORT:
        return none, none, none, none
    length, at = _short_varint(at)
    record_end = at + length
    if at == 0 or record_end > end:
        return none, none, none, none
    delta, at = _short_varint(at + 1)
    if at == 0:
        return none, none, none, none
    offset, at = _short_varint(at)
    if at == 0:
        return none, none, none, none
    key, at = _short_varint(at)
    if at == 0 or max(key, 0) > record_end - 2 - at:
        return none, none, none, none
    length, at = _short_varint(at + max(key, 0))
    if at == 0 or max(length, 0) != record_end - 1 - at or u8(record_end - 1) != 0:
        return none, none, none, none
    return record_end, delta, offset, key


@kernel
def _record(at: int, end: int) -> tuple[int, int, int, int]:
    """Return the end of the record at `at`, or 0, its deltas, and the length of its key."""
    none = int64(0)
    record_end, delta, offset, at = record_head(at, end)
    if record_end == 0:
        return none, none, none, none
    _, key, at = sized(at, end)
    if at == 0:
        return none, none, none, none
    at = skip_sized(at, end)
    if at == 0:
        return none, none, none, none
    _, at = skip_headers(at, end)
    return record_end if at == record_end else none, delta, offset, key


@kernel
def records_fit(
    state: Int64s, at: int, end: int, count: int, base: int, numbered: bool
) -> tuple[int, int]:
    """Return the largest timestamp of `count` records, and the number of its record.

    -1 is the number if they are not as they must be. `numbered`: their offsets are 0, 1, 2 ...
    """
    maximum, number, wrong = int64(-2), int64(0), int64(-1)
    keyed = state[KEYED] != 0
    for n in range(count):
        record_end, delta, offset, key = _short_record(at, end)
        if record_end == 0:
            record_end, delta, offset, key = _record(at, end)
        if record_end == 0 or (numbered and offset != n) or (keyed and key < 0):
            return maximum, wrong
        timestamp = plus(base, delta)
        if not _fits(state, timestamp):
            return maximum, wrong
        if timestamp > maximum:
            maximum, number = timestamp, int64(n)
        at = record_end
    return maximum, number if at == end else wrong


@kernel
def wrapped_fit(state: Int64s, at: int, end: int, wanted: int) -> tuple[int, int, int]:
    """Return count and largest timestamp of the messages in a wrapper of magic `wanted`.

    Their offsets are 0, 1, 2 ... The third is the number of the message with that timestamp. The
    count is 0 if they are not as they must be.
    """
    maximum, number, count, wrong = int64(-2), int64(0), int64(0), int64(0)
    what, total, magic = message(at, end)
    while what == WHOLE:
        if magic != wanted or i64(at + OFFSET_AT) != count:
            return wrong, maximum, number
        key, length, _, _ = key_and_value(key_of(at, magic), at + total)
        if key == 0 or (length < 0 and state[KEYED] != 0):
            return wrong, maximum, number
        if not checksum_holds(at, total, magic, state[CRC32], state[CRC32C]):
            return wrong, maximum, number
        timestamp = timestamp_of(at, magic)
        if not _fits(state, timestamp):
            return wrong, maximum, number
        if timestamp > maximum:
            maximum, number = timestamp, count
        count += 1
        at += total
        what, total, magic = message(at, end)
    return count if at == end else wrong, maximum, number


@kernel
def messages_fit(
    state: Int64s, at: int, end: int, magic: int, numbered: bool
) -> tuple[int, int, int]:
    """Return count and largest timestamp of uncompressed messages of `magic`, a whole set.

    The third is the number of the message with that timestamp, which is above -1, or -1. The count
    is 0 if they are not as they must be. `numbered`: their offsets are 0, 1, 2 ...
    """
    maximum, number, count, wrong = int64(-1), int64(-1), int64(0), int64(0)
    while at < end:
        if end - at < MIN_LEFT:
            return wrong, maximum, number
        what, total, found = frame(at, end - at)
        if what != WHOLE or found != magic or impossible_offsets(at, magic):
            return wrong, maximum, number
        if flags_of(at, magic) != 0 or (numbered and i64(at + OFFSET_AT) != count):
            return wrong, maximum, number
        if not checksum_holds(at, total, magic, state[CRC32], state[CRC32C]):
            return wrong, maximum, number
        key, length, _, _ = key_and_value(key_of(at, magic), at + total)
        if key == 0 or (length < 0 and state[KEYED] != 0):
            return wrong, maximum, number
        timestamp = timestamp_of(at, magic)
        if not _fits(state, timestamp):
            return wrong, maximum, number
        if timestamp > maximum:
            maximum, number = timestamp, count
        at += total
        count += 1
    return count, maximum, number


@inlined
def header_fits(state: Int64s, at: int, total: int) -> bool:
    """Return whether checksum and header of the batch of magic 2 at `at` are a client's."""
    if not checksum_holds(at, total, int64(2), state[CRC32], state[CRC32C]):
        return False
    attributes, count = i16(at + ATTRIBUTES_AT), i32(at + COUNT_AT)
    if attributes & ~(CODEC_MASK | TRANSACTIONAL) != 0:
        return False
    if attributes & CODEC_MASK > state[LAST_CODEC]:
        return False
    if i64(at + OFFSET_AT) != 0 or count <= 0 or i32(at + LAST_OFFSET_DELTA_AT) != count - 1:
        return False
    return bool(i64(at + PRODUCER_ID_AT) < 0 or i32(at + BASE_SEQUENCE_AT) >= 0)


@kernel
def unpacked(state: Int64s, at: int, size: int, codec: int, old: int) -> bool:
    """Return whether the content of the set is at PLAIN. Else the caller decompresses it.

    `old`: 1 for magic 0, else 0.
    """
    if state[PLAIN] == 0:
        got, room = int64(-1), state[ROOM_SIZE]
        if codec == _LZ4:
            got = decompress_lz4(state[LZ4], at, size, old, state[ROOM], room)
        elif codec == _SNAPPY:
            got = decompress_snappy(at, size, state[ROOM], room)
        if got > 0:
            state[PLAIN], state[PLAIN_SIZE] = state[ROOM], got
    state[AT_PACKED], state[SIZE_PACKED], state[CODEC_PACKED] = at, size, codec
    state[OLD_LZ4] = old
    return bool(state[PLAIN] != 0)


@inlined
def stamp_batch(state: Int64s, at: int, total: int, newest: int) -> None:
    """Write what the leader assigns to the batch of magic 2 at `at`.

    `newest` is the largest timestamp of its records. The checksum is written where it changes.
    """
    time = state[NOW] if state[APPENDED] else newest
    put64(at + OFFSET_AT, state[OFFSET])
    put32(at + LEADER_EPOCH_AT, state[EPOCH])
    if state[APPENDED] or time != i64(at + MAX_TIMESTAMP_AT):
        stamp = LOG_APPEND_TIME if state[APPENDED] else 0
        put16(at + ATTRIBUTES_AT, i16(at + ATTRIBUTES_AT) | stamp)
        put64(at + MAX_TIMESTAMP_AT, time)
        covered = CRC32C_AT + 4
        put32(at + CRC32C_AT, crc32c_by(state[CRC32C], at + covered, total - covered))


@kernel
def note(state: Int64s, rows: Int64s, count: int, size: int, largest: int, offset: int) -> None:
    """Write the row of a set with `count` records, and go on to the next set."""
    row = state[NUMBER]
    rows[row, FIRST], rows[row, LAST] = state[OFFSET], state[OFFSET] + count - 1
    rows[row, BYTES], rows[row, LARGEST], rows[row, OFFSET_OF_LARGEST] = size, largest, offset
    state[OFFSET] += count
    state[NUMBER] += 1
    state[PLAIN] = 0
