"""Messages and batches with right sizes and CRCs around any bytes."""

from __future__ import annotations

import zlib
from typing import Any

import crc32c

from kafkats.formats import v2
from kafkats.primitives import encode_varint

NULL = b"\xff\xff\xff\xff"
RECORD = bytes.fromhex("0e 00 00 00 02 6b 01 00")
"""A record of magic 2: key k, value null, no headers."""


def raw_message(
    offset: int,
    magic: int,
    *,
    attributes: int = 0,
    timestamp: int = 7,
    key: bytes = NULL,
    value: bytes = NULL,
) -> bytes:
    """A message of any magic; key and value with their lengths, right or not."""
    time = timestamp.to_bytes(8, "big", signed=True) if magic else b""
    body = bytes((magic, attributes)) + time + key + value
    size = (4 + len(body)).to_bytes(4, "big")
    return (
        offset.to_bytes(8, "big", signed=True) + size + zlib.crc32(body).to_bytes(4, "big") + body
    )


def nullable(data: bytes) -> bytes:
    """Bytes behind their length."""
    return len(data).to_bytes(4, "big") + data


def raw_batch(area: bytes, **fields: Any) -> bytes:
    """A batch of magic 2 around any bytes of records; `fields` as v2.BatchHeader names them."""
    header = v2.BatchHeader(
        base_offset=10, length=49 + len(area), leader_epoch=0, magic=2, crc=0, attributes=0, last_offset_delta=0,
        base_timestamp=1000, max_timestamp=1000, producer_id=-1, producer_epoch=-1, base_sequence=-1, record_count=1,
    )._replace(**fields)  # fmt: skip
    packed = v2.HEADER.pack(*header) + area
    return packed[:17] + crc32c.crc32c(packed[21:]).to_bytes(4, "big") + packed[21:]


def record(body: bytes) -> bytes:
    """A record's fields behind their length."""
    return encode_varint(len(body)) + body


GOOD = b"\x00\x00\x00\x02k\x02v\x00"  # attributes, both deltas, key, value, no headers


AREAS = {
    "good": (1, b"\x10" + GOOD),
    "two": (2, b"\x10" + GOOD + b"\x10" + GOOD),
    "one too few counted": (1, b"\x10" + GOOD + b"\x10" + GOOD),
    "one too many counted": (2, b"\x10" + GOOD),
    "a byte too long": (1, b"\x12" + GOOD + b"\x00"),
    "a byte too short": (1, b"\x0e" + GOOD),
    "negative length": (1, b"\x01" + GOOD),
    "length of five bytes": (1, b"\x90\x80\x80\x80\x00" + GOOD),
    "length with bits above 32": (1, b"\x90\x80\x80\x80\x70" + GOOD),
    "length that does not end": (1, b"\x90\x80\x80\x80\x80\x00" + GOOD),
    "nulls": (1, b"\x0c\x00\x00\x00\x01\x01\x00"),
    "nulls of any negative length": (1, b"\x0c\x00\x00\x00\x03\x05\x00"),
    "time delta of ten bytes": (
        1,
        b"\x1e\x00" + b"\x82" + b"\x80" * 8 + b"\x00" + b"\x00\x01\x01\x00",
    ),
    "time delta of eleven bytes": (
        1,
        b"\x20\x00" + b"\x82" + b"\x80" * 9 + b"\x00" + b"\x00\x01\x01\x00",
    ),
    "value beyond the end": (1, b"\x0e\x00\x00\x00\x01\x04v\x00"),
    "a header": (1, b"\x14\x00\x00\x00\x01\x01\x02\x02h\x02v"),
    "a header without value": (1, b"\x12\x00\x00\x00\x01\x01\x02\x02h\x01"),
    "a header with null key": (1, b"\x10\x00\x00\x00\x01\x01\x02\x01\x01"),
    "negative header count": (1, b"\x0c\x00\x00\x00\x01\x01\x01"),
    "more headers than bytes": (1, b"\x10\x00\x00\x00\x01\x01\x06\x00\x01"),
    "header count of two bytes": (1, b"\x0e\x00\x00\x00\x01\x01\x80\x00"),
    "nothing": (1, b""),
    "nothing counted": (0, b"rubbish"),
    "negative count": (-1, b""),
}
