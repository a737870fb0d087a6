"""Big-endian integers, zig-zag varints and nullable bytes: (buf, pos) -> (value, pos).

Readers take a flat memoryview (see `view`) and a position, and return the value and the position
after it. They raise CorruptBatch at that position when the bytes end early or a varint does not
end. Integers wrap as in Java, because every Kafka reader wraps sums of header fields and deltas.

Varints (Kafka ByteUtils, since 0.11): n -> (n << 1) ^ (n >> 31 or 63), seven bits per byte, low
group first. The high bit means that another byte follows. Encodings that are longer than needed are
accepted, as in Java; ours are minimal.
"""

from __future__ import annotations

import mmap
import struct
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from kafkats.errors import CorruptBatch

Buffer: TypeAlias = bytes | bytearray | memoryview | mmap.mmap | npt.NDArray[np.uint8]
"""Any object with contiguous bytes. Positions count from its start."""

INT32: Final = struct.Struct(">i")
INT64: Final = struct.Struct(">q")

_VARINT_BYTES: Final = 5
_VARLONG_BYTES: Final = 10


def view(buf: Buffer) -> memoryview:
    """Return the bytes of `buf` without a copy, one dimension, format B."""
    # numpy declares its arrays as buffers from Python 3.12 on.
    flat: memoryview = memoryview(buf)  # type: ignore[arg-type]
    return flat if flat.format == "B" and flat.ndim == 1 else flat.cast("B")


def wrap_int64(value: int) -> int:
    """Return `value` modulo 2^64 as a signed number: Java's long arithmetic."""
    return ((value + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)


def read_int32(buf: memoryview, pos: int) -> tuple[int, int]:
    """Read a big-endian int32. Raises CorruptBatch."""
    try:
        (value,) = INT32.unpack_from(buf, pos)
    except struct.error as e:
        raise CorruptBatch(
            f"4 bytes of a number expected, {len(buf) - pos} left", position=pos
        ) from e
    return int(value), pos + INT32.size


def read_varint(buf: memoryview, pos: int) -> tuple[int, int]:
    """Read a zig-zag int32 of at most 5 bytes. Bits beyond the 32nd are dropped, as in Java."""
    raw, end = _read_groups(buf, pos, _VARINT_BYTES)
    raw &= 0xFFFF_FFFF
    return (raw >> 1) ^ -(raw & 1), end


def read_varlong(buf: memoryview, pos: int) -> tuple[int, int]:
    """Read a zig-zag int64 of at most 10 bytes. Bits beyond the 64th are dropped, as in Java."""
    raw, end = _read_groups(buf, pos, _VARLONG_BYTES)
    raw &= 0xFFFF_FFFF_FFFF_FFFF
    return (raw >> 1) ^ -(raw & 1), end


def _read_groups(buf: memoryview, pos: int, most: int) -> tuple[int, int]:
    raw = 0
    for count, byte in enumerate(buf[pos : pos + most]):
        raw |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return raw, pos + count + 1
    why = (
        f"a varint of more than {most} bytes"
        if len(buf) - pos >= most
        else "the bytes end inside a varint"
    )
    raise CorruptBatch(why, position=pos)


def read_bytes(buf: memoryview, pos: int, length: int) -> tuple[bytes | None, int]:
    """Read `length` bytes. Any negative length gives None (writers use -1)."""
    if length < 0:
        return None, pos
    if length > len(buf) - pos:
        raise CorruptBatch(
            f"{length} bytes of a key, value or header expected, {len(buf) - pos} left",
            position=pos,
        )
    return bytes(buf[pos : pos + length]), pos + length


def encode_varint(value: int) -> bytes:
    """Return the minimal zig-zag encoding of an int32 or int64. Both agree for an int32."""
    raw = (value << 1) ^ (value >> 63)
    groups = bytearray()
    while raw > 0x7F:
        groups.append(raw & 0x7F | 0x80)
        raw >>= 7
    groups.append(raw)
    return bytes(groups)


def encode_bytes(data: bytes | None) -> bytes:
    """Return nullable bytes after an int32 length, -1 for None."""
    return INT32.pack(-1) if data is None else INT32.pack(len(data)) + data


def encode_varint_bytes(data: bytes | None) -> bytes:
    """Return nullable bytes after a varint length, -1 for None."""
    return encode_varint(-1) if data is None else encode_varint(len(data)) + data
