"""Whatever the magic: the batches of a log, and the records of a batch.

A partition that lived through upgrades holds all three magics, also inside one segment (Kafka 4.x still loads it), so
each frame says for itself which format decodes it.
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


def batches(buf: Buffer, start: int = 0, end: int | None = None, *, verify: bool = True) -> Iterator[Batch]:
    """The batches of buf[start:end] in file order, up to the quiet end of the log (see framing).

    Raises CorruptBatch where Kafka's recovery would cut the log: bad size, bad magic and, with `verify`, a CRC that
    does not match. Batches before that place have been given by then. Records are not looked at.
    """
    for frame in frames(buf, start, end):
        layout = _FORMATS[frame.magic]
        batch: Batch = layout.decode_batch(buf, frame)
        if verify:
            layout.check_crc(buf, batch)
        yield batch


def records(buf: Buffer, batch: Batch, *, max_output_bytes: int | None = None) -> list[Record]:
    """The records of a batch of `buf`, decompressed, with absolute offsets; control records as they are.

    Raises CorruptBatch for what Kafka's reader refuses, and beyond `max_output_bytes` after decompression.
    """
    decoded: list[Record] = _FORMATS[batch.magic].decode_records(buf, batch, max_output_bytes=max_output_bytes)
    return decoded


def first_offset(buf: Buffer, batch: Batch, *, max_output_bytes: int | None = None) -> int:
    """The offset that brokers of 0.8 to 1.1 put into the offset index: that of the first record.

    Magic 2: the header's base offset, also where compaction removed that record. Wrapper: the first inner message's,
    for which it is decompressed. Raises CorruptBatch as `records`.
    """
    first: int = _FORMATS[batch.magic].first_offset(buf, batch, max_output_bytes=max_output_bytes)
    return first
