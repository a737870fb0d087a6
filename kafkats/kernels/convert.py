"""Convert a segment to another magic or codec: the cleaner's rule of formats/convert.py.

    convert(state) -> why it returned

`state` is an int64 vector with one slot per name below. The caller calls the kernel repeatedly with
the same state. Between calls it does what the kernel requested: load another window, run a codec,
empty a buffer. The kernel then continues inside the same batch. File positions ORIGIN to LOADED lie
at ADDRESS. The result is written to OUT: FILLED of ROOM bytes so far.

The kernel converts only the common forms. For any other it changes nothing and returns HARD, and
the caller applies formats/convert.py. Such forms are: a null length other than -1, offsets that do
not increase, two magics in one LogAppendTime wrapper, malformed content, and the last batch of a
log.
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
    plus,
    put8,
    put16,
    put32,
    put64,
    put_own32,
    u8,
    u32,
)
from kafkats.kernels.offsets import impossible_offsets
from kafkats.kernels.varints import put_varint, varint, varint_size, varlong

# The window.
ADDRESS: Final = 0
ORIGIN: Final = 1
LOADED: Final = 2
LIMIT: Final = 3  # batches that begin here or later belong to the next window
FILE_END: Final = 4
POSITION: Final = 5
NEEDED: Final = 6  # bytes: of file (NEED_BYTES), of OUT (FULL) or of AREA_BUFFER (NEED_AREA)
# Options.
MAGIC: Final = 7
CODEC: Final = 8  # -1: every batch keeps its codec
BASE_OFFSET: Final = 9
LOG_END: Final = 10  # 1: the batch that ends at FILE_END is the last of its log
CRC32: Final = 11  # function addresses; those of lz4 may be 0
CRC32C: Final = 12
LZ4_DECOMPRESS: Final = 13
LZ4_COMPRESS: Final = 14
# Buffers: the result, decompressed lz4, and bytes to compress.
OUT: Final = 15
ROOM: Final = 16
FILLED: Final = 17
PLAIN_BUFFER: Final = 18
PLAIN_ROOM: Final = 19
AREA_BUFFER: Final = 20
AREA_ROOM: Final = 21
# The batch at POSITION.
PHASE: Final = 22
SIZE: Final = 23
UNPACK_CODEC: Final = 24
PACK_CODEC: Final = 25
PACKED: Final = 26  # compressed bytes of the batch
PACKED_SIZE: Final = 27
PLAIN: Final = 28  # its records or messages, uncompressed
PLAIN_SIZE: Final = 29
AREA: Final = 30  # the converted ones, to be compressed
AREA_SIZE: Final = 31
INTO: Final = 32  # address for their compressed bytes, with capacity and size
INTO_ROOM: Final = 33
INTO_SIZE: Final = 34
OFFSET: Final = 35  # the frame's offset
APPENDED: Final = 36  # 1: LogAppendTime
TIME: Final = 37  # the frame's timestamp; v2: the maximum
BASE_TIME: Final = 38
COUNT: Final = 39
FIRST: Final = 40  # offset of the first record
LAST: Final = 41
SHIFT: Final = 42  # offset of a record minus the offset stored in its message
FIRST_TIME: Final = 43
NEWEST: Final = 44
WITH_HEADERS: Final = 45
TIMED: Final = 46  # records with a timestamp
# Results.
BATCHES_IN: Final = 47
BATCHES_OUT: Final = 48
RECORDS: Final = 49  # in rebuilt batches
UNCHANGED: Final = 50
LOSSES: Final = 51  # eight slots in the order of formats.losses.LOSSES
STATE_SLOTS: Final = 60

HEADERS: Final = 51
TIMESTAMPS: Final = 52
TRANSACTIONS: Final = 53
CONTROL: Final = 54
ABORTED_VISIBLE: Final = 55
IDEMPOTENCE: Final = 56
DELETE_HORIZON: Final = 57
LEADER_EPOCHS: Final = 58
OLD_MAGIC: Final = 59  # the frame's magic

# Why the kernel returned.
GO_ON: Final = 0  # internal only
DONE: Final = 1
AT_LIMIT: Final = 2
NEED_BYTES: Final = 3
FULL: Final = 4  # the caller must empty OUT; NEEDED bytes must fit
NEED_AREA: Final = 5  # the caller must provide NEEDED bytes of AREA_BUFFER
UNPACK: Final = 6  # decompress PACKED with UNPACK_CODEC to PLAIN
PACK: Final = 7  # compress AREA with PACK_CODEC to INTO
HARD: Final = 8  # formats/convert.py must convert the batch of SIZE bytes at POSITION
STOPPED: Final = 9  # no valid batch at POSITION

# PHASE
_FRAME: Final = 0
HAVE_PLAIN: Final = 1
_HAVE_AREA: Final = 2
HAVE_PACKED: Final = 3

_HEADER_V2: Final = 61
_MAX_RELATIVE: Final = 2**31 - 1
_MAX_OFFSET: Final = 2**63 - 2
_LZ4: Final = 3
_ZSTD: Final = 4
_LZ4_BLOCK: Final = 64 * 1024


def new_state() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return a state at the start of a file, without a window."""
    return np.zeros(STATE_SLOTS, np.int64)


@kernel
def _put_record(at: int, time_delta: Any, offset_delta: int, fields: int, size: int) -> int:
    """Write a record without headers. `fields`: a message's key and value with their lengths.

    `fields` is an address; it holds `size` bytes. Returns the address after the record.
    """
    key_length = i32(fields)
    key_bytes = max(key_length, 0)
    value_length = i32(fields + 4 + key_bytes)
    value_bytes = max(value_length, 0)
    body = (
        2
        + varint_size(time_delta)
        + varint_size(offset_delta)
        + varint_size(key_length)
        + key_bytes
    )
    body += varint_size(value_length) + value_bytes
    at = put_varint(at, body)
    put8(at, 0)
    at = put_varint(at + 1, time_delta)
    at = put_varint(at, offset_delta)
    at = put_varint(at, key_length)
    copy(at, fields + 4, key_bytes)
    at = put_varint(at + key_bytes, value_length)
    copy(at, fields + 8 + key_bytes, value_bytes)
    at += value_bytes
    put8(at, 0)
    return at + 1


# Messages, magic 0 and 1.


@kernel
def _fields_fit(at: int, end: int) -> bool:
    """Return whether `at` to `end` is exactly a key and a value with canonical lengths.

    Such fields can be copied in one piece.
    """
    if end - at < 8:
        return False
    length = i32(at)
    if length < -1 or length > end - at - 8:
        return False
    at += 4 + max(length, 0)
    length = i32(at)
    return bool(length >= -1 and max(length, 0) == end - at - 4)


@kernel
def _put_message(at: int, end: int, offset: int, magic: int, attributes: int, time: Any) -> None:
    """Write the fields before the key of the message from `at` to `end`, except its checksum."""
    put64(at, offset)
    put32(at + 8, end - at - 12)
    put8(at + 16, magic)
    put8(at + 17, attributes)
    if magic == 1:
        put64(at + 18, time)


@kernel
def _seal_message(at: Any, end: int, crc32: int) -> None:
    """Write the checksum of a message.

    Loops call this one message late: reading bytes right after writing them in other sizes is slow.
    """
    if at:
        put32(at + 12, crc32_by(crc32, at + 16, end - at - 16))


@kernel
def _look_at_messages(s: Any, magic: int) -> bool:  # noqa: C901 - one loop
    """Check the messages in PLAIN and count them: the set of a wrapper of `magic`, or one message.

    Returns False for any form that the kernel leaves to formats/convert.py.
    """
    at, end = s[PLAIN], s[PLAIN] + s[PLAIN_SIZE]
    appended, time = s[APPENDED], s[TIME]
    count, first, last, first_time, newest, timed = (
        0,
        np.int64(0),
        np.int64(0),
        np.int64(-1),
        np.int64(-1),
        0,
    )
    while end - at >= 12:
        size = i32(at + 8)
        if size < 14:
            return False
        if 12 + size > end - at:
            break
        inner = u8(at + 16)
        after = at + 12 + size
        if (
            inner > 1
            or (inner == 1 and size < 22)
            or u8(at + 17) & 7
            or not _fields_fit(at + 18 + 8 * inner, after)
        ):
            return False
        if appended and inner == 0:
            return False
        stamp = np.int64(-1)
        if appended:
            stamp = time
        elif inner == 1:
            stamp = i64(at + 18)
        offset = i64(at)
        if count == 0:
            first, first_time = offset, stamp
        elif offset <= last:
            return False
        last = offset
        newest = max(newest, stamp)
        if stamp != -1:
            timed += 1
        count += 1
        at = after
    if count == 0 or first < 0:
        return False
    shift = np.int64(0)
    if magic == 1 and s[OFFSET] != 0:
        if s[OFFSET] < last:
            return False
        shift = s[OFFSET] - last
    s[COUNT], s[FIRST], s[LAST], s[SHIFT] = count, first + shift, last + shift, shift
    s[FIRST_TIME], s[NEWEST], s[TIMED], s[WITH_HEADERS] = first_time, newest, timed, 0
    return True


@kernel
def _messages_to_messages(s: Any, to: int, less: int) -> int:
    """Write PLAIN's messages in the target magic from address `to` on, with offsets minus `less`.

    Returns the address after them.
    """
    at, magic, crc32, shift = s[PLAIN], s[MAGIC], s[CRC32], s[SHIFT] - less
    appended, time = s[APPENDED], s[TIME]
    attributes = 8 if appended and magic == 1 else 0
    before: Any = np.int64(0)
    for _ in range(s[COUNT]):
        inner = u8(at + 16)
        after = at + 12 + i32(at + 8)
        fields = at + 18 + 8 * inner
        stamp = np.int64(-1)
        if appended:
            stamp = time
        elif inner == 1:
            stamp = i64(at + 18)
        new_fields = to + 18 + 8 * magic
        copy(new_fields, fields, after - fields)
        end = new_fields + (after - fields)
        _put_message(to, end, i64(at) + shift, magic, attributes, stamp)
        _seal_message(before, to, crc32)
        before, to, at = to, end, after
    _seal_message(before, to, crc32)
    return to


@kernel
def _messages_to_records(s: Any, to: int) -> int:
    """Write PLAIN's messages as records from address `to` on. Returns the address after them."""
    at, shift, first_time = s[PLAIN], s[SHIFT] - s[FIRST], s[FIRST_TIME]
    appended = s[APPENDED]
    for _ in range(s[COUNT]):
        inner = u8(at + 16)
        after = at + 12 + i32(at + 8)
        fields = at + 18 + 8 * inner
        delta = np.int64(0)
        if not appended:
            delta = minus(i64(at + 18) if inner == 1 else np.int64(-1), first_time)
        to = _put_record(to, delta, i64(at) + shift, fields, after - fields)
        at = after
    return to


# Records, magic 2.


@kernel
def _skip_headers(at: int, end: int) -> tuple[int, int]:
    """Return (number of record headers, address after them); the address is 0 if malformed."""
    count, at = varint(at, end)
    if at == 0 or count < 0 or count > end - at:
        return 0, 0
    for _ in range(count):
        length, at = varint(at, end)
        if at == 0 or length < 0 or length > end - at:  # a header key is never null
            return 0, 0
        length, at = varint(at + length, end)
        if at == 0 or length > end - at:
            return 0, 0
        at += max(length, 0)
    return count, at


@kernel
def _go_over_records(s: Any, to: int, less: int) -> int:  # noqa: C901 - one loop
    """Check that all COUNT records of PLAIN decode, and write them as messages unless `to` is 0.

    The messages have the target magic. Their offsets are the records' minus `less`, or minus the
    first record's offset if `less` is -1. Returns the address after the messages, 1 if none are
    written, or 0 for records that the kernel leaves to formats/convert.py.
    """
    at, end = s[PLAIN], s[PLAIN] + s[PLAIN_SIZE]
    magic, crc32, appended, time = s[MAGIC], s[CRC32], s[APPENDED], s[TIME]
    base, base_time = s[OFFSET], s[BASE_TIME]
    attributes = 8 if appended and magic == 1 else 0
    with_headers, timed, newest = 0, 0, np.int64(-1)
    last = np.int64(-(2**63))
    write = to != 0
    before: Any = np.int64(0)
    if not write:
        to = 1
    for number in range(s[COUNT]):
        length, body = varint(at, end)
        if body == 0:
            return 0
        record_end = body + length
        if record_end > end:
            return 0
        stamp, at = varlong(body + 1, end)
        if at == 0:
            return 0
        offset, at = varint(at, end)
        if at == 0:
            return 0
        key_length, key = varint(at, end)
        if key == 0 or key_length > end - key:
            return 0
        value_length, value = varint(key + max(key_length, 0), end)
        if value == 0 or value_length > end - value:
            return 0
        at = value + max(value_length, 0)
        if at < end and u8(at) == 0:
            at += 1
        else:
            headers, at = _skip_headers(at, end)
            if at == 0:
                return 0
            with_headers += headers != 0
        if at != record_end:
            return 0
        if not write:
            continue
        offset = plus(offset, base)
        stamp = time if appended else plus(stamp, base_time)
        if number == 0:
            s[FIRST] = offset
            if less == -1:
                less = offset
        elif offset <= last:
            return 0
        last = offset
        newest = max(newest, stamp)
        timed += stamp != -1
        fields = to + 18 + 8 * magic
        key_bytes, value_bytes = max(key_length, 0), max(value_length, 0)
        put32(fields, max(key_length, -1))
        copy(fields + 4, key, key_bytes)
        put32(fields + 4 + key_bytes, max(value_length, -1))
        copy(fields + 8 + key_bytes, value, value_bytes)
        message_end = fields + 8 + key_bytes + value_bytes
        _put_message(to, message_end, offset - less, magic, attributes, stamp)
        _seal_message(before, to, crc32)
        before, to = to, message_end
    _seal_message(before, to, crc32)
    if at != end:
        return 0
    s[LAST], s[NEWEST], s[WITH_HEADERS], s[TIMED] = last, newest, with_headers, timed
    return to


@kernel
def _seal_batch(s: Any, at: int, end: int, codec: int) -> None:
    """Write the header of the v2 batch from `at` to `end` that was built from messages."""
    put64(at, s[FIRST])
    put32(at + 8, end - at - 12)
    put32(at + 12, -1)
    put8(at + 16, 2)
    put16(at + 21, codec | (8 if s[APPENDED] else 0))
    put32(at + 23, s[LAST] - s[FIRST])
    put64(at + 27, s[FIRST_TIME])
    put64(at + 35, s[TIME] if s[APPENDED] else s[NEWEST])
    put64(at + 43, -1)
    put16(at + 51, -1)
    put32(at + 53, -1)
    put32(at + 57, s[COUNT])
    put32(at + 17, crc32c_by(s[CRC32C], at + 21, end - at - 21))


# lz4 in Kafka's own framing.


@kernel
def _decompress_lz4(s: Any, broken: bool) -> bool:
    """Decompress PACKED to PLAIN.

    Returns False for a frame in another form than Kafka writes, and if the result does not fit.
    """
    at, end = s[PACKED], s[PACKED] + s[PACKED_SIZE]
    if (
        end - at < 11
        or u32(at) != 0x04224D18
        or i16(at + 4) != 0x6040
        or not (broken or u8(at + 6) == 0x82)
    ):
        return False
    to, room = s[PLAIN_BUFFER], s[PLAIN_BUFFER] + s[PLAIN_ROOM]
    at += 7
    while end - at >= 4:
        size = u8(at) | u8(at + 1) << 8 | u8(at + 2) << 16 | u8(at + 3) << 24
        at += 4
        if size == 0:
            s[PLAIN], s[PLAIN_SIZE] = s[PLAIN_BUFFER], to - s[PLAIN_BUFFER]
            return True
        stored = size >> 31
        size &= 0x7FFFFFFF
        if size > min(_LZ4_BLOCK, end - at) or room - to < _LZ4_BLOCK:
            return False
        if stored:
            copy(to, at, size)
            got = size
        else:
            got = lz4_by(s[LZ4_DECOMPRESS], at, to, size, _LZ4_BLOCK)
        if got < 0:
            return False
        to += got
        at += size
    return False


@kernel
def _compress_lz4(s: Any, broken: bool) -> bool:
    """Compress AREA to INTO, which must have room for the worst case."""
    at, end, to = s[AREA], s[AREA] + s[AREA_SIZE], s[INTO]
    put32(to, 0x04224D18)
    put16(to + 4, 0x6040)
    put8(to + 6, 0x1A if broken else 0x82)
    to += 7
    while at < end:
        size = min(end - at, _LZ4_BLOCK)
        got = lz4_by(s[LZ4_COMPRESS], at, to + 4, size, size + size // 255 + 16)
        if got <= 0:
            return False
        if got >= size:
            copy(to + 4, at, size)
            got = size
            put_own32(to, size | 0x80000000)
        else:
            put_own32(to, got)
        to += 4 + got
        at += size
    put32(to, 0)
    s[INTO_SIZE] = to + 4 - s[INTO]
    return True


# One batch.


@kernel
def _belongs(s: Any, first: int, last: int) -> bool:
    """Return whether a segment of BASE_OFFSET may hold both offsets."""
    base = s[BASE_OFFSET]
    if first < base or last < base or last > _MAX_OFFSET:
        return False
    return bool(first - base <= _MAX_RELATIVE and last - base <= _MAX_RELATIVE)


@kernel
def _room(s: Any, size: int) -> bool:
    """Return whether `size` more bytes fit into OUT."""
    s[NEEDED] = size
    return bool(s[ROOM] - s[FILLED] >= size)


@kernel
def _as_it_is(s: Any, at: int, first: int, last: int) -> int:
    """Copy the batch unchanged."""
    if not _belongs(s, first, last):
        return HARD
    if not _room(s, s[SIZE]):
        return FULL
    copy(s[OUT] + s[FILLED], at, s[SIZE])
    s[FILLED] += s[SIZE]
    s[BATCHES_OUT] += 1
    s[UNCHANGED] += 1
    return GO_ON


@kernel
def _drop(s: Any, at: int) -> int:
    """Drop and count a control batch or an empty batch, which the target magic cannot hold."""
    attributes = u8(at + 22)
    if attributes & 0x20:
        area, end = at + _HEADER_V2, at + s[SIZE]
        s[PLAIN], s[PLAIN_SIZE], s[COUNT] = area, end - area, i32(at + 57)
        if attributes & 7 or s[COUNT] != 1 or _go_over_records(s, 0, 0) == 0:
            return HARD
        _, area = varint(area, end)
        _, area = varlong(area + 1, end)
        _, area = varint(area, end)
        length, area = varint(area, end)
        if length < 4 or i16(area) < 0:
            return HARD
        s[CONTROL] += 1
        s[ABORTED_VISIBLE] += i16(area + 2) == 0
    else:
        s[IDEMPOTENCE] += 1
        s[TRANSACTIONS] += (attributes >> 4) & 1
        s[DELETE_HORIZON] += (attributes >> 6) & 1
    s[LEADER_EPOCHS] += i32(at + 12) >= 0
    return GO_ON


@kernel
def _open_batch(s: Any, at: int) -> int:
    """Magic 2: copy or drop the batch, or decompress its records to PLAIN."""
    attributes, count = u8(at + 22), i32(at + 57)
    first, codec = i64(at), attributes & 7
    last = first + i32(at + 23)
    s[UNPACK_CODEC] = codec
    s[PACK_CODEC] = codec if s[CODEC] < 0 else s[CODEC]
    kept_apart = attributes & 0x20 or count == 0
    if s[MAGIC] == 2 and (kept_apart or codec == s[PACK_CODEC]):
        return _as_it_is(s, at, first, last)
    if kept_apart:
        return _drop(s, at)
    if (
        count < 0
        or codec > _ZSTD
        or (s[MAGIC] < 2 and s[PACK_CODEC] == _ZSTD)
        or not _belongs(s, first, last)
    ):
        return HARD
    s[COUNT], s[OFFSET], s[BASE_TIME], s[TIME] = count, first, i64(at + 27), i64(at + 35)
    s[APPENDED] = (attributes >> 3) & 1
    s[PACKED], s[PACKED_SIZE] = at + _HEADER_V2, s[SIZE] - _HEADER_V2
    s[PLAIN], s[PLAIN_SIZE] = s[PACKED], s[PACKED_SIZE]
    s[PHASE] = HAVE_PLAIN
    if codec == 0 or (codec == _LZ4 and s[LZ4_DECOMPRESS] and _decompress_lz4(s, False)):
        return GO_ON
    return UNPACK


@kernel
def _open_message(s: Any, at: int, magic: int) -> int:
    """Magic 0 and 1: copy the message or wrapper, or decompress its messages to PLAIN."""
    attributes = u8(at + 17)
    codec, offset, end = attributes & 7, i64(at), at + s[SIZE]
    s[UNPACK_CODEC] = codec
    s[PACK_CODEC] = codec if s[CODEC] < 0 else s[CODEC]
    if magic == s[MAGIC] and codec == s[PACK_CODEC]:
        return _as_it_is(s, at, offset, offset)
    if codec > _LZ4 or (s[MAGIC] < 2 and s[PACK_CODEC] == _ZSTD):
        return HARD
    s[OFFSET], s[APPENDED], s[TIME] = offset, 0, -1
    if magic == 1:
        s[APPENDED], s[TIME] = (attributes >> 3) & 1, i64(at + 18)
    s[PLAIN], s[PLAIN_SIZE] = at, s[SIZE]
    fields = at + 18 + 8 * magic
    if codec:
        if not _fields_fit(fields, end):
            return HARD
        value = fields + 4 + max(i32(fields), 0)
        if i32(value) < 0:
            return HARD
        s[PACKED], s[PACKED_SIZE] = value + 4, end - value - 4
    s[PHASE] = HAVE_PLAIN
    if codec == 0 or (codec == _LZ4 and s[LZ4_DECOMPRESS] and _decompress_lz4(s, magic == 0)):
        return GO_ON
    return UNPACK


@kernel
def _build(s: Any, at: int, magic: int) -> int:  # noqa: C901 - one branch for each pair of magics
    """Build the new batch from PLAIN, or the area to compress for it."""
    wanted, codec = s[MAGIC], s[PACK_CODEC]
    if magic == 2:
        most = s[PLAIN_SIZE]
        if s[COUNT] > most // 7:  # no record is shorter
            return HARD
        if wanted < 2:
            most += 34 * s[COUNT]
    else:
        if not _look_at_messages(s, magic) or not _belongs(s, s[FIRST], s[LAST]):
            return HARD
        # at most 8 more bytes for each message of 26 or more
        most = s[PLAIN_SIZE] + s[PLAIN_SIZE] // 3 + 64
    most += _HEADER_V2
    if most > _MAX_RELATIVE:
        return HARD
    if codec == 0:
        if not _room(s, most):
            return FULL
        to = s[OUT] + s[FILLED]
    else:
        if s[AREA_ROOM] < most:
            s[NEEDED] = most
            return NEED_AREA
        to = s[AREA_BUFFER]
    if magic == 2 and wanted == 2:
        if _go_over_records(s, 0, 0) == 0:
            return HARD
        s[AREA], s[AREA_SIZE] = s[PLAIN], s[PLAIN_SIZE]
        if codec == 0:
            copy(to + _HEADER_V2, s[PLAIN], s[PLAIN_SIZE])
            _put_again(s, at, to, s[PLAIN_SIZE])
            return GO_ON
    elif wanted == 2:
        start = to + _HEADER_V2
        s[AREA], s[AREA_SIZE] = start, _messages_to_records(s, start) - start
        if codec == 0:
            _seal_batch(s, to, start + s[AREA_SIZE], 0)
            _put_out(s, _HEADER_V2 + s[AREA_SIZE], 1)
            return GO_ON
    else:
        if magic == 2:
            end = _go_over_records(s, to, -1 if wanted == 1 and codec else 0)
            if end == 0 or not _belongs(s, s[FIRST], s[LAST]):
                return HARD
        else:
            end = _messages_to_messages(s, to, s[FIRST] if wanted == 1 and codec else 0)
        s[AREA], s[AREA_SIZE] = to, end - to
        if codec == 0:
            _put_out(s, s[AREA_SIZE], s[COUNT])
            return GO_ON
    s[PHASE] = _HAVE_AREA
    return GO_ON


@kernel
def _put_out(s: Any, size: int, batches: int) -> None:
    """Add the `size` bytes after FILLED to the result."""
    s[FILLED] += size
    s[BATCHES_OUT] += batches
    s[RECORDS] += s[COUNT]
    s[PHASE] = _FRAME


@kernel
def _put_again(s: Any, at: int, to: int, size: int) -> None:
    """Write the batch's own header before `size` bytes of records in another codec."""
    copy(to, at, _HEADER_V2)
    put32(to + 8, _HEADER_V2 - 12 + size)
    put8(to + 22, (u8(at + 22) & ~7) | s[PACK_CODEC])
    put32(to + 17, crc32c_by(s[CRC32C], to + 21, _HEADER_V2 - 21 + size))
    _put_out(s, _HEADER_V2 + size, 1)


@kernel
def _compress(s: Any) -> int:
    """Compress AREA to OUT, after space for a header."""
    header = _HEADER_V2 if s[MAGIC] == 2 else 26 + 8 * s[MAGIC]
    most = s[AREA_SIZE] + s[AREA_SIZE] // 5 + 1024  # more than the worst case of any codec
    if not _room(s, header + most):
        return FULL
    s[INTO], s[INTO_ROOM] = s[OUT] + s[FILLED] + header, most
    s[PHASE] = HAVE_PACKED
    if s[PACK_CODEC] == _LZ4 and s[LZ4_COMPRESS] and _compress_lz4(s, s[MAGIC] == 0):
        return GO_ON
    return PACK


@kernel
def _close(s: Any, at: int, magic: int) -> None:
    """Write the header before INTO."""
    to, end = s[OUT] + s[FILLED], s[INTO] + s[INTO_SIZE]
    codec = s[PACK_CODEC]
    if s[MAGIC] < 2:
        appended = s[APPENDED] and s[MAGIC] == 1
        fields = to + 18 + 8 * s[MAGIC]
        put32(fields, -1)
        put32(fields + 4, s[INTO_SIZE])
        time = s[TIME] if appended else s[NEWEST]
        _put_message(to, end, s[LAST], s[MAGIC], codec | (8 if appended else 0), time)
        _seal_message(to, end, s[CRC32])
    elif magic == 2:
        _put_again(s, at, to, s[INTO_SIZE])
        return
    else:
        _seal_batch(s, to, end, codec)
    _put_out(s, end - to, 1)


@kernel
def _batch(s: Any, at: int, magic: int) -> int:
    """Convert one batch of any magic, starting at its current phase."""
    if s[PHASE] == _FRAME:
        why = _open_batch(s, at) if magic == 2 else _open_message(s, at, magic)
        if why != GO_ON or s[PHASE] == _FRAME:
            return why
    if s[PHASE] == HAVE_PLAIN:
        why = _build(s, at, magic)
        if why != GO_ON:
            if why == HARD:
                s[PHASE] = _FRAME
            return why
    if s[PHASE] == _HAVE_AREA:
        why = _compress(s)
        if why != GO_ON:
            return why
    if s[PHASE] == HAVE_PACKED:
        _close(s, at, magic)
    if s[MAGIC] < 2:
        if magic == 2:
            s[HEADERS] += s[WITH_HEADERS]
            attributes = u8(at + 22)
            s[TRANSACTIONS] += (attributes >> 4) & 1
            s[DELETE_HORIZON] += (attributes >> 6) & 1
            s[IDEMPOTENCE] += i64(at + 43) >= 0
            s[LEADER_EPOCHS] += i32(at + 12) >= 0
        if s[MAGIC] == 0:
            s[TIMESTAMPS] += s[TIMED]
    return GO_ON


@kernel
def _seal_single(at: Any, end: int, magic: int, crc32: int, crc32c: int) -> None:
    """Write the checksum of a message, or of the one-record batch built from it."""
    if magic < 2:
        _seal_message(at, end, crc32)
    elif at:
        put32(at + 17, crc32c_by(crc32c, at + 21, end - at - 21))


@kernel
def convert(s: Any) -> int:  # noqa: C901 - the loop over single messages keeps everything in registers
    """Convert from s[POSITION] on; see the module. Runs without the GIL."""
    address, origin, loaded = s[ADDRESS], s[ORIGIN], s[LOADED]
    limit, file_end, position = s[LIMIT], s[FILE_END], s[POSITION]
    wanted, codec, base, log_end = s[MAGIC], s[CODEC], s[BASE_OFFSET], s[LOG_END]
    crc32, crc32c, out, room = s[CRC32], s[CRC32C], s[OUT], s[ROOM]
    filled, singles, timed = s[FILLED], 0, 0
    before: Any = np.int64(0)  # address of the message that is not sealed yet
    why = DONE
    if position < origin:
        return STOPPED
    while position < file_end:
        if position >= limit and s[PHASE] == _FRAME:
            why = AT_LIMIT
            break
        left = file_end - position
        if left < 18:
            why = STOPPED
            break
        if position + 18 > loaded:
            why, s[NEEDED] = NEED_BYTES, 18
            break
        at = address + (position - origin)
        size = i32(at + 8)
        total = size + 12
        magic = u8(at + 16)
        if (
            size < 14
            or total > left
            or magic > 2
            or (magic == 2 and total < _HEADER_V2)
            or (magic == 1 and size < 22)
        ):
            why = STOPPED
            break
        if position + total > loaded:
            why, s[NEEDED] = NEED_BYTES, total
            break
        if impossible_offsets(at, magic):
            why = STOPPED
            break
        s[SIZE], s[OLD_MAGIC] = total, magic
        if magic < 2:
            if s[PHASE] == _FRAME and crc32_by(crc32, at + 16, total - 16) != u32(at + 12):
                why = STOPPED
                break
            attributes = u8(at + 17)
            if (
                attributes & 7 == 0
                and codec <= 0
                and magic != wanted
                and not (log_end and position + total == file_end)
            ):
                # One message becomes one message, or a batch of one record.
                offset = i64(at)
                fields = at + 18 + 8 * magic
                length = at + total - fields
                if (
                    offset < base
                    or offset - base > _MAX_RELATIVE
                    or not _fields_fit(fields, at + total)
                ):
                    why = HARD
                    break
                if room - filled < total + 64:
                    why, s[NEEDED] = FULL, total + 64
                    break
                to = out + filled
                stamp = i64(at + 18) if magic == 1 else np.int64(-1)
                if wanted == 2:
                    _seal_single(before, to, wanted, crc32, crc32c)
                    end = _put_record(to + _HEADER_V2, 0, 0, fields, length)
                    put64(to, offset)
                    put32(to + 8, end - to - 12)
                    put32(to + 12, -1)
                    put8(to + 16, 2)
                    appended = magic == 1 and attributes & 8
                    put16(to + 21, 8 if appended else 0)
                    put32(to + 23, 0)
                    put64(to + 27, stamp)
                    put64(to + 35, stamp if appended else max(stamp, -1))
                    put64(to + 43, -1)
                    put16(to + 51, -1)
                    put32(to + 53, -1)
                    put32(to + 57, 1)
                else:
                    new_fields = to + 18 + 8 * wanted
                    copy(new_fields, fields, length)
                    end = new_fields + length
                    _put_message(to, end, offset, wanted, 0, -1)
                    _seal_message(before, to, crc32)
                    timed += wanted == 0 and stamp != -1
                before = to
                filled += end - to
                singles += 1
                position += total
                continue
        elif s[PHASE] == _FRAME and crc32c_by(crc32c, at + 21, total - 21) != u32(at + 17):
            why = STOPPED
            break
        if log_end and position + total == file_end:
            why = HARD
            break
        _seal_single(before, out + filled, wanted, crc32, crc32c)
        before = np.int64(0)
        s[POSITION], s[FILLED] = position, filled
        why = _batch(s, at, magic)
        filled = s[FILLED]
        if why != GO_ON:
            break
        s[BATCHES_IN] += 1
        position += total
        why = DONE
    _seal_single(before, out + filled, wanted, crc32, crc32c)
    s[POSITION], s[FILLED] = position, filled
    s[BATCHES_IN] += singles
    s[BATCHES_OUT] += singles
    s[RECORDS] += singles
    s[TIMESTAMPS] += timed
    return why
