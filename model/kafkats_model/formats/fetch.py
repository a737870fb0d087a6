"""Convert a log as brokers 0.11 to 3.9 do for old consumers: RecordsUtil.downConvert.

Which version of a fetch receives which format is in versions.py. Use this module to compare with a
broker's answers and to show what a consumer receives. Stored segments are converted by convert.py,
which differs in three ways: here zstd is an error, a control batch is always dropped, and an
uncompressed batch of magic 2 contributes only the records from the requested offset on.

Brokers 0.10 rebuilt the whole answer as one message set; this module does not implement that.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkats.errors import NotConvertible
from kafkats.formats import dispatch, v2
from kafkats.formats.build import append_time, build
from kafkats.formats.model import Batch, Codec, Record
from kafkats.primitives import Buffer, view


def fetch(
    buf: Buffer,
    magic: int,
    *,
    first_offset: int = 0,
    records: Callable[[Buffer, Batch], list[Record]] = dispatch.records,
) -> bytes:
    """Return the batches of `buf` as brokers send them to a consumer of `magic` at `first_offset`.

    `records` decodes a batch that is converted. Raises CorruptBatch. Raises NotConvertible where
    the broker answers with an error (zstd), and for a field out of range.
    """
    return b"".join(
        _fetch_batch(buf, batch, magic, first_offset, records) for batch in dispatch.batches(buf)
    )


def _fetch_batch(
    buf: Buffer,
    batch: Batch,
    magic: int,
    first_offset: int,
    records: Callable[[Buffer, Batch], list[Record]],
) -> bytes:
    if magic < v2.MAGIC and batch.control:
        return b""
    if magic < v2.MAGIC and batch.codec == Codec.ZSTD:
        raise NotConvertible(
            f"zstd is not sent to consumers of magic {magic}", position=batch.position
        )
    if batch.magic <= magic:
        return bytes(view(buf)[batch.position : batch.end])
    decoded = records(buf, batch)
    if batch.codec == Codec.NONE:
        decoded = [record for record in decoded if record.offset >= first_offset]
    if not decoded:
        return b""
    return build(
        decoded, magic, batch.codec, log_append_time=append_time(batch), position=batch.position
    )
