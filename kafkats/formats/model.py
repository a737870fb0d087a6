"""The decoded form that all formats share: batch headers and records.

A *batch* is the content of one frame. In magic 2 it is a record batch. In magic 0 and 1 it is one
message, or one *wrapper*: a message whose value is a compressed message set. A *record* is what a
consumer receives, always with its absolute offset.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from kafkats.compression import Codec

__all__ = ["NO_TIMESTAMP", "Batch", "Codec", "Header", "Record", "TimestampType"]

NO_TIMESTAMP: Final = -1
"""Kafka's value for "no timestamp".

Other negative values occur on disk and are kept as they are.
"""


class TimestampType(IntEnum):
    """The writer of a timestamp. Magic 0 has no timestamp: NONE (Kafka's NoTimestampType)."""

    NONE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class Header(NamedTuple):
    """A record header (KIP-82, magic 2 only)."""

    key: str
    value: bytes | None


class Record(NamedTuple):
    """One record as a consumer receives it; `timestamp` in ms, any int64."""

    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """The header of one frame. Only sizes and offsets are checked; records are not decoded."""

    position: int
    """Position of the frame's first byte in its buffer."""
    size: int
    """Bytes of the whole frame with the 12 of offset and size; the next frame follows."""
    magic: int
    base_offset: int
    """Magic 2: the header's value, which compaction keeps.

    Uncompressed message: its offset. Wrapper: -1; use dispatch.first_offset.
    """
    last_offset: int
    """Magic 2: base offset + last offset delta, which compaction keeps.

    Wrapper: its own offset, which is that of its last message.
    """
    codec: int
    """A Codec; 5 to 7, unknown to Kafka, are kept as numbers until records are decoded."""
    timestamp_type: TimestampType
    base_timestamp: int
    """Magic 2: the base of the record deltas, which is the delete horizon where one is set.

    Magic 1: the timestamp. Magic 0: -1.
    """
    max_timestamp: int
    """Magic 2 and 1: the header's value. Magic 0: -1."""
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int
    """The header's record count; -1 for a wrapper."""
    crc: int
    """The stored CRC, unsigned."""
    attributes: int
    transactional: bool = False
    control: bool = False
    delete_horizon_ms: int | None = None
    """Time in ms from which Kafka may delete the batch's tombstones (KIP-534, since 3.1)."""

    @property
    def end(self) -> int:
        """Position of the first byte after the frame."""
        return self.position + self.size


def codec_of(attributes: int) -> int:
    """Return the lowest three bits: a Codec, or the number where no codec has it."""
    number = attributes & 0x07
    return Codec(number) if number in _CODECS else number


_CODECS: Final = frozenset(Codec)
