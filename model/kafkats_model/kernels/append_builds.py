"""Appends of a leader: sets that it converts to the topic's magic, or compresses again.

    build(sets, state, ends, rows, s)    the sets of producers, which are not changed

A set becomes one batch, one wrapper, or one message per record, as in `formats/produce.py`. `state`
and `rows` are those of `append_checks`, whose checks come first. `s` is the state of a conversion:
`convert` builds the new batch from the content of the set in OUT, and the reasons to return are
those of `convert_state`. At UNPACK the caller decompresses what lies at AT_PACKED in `sets`. HARD:
set NUMBER is left to `broker.validate`.

Left to it are also the sets that stay in place, messages whose offsets are not 0, 1, 2 ..., record
headers for magic 0 and 1, records of magic 2 that a broker would write in other bytes, and more of
them than a replay takes (`broker.requests`).
"""

from __future__ import annotations

from typing import Final

from kafkats.kernels import convert_state as k
from kafkats.kernels.batch import checksum_holds, flags_of, record_head, sized, wrapper_value
from kafkats.kernels.convert import convert_batch
from kafkats.kernels.jit import kernel
from kafkats.kernels.layout import (
    ATTRIBUTES_AT,
    BASE_TIMESTAMP_AT,
    COUNT_AT,
    HEADER,
    OFFSET_AT,
    PRODUCER_ID_AT,
    TRANSACTIONAL,
)
from kafkats.kernels.memory import i16, i32, i64, u8
from kafkats.kernels.numbers import Bytes, Int64s, int64
from kafkats.kernels.varints import varint, varint_size
from kafkats_model.kernels import append_checks as c

_ZSTD: Final = 4
_MOST_RECORDS: Final = 2**20
_LONG: Final = 2**27
"""A varint of a smaller number takes up to four bytes, which hold no bits that are dropped."""
_FAR: Final = 2**55
_ASCII: Final = 0x80


@kernel
def _headers_size(count: int, at: int, end: int) -> int:
    """Return the fewest bytes of `count` record headers that decode; -1 if they may change.

    A key that is not ASCII may: a broker decodes it and encodes it again.
    """
    size = int64(0)
    for _ in range(count):
        key, length, at = sized(at, end)
        for n in range(length):
            if u8(key + n) >= _ASCII:
                return int64(-1)
        size += varint_size(length) + length
        _, length, at = sized(at, end)
        if length < -1:
            return int64(-1)
        size += varint_size(length) + max(length, 0)
    return size


@kernel
def _are_shortest(at: int, end: int, count: int) -> bool:
    """Return whether a broker writes `count` records with offsets 0, 1, 2 ... in the same bytes.

    They must decode. Their timestamps count from that of the first, and no number is longer than it
    has to be.
    """
    if end - at >= _LONG:
        return False
    for n in range(count):
        start = at
        record_end, delta, _, at = record_head(at, end)
        _, key, at = sized(at, end)
        _, value, at = sized(at, end)
        if (n == 0 and delta != 0) or delta < -_FAR or delta >= _FAR or key < -1 or value < -1:
            return False
        headers, at = varint(at, end)
        size = _headers_size(headers, at, end)
        if size < 0:
            return False
        size += 1 + varint_size(delta) + varint_size(n) + varint_size(headers)
        size += varint_size(key) + max(key, 0) + varint_size(value) + max(value, 0)
        length = varint_size(size)
        if record_end - start != length + size or u8(start + length) != 0:
            return False
        at = record_end
    return True


@kernel
def _open_batch(state: Int64s, s: Int64s, at: int, total: int, codec: int) -> int:
    """Check the batch of magic 2 at `at`, a whole set; its records are in PLAIN."""
    if not c.header_fits(state, at, total) or i32(at + COUNT_AT) > _MOST_RECORDS:
        return k.HARD
    transactional = i16(at + ATTRIBUTES_AT) & TRANSACTIONAL
    if state[c.MAGIC] < 2 and (transactional != 0 or i64(at + PRODUCER_ID_AT) >= 0):
        return k.HARD
    if codec == 0:
        state[c.PLAIN], state[c.PLAIN_SIZE] = at + HEADER, total - HEADER
    elif not c.unpacked(state, at + HEADER, total - HEADER, codec, int64(0)):
        return k.UNPACK
    start, count, base = state[c.PLAIN], i32(at + COUNT_AT), i64(at + BASE_TIMESTAMP_AT)
    end = start + state[c.PLAIN_SIZE]
    newest, number = c.records_fit(state, start, end, count, base, True)
    if number < 0 or (state[c.MAGIC] == 2 and not _are_shortest(start, end, count)):
        return k.HARD
    s[k.COUNT], s[k.BASE_TIME], s[k.OFFSET] = count, base, state[c.OFFSET]
    state[c.NEWEST], state[c.NUMBER_OF_NEWEST] = newest, number
    return k.GO_ON


@kernel
def _open_messages(
    state: Int64s, s: Int64s, at: int, end: int, total: int, magic: int, codec: int
) -> int:
    """Check the messages or the wrapper at `at`, a whole set; the messages are in PLAIN."""
    if codec == 0:
        state[c.PLAIN], state[c.PLAIN_SIZE] = at, end - at
        count, newest, number = c.messages_fit(state, at, end, magic, True)
    else:
        if codec > c.LAST_WRAPPER_CODEC or flags_of(at, magic) != codec:
            return k.HARD
        if not checksum_holds(at, total, magic, state[c.CRC32], state[c.CRC32C]):
            return k.HARD
        value, size = wrapper_value(at, total, magic)
        if size < 0:
            return k.HARD
        if not c.unpacked(state, value, size, codec, int64(magic == 0)):
            return k.UNPACK
        start, stored = state[c.PLAIN], i64(at + OFFSET_AT)
        count, newest, number = c.wrapped_fit(state, start, start + state[c.PLAIN_SIZE], magic)
        if magic == 1 and stored != 0 and stored != count - 1:
            return k.HARD
    if count == 0:
        return k.HARD
    s[k.OFFSET] = state[c.OFFSET] + count - 1
    state[c.NEWEST], state[c.NUMBER_OF_NEWEST] = newest, number
    return k.GO_ON


@kernel
def _open(state: Int64s, s: Int64s, at: int, end: int) -> int:
    """Check the set from `at` to `end`, and prepare its conversion."""
    magic, total, codec = c.head(state, at, end)
    target, wanted = state[c.MAGIC], codec if state[c.CODEC] < 0 else state[c.CODEC]
    in_place = magic == target and codec == wanted and (magic > 0 or codec == 0)
    if magic < 0 or in_place or (target < 2 and wanted == _ZSTD):
        return k.HARD
    if (magic == 2 or codec != 0) and at + total != end:
        return k.HARD
    s[k.SIZE], s[k.OLD_MAGIC], s[k.PACK_CODEC] = total, magic, wanted
    s[k.BASE_OFFSET] = state[c.OFFSET]
    if magic == 2:
        why = _open_batch(state, s, at, total, codec)
    else:
        why = _open_messages(state, s, at, end, total, magic, codec)
    s[k.PLAIN], s[k.PLAIN_SIZE] = state[c.PLAIN], state[c.PLAIN_SIZE]
    # magic 2 keeps the producer's timestamps beside the broker's
    s[k.STAMPED], s[k.TIME] = state[c.APPENDED] != 0 and target == 1, state[c.NOW]
    s[k.APPENDED] = s[k.STAMPED] and (wanted == 0 or state[c.STAMP_INNER] != 0)
    if why == k.GO_ON:
        s[k.PHASE] = k.HAVE_PLAIN
    return why


@kernel
def _enter(state: Int64s, s: Int64s, rows: Int64s, size: int) -> None:
    """Write what the leader assigns into the `size` bytes before FILLED, and their row."""
    target, newest, count = state[c.MAGIC], state[c.NEWEST], s[k.COUNT]
    offset, appended = state[c.OFFSET], state[c.APPENDED] != 0
    if target == 2:
        c.stamp_batch(state, s[k.OUT] + s[k.FILLED] - size, size, newest)
    one = target == 2 or s[k.PACK_CODEC] != 0
    largest, kept = newest, offset + (count - 1 if one else state[c.NUMBER_OF_NEWEST])
    if target == 0:
        largest = int64(-1)
    if appended and (target > 0 or state[c.RECORD_OF_MAXIMUM]):
        largest, kept = state[c.NOW], offset + (count - 1 if one or state[c.BUILT_LAST] else 0)
    if largest <= -1:
        kept = offset + count - 1 if state[c.RECORD_OF_MAXIMUM] else int64(-1)
    c.note(state, rows, count, size, largest, kept)


@kernel
def build(sets: Bytes, state: Int64s, ends: Int64s, rows: Int64s, s: Int64s) -> int:
    """Build the sets from NUMBER on in OUT; see the module. Runs without the GIL."""
    address = int64(sets.ctypes.data)
    while state[c.NUMBER] < ends.shape[0]:
        number = state[c.NUMBER]
        begin = int64(0) if number == 0 else ends[number - 1]
        at = address + begin
        if s[k.PHASE] == k.FRAME:
            why = _open(state, s, at, address + ends[number])
            if why == k.UNPACK:
                state[c.AT_PACKED] -= address
            if why != k.GO_ON:
                return why
        filled = s[k.FILLED]
        # the offsets of magic 1 are counted from a wrapper's; here those of magic 0 are, too
        why = convert_batch(s, at, max(s[k.OLD_MAGIC], int64(1)))
        if why != k.GO_ON:
            return why
        size = s[k.FILLED] - filled
        if size > state[c.MOST] or (state[c.MAGIC] < 2 and s[k.WITH_HEADERS] != 0):
            s[k.FILLED] = filled
            return k.HARD
        _enter(state, s, rows, size)
    return k.DONE
