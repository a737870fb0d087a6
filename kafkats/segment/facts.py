"""Facts about a segment that need no decoded records, and the depth at which they were collected.

stat    names, sizes and times of the files
tail    the ends of the index files, and the log from the last index entry on; nothing in
        between is checked
full    every batch header and checksum
deep    also every record
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from kafkats.formats.model import TimestampType


class StopReason(StrEnum):
    """The reason why reading ended before the end of the file; words of `findings.KINDS`."""

    TORN_TAIL = "torn-tail"
    ZERO_TAIL = "zero-tail"
    BAD_LENGTH = "bad-length"
    BAD_MAGIC = "bad-magic"
    BAD_CRC = "bad-crc"
    BAD_OFFSET = "bad-offset"


NOTHING_BEHIND: Final = (None, StopReason.TORN_TAIL, StopReason.ZERO_TAIL)
"""Stops after which no damaged record can follow.

At any other stop the bytes that follow may be the records: they are damaged, not missing.
"""


class Cell(NamedTuple):
    """The numbers of one magic, codec and timestamp type in a segment: one cell of the census."""

    magic: int
    codec: int
    timestamp_type: TimestampType
    bytes: int
    batches: int
    records: int
    """-1 for wrappers that were not decompressed. Magic 2: the counts in the batch headers."""
    control_batches: int
    transactional_batches: int
    producer_batches: int
    """Batches with a producer id."""
    delete_horizon_batches: int


class SegmentFacts(NamedTuple):
    """The batches of one segment in numbers. -1: unknown at this depth, or none.

    Offsets are Kafka's, positions are bytes in the .log, timestamps are epoch milliseconds from
    batch headers.
    """

    base_offset: int
    depth: str
    log_bytes: int
    valid_bytes: int = -1
    """End of the last good batch."""
    stop: StopReason | None = None
    stop_position: int = -1
    """Position where reading ended; the end of the file if nothing stopped it."""
    batches: int = -1
    records: int = -1
    """-1 if wrappers (compressed magic 0 or 1) were not decompressed."""
    first_offset: int = -1
    """Of the first batch. v2: its base offset.

    Wrapper: its first inner offset if decompressed, else -1.
    """
    last_offset: int = -1
    next_offset: int = -1
    """The offset of the next batch: last offset + 1, or the base offset of an empty segment."""
    first_timestamp: int = -1
    """The first batch's maximum, on which time-based rolling depends."""
    max_timestamp: int = -1
    offset_of_max_timestamp: int = -1
    """Last offset of the earliest batch that holds the maximum."""
    magics: tuple[int, int, int] = (-1, -1, -1)
    """Bytes in batches of magic 0, 1, 2."""
    codecs: tuple[int, int, int, int, int] = (-1, -1, -1, -1, -1)
    """Batches per codec: none, gzip, snappy, lz4, zstd."""
    control_batches: int = -1
    transactional_batches: int = -1
    delete_horizon_batches: int = -1
    highest_leader_epoch: int = -1
    not_increasing_position: int = -1
    """First batch that begins at or below an earlier offset."""
    out_of_range_position: int = -1
    """First batch below the base offset, or more than 2^31-1 above it."""
    bad_header_position: int = -1
    """First v2 batch with a negative count or span, or more records than offsets."""
    unknown_codec_position: int = -1

    @property
    def has_timestamps(self) -> bool:
        """Return whether any batch has a timestamp."""
        return self.max_timestamp > -1
