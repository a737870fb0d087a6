"""What a broker of 0.11 to 3.9 sent to a consumer that asked for an older magic: RecordsUtil.downConvert.

Fetch versions 0 and 1 get magic 0, versions 2 and 3 magic 1, later ones the bytes as they lie. For comparison with a
broker's answers and to know what a consumer would see; stored segments are converted by convert.py. It differs from
there in three ways: zstd is an error, a control batch always vanishes, and of an uncompressed batch of magic 2 only
the records from the asked offset on are sent.

Brokers of 0.10 made one message set of the whole answer; that is not built here.
"""

from __future__ import annotations

from kafkats.errors import NotConvertible
from kafkats.formats import dispatch, v2
from kafkats.formats.build import append_time, build
from kafkats.formats.model import Batch, Codec
from kafkats.primitives import Buffer, view


def fetch(buf: Buffer, magic: int, *, first_offset: int = 0) -> bytes:
    """The batches of `buf` as a consumer of `magic` that asked for `first_offset` was sent them.

    Raises CorruptBatch, and NotConvertible where the broker answered with an error (zstd) or our formats end.
    """
    return b"".join(_fetch_batch(buf, batch, magic, first_offset) for batch in dispatch.batches(buf))


def _fetch_batch(buf: Buffer, batch: Batch, magic: int, first_offset: int) -> bytes:
    if magic < v2.MAGIC and batch.control:
        return b""
    if magic < v2.MAGIC and batch.codec == Codec.ZSTD:
        raise NotConvertible(f"zstd is not sent to consumers of magic {magic}", position=batch.position)
    if batch.magic <= magic:
        return bytes(view(buf)[batch.position : batch.end])
    records = dispatch.records(buf, batch)
    if batch.codec == Codec.NONE:
        records = [record for record in records if record.offset >= first_offset]
    if not records:
        return b""
    return build(records, magic, batch.codec, log_append_time=append_time(batch), position=batch.position)
