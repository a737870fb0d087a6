"""Appends of a broker: message sets judged and rewritten in place, batches of a fetch, entries.

    judge(sets, state, ends, rows)    the sets of producers, as the leader of the partition
    follow(state, units)              the batches of a fetch, as a follower
    enter(state, units, offsets, times)   index entries of appends to one segment

`judge` and `follow` handle what is common and right. All else they leave to `broker.validate` and
`broker.partition_log`, which also say what is wrong: they return DECLINED and change nothing of
that set. `state` is an int64 vector with one slot per name below; each kernel has its own.

`ends` are the ends of the sets in bytes. A set is rewritten where it lies. A row of
`rows` and `units` is of int64 with the slots FIRST to OFFSET_OF_LARGEST: first and last offset,
bytes, the largest timestamp, and the offset that is kept with it.
"""

from __future__ import annotations

from typing import Final

from kafkats.kernels.batch import (
    TORN_TAIL,
    WHOLE,
    checksum_holds,
    flags_of,
    frame,
    impossible_offsets,
    key_and_value,
    key_of,
    message,
    next_frame,
    record_head,
    sized,
    skip_headers,
    skip_sized,
    timestamp_of,
    wrapper_value,
)
from kafkats.kernels.jit import inlined, kernel
from kafkats.kernels.layout import (
    ATTRIBUTES_AT,
    BASE_SEQUENCE_AT,
    BASE_TIMESTAMP_AT,
    CODEC_MASK,
    COUNT_AT,
    CRC32_AT,
    CRC32C_AT,
    HEADER,
    LAST_OFFSET_DELTA_AT,
    LEADER_EPOCH_AT,
    LOG_APPEND_TIME,
    MAX_TIMESTAMP_AT,
    MESSAGE_FLAGS_AT,
    MESSAGE_TIMESTAMP_AT,
    MIN_LEFT,
    OFFSET_AT,
    PRODUCER_ID_AT,
    TRANSACTIONAL,
)
from kafkats.kernels.lz4 import decompress_lz4
from kafkats.kernels.memory import (
    crc32_by,
    crc32c_by,
    i16,
    i32,
    i64,
    minus,
    plus,
    put8,
    put16,
    put32,
    put64,
    u8,
)
from kafkats.kernels.numbers import Bytes, Int64s, int64
from kafkats.kernels.snappy import decompress_snappy

# Why judge() and follow() returned.
DONE: Final = 0
DECLINED: Final = 1
PACKED: Final = 2  # the caller decompresses what lies at AT_PACKED in `sets`, and calls again

# Slots of judge(). The set NUMBER is the next one; the caller sets those up to PLAIN at each call.
NUMBER: Final = 0
OFFSET: Final = 1  # of the next record
EPOCH: Final = 2
NOW: Final = 3
LOWEST: Final = 4  # timestamps that are in range, -1 to 2^62
HIGHEST: Final = 5
PLAIN: Final = 6  # the content of set NUMBER, decompressed; 0: not yet
PLAIN_SIZE: Final = 7
AT_PACKED: Final = 8  # PACKED: what is to be decompressed, in bytes from the first set on
SIZE_PACKED: Final = 9
CODEC_PACKED: Final = 10
MAGIC: Final = 11  # of the topic
CODEC: Final = 12  # of the topic; -1: the producer's
APPENDED: Final = 13  # nonzero: LogAppendTime
UNTIMED: Final = 14  # nonzero: -1 is in range, too
KEYED: Final = 15  # nonzero: every record needs a key
RECORD_OF_MAXIMUM: Final = 16  # nonzero: the largest timestamp is kept with its record's offset
MOST: Final = 17  # bytes of a set
LAST_CODEC: Final = 18  # the codecs that the request carries
CRC32: Final = 19  # function addresses
CRC32C: Final = 20
LZ4: Final = 21  # address of LZ4_decompress_safe, or 0
ROOM: Final = 22  # where content is decompressed to, and how many bytes it may have
ROOM_SIZE: Final = 23
JUDGE_SLOTS: Final = 24

# Slots of a row.
FIRST: Final = 0
LAST: Final = 1
BYTES: Final = 2
LARGEST: Final = 3
OFFSET_OF_LARGEST: Final = 4
ROW_SLOTS: Final = 5

# Slots of follow(), which has EPOCH and the functions, too. Those from END on are results.
ADDRESS: Final = 0
LOADED: Final = 1  # bytes at ADDRESS
EPOCHS: Final = 3  # nonzero: batches of another epoch than EPOCH begin it
EACH: Final = 4  # nonzero: a unit per batch, as long as there is room
LAST_OFFSET: Final = 5  # the batches must lie above it
FORMER: Final = 6  # nonzero: magic 0 and 1 change nothing of the epochs
END: Final = 7
BATCHES: Final = 8
FIRST_MAGIC: Final = 9
FOLLOW_SLOTS: Final = CRC32C + 1

# Slots of enter(). A unit that may begin a new segment ends it.
DONE_UNITS: Final = 0
BASE_OFFSET: Final = 1
SIZE: Final = 2
UNINDEXED: Final = 3
TIMESTAMP: Final = 4  # the largest so far, and its offset
TIMESTAMP_OFFSET: Final = 5
LAST_TIME: Final = 6
INTERVAL: Final = 7
BY_FIRST: Final = 8  # nonzero: entries have the first offset of a unit
BY_NEXT: Final = 9  # nonzero: time entries have the offset after the unit
TIMED: Final = 10  # nonzero: there is a time index
MOST_BYTES: Final = 11
LATEST: Final = 12  # a unit with a later timestamp may begin a segment
OFFSET_ROOM: Final = 13  # entries
TIME_ROOM: Final = 14
OFFSET_ENTRIES: Final = 15  # written
TIME_ENTRIES: Final = 16
ENTER_SLOTS: Final = 17

_TOP: Final = 2**62
_SHORT: Final = 16
"""Bytes from a record on that lie before the end, where its numbers are read without a look."""
_RELATIVE: Final = 2**31 - 1
_LAST_WRAPPER_CODEC: Final = 3
_SNAPPY: Final = 2
_LZ4: Final = 3


@inlined
def _fits(state: Int64s, timestamp: int) -> bool:
    return bool(
        state[APPENDED] != 0
        or (state[LOWEST] <= timestamp <= state[HIGHEST])
        or (timestamp == -1 and state[UNTIMED] != 0)
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
def _records(
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
def _wrapped(state: Int64s, at: int, end: int) -> tuple[int, int]:
    """Return the largest timestamp of the messages of magic 1 in a wrapper, and their number.

    0 is the number if they are not as they must be.
    """
    maximum, count, wrong = int64(-2), int64(0), int64(0)
    what, total, magic = message(at, end)
    while what == WHOLE:
        if magic != 1 or i64(at + OFFSET_AT) != count:
            return maximum, wrong
        key, length, _, _ = key_and_value(key_of(at, magic), at + total)
        if key == 0 or (length < 0 and state[KEYED] != 0):
            return maximum, wrong
        if not checksum_holds(at, total, magic, state[CRC32], state[CRC32C]):
            return maximum, wrong
        timestamp = i64(at + MESSAGE_TIMESTAMP_AT)
        if not _fits(state, timestamp):
            return maximum, wrong
        maximum = max(maximum, timestamp)
        count += 1
        at += total
        what, total, magic = message(at, end)
    return maximum, count if at == end else wrong


@kernel
def _unpacked(state: Int64s, at: int, size: int, codec: int) -> bool:
    """Return whether the content of the set is at PLAIN. Else the caller decompresses it."""
    if state[PLAIN] == 0:
        got, room = int64(-1), state[ROOM_SIZE]
        if codec == _LZ4:
            got = decompress_lz4(state[LZ4], at, size, int64(0), state[ROOM], room)
        elif codec == _SNAPPY:
            got = decompress_snappy(at, size, state[ROOM], room)
        if got > 0:
            state[PLAIN], state[PLAIN_SIZE] = state[ROOM], got
    state[AT_PACKED], state[SIZE_PACKED], state[CODEC_PACKED] = at, size, codec
    return bool(state[PLAIN] != 0)


@kernel
def _row(state: Int64s, rows: Int64s, count: int, size: int, largest: int, offset: int) -> None:
    row = state[NUMBER]
    rows[row, FIRST], rows[row, LAST] = state[OFFSET], state[OFFSET] + count - 1
    rows[row, BYTES], rows[row, LARGEST], rows[row, OFFSET_OF_LARGEST] = size, largest, offset
    state[OFFSET] += count
    state[NUMBER] += 1
    state[PLAIN] = 0


@kernel
def _batch(state: Int64s, rows: Int64s, at: int, total: int) -> int:
    """Judge and rewrite the batch of magic 2 at `at`, which is a whole set."""
    if not checksum_holds(at, total, int64(2), state[CRC32], state[CRC32C]):
        return int64(DECLINED)
    attributes, count = i16(at + ATTRIBUTES_AT), i32(at + COUNT_AT)
    codec = attributes & CODEC_MASK
    if attributes & ~(CODEC_MASK | TRANSACTIONAL) != 0 or codec > state[LAST_CODEC]:
        return int64(DECLINED)
    if i64(at + OFFSET_AT) != 0 or count <= 0 or i32(at + LAST_OFFSET_DELTA_AT) != count - 1:
        return int64(DECLINED)
    if i64(at + PRODUCER_ID_AT) >= 0 and i32(at + BASE_SEQUENCE_AT) < 0:
        return int64(DECLINED)
    start, end = at + HEADER, at + total
    if codec != 0:
        if not _unpacked(state, start, end - start, codec):
            return int64(PACKED)
        start, end = state[PLAIN], state[PLAIN] + state[PLAIN_SIZE]
    newest, number = _records(state, start, end, count, i64(at + BASE_TIMESTAMP_AT), codec != 0)
    if number < 0:
        return int64(DECLINED)
    offset, last = state[OFFSET], state[OFFSET] + count - 1
    time = state[NOW] if state[APPENDED] else newest
    put64(at + OFFSET_AT, offset)
    put32(at + LEADER_EPOCH_AT, state[EPOCH])
    if state[APPENDED] or time != i64(at + MAX_TIMESTAMP_AT):
        put16(at + ATTRIBUTES_AT, attributes | (LOG_APPEND_TIME if state[APPENDED] else 0))
        put64(at + MAX_TIMESTAMP_AT, time)
        covered = CRC32C_AT + 4
        put32(at + CRC32C_AT, crc32c_by(state[CRC32C], at + covered, total - covered))
    kept = last
    if state[RECORD_OF_MAXIMUM]:
        if state[APPENDED] == 0 and codec == 0:
            kept = offset + number if time > -1 else int64(-1)
    elif time <= -1:
        kept = int64(-1)
    _row(state, rows, count, total, time, kept)
    return int64(DONE)


@inlined
def _stamp(state: Int64s, at: int, total: int, codec: int, time: int) -> None:
    """Write timestamp, type and checksum of a message of magic 1, where they change."""
    if state[APPENDED] or time != i64(at + MESSAGE_TIMESTAMP_AT):
        put8(at + MESSAGE_FLAGS_AT, codec | (LOG_APPEND_TIME if state[APPENDED] else 0))
        put64(at + MESSAGE_TIMESTAMP_AT, time)
        covered = CRC32_AT + 4
        put32(at + CRC32_AT, crc32_by(state[CRC32], at + covered, total - covered))


@kernel
def _wrapper(state: Int64s, rows: Int64s, at: int, total: int, codec: int) -> int:
    """Judge and rewrite the wrapper of magic 1 at `at`, which is a whole set."""
    magic = int64(1)
    if codec > _LAST_WRAPPER_CODEC or flags_of(at, magic) != codec:
        return int64(DECLINED)
    if not checksum_holds(at, total, magic, state[CRC32], state[CRC32C]):
        return int64(DECLINED)
    value, size = wrapper_value(at, total, magic)
    if size < 0:
        return int64(DECLINED)
    if not _unpacked(state, value, size, codec):
        return int64(PACKED)
    newest, count = _wrapped(state, state[PLAIN], state[PLAIN] + state[PLAIN_SIZE])
    stored = i64(at + OFFSET_AT)
    if count == 0 or (stored != 0 and stored != count - 1):
        return int64(DECLINED)
    last = state[OFFSET] + count - 1
    time = state[NOW] if state[APPENDED] else newest
    put64(at + OFFSET_AT, last)
    _stamp(state, at, total, codec, time)
    kept = last if state[RECORD_OF_MAXIMUM] or time > -1 else int64(-1)
    _row(state, rows, count, total, time, kept)
    return int64(DONE)


@kernel
def _messages(state: Int64s, rows: Int64s, begin: int, end: int) -> int:
    """Judge and rewrite uncompressed messages of the topic's magic, 0 or 1."""
    magic, at, count = state[MAGIC], begin, int64(0)
    maximum, number = int64(-1), int64(-1)
    while at < end:
        if end - at < MIN_LEFT:
            return int64(DECLINED)
        what, total, found = frame(at, end - at)
        if what != WHOLE or found != magic or impossible_offsets(at, magic):
            return int64(DECLINED)
        if flags_of(at, magic) != 0:
            return int64(DECLINED)
        if not checksum_holds(at, total, magic, state[CRC32], state[CRC32C]):
            return int64(DECLINED)
        key, length, _, _ = key_and_value(key_of(at, magic), at + total)
        if key == 0 or (length < 0 and state[KEYED] != 0):
            return int64(DECLINED)
        timestamp = timestamp_of(at, magic)
        if not _fits(state, timestamp):
            return int64(DECLINED)
        if timestamp > maximum:
            maximum, number = timestamp, count
        at += total
        count += 1
    offset, at = state[OFFSET], begin
    for n in range(count):
        _, total, _ = frame(at, end - at)
        put64(at + OFFSET_AT, offset + n)
        if magic == 1 and state[APPENDED]:
            _stamp(state, at, total, int64(0), state[NOW])
        at += total
    if state[APPENDED] and (magic == 1 or state[RECORD_OF_MAXIMUM]):
        maximum, number = state[NOW], int64(0)
    _row(state, rows, count, end - begin, maximum, offset + number if number >= 0 else int64(-1))
    return int64(DONE)


@kernel
def judge(sets: Bytes, state: Int64s, ends: Int64s, rows: Int64s) -> int:
    """Judge the sets from NUMBER on, and rewrite them; see the module. Runs without the GIL."""
    address = int64(sets.ctypes.data)
    while state[NUMBER] < ends.shape[0]:
        number = state[NUMBER]
        begin = int64(0) if number == 0 else ends[number - 1]
        at, end = address + begin, address + ends[number]
        if end - at < MIN_LEFT or end - at > state[MOST] or state[OFFSET] > _TOP:
            return DECLINED
        what, total, magic = frame(at, end - at)
        if what != WHOLE or magic != state[MAGIC] or impossible_offsets(at, magic):
            return DECLINED
        codec = flags_of(at, magic) & CODEC_MASK
        if magic == 2 or codec != 0:
            wanted = magic > 0 and at + total == end
            if not wanted or (state[CODEC] >= 0 and state[CODEC] != codec):
                return DECLINED
            if magic == 2:
                why = _batch(state, rows, at, total)
            else:
                why = _wrapper(state, rows, at, total, codec)
        else:
            why = _messages(state, rows, at, end) if state[CODEC] <= 0 else int64(DECLINED)
        if why == PACKED:
            state[AT_PACKED] -= address
        if why != DONE:
            return why
    return DONE


@kernel
def follow(state: Int64s, units: Int64s) -> int:  # noqa: C901 - registers
    """Check the batches of a fetch; see the module. Runs without the GIL.

    DECLINED: a batch is not as it must be, begins an epoch, or there is no room for its unit.
    """
    address, loaded = state[ADDRESS], state[LOADED]
    position, batches, last = int64(0), int64(0), state[LAST_OFFSET]
    largest, kept = int64(-1), int64(-1)
    while True:
        what, total, magic = next_frame(address, int64(0), loaded, loaded, position)
        if what == TORN_TAIL:
            break
        at = address + position
        if what != WHOLE or impossible_offsets(at, magic):
            return DECLINED
        if not checksum_holds(at, total, magic, state[CRC32], state[CRC32C]):
            return DECLINED
        first = i64(at + OFFSET_AT)
        end = first
        if magic == 2:
            end = first + i32(at + LAST_OFFSET_DELTA_AT)
            epoch = i32(at + LEADER_EPOCH_AT)
            if state[EPOCHS] and epoch >= 0 and epoch != state[EPOCH]:
                return DECLINED
        elif state[FORMER] == 0:
            return DECLINED
        if first <= last or end <= last:
            return DECLINED
        timestamp = timestamp_of(at, magic)
        if timestamp > largest:
            largest, kept = timestamp, end
        if batches == 0:
            state[FIRST_MAGIC], units[0, FIRST] = magic, first
        if state[EACH]:
            if batches == units.shape[0]:
                return DECLINED
            plain = magic == 2 or flags_of(at, magic) & CODEC_MASK == 0
            units[batches, FIRST], units[batches, LAST] = first if plain else int64(-1), end
            units[batches, BYTES] = total
            units[batches, LARGEST] = max(timestamp, int64(-1))
            units[batches, OFFSET_OF_LARGEST] = end if timestamp > -1 else int64(-1)
        last = end
        batches += 1
        position += total
    state[END], state[BATCHES], state[LAST_OFFSET] = position, batches, last
    if state[EACH] == 0:
        units[0, LAST], units[0, BYTES] = last, position
        units[0, LARGEST], units[0, OFFSET_OF_LARGEST] = largest, kept
    return DONE


@kernel
def enter(state: Int64s, units: Int64s, offsets: int, times: int) -> None:
    """Note units in the order of their appends: index entries at `offsets` and `times`.

    Stops before a unit that may begin a segment, and where there is no room for its entries.
    """
    base, interval = state[BASE_OFFSET], state[INTERVAL]
    size, unindexed = state[SIZE], state[UNINDEXED]
    largest, kept, last_time = state[TIMESTAMP], state[TIMESTAMP_OFFSET], state[LAST_TIME]
    offset_entries, time_entries = int64(0), int64(0)
    number = int64(0)
    while number < units.shape[0]:
        last, count = units[number, LAST], units[number, BYTES]
        full = offset_entries >= state[OFFSET_ROOM] or time_entries >= state[TIME_ROOM]
        if full or size > state[MOST_BYTES] - count or units[number, LARGEST] > state[LATEST]:
            break
        if minus(last, base) > _RELATIVE:
            break
        if units[number, LARGEST] > largest:
            largest, kept = units[number, LARGEST], units[number, OFFSET_OF_LARGEST]
        if unindexed > interval:
            offset = units[number, FIRST] if state[BY_FIRST] else last
            put32(offsets + 8 * offset_entries, offset - base)
            put32(offsets + 8 * offset_entries + 4, size)
            offset_entries += 1
            unindexed = int64(0)
            if state[TIMED] and largest > last_time:
                put64(times + 12 * time_entries, largest)
                relative = last + 1 - base if state[BY_NEXT] else kept - base
                put32(times + 12 * time_entries + 8, relative)
                last_time = largest
                time_entries += 1
        unindexed += count
        size += count
        number += 1
    state[DONE_UNITS], state[SIZE], state[UNINDEXED] = number, size, unindexed
    state[TIMESTAMP], state[TIMESTAMP_OFFSET], state[LAST_TIME] = largest, kept, last_time
    state[OFFSET_ENTRIES], state[TIME_ENTRIES] = offset_entries, time_entries
