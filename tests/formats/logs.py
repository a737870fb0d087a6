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
