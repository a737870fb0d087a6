"""Decode the batches of a log, and the records of a batch, in any magic.

A partition that was upgraded can hold all three magics, even in one segment. Kafka 4.x still loads
such a segment. So the magic byte of each frame selects the format that decodes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Final

from kafkats.formats import v0, v1, v2
from kafkats.formats.framing import frames
from kafkats.formats.model import Batch, Record
from kafkats.primitives import Buffer

_FORMATS: Final[tuple[ModuleType, ...]] = (v0, v1, v2)


def batches(
    buf: Buffer, start: int = 0, end: int | None = None, *, verify: bool = True
) -> Iterator[Batch]:
    """Yield the batches of buf[start:end] in file order, up to the quiet end (see framing).

    Records are not decoded. Raises CorruptBatch where Kafka's recovery would truncate the log: a
    bad size, a bad magic or, with `verify`, a CRC mismatch. All batches before that position are
    yielded first.
    """
    for frame in frames(buf, start, end):
        layout = _FORMATS[frame.magic]
        batch: Batch = layout.decode_batch(buf, frame)
        if verify:
            layout.check_crc(buf, batch)
        yield batch


def check_crc(buf: Buffer, batch: Batch) -> None:
    """Raise CorruptBatch unless the stored checksum matches the bytes of the batch."""
    _FORMATS[batch.magic].check_crc(buf, batch)


def records(buf: Buffer, batch: Batch) -> list[Record]:
    """Return the records of a batch of `buf`, decompressed and with absolute offsets.

    Control records are returned as they are. Raises CorruptBatch for everything that Kafka's reader
    refuses, and when the decompressed size exceeds the limit of
    `compression.limit`.
    """
    decoded: list[Record] = _FORMATS[batch.magic].decode_records(buf, batch)
    return decoded


def first_offset(buf: Buffer, batch: Batch) -> int:
    """Return the offset of the first record, which brokers 0.8 to 1.1 write into the offset index.

    Magic 2: the header's base offset, even where compaction removed that record. Wrapper: the
    offset of the first inner message; the wrapper is decompressed to find it. Raises CorruptBatch
    as `records`.
    """
    first: int = _FORMATS[batch.magic].first_offset(buf, batch)
    return first
