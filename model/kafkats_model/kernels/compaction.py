"""Compact by key at memory speed: fill the offset map, and copy what stays of each batch.

    fill(s, table, seen)        put the records of the dirty section into the map
    sift(s, table, seen, rows)  write what stays of a segment, one row per batch that was written
    put, get, grow, read        one key; a larger map; the limits of the cleaner's reads

`s` is an int64 vector with one slot per name below. `table` is int64, shape (slots, 3): two hashes
of 64 bits, and the offset plus 1, 0 where the slot is free; `slots` is a power of two. The hashes
are seeded, so that nobody can choose keys that collide. `seen` is int64, shape (n, SEEN): the
records of one batch. The kernels take uncompressed batches of magic 2 outside of transactions, and
return OTHER at any other, at a defect, and where a batch is rebuilt that has record headers or
LogAppendTime, or would become empty but may have to stay. `compaction.batch_filter.keep` is the
readable rule, and decides those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from llvmlite import ir
from numba.core.typing import Context

from kafkats.kernels.batch import (
    WHOLE,
    checksum_holds,
    frame,
    impossible_offsets,
    record_head,
    sized,
    skip_headers,
)
from kafkats.kernels.jit import Emit, inlined, intrinsic, kernel
from kafkats.kernels.layout import (
    ATTRIBUTES_AT,
    BASE_TIMESTAMP_AT,
    CODEC_MASK,
    CONTROL,
    COUNT_AT,
    CRC32C_AT,
    DELETE_HORIZON,
    FLAGS_AT,
    HEADER,
    LAST_OFFSET_DELTA_AT,
    LOG_APPEND_TIME,
    MAX_TIMESTAMP_AT,
    MIN_LEFT,
    OFFSET_AT,
    OVERHEAD,
    PRODUCER_ID_AT,
    SIZE_AT,
    TRANSACTIONAL,
)
from kafkats.kernels.memory import (
    copy,
    crc32c_by,
    i32,
    i64,
    minus,
    own64,
    plus,
    put8,
    put16,
    put32,
    put64,
    u8,
)
from kafkats.kernels.numbers import Int64s, int64
from kafkats.kernels.varints import put_varint, varint_size

# The log: positions 0 to END lie at ADDRESS.
ADDRESS: Final = 0
END: Final = 1
POSITION: Final = 2
CRC32C: Final = 3
# The map.
SEED: Final = 4
SEED_2: Final = 5
KEYS: Final = 6
MOST: Final = 7  # keys that fit
LATEST: Final = 8  # the last offset that the map covers
FIRST: Final = 9  # the first dirty offset
# The decision.
KEEPS_DELETES: Final = 10  # of batches whose horizon does not count
HORIZONS: Final = 11  # 1: a horizon in the batch decides, and is written
NOW: Final = 12
NEW_HORIZON: Final = 13
SECTION_END: Final = 14  # the batch before it may have to stay empty; -1: none has to
# The output.
OUT: Final = 15
OUT_SIZE: Final = 16
OUT_USED: Final = 17
ROWS: Final = 18  # number of rows written
# The cleaner's reads.
READ: Final = 19  # number of the read
READ_BEGIN: Final = 20  # its position, -1: the next batch begins a read
READ_ROOM: Final = 21  # bytes of its buffer
READ_WRITTEN: Final = 22  # bytes that stay of it
READ_MOST: Final = 23  # bytes up to which it doubles
TOUCHED: Final = 24
STATE_SLOTS: Final = 25

# Columns of `seen`.
HASH: Final = 0
HASH_2: Final = 1
OFFSET: Final = 2
KEY: Final = 3  # 1: it has a key
VALUE: Final = 4  # 1: it has a value
START: Final = 5
REST: Final = 6  # address of the offset delta, 0 if the record is not as Kafka writes it
AFTER: Final = 7
STAMP: Final = 8
SEEN: Final = 9

# Columns of `rows`.
ROW_READ: Final = 0
ROW_FIRST: Final = 1  # base offset
ROW_LAST: Final = 2  # last offset of the batch
ROW_KEPT: Final = 3  # last offset as the read counts it
ROW_SIZE: Final = 4
ROW_TIME: Final = 5  # maximum timestamp
COLUMNS: Final = 6

# Why a kernel returned.
DONE: Final = 0
OTHER: Final = 1
FULL: Final = 2  # the map, or the output
GROW: Final = 3

_SPECIAL: Final = CODEC_MASK | TRANSACTIONAL | CONTROL
_FACTOR: Final = 0x2D358DCCAA6C78A5
_FACTOR_2: Final = 0x4BB89A6C14D7E3B9
_FACTOR_3: Final = 0x1F83D9ABFB41BD6B
_FACTOR_4: Final = 0x5BE0CD19137E2179
_GROWTH: Final = 10  # most bytes by which a record can grow when its timestamp delta changes


@intrinsic
def _fold(typingctx: Context, first: int, second: int) -> Emit:
    """Multiply without sign, and combine both halves of the 128 bits by XOR."""

    def emit(builder: ir.IRBuilder, args: Sequence[ir.Value]) -> ir.Value:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        high = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))
        return builder.xor(builder.trunc(product, ir.IntType(64)), high)

    return emit


@inlined
def _hashes(at: int, size: int, seed: int, seed_2: int) -> tuple[int, int]:
    """Return two hashes of the key of `size` bytes at `at`."""
    one, two = seed, seed_2
    left = size
    while left >= 8:
        word = own64(at)
        one, two = _fold(one ^ word, int64(_FACTOR)), _fold(two ^ word, int64(_FACTOR_2))
        at += 8
        left -= 8
    word = int64(0)
    while left > 0:
        word = (word << 8) | u8(at)
        at += 1
        left -= 1
    one, two = _fold(one ^ word, int64(_FACTOR_3)), _fold(two ^ word, int64(_FACTOR_4))
    # The size has a round of its own: combined with the last bytes, short keys would collide.
    return _fold(one ^ size, int64(_FACTOR)), _fold(two ^ size, int64(_FACTOR_2))


@inlined
def _slot(table: Int64s, one: int, two: int) -> int:
    """Return the slot of a key, or the free one where it belongs."""
    mask = table.shape[0] - 1
    slot: int = one & mask
    while table[slot, 2] != 0 and (table[slot, 0] != one or table[slot, 1] != two):
        slot = (slot + 1) & mask
    return slot


@kernel
def put(s: Int64s, table: Int64s, at: int, size: int, offset: int) -> int:
    """Put the key of `size` bytes at `at` into the map. Returns FULL if no key fits, else DONE."""
    if s[KEYS] >= s[MOST]:
        return FULL
    one, two = _hashes(at, size, s[SEED], s[SEED_2])
    slot = _slot(table, one, two)
    s[KEYS] += table[slot, 2] == 0
    table[slot, 0], table[slot, 1], table[slot, 2] = one, two, offset + 1
    s[LATEST] = offset
    return DONE


@kernel
def get(s: Int64s, table: Int64s, at: int, size: int) -> int:
    """Return the last offset of a key, -1 if the map does not have it."""
    one, two = _hashes(at, size, s[SEED], s[SEED_2])
    found: int = table[_slot(table, one, two), 2] - 1
    return found


@kernel
def grow(old: Int64s, table: Int64s) -> None:
    """Put all keys of `old` into `table`, which is empty and larger."""
    for n in range(old.shape[0]):
        if old[n, 2] != 0:
            slot = _slot(table, old[n, 0], old[n, 1])
            table[slot, 0], table[slot, 1], table[slot, 2] = old[n, 0], old[n, 1], old[n, 2]


@kernel
def read(s: Int64s, position: int, total: int) -> None:
    """Note that the cleaner reads the batch of `total` bytes at `position`.

    A read ends before a batch that does not fit, and when more stays of it than the buffer takes.
    The buffer doubles for a larger batch.
    """
    if s[READ_WRITTEN] > s[READ_ROOM]:
        s[READ_BEGIN] = -1
    if s[READ_BEGIN] < 0 or position + total - s[READ_BEGIN] > s[READ_ROOM]:
        s[READ] += 1
        s[READ_BEGIN], s[READ_WRITTEN] = position, 0
        while total > s[READ_ROOM]:
            room = s[READ_ROOM]
            s[READ_ROOM] = min(2 * room, s[READ_MOST]) if room < s[READ_MOST] else total


@inlined
def _whole(s: Int64s, at: int, left: int) -> int:
    """Return the size of the batch at `at` if the kernels take it, 0 at the end of the log.

    Otherwise -1.
    """
    if left < MIN_LEFT:
        return int64(0)
    what, total, magic = frame(at, left)
    if what != WHOLE or magic != 2 or impossible_offsets(at, magic):
        return int64(-1)
    if u8(at + FLAGS_AT) & _SPECIAL or i32(at + COUNT_AT) < 0:
        return int64(-1)
    if not checksum_holds(at, total, magic, 0, s[CRC32C]):
        return int64(-1)
    return total


@kernel
def _records(s: Int64s, seen: Int64s, at: int, total: int) -> bool:
    """Read the records of the batch at `at` into `seen`. Returns False for what does not decode."""
    count, base = i32(at + COUNT_AT), i64(at + OFFSET_AT)
    if count > seen.shape[0]:
        return False
    end, at = at + total, at + HEADER
    seed, seed_2 = s[SEED], s[SEED_2]
    for n in range(count):
        row = seen[n]
        start = at
        after, stamp, delta, at = record_head(at, end)
        if after == 0:
            return False
        key, key_size, at = sized(at, end)
        if key == 0:
            return False
        value, value_size, at = sized(at, end)
        if value == 0:
            return False
        headers, at = skip_headers(at, end)
        if at != after:
            return False
        key_bytes, value_bytes = max(key_size, 0), max(value_size, 0)
        fields = varint_size(key_size) + key_bytes + varint_size(value_size) + value_bytes + 1
        rest = fields + varint_size(delta)
        body = 1 + varint_size(stamp) + rest
        plain = headers == 0 and key_size >= -1 and value_size >= -1
        plain = plain and after - start == varint_size(body) + body and u8(after - body) == 0
        row[REST] = after - rest if plain else 0
        row[START], row[AFTER], row[STAMP], row[OFFSET] = start, after, stamp, plus(base, delta)
        row[KEY], row[VALUE] = key_size >= 0, value_size >= 0
        if key_size >= 0:
            row[HASH], row[HASH_2] = _hashes(key, key_size, seed, seed_2)
    return at == end


@inlined
def _touch(s: Int64s, table: Int64s, seen: Int64s, count: int) -> None:
    """Read the slots of all keys of a batch, so that they come from memory side by side."""
    mask, touched = table.shape[0] - 1, int64(0)
    for n in range(count):
        if seen[n, KEY]:
            touched ^= table[seen[n, HASH] & mask, 2]
    s[TOUCHED] = touched


@kernel
def fill(s: Int64s, table: Int64s, seen: Int64s) -> int:
    """Put the records from POSITION on into the map, up to the end of the log."""
    while True:
        position = s[POSITION]
        at = s[ADDRESS] + position
        total = _whole(s, at, s[END] - position)
        if total <= 0:
            return DONE if total == 0 else OTHER
        count, first = i32(at + COUNT_AT), s[FIRST]
        last = i64(at + OFFSET_AT) + i32(at + LAST_OFFSET_DELTA_AT)
        if last >= first:
            if 4 * (s[KEYS] + count) > 3 * table.shape[0] and s[KEYS] < s[MOST]:
                return GROW
            if not _records(s, seen, at, total):
                return OTHER
            _touch(s, table, seen, count)
            for n in range(count):
                offset = seen[n, OFFSET]
                if seen[n, KEY] == 0 or offset < first:
                    continue
                if s[KEYS] >= s[MOST]:
                    return FULL
                one, two = seen[n, HASH], seen[n, HASH_2]
                slot = _slot(table, one, two)
                s[KEYS] += table[slot, 2] == 0
                table[slot, 0], table[slot, 1], table[slot, 2] = one, two, offset + 1
                s[LATEST] = offset
            s[LATEST] = last
        s[POSITION] = position + total


@inlined
def _chosen(s: Int64s, table: Int64s, seen: Int64s, count: int, keeps: int) -> int:
    """Keep in `seen` only the records that stay, in order. Returns their number."""
    latest, kept = s[LATEST], int64(0)
    for n in range(count):
        offset = seen[n, OFFSET]
        stays = offset > latest
        if not stays and seen[n, KEY] and (seen[n, VALUE] or keeps):
            stays = offset >= table[_slot(table, seen[n, HASH], seen[n, HASH_2]), 2] - 1
        if stays:
            if kept != n:
                for column in range(SEEN):
                    seen[kept, column] = seen[n, column]
            kept += 1
    return kept


@kernel
def _rebuild(s: Int64s, seen: Int64s, at: int, kept: int, horizon: int) -> int:
    """Write a batch with the first `kept` records of `seen`. Returns the address after it, or 0.

    `horizon` is the delete horizon, -1 for none.
    """
    old_base = i64(at + BASE_TIMESTAMP_AT)
    base = plus(old_base, seen[0, STAMP]) if horizon < 0 else horizon
    to = s[OUT] + s[OUT_USED]
    write: int = to + HEADER
    newest = int64(-1)
    last = int64(-(2**63))
    for n in range(kept):
        if seen[n, REST] == 0 or seen[n, OFFSET] <= last:
            return int64(0)
        last = seen[n, OFFSET]
        stamp = plus(old_base, seen[n, STAMP])
        newest = max(newest, stamp)
        if base == old_base:
            size = seen[n, AFTER] - seen[n, START]
            copy(write, seen[n, START], size)
            write += size
            continue
        delta, size = minus(stamp, base), seen[n, AFTER] - seen[n, REST]
        write = put_varint(write, 1 + varint_size(delta) + size)
        put8(write, 0)
        write = put_varint(write + 1, delta)
        copy(write, seen[n, REST], size)
        write += size
    copy(to, at, HEADER)
    put32(to + SIZE_AT, write - to - OVERHEAD)
    put16(to + ATTRIBUTES_AT, DELETE_HORIZON if horizon >= 0 else 0)
    put64(to + BASE_TIMESTAMP_AT, base)
    put64(to + MAX_TIMESTAMP_AT, newest)
    put32(to + COUNT_AT, kept)
    covered = to + CRC32C_AT + 4
    put32(to + CRC32C_AT, crc32c_by(s[CRC32C], covered, write - covered))
    return write


@kernel
def sift(s: Int64s, table: Int64s, seen: Int64s, rows: Int64s) -> int:  # noqa: C901 - one loop
    """Write what stays of the batches from POSITION on, until the output is full."""
    horizons = s[HORIZONS]
    while True:
        position = s[POSITION]
        at = s[ADDRESS] + position
        total = _whole(s, at, s[END] - position)
        if total <= 0:
            return DONE if total == 0 else OTHER
        count, flags = i32(at + COUNT_AT), u8(at + FLAGS_AT)
        if s[ROWS] == rows.shape[0] or s[OUT_USED] + total + _GROWTH * count > s[OUT_SIZE]:
            return FULL if s[ROWS] > 0 else OTHER
        first = i64(at + OFFSET_AT)
        last = first + i32(at + LAST_OFFSET_DELTA_AT)
        if not _records(s, seen, at, total):
            return OTHER
        _touch(s, table, seen, count)
        horizon, keeps = int64(-1), s[KEEPS_DELETES]
        if flags & DELETE_HORIZON:
            horizon = i64(at + BASE_TIMESTAMP_AT)
            if not horizons or horizon < 0:
                return OTHER
        if horizons:
            keeps = int64(horizon < 0 or s[NOW] < horizon)
        kept = _chosen(s, table, seen, count, keeps)
        if kept == 0:
            if i64(at + PRODUCER_ID_AT) >= 0 or last + 1 == s[SECTION_END]:
                return OTHER
            read(s, position, total)
            s[POSITION] = position + total
            continue
        marks = False
        if horizons and horizon < 0:
            for n in range(kept):
                marks = marks or seen[n, VALUE] == 0
        if kept == count and not marks:
            copy(s[OUT] + s[OUT_USED], at, total)
            size, counted, newest = total, last, i64(at + MAX_TIMESTAMP_AT)
        else:
            if flags & LOG_APPEND_TIME:
                return OTHER
            if marks:
                horizon = s[NEW_HORIZON]
            after = _rebuild(s, seen, at, kept, horizon)
            if after == 0:
                return OTHER
            begin = s[OUT] + s[OUT_USED]
            size, counted, newest = (
                after - begin,
                seen[kept - 1, OFFSET],
                i64(begin + MAX_TIMESTAMP_AT),
            )
        read(s, position, total)
        row = rows[s[ROWS]]
        row[ROW_READ], row[ROW_FIRST], row[ROW_LAST] = s[READ], first, last
        row[ROW_KEPT], row[ROW_SIZE], row[ROW_TIME] = counted, size, newest
        s[ROWS] += 1
        s[OUT_USED] += size
        s[READ_WRITTEN] += size
        s[POSITION] = position + total
