"""Rewrite the records of one batch for `convert`: messages to messages or records, and back.

`s` is the state of the conversion. PLAIN holds the uncompressed messages or records of the batch.
"""

from __future__ import annotations

from kafkats.kernels import convert_state as k
from kafkats.kernels import layout as f
from kafkats.kernels.batch import (
    TORN_TAIL,
    WHOLE,
    key_and_value,
    key_of,
    message,
    offset_shift,
    record_head,
    sized,
    skip_headers,
    timestamp_of,
)
from kafkats.kernels.jit import inlined, kernel
from kafkats.kernels.memory import (
    copy,
    crc32_by,
    crc32c_by,
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
from kafkats.kernels.numbers import Int64s, int64
from kafkats.kernels.varints import put_varint, varint_size


@kernel
def put_record(at: int, time_delta: int, offset_delta: int, fields: int) -> int:
    """Write a record without headers. `fields`: a message's key and value with their lengths.

    `fields` is an address. Returns the address after the record.
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
def fields_fit(at: int, end: int) -> bool:
    """Return whether `at` to `end` is exactly a key and a value with canonical lengths.

    Such fields can be copied in one piece.
    """
    key, key_length, value, value_length = key_and_value(at, end)
    return bool(
        key != 0 and key_length >= -1 and value_length >= -1 and max(value_length, 0) == end - value
    )


@kernel
def put_message(at: int, end: int, offset: int, magic: int, attributes: int, time: int) -> None:
    """Write the fields before the key of the message from `at` to `end`, except its checksum."""
    put64(at + f.OFFSET_AT, offset)
    put32(at + f.SIZE_AT, end - at - f.OVERHEAD)
    put8(at + f.MAGIC_AT, magic)
    put8(at + f.MESSAGE_FLAGS_AT, attributes)
    if magic == 1:
        put64(at + f.MESSAGE_TIMESTAMP_AT, time)


@kernel
def seal_message(at: int, end: int, crc32: int) -> None:
    """Write the checksum of a message.

    Loops call this one message late: reading bytes right after writing them in other sizes is slow.
    """
    if at:
        covered = at + f.CRC32_AT + 4
        put32(at + f.CRC32_AT, crc32_by(crc32, covered, end - covered))


@inlined
def put_header(
    at: int,
    end: int,
    first: int,
    last: int,
    attributes: int,
    base_time: int,
    max_time: int,
    count: int,
) -> None:
    """Write the header of the v2 batch from `at` to `end` without producer, except its checksum."""
    put64(at + f.OFFSET_AT, first)
    put32(at + f.SIZE_AT, end - at - f.OVERHEAD)
    put32(at + f.LEADER_EPOCH_AT, -1)
    put8(at + f.MAGIC_AT, 2)
    put16(at + f.ATTRIBUTES_AT, attributes)
    put32(at + f.LAST_OFFSET_DELTA_AT, last - first)
    put64(at + f.BASE_TIMESTAMP_AT, base_time)
    put64(at + f.MAX_TIMESTAMP_AT, max_time)
    put64(at + f.PRODUCER_ID_AT, -1)
    put16(at + f.PRODUCER_EPOCH_AT, -1)
    put32(at + f.BASE_SEQUENCE_AT, -1)
    put32(at + f.COUNT_AT, count)


@kernel
def seal_batch(at: int, end: int, crc32c: int) -> None:
    """Write the checksum of a v2 batch."""
    covered = at + f.CRC32C_AT + 4
    put32(at + f.CRC32C_AT, crc32c_by(crc32c, covered, end - covered))


@kernel
def look_at_messages(s: Int64s, magic: int) -> bool:
    """Check the messages in PLAIN and count them: the set of a wrapper of `magic`, or one message.

    Returns False for any form that the kernel leaves to formats/convert.py.
    """
    at, end = s[k.PLAIN], s[k.PLAIN] + s[k.PLAIN_SIZE]
    appended, time = s[k.APPENDED], s[k.TIME]
    count, timed, first, last = 0, 0, int64(0), int64(0)
    first_time, newest = int64(-1), int64(-1)
    what, total, inner = message(at, end)
    while what == WHOLE:
        if not fields_fit(key_of(at, inner), at + total):
            return False
        if appended and inner != s[k.OLD_MAGIC]:
            return False
        stamp = time if appended else timestamp_of(at, inner)
        offset = i64(at + f.OFFSET_AT)
        if count == 0:
            first, first_time = offset, stamp
        elif offset <= last:
            return False
        last = offset
        newest = max(newest, stamp)
        timed += stamp != -1
        count += 1
        at += total
        what, total, inner = message(at, end)
    shift, sound = offset_shift(magic, s[k.OFFSET], last)
    if what != TORN_TAIL or count == 0 or first < 0 or not sound:
        return False
    s[k.COUNT], s[k.FIRST], s[k.LAST], s[k.SHIFT] = count, first + shift, last + shift, shift
    s[k.FIRST_TIME], s[k.NEWEST], s[k.TIMED], s[k.WITH_HEADERS] = first_time, newest, timed, 0
    return True


@kernel
def messages_to_messages(s: Int64s, to: int, less: int) -> int:
    """Write PLAIN's messages in the target magic from address `to` on, with offsets minus `less`.

    Returns the address after them.
    """
    at, magic, crc32, shift = s[k.PLAIN], s[k.MAGIC], s[k.CRC32], s[k.SHIFT] - less
    appended, time = s[k.APPENDED], s[k.TIME]
    attributes = f.LOG_APPEND_TIME if appended and magic == 1 else 0
    before = int64(0)
    for _ in range(s[k.COUNT]):
        inner, after = u8(at + f.MAGIC_AT), at + f.OVERHEAD + i32(at + f.SIZE_AT)
        fields = key_of(at, inner)
        stamp = time if appended else timestamp_of(at, inner)
        new_fields = key_of(to, magic)
        copy(new_fields, fields, after - fields)
        end = new_fields + (after - fields)
        put_message(to, end, i64(at + f.OFFSET_AT) + shift, magic, attributes, stamp)
        seal_message(before, to, crc32)
        before, to, at = to, end, after
    seal_message(before, to, crc32)
    return to


@kernel
def messages_to_records(s: Int64s, to: int) -> int:
    """Write PLAIN's messages as records from address `to` on. Returns the address after them."""
    at, shift, first_time = s[k.PLAIN], s[k.SHIFT] - s[k.FIRST], s[k.FIRST_TIME]
    appended = s[k.APPENDED]
    for _ in range(s[k.COUNT]):
        inner, after = u8(at + f.MAGIC_AT), at + f.OVERHEAD + i32(at + f.SIZE_AT)
        fields = key_of(at, inner)
        delta = int64(0)
        if not appended:
            delta = minus(timestamp_of(at, inner), first_time)
        to = put_record(to, delta, i64(at + f.OFFSET_AT) + shift, fields)
        at = after
    return to


# Records, magic 2.


@kernel
def go_over_records(s: Int64s, to: int, less: int) -> int:
    """Check that all COUNT records of PLAIN decode, and write them as messages unless `to` is 0.

    The messages have the target magic. Their offsets are the records' minus `less`, or minus the
    first record's offset if `less` is -1. Returns the address after the messages, 1 if none are
    written, or 0 for records that the kernel leaves to formats/convert.py.
    """
    at, end = s[k.PLAIN], s[k.PLAIN] + s[k.PLAIN_SIZE]
    magic, crc32, appended, time = s[k.MAGIC], s[k.CRC32], s[k.APPENDED], s[k.TIME]
    base, base_time = s[k.OFFSET], s[k.BASE_TIME]
    attributes = f.LOG_APPEND_TIME if appended and magic == 1 else 0
    with_headers, timed, newest = 0, 0, int64(-1)
    last = int64(-(2**63))
    write = to != 0
    before = int64(0)
    if not write:
        to = 1
    for number in range(s[k.COUNT]):
        record_end, stamp, offset, at = record_head(at, end)
        if record_end == 0:
            return 0
        key, key_length, at = sized(at, end)
        if key == 0:
            return 0
        value, value_length, at = sized(at, end)
        if value == 0:
            return 0
        count, at = skip_headers(at, end)
        if at != record_end:
            return 0
        with_headers += count != 0
        if not write:
            continue
        offset = plus(offset, base)
        stamp = time if appended else plus(stamp, base_time)
        if number == 0:
            s[k.FIRST] = offset
            if less == -1:
                less = offset
        elif offset <= last:
            return 0
        last = offset
        newest = max(newest, stamp)
        timed += stamp != -1
        fields = key_of(to, magic)
        key_bytes, value_bytes = max(key_length, 0), max(value_length, 0)
        put32(fields, max(key_length, -1))
        copy(fields + 4, key, key_bytes)
        put32(fields + 4 + key_bytes, max(value_length, -1))
        copy(fields + 8 + key_bytes, value, value_bytes)
        message_end = fields + 8 + key_bytes + value_bytes
        put_message(to, message_end, offset - less, magic, attributes, stamp)
        seal_message(before, to, crc32)
        before, to = to, message_end
    seal_message(before, to, crc32)
    if at != end:
        return 0
    s[k.LAST], s[k.NEWEST], s[k.WITH_HEADERS], s[k.TIMED] = last, newest, with_headers, timed
    return to
