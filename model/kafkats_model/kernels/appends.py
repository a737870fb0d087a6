"""Appends of a broker: message sets judged and rewritten in place, batches of a fetch, entries.

    judge(sets, state, ends, rows)    the sets of producers, as the leader of the partition
    follow(state, units)              the batches of a fetch, as a follower
    enter(state, units, offsets, times)   index entries of appends to one segment

`judge` and `follow` handle what is common and right, `judge` only sets of the topic's magic and
codec; `append_builds` has the others. All else they leave to `broker.validate` and
`broker.partition_log`, which also say what is wrong: they return DECLINED and change nothing of
that set. `state` is an int64 vector with one slot per name; each kernel has its own. That of
`judge`, and its `rows`, are described in `append_checks`.

`ends` are the ends of the sets in bytes. A set is rewritten where it lies. `units` has the slots of
`rows`.
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
    next_frame,
    timestamp_of,
    wrapper_value,
)
from kafkats.kernels.jit import inlined, kernel
from kafkats.kernels.layout import (
    BASE_TIMESTAMP_AT,
    CODEC_MASK,
    COUNT_AT,
    CRC32_AT,
    HEADER,
    LAST_OFFSET_DELTA_AT,
    LEADER_EPOCH_AT,
    LOG_APPEND_TIME,
    MESSAGE_FLAGS_AT,
    MESSAGE_TIMESTAMP_AT,
    OFFSET_AT,
)
from kafkats.kernels.memory import crc32_by, i32, i64, minus, put8, put32, put64
from kafkats.kernels.numbers import Bytes, Int64s, int64
from kafkats_model.kernels.append_checks import (
    APPENDED,
    AT_PACKED,
    BYTES,
    CODEC,
    CRC32,
    CRC32C,
    EPOCH,
    FIRST,
    LARGEST,
    LAST,
    LAST_WRAPPER_CODEC,
    MAGIC,
    NOW,
    NUMBER,
    OFFSET,
    OFFSET_OF_LARGEST,
    PLAIN,
    PLAIN_SIZE,
    RECORD_OF_MAXIMUM,
    head,
    header_fits,
    messages_fit,
    note,
    records_fit,
    stamp_batch,
    unpacked,
    wrapped_fit,
)

# Why judge() and follow() returned.
DONE: Final = 0
DECLINED: Final = 1
PACKED: Final = 2  # the caller decompresses what lies at AT_PACKED in `sets`, and calls again

# Slots of follow(), which has EPOCH and the functions of `append_checks`, too. Those from END on
# are results.
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

_RELATIVE: Final = 2**31 - 1


@kernel
def _batch(state: Int64s, rows: Int64s, at: int, total: int, codec: int) -> int:
    """Judge and rewrite the batch of magic 2 at `at`, which is a whole set."""
    if not header_fits(state, at, total):
        return int64(DECLINED)
    start, end, count = at + HEADER, at + total, i32(at + COUNT_AT)
    if codec != 0:
        if not unpacked(state, start, end - start, codec, int64(0)):
            return int64(PACKED)
        start, end = state[PLAIN], state[PLAIN] + state[PLAIN_SIZE]
    newest, number = records_fit(state, start, end, count, i64(at + BASE_TIMESTAMP_AT), codec != 0)
    if number < 0:
        return int64(DECLINED)
    stamp_batch(state, at, total, newest)
    offset, time = state[OFFSET], state[NOW] if state[APPENDED] else newest
    kept = offset + count - 1
    if state[RECORD_OF_MAXIMUM]:
        if state[APPENDED] == 0 and codec == 0:
            kept = offset + number if time > -1 else int64(-1)
    elif time <= -1:
        kept = int64(-1)
    note(state, rows, count, total, time, kept)
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
    if codec > LAST_WRAPPER_CODEC or flags_of(at, magic) != codec:
        return int64(DECLINED)
    if not checksum_holds(at, total, magic, state[CRC32], state[CRC32C]):
        return int64(DECLINED)
    value, size = wrapper_value(at, total, magic)
    if size < 0:
        return int64(DECLINED)
    if not unpacked(state, value, size, codec, int64(0)):
        return int64(PACKED)
    end = state[PLAIN] + state[PLAIN_SIZE]
    count, newest, _ = wrapped_fit(state, state[PLAIN], end, magic)
    stored = i64(at + OFFSET_AT)
    if count == 0 or (stored != 0 and stored != count - 1):
        return int64(DECLINED)
    last = state[OFFSET] + count - 1
    time = state[NOW] if state[APPENDED] else newest
    put64(at + OFFSET_AT, last)
    _stamp(state, at, total, codec, time)
    kept = last if state[RECORD_OF_MAXIMUM] or time > -1 else int64(-1)
    note(state, rows, count, total, time, kept)
    return int64(DONE)


@kernel
def _messages(state: Int64s, rows: Int64s, begin: int, end: int) -> int:
    """Judge and rewrite uncompressed messages of the topic's magic, 0 or 1."""
    magic = state[MAGIC]
    count, maximum, number = messages_fit(state, begin, end, magic, False)
    if count == 0:
        return int64(DECLINED)
    offset, at = state[OFFSET], begin
    for n in range(count):
        _, total, _ = frame(at, end - at)
        put64(at + OFFSET_AT, offset + n)
        if magic == 1 and state[APPENDED]:
            _stamp(state, at, total, int64(0), state[NOW])
        at += total
    if state[APPENDED] and (magic == 1 or state[RECORD_OF_MAXIMUM]):
        maximum, number = state[NOW], int64(0)
    note(state, rows, count, end - begin, maximum, offset + number if number >= 0 else int64(-1))
    return int64(DONE)


@kernel
def judge(sets: Bytes, state: Int64s, ends: Int64s, rows: Int64s) -> int:
    """Judge the sets from NUMBER on, and rewrite them; see the module. Runs without the GIL."""
    address = int64(sets.ctypes.data)
    while state[NUMBER] < ends.shape[0]:
        number = state[NUMBER]
        begin = int64(0) if number == 0 else ends[number - 1]
        at, end = address + begin, address + ends[number]
        magic, total, codec = head(state, at, end)
        if magic != state[MAGIC]:
            return DECLINED
        if magic == 2 or codec != 0:
            wanted = magic > 0 and at + total == end
            if not wanted or (state[CODEC] >= 0 and state[CODEC] != codec):
                return DECLINED
            if magic == 2:
                why = _batch(state, rows, at, total, codec)
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
