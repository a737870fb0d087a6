"""The places of fields that the kernels use are those of the plain decoders."""

from __future__ import annotations

import struct

from kafkats.formats import framing, message_set, v2
from kafkats.kernels import layout

V2 = {
    "base_offset": layout.OFFSET_AT,
    "length": layout.SIZE_AT,
    "leader_epoch": layout.LEADER_EPOCH_AT,
    "magic": layout.MAGIC_AT,
    "crc": layout.CRC32C_AT,
    "attributes": layout.ATTRIBUTES_AT,
    "last_offset_delta": layout.LAST_OFFSET_DELTA_AT,
    "base_timestamp": layout.BASE_TIMESTAMP_AT,
    "max_timestamp": layout.MAX_TIMESTAMP_AT,
    "producer_id": layout.PRODUCER_ID_AT,
    "producer_epoch": layout.PRODUCER_EPOCH_AT,
    "base_sequence": layout.BASE_SEQUENCE_AT,
    "record_count": layout.COUNT_AT,
}


def test_the_header_of_magic_2() -> None:
    kinds = v2.HEADER.format.removeprefix(">")
    places = [struct.calcsize(">" + kinds[:n]) for n in range(len(kinds))]
    assert dict(zip(v2.BatchHeader._fields, places, strict=True)) == V2
    assert layout.FLAGS_AT == layout.ATTRIBUTES_AT + 1
    assert layout.HEADER == v2.HEADER_BYTES


def test_magic_0_and_1() -> None:
    assert layout.MESSAGE_FLAGS_AT == message_set.ATTRIBUTES_AT
    assert layout.MESSAGE_TIMESTAMP_AT == message_set.TIMESTAMP_AT
    assert layout.CRC32_AT + 4 == message_set.CRC_FROM
    keys = layout.MESSAGE_KEY_AT, layout.MESSAGE_KEY_AT + layout.TIMESTAMP_BYTES
    assert keys == message_set.KEY_AT


def test_frames() -> None:
    assert (layout.OVERHEAD, layout.MAGIC_AT) == (framing.OVERHEAD, framing.MAGIC_AT)
    assert layout.MIN_MESSAGE == framing.OVERHEAD + framing.MIN_SIZE
    assert layout.MIN_LEFT == framing.MIN_LEFT
