"""What every format decodes to: a batch's header facts, and records.

A *batch* is what one frame holds. Magic 2: a record batch. Magic 0 and 1: one message, or one *wrapper* whose value is
a compressed message set. A *record* is what a consumer sees, always with its absolute offset.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from kafkats.compression import Codec

__all__ = ["NO_TIMESTAMP", "Batch", "Codec", "Header", "Record", "TimestampType"]

NO_TIMESTAMP: Final = -1
"""What Kafka says for "none"; other negative values do occur on disk and are carried verbatim."""


class TimestampType(IntEnum):
    """Who set the timestamp; magic 0 has none (Kafka's NoTimestampType)."""

    NONE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class Header(NamedTuple):
    """A record header (KIP-82, magic 2 only)."""

    key: str
    value: bytes | None


class Record(NamedTuple):
    """One record as a consumer sees it; `timestamp` in ms, any int64."""

    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """The header facts of one frame; records are not decoded, nothing but sizes was checked."""

    position: int
    """First byte of the frame in its buffer."""
    size: int
    """Bytes of the whole frame, the 12 of offset and size included: the next one begins at position + size."""
    magic: int
    base_offset: int
    """Magic 2: the header's, kept by compaction. Plain message: its offset. Wrapper: -1, ask dispatch.first_offset."""
    last_offset: int
    """Magic 2: base offset + last offset delta, kept by compaction. Wrapper: its offset, that of its last message."""
    codec: int
    """A Codec; 5 to 7, which no Kafka knows, stay plain numbers until records are wanted."""
    timestamp_type: TimestampType
    base_timestamp: int
    """Magic 2: what record deltas count from (the delete horizon, where there is one). Magic 1: the timestamp."""
    max_timestamp: int
    """Magic 2 and 1: as the header says. Magic 0: -1."""
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int
    """Records as the header counts them; -1 for a wrapper."""
    crc: int
    """As stored, unsigned."""
    attributes: int
    transactional: bool = False
    control: bool = False
    delete_horizon_ms: int | None = None
    """KIP-534, Kafka 3.1 and later: when tombstones of this batch may go."""

    @property
    def end(self) -> int:
        """Position of the byte after the frame."""
        return self.position + self.size


def codec_of(attributes: int) -> int:
    """The lowest three bits, as a Codec where there is one."""
    number = attributes & 0x07
    return Codec(number) if number in _CODECS else number


_CODECS: Final = frozenset(Codec)
