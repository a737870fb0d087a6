"""gzip as java.util.zip writes and reads it (RFC 1952).

    stream = member ...
    member = 1f 8b 08 flags mtime(4) xfl os | optional fields | deflate | crc32 | size mod 2^32

Written: one member without a name, mtime 0, deflate level 6. The OS byte is 0xff as on JDK 16 and
later (0 before, JDK-8244706). zlib produces the same deflate bytes as the JDK.

Read, as by GZIPInputStream: several members in a row. Bytes after a member that are not a valid
gzip header are ignored. The header checksum (FHCRC), the CRC and the size of each member are
verified.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

from kafkats.compression.limit import Output
from kafkats.errors import CorruptBatch

HEADER: Final = bytes.fromhex("1f8b08000000000000ff")
_START: Final = HEADER[:3]
_TRAILER: Final = struct.Struct("<II")
_FHCRC, _FEXTRA, _FNAME, _FCOMMENT = 2, 4, 8, 16
_STEP: Final = 1 << 16
_OUTPUT_STEP: Final = 1 << 20


def compress(data: memoryview) -> bytes:
    """Return one member, byte for byte what a JDK of 16 or later writes."""
    deflate = zlib.compressobj(-1, zlib.DEFLATED, -zlib.MAX_WBITS, 8, zlib.Z_DEFAULT_STRATEGY)
    trailer = _TRAILER.pack(zlib.crc32(data), len(data) & 0xFFFF_FFFF)
    return HEADER + deflate.compress(data) + deflate.flush() + trailer


def decompress(data: memoryview, max_output_bytes: int) -> bytes:
    """Return the content of all members of `data`. Raises CorruptBatch."""
    output = Output(max_output_bytes)
    pos = _after_header(data, 0)
    if pos is None:
        raise CorruptBatch("no gzip header")
    while pos is not None:
        pos = _read_member(data, pos, output)
        pos = _after_header(data, pos)
    return output.join()


def _after_header(data: memoryview, start: int) -> int | None:
    """Return the position after the header at `start`; None if it is incomplete or invalid."""
    pos = start + len(HEADER)
    if len(data) < pos or data[start : start + len(_START)] != _START:
        return None
    flags = data[start + 3]
    if flags & _FEXTRA:
        pos += 2 + int.from_bytes(data[pos : pos + 2], "little")
    for flag in (_FNAME, _FCOMMENT):
        if flags & flag:
            pos = bytes(data).find(b"\0", pos) + 1
            if pos == 0:
                return None
    if flags & _FHCRC:
        if int.from_bytes(data[pos : pos + 2], "little") != zlib.crc32(data[start:pos]) & 0xFFFF:
            return None
        pos += 2
    return pos if pos <= len(data) else None


def _read_member(data: memoryview, pos: int, output: Output) -> int:
    """Add the member whose deflate bytes begin at `pos`. Returns the position after its trailer."""
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    step: bytes | memoryview = b""
    crc = size = 0
    while not inflate.eof:
        if not step:
            step = data[pos : pos + _STEP]
            pos += len(step)
        try:
            # One byte more than allowed distinguishes a full output from one that is too large.
            piece = inflate.decompress(step, min(_OUTPUT_STEP, output.left + 1))
        except zlib.error as e:
            raise CorruptBatch(f"gzip: {e}") from e
        step = inflate.unconsumed_tail
        if not (piece or step or inflate.eof) and pos == len(data):
            raise CorruptBatch("gzip: the bytes end inside a member")
        output.add(piece)
        crc = zlib.crc32(piece, crc)
        size += len(piece)
    pos -= len(inflate.unused_data)
    if len(data) - pos < _TRAILER.size:
        raise CorruptBatch("gzip: the bytes end inside a member's trailer")
    if _TRAILER.unpack_from(data, pos) != (crc, size & 0xFFFF_FFFF):
        raise CorruptBatch("gzip: CRC or size of a member does not match")
    return pos + _TRAILER.size
