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

from typing import Final

from kafkats.kernels import convert_state as k
from kafkats.kernels import layout as f
from kafkats.kernels.batch import (
    NOT_LOADED,
    WHOLE,
    checksum_holds,
    codec_of,
    flags_of,
    impossible_offsets,
    is_appended,
    key_of,
    next_frame,
    record_head,
    sized,
    timestamp_of,
    wrapper_value,
)
from kafkats.kernels.convert_bodies import (
    fields_fit,
    go_over_records,
    look_at_messages,
    messages_to_messages,
    messages_to_records,
    put_header,
    put_message,
    put_record,
    seal_batch,
    seal_message,
)
from kafkats.kernels.jit import entry, kernel
from kafkats.kernels.lz4 import compress_lz4, decompress_lz4
from kafkats.kernels.memory import copy, i16, i32, i64, put8, put32, u8
from kafkats.kernels.numbers import Int64s, int64

_MAX_RELATIVE: Final = 2**31 - 1
_MAX_OFFSET: Final = 2**63 - 2
_LZ4: Final = 3
_ZSTD: Final = 4


@kernel
def _belongs(s: Int64s, first: int, last: int) -> bool:
    """Return whether a segment of BASE_OFFSET may hold both offsets."""
    base = s[k.BASE_OFFSET]
    if first < base or last < base or last > _MAX_OFFSET:
        return False
    return bool(first - base <= _MAX_RELATIVE and last - base <= _MAX_RELATIVE)


@kernel
def _room(s: Int64s, size: int) -> bool:
    """Return whether `size` more bytes fit into OUT."""
    s[k.NEEDED] = size
    return bool(s[k.ROOM] - s[k.FILLED] >= size)


@kernel
def _as_it_is(s: Int64s, at: int, first: int, last: int) -> int:
    """Copy the batch unchanged."""
    if not _belongs(s, first, last):
        return k.HARD
    if not _room(s, s[k.SIZE]):
        return k.FULL
    copy(s[k.OUT] + s[k.FILLED], at, s[k.SIZE])
    s[k.FILLED] += s[k.SIZE]
    s[k.BATCHES_OUT] += 1
    s[k.UNCHANGED] += 1
    return k.GO_ON


@kernel
def _drop(s: Int64s, at: int) -> int:
    """Drop and count a control batch or an empty batch, which the target magic cannot hold."""
    flags = flags_of(at, 2)
    if flags & f.CONTROL:
        area, end = at + f.HEADER, at + s[k.SIZE]
        s[k.PLAIN], s[k.PLAIN_SIZE], s[k.COUNT] = area, end - area, i32(at + f.COUNT_AT)
        if flags & f.CODEC_MASK or s[k.COUNT] != 1 or go_over_records(s, 0, 0) == 0:
            return k.HARD
        _, _, _, at_key = record_head(area, end)
        key, length, _ = sized(at_key, end)  # version and type of the marker, int16 each
        if length < 4 or i16(key) < 0:
            return k.HARD
        s[k.CONTROL] += 1
        s[k.ABORTED_VISIBLE] += i16(key + 2) == 0
    else:
        s[k.IDEMPOTENCE] += 1
        s[k.TRANSACTIONS] += (flags >> 4) & 1
        s[k.DELETE_HORIZON] += (flags >> 6) & 1
    s[k.LEADER_EPOCHS] += i32(at + f.LEADER_EPOCH_AT) >= 0
    return k.GO_ON


@kernel
def _unpack(s: Int64s, old: bool) -> int:
    """Make PLAIN from PACKED if it is not compressed, or if the kernel can decompress it."""
    s[k.PHASE] = k.HAVE_PLAIN
    if s[k.UNPACK_CODEC] == 0:
        return k.GO_ON
    if s[k.UNPACK_CODEC] != _LZ4:
        return k.UNPACK
    to, room = s[k.PLAIN_BUFFER], s[k.PLAIN_ROOM]
    size = decompress_lz4(s[k.LZ4_DECOMPRESS], s[k.PACKED], s[k.PACKED_SIZE], old, to, room)
    if size < 0:
        return k.UNPACK
    s[k.PLAIN], s[k.PLAIN_SIZE] = to, size
    return k.GO_ON


@kernel
def _open_batch(s: Int64s, at: int) -> int:
    """Magic 2: copy or drop the batch, or decompress its records to PLAIN."""
    flags, count = flags_of(at, 2), i32(at + f.COUNT_AT)
    first, codec = i64(at + f.OFFSET_AT), flags & f.CODEC_MASK
    last = first + i32(at + f.LAST_OFFSET_DELTA_AT)
    s[k.UNPACK_CODEC] = codec
    s[k.PACK_CODEC] = codec if s[k.CODEC] < 0 else s[k.CODEC]
    kept_apart = flags & f.CONTROL or count == 0
    if s[k.MAGIC] == 2 and (kept_apart or codec == s[k.PACK_CODEC]):
        return _as_it_is(s, at, first, last)
    if kept_apart:
        return _drop(s, at)
    if (
        count < 0
        or codec > _ZSTD
        or (s[k.MAGIC] < 2 and s[k.PACK_CODEC] == _ZSTD)
        or not _belongs(s, first, last)
    ):
        return k.HARD
    s[k.COUNT], s[k.OFFSET], s[k.BASE_TIME] = count, first, i64(at + f.BASE_TIMESTAMP_AT)
    s[k.APPENDED], s[k.TIME] = is_appended(flags), timestamp_of(at, 2)
    s[k.PACKED], s[k.PACKED_SIZE] = at + f.HEADER, s[k.SIZE] - f.HEADER
    s[k.PLAIN], s[k.PLAIN_SIZE] = s[k.PACKED], s[k.PACKED_SIZE]
    return _unpack(s, False)


@kernel
def _open_message(s: Int64s, at: int, magic: int) -> int:
    """Magic 0 and 1: copy the message or wrapper, or decompress its messages to PLAIN."""
    flags = flags_of(at, magic)
    codec, offset = flags & f.CODEC_MASK, i64(at + f.OFFSET_AT)
    s[k.UNPACK_CODEC] = codec
    s[k.PACK_CODEC] = codec if s[k.CODEC] < 0 else s[k.CODEC]
    if magic == s[k.MAGIC] and codec == s[k.PACK_CODEC]:
        return _as_it_is(s, at, offset, offset)
    if codec > _LZ4 or (s[k.MAGIC] < 2 and s[k.PACK_CODEC] == _ZSTD):
        return k.HARD
    s[k.OFFSET], s[k.TIME] = offset, timestamp_of(at, magic)
    s[k.APPENDED] = is_appended(flags) if magic == 1 else 0
    s[k.PLAIN], s[k.PLAIN_SIZE] = at, s[k.SIZE]
    if codec:
        s[k.PACKED], s[k.PACKED_SIZE] = wrapper_value(at, s[k.SIZE], magic)
        if s[k.PACKED_SIZE] < 0 or not fields_fit(key_of(at, magic), at + s[k.SIZE]):
            return k.HARD
    return _unpack(s, magic == 0)


# It has one branch for each pair of magics.
@kernel
def _build(s: Int64s, at: int, magic: int) -> int:  # noqa: C901
    """Build the new batch from PLAIN, or the area to compress for it."""
    wanted, codec = s[k.MAGIC], s[k.PACK_CODEC]
    if magic == 2:
        most = s[k.PLAIN_SIZE]
        if s[k.COUNT] > most // f.MIN_RECORD:
            return k.HARD
        if wanted < 2:
            most += (f.MIN_MESSAGE + f.TIMESTAMP_BYTES) * s[k.COUNT]
    else:
        if not look_at_messages(s, magic) or not _belongs(s, s[k.FIRST], s[k.LAST]):
            return k.HARD
        # at most 8 more bytes for each message of 26 or more
        most = s[k.PLAIN_SIZE] + s[k.PLAIN_SIZE] // 3 + 64
    most += f.HEADER
    if most > _MAX_RELATIVE:
        return k.HARD
    if codec == 0:
        if not _room(s, most):
            return k.FULL
        to = s[k.OUT] + s[k.FILLED]
    else:
        if s[k.AREA_ROOM] < most:
            s[k.NEEDED] = most
            return k.NEED_AREA
        to = s[k.AREA_BUFFER]
    if magic == 2 and wanted == 2:
        if go_over_records(s, 0, 0) == 0:
            return k.HARD
        s[k.AREA], s[k.AREA_SIZE] = s[k.PLAIN], s[k.PLAIN_SIZE]
        if codec == 0:
            copy(to + f.HEADER, s[k.PLAIN], s[k.PLAIN_SIZE])
            _put_again(s, at, to, s[k.PLAIN_SIZE])
            return k.GO_ON
    elif wanted == 2:
        start = to + f.HEADER
        s[k.AREA], s[k.AREA_SIZE] = start, messages_to_records(s, start) - start
        if codec == 0:
            _finish_batch(s, to, start + s[k.AREA_SIZE], 0)
            _put_out(s, f.HEADER + s[k.AREA_SIZE], 1)
            return k.GO_ON
    else:
        if magic == 2:
            end = go_over_records(s, to, -1 if wanted == 1 and codec else 0)
            if end == 0 or not _belongs(s, s[k.FIRST], s[k.LAST]):
                return k.HARD
        else:
            end = messages_to_messages(s, to, s[k.FIRST] if wanted == 1 and codec else 0)
        s[k.AREA], s[k.AREA_SIZE] = to, end - to
        if codec == 0:
            _put_out(s, s[k.AREA_SIZE], s[k.COUNT])
            return k.GO_ON
    s[k.PHASE] = k.HAVE_AREA
    return k.GO_ON


@kernel
def _finish_batch(s: Int64s, at: int, end: int, codec: int) -> None:
    """Write the header of the v2 batch from `at` to `end` that was built from messages."""
    attributes = codec | (f.LOG_APPEND_TIME if s[k.APPENDED] else 0)
    newest = s[k.TIME] if s[k.APPENDED] else s[k.NEWEST]
    put_header(at, end, s[k.FIRST], s[k.LAST], attributes, s[k.FIRST_TIME], newest, s[k.COUNT])
    seal_batch(at, end, s[k.CRC32C])


@kernel
def _put_out(s: Int64s, size: int, batches: int) -> None:
    """Add the `size` bytes after FILLED to the result."""
    s[k.FILLED] += size
    s[k.BATCHES_OUT] += batches
    s[k.RECORDS] += s[k.COUNT]
    s[k.PHASE] = k.FRAME


@kernel
def _put_again(s: Int64s, at: int, to: int, size: int) -> None:
    """Write the batch's own header before `size` bytes of records in another codec."""
    copy(to, at, f.HEADER)
    put32(to + f.SIZE_AT, f.HEADER - f.OVERHEAD + size)
    put8(to + f.FLAGS_AT, (u8(at + f.FLAGS_AT) & ~f.CODEC_MASK) | s[k.PACK_CODEC])
    seal_batch(to, to + f.HEADER + size, s[k.CRC32C])
    _put_out(s, f.HEADER + size, 1)


@kernel
def _compress(s: Int64s) -> int:
    """Compress AREA to OUT, after space for a header."""
    header = f.HEADER if s[k.MAGIC] == 2 else f.MIN_MESSAGE + f.TIMESTAMP_BYTES * s[k.MAGIC]
    most = s[k.AREA_SIZE] + s[k.AREA_SIZE] // 5 + 1024  # more than the worst case of any codec
    if not _room(s, header + most):
        return k.FULL
    s[k.INTO], s[k.INTO_ROOM] = s[k.OUT] + s[k.FILLED] + header, most
    s[k.PHASE] = k.HAVE_PACKED
    if s[k.PACK_CODEC] == _LZ4 and s[k.LZ4_COMPRESS]:
        old, into = s[k.MAGIC] == 0, s[k.INTO]
        size = compress_lz4(s[k.LZ4_COMPRESS], s[k.AREA], s[k.AREA_SIZE], old, into)
        if size > 0:
            s[k.INTO_SIZE] = size
            return k.GO_ON
    return k.PACK


@kernel
def _close(s: Int64s, at: int, magic: int) -> None:
    """Write the header before INTO."""
    to, end = s[k.OUT] + s[k.FILLED], s[k.INTO] + s[k.INTO_SIZE]
    codec = s[k.PACK_CODEC]
    if s[k.MAGIC] < 2:
        appended = (s[k.APPENDED] or s[k.STAMPED]) and s[k.MAGIC] == 1
        fields = key_of(to, s[k.MAGIC])
        put32(fields, -1)
        put32(fields + 4, s[k.INTO_SIZE])
        time = s[k.TIME] if appended else s[k.NEWEST]
        put_message(
            to, end, s[k.LAST], s[k.MAGIC], codec | (f.LOG_APPEND_TIME if appended else 0), time
        )
        seal_message(to, end, s[k.CRC32])
    elif magic == 2:
        _put_again(s, at, to, s[k.INTO_SIZE])
        return
    else:
        _finish_batch(s, to, end, codec)
    _put_out(s, end - to, 1)


@kernel
def convert_batch(s: Int64s, at: int, magic: int) -> int:
    """Convert one batch of any magic, starting at its current phase."""
    if s[k.PHASE] == k.FRAME:
        why = _open_batch(s, at) if magic == 2 else _open_message(s, at, magic)
        if why != k.GO_ON or s[k.PHASE] == k.FRAME:
            return why
    if s[k.PHASE] == k.HAVE_PLAIN:
        why = _build(s, at, magic)
        if why != k.GO_ON:
            if why == k.HARD:
                s[k.PHASE] = k.FRAME
            return why
    if s[k.PHASE] == k.HAVE_AREA:
        why = _compress(s)
        if why != k.GO_ON:
            return why
    if s[k.PHASE] == k.HAVE_PACKED:
        _close(s, at, magic)
    if s[k.MAGIC] < 2:
        if magic == 2:
            s[k.HEADERS] += s[k.WITH_HEADERS]
            flags = flags_of(at, 2)
            s[k.TRANSACTIONS] += (flags >> 4) & 1
            s[k.DELETE_HORIZON] += (flags >> 6) & 1
            s[k.IDEMPOTENCE] += i64(at + f.PRODUCER_ID_AT) >= 0
            s[k.LEADER_EPOCHS] += i32(at + f.LEADER_EPOCH_AT) >= 0
        if s[k.MAGIC] == 0:
            s[k.TIMESTAMPS] += s[k.TIMED]
    return k.GO_ON


@kernel
def _seal_single(at: int, end: int, magic: int, crc32: int, crc32c: int) -> None:
    """Write the checksum of a message, or of the one-record batch built from it."""
    if magic < 2:
        seal_message(at, end, crc32)
    elif at:
        seal_batch(at, end, crc32c)


# The loop over single messages keeps everything in registers.
@entry
def convert(s: Int64s) -> int:  # noqa: C901
    """Convert from s[POSITION] on; see the module. Runs without the GIL."""
    address, origin, loaded = s[k.ADDRESS], s[k.ORIGIN], s[k.LOADED]
    limit, file_end, position = s[k.LIMIT], s[k.FILE_END], s[k.POSITION]
    wanted, codec, base, log_end = s[k.MAGIC], s[k.CODEC], s[k.BASE_OFFSET], s[k.LOG_END]
    crc32, crc32c, out, room = s[k.CRC32], s[k.CRC32C], s[k.OUT], s[k.ROOM]
    filled, singles, timed = s[k.FILLED], 0, 0
    before = int64(0)  # address of the message that is not sealed yet
    why = k.DONE
    if position < origin:
        return k.STOPPED
    while position < file_end:
        if position >= limit and s[k.PHASE] == k.FRAME:
            why = k.AT_LIMIT
            break
        what, total, magic = next_frame(address, origin, loaded, file_end, position)
        if what == NOT_LOADED:
            why, s[k.NEEDED] = k.NEED_BYTES, total
            break
        at = address + (position - origin)
        if what != WHOLE or impossible_offsets(at, magic):
            why = k.STOPPED
            break
        s[k.SIZE], s[k.OLD_MAGIC] = total, magic
        if s[k.PHASE] == k.FRAME and not checksum_holds(at, total, magic, crc32, crc32c):
            why = k.STOPPED
            break
        if (
            magic < 2
            and codec_of(at, magic) == 0
            and codec <= 0
            and magic != wanted
            and not (log_end and position + total == file_end)
        ):
            # One message becomes one message, or a batch of one record.
            offset, fields = i64(at + f.OFFSET_AT), key_of(at, magic)
            length = at + total - fields
            if offset < base or offset - base > _MAX_RELATIVE or not fields_fit(fields, at + total):
                why = k.HARD
                break
            if room - filled < total + 64:
                why, s[k.NEEDED] = k.FULL, total + 64
                break
            to, stamp = out + filled, timestamp_of(at, magic)
            if wanted == 2:
                _seal_single(before, to, wanted, crc32, crc32c)
                end = put_record(to + f.HEADER, 0, 0, fields)
                appended = flags_of(at, magic) & f.LOG_APPEND_TIME if magic == 1 else 0
                newest = stamp if appended else max(stamp, -1)
                put_header(to, end, offset, offset, appended, stamp, newest, 1)
            else:
                new_fields = key_of(to, wanted)
                copy(new_fields, fields, length)
                end = new_fields + length
                put_message(to, end, offset, wanted, 0, -1)
                seal_message(before, to, crc32)
                timed += wanted == 0 and stamp != -1
            before = to
            filled += end - to
            singles += 1
            position += total
            continue
        if log_end and position + total == file_end:
            why = k.HARD
            break
        _seal_single(before, out + filled, wanted, crc32, crc32c)
        before = int64(0)
        s[k.POSITION], s[k.FILLED] = position, filled
        why = convert_batch(s, at, magic)
        filled = s[k.FILLED]
        if why != k.GO_ON:
            break
        s[k.BATCHES_IN] += 1
        position += total
        why = k.DONE
    _seal_single(before, out + filled, wanted, crc32, crc32c)
    s[k.POSITION], s[k.FILLED] = position, filled
    s[k.BATCHES_IN] += singles
    s[k.BATCHES_OUT] += singles
    s[k.RECORDS] += singles
    s[k.TIMESTAMPS] += timed
    return why
