"""Read frames, batch headers, messages and records: the rules that all kernels share.

    next_frame, frame, message          sizes and magic of a batch, or of a message in a wrapper
    impossible_offsets, checksum_holds  checks of a batch
    flags_of, codec_of, is_appended, timestamp_of, wrapper_value      fields of a batch
    key_and_value, record_head, sized, skip_headers     parts of a message or record

All arguments are numbers; `at` is the address of a batch, message or record. The functions are
compiled into their callers. They refuse what `formats` refuses. An address of 0 in a result means
that the bytes are malformed.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from kafkats.kernels import layout as f
from kafkats.kernels.jit import inlined, kernel
from kafkats.kernels.memory import crc32_by, crc32c_by, i32, i64, minus, u8, u32
from kafkats.kernels.numbers import int64
from kafkats.kernels.varints import varint, varlong

# What a frame is.
WHOLE: Final = 0
TORN_TAIL: Final = 1  # longer than the rest of the file: an unfinished write
BAD_LENGTH: Final = 2
BAD_MAGIC: Final = 3
NOT_LOADED: Final = -1  # its size is the number of bytes that must be in memory

Frame: TypeAlias = tuple[int, int, int]
"""One of these, the size, and the magic."""

_MOST: Final = 2**63 - 2
_LEAST: Final = -(2**63)


@inlined
def frame(at: int, left: int) -> Frame:
    """Return what the frame at `at` is, its size with the first 12 bytes, and its magic.

    `left`: number of bytes up to the end of the file, at least 12. Only bytes of the frame are
    read. The rule is FileLogInputStream's, with a check of the magic.
    """
    total = int64(f.OVERHEAD + i32(at + f.SIZE_AT))
    if total < f.MIN_MESSAGE:
        return BAD_LENGTH, total, int64(-1)
    if total > left:
        return TORN_TAIL, total, int64(-1)
    magic = u8(at + f.MAGIC_AT)
    if magic > 2:
        return BAD_MAGIC, total, magic
    if (magic == 2 and total < f.HEADER) or (
        magic == 1 and total < f.MIN_MESSAGE + f.TIMESTAMP_BYTES
    ):
        return BAD_LENGTH, total, magic
    return WHOLE, total, magic


@inlined
def next_frame(address: int, origin: int, loaded: int, end: int, position: int) -> Frame:
    """As `frame` for the frame at file position `position`, which must be `origin` or higher.

    File positions `origin` to `loaded` lie at `address`; the file ends at `end`. The result is
    NOT_LOADED unless the whole frame is in memory.
    """
    if end - position < f.MIN_LEFT:
        return TORN_TAIL, int64(f.MIN_LEFT), int64(-1)
    if position + f.MIN_LEFT > loaded:
        return NOT_LOADED, int64(f.MIN_LEFT), int64(-1)
    what, total, magic = frame(address + (position - origin), end - position)
    if what == WHOLE and position + total > loaded:
        return NOT_LOADED, total, magic
    return what, total, magic


@inlined
def message(at: int, end: int) -> Frame:
    """As `frame` for the message at `at` in the content of a wrapper, which ends at `end`.

    The message must have magic 0 or 1 and no codec; otherwise it is BAD_MAGIC.
    """
    left = end - at
    if left < f.OVERHEAD:
        return TORN_TAIL, left, int64(-1)
    total = int64(f.OVERHEAD + i32(at + f.SIZE_AT))
    if total < f.MIN_MESSAGE:
        return BAD_LENGTH, total, int64(-1)
    if total > left:
        return TORN_TAIL, total, int64(-1)
    magic = u8(at + f.MAGIC_AT)
    if magic > 1 or u8(at + f.MESSAGE_FLAGS_AT) & f.CODEC_MASK:
        return BAD_MAGIC, total, magic
    if total < f.MIN_MESSAGE + f.TIMESTAMP_BYTES * magic:
        return BAD_LENGTH, total, magic
    return WHOLE, total, magic


@kernel
def impossible_offsets(at: int, magic: int) -> bool:
    """Return whether the batch ends above offset 2^63-2 or below -2^63.

    The last offset is computed without overflow. The rule and its reason are in
    `formats.framing.check_offsets`.
    """
    if u8(at) < 0x7F:  # highest byte of the offset: too far below 2^63
        return False
    first = i64(at + f.OFFSET_AT)
    delta = i32(at + f.LAST_OFFSET_DELTA_AT) if magic == 2 else int64(0)
    if first >= 0:
        return bool(delta > _MOST - first)
    return bool(delta < _LEAST - first)


@inlined
def checksum_holds(at: int, total: int, magic: int, crc32: int, crc32c: int) -> bool:
    """Verify the checksum of a batch of `total` bytes with the functions at these addresses.

    The address 0 means that checksums are not verified.
    """
    if magic == 2:
        covered = f.CRC32C_AT + 4
        return crc32c == 0 or crc32c_by(crc32c, at + covered, total - covered) == u32(
            at + f.CRC32C_AT
        )
    covered = f.CRC32_AT + 4
    return crc32 == 0 or crc32_by(crc32, at + covered, total - covered) == u32(at + f.CRC32_AT)


@inlined
def flags_of(at: int, magic: int) -> int:
    """Return the low byte of the attributes."""
    return u8(at + f.FLAGS_AT) if magic == 2 else u8(at + f.MESSAGE_FLAGS_AT)


@inlined
def codec_of(at: int, magic: int) -> int:
    """Return the codec, 0 to 7."""
    return flags_of(at, magic) & f.CODEC_MASK


@inlined
def is_appended(flags: int) -> int:
    """Return 1 for LogAppendTime, else 0. In magic 0 the bit has no meaning."""
    return (flags >> 3) & 1


@inlined
def timestamp_of(at: int, magic: int) -> int:
    """Return the batch's timestamp: in magic 2 the maximum, in magic 0 -1."""
    if magic == 2:
        return i64(at + f.MAX_TIMESTAMP_AT)
    return i64(at + f.MESSAGE_TIMESTAMP_AT) if magic == 1 else int64(-1)


@inlined
def key_of(at: int, magic: int) -> int:
    """Return the address of the key's length in a message of magic 0 or 1."""
    return at + f.MESSAGE_KEY_AT + f.TIMESTAMP_BYTES * magic


@inlined
def key_and_value(at: int, end: int) -> tuple[int, int, int, int]:
    """Return address and length of key and value; a negative length is null.

    `at` is the address of the key's length, `end` that after the message.
    """
    none = int64(0)
    if end - at < 8:
        return none, none, none, none
    key_length, key = i32(at), at + 4
    if key_length > end - key - 4:
        return none, none, none, none
    value = key + max(key_length, 0) + 4
    value_length = i32(value - 4)
    if value_length > end - value:
        return none, none, none, none
    return key, key_length, value, value_length


@inlined
def wrapper_value(at: int, total: int, magic: int) -> tuple[int, int]:
    """Return address and size of the value of the wrapper at `at`.

    The size is negative if the value is null or malformed.
    """
    key, _, value, length = key_and_value(key_of(at, magic), at + total)
    return value, length if key != 0 else int64(-1)


@inlined
def offset_shift(magic: int, offset: int, last: int) -> tuple[int, bool]:
    """Return what to add to the offsets stored in a wrapper, and whether it is sound.

    `magic` and `offset` are the wrapper's, `last` is stored in its last message. Magic 1 stores
    relative offsets, unless the wrapper has offset 0.
    """
    if magic != 1 or offset == 0:
        return int64(0), True
    return minus(offset, last), offset >= last


@inlined
def record_head(at: int, end: int) -> tuple[int, int, int, int]:
    """Return the end of the record at `at`, its timestamp and offset deltas, the key's address.

    `end` is that of all records. All parts are read up to there, so that varints near the end of a
    record take the short way. The caller checks where its last part ends.
    """
    none = int64(0)
    length, at = varint(at, end)
    if at == 0:
        return none, none, none, none
    record_end = at + length
    if record_end > end:
        return none, none, none, none
    timestamp_delta, at = varlong(at + 1, end)  # after the attributes byte
    if at == 0:
        return none, none, none, none
    offset_delta, at = varint(at, end)
    return record_end if at != 0 else none, timestamp_delta, offset_delta, at


@inlined
def sized(at: int, end: int) -> tuple[int, int, int]:
    """Return address, length and end of the nullable bytes at `at`, which have a varint length."""
    length, at = varint(at, end)
    if at == 0 or length > end - at:
        return int64(0), int64(0), int64(0)
    return at, length, at + max(length, 0)


@kernel
def skip_sized(at: int, end: int) -> int:
    """Return the end of the nullable bytes at `at`."""
    length, at = varint(at, end)
    if at == 0 or length > end - at:
        return int64(0)
    return at + max(length, 0)


@kernel
def _skip_each(count: int, at: int, end: int) -> int:
    if at == 0 or count < 0 or count > end - at:
        return int64(0)
    for _ in range(count):
        length, at = varint(at, end)
        if at == 0 or length < 0 or length > end - at:  # a header key is never null
            return int64(0)
        at = skip_sized(at + length, end)
        if at == 0:
            return int64(0)
    return at


@inlined
def skip_headers(at: int, end: int) -> tuple[int, int]:
    """Return the number of record headers at `at`, and the address after them."""
    if at < end and u8(at) == 0:
        return int64(0), at + 1
    count, at = varint(at, end)
    return count, _skip_each(count, at, end)
