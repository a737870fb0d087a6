"""A log in another magic or codec: the rules, written to be read; the kernels are held to them.

    cleaner    what the log cleaner of Kafka 4 does to magic 0 and 1 (KIP-724, KAFKA-13093), in every direction: one
               batch in, one batch out, offsets and their holes kept. The only rule for bytes that a broker will hold.
    produce    what a leader made of a producer's message set (formats/produce.py): for comparison
    fetch      what a broker sent to an old consumer (formats/fetch.py): for comparison
    kip31      the offsets inside wrappers as KIP-31 words them (formats/kip31.py): for comparison

Why not the other two for stored bytes: `produce` merges a message set into one batch and numbers it anew, and a
follower that ended inside a merged batch could not go on; `fetch` drops what its reader did not ask for.

The cleaner's rule here. A batch that is of the target's magic and codec already is copied. Another codec alone keeps
every field of a magic-2 header and its records to the byte. Up: an uncompressed message becomes a batch of one record,
a wrapper one batch from its first record's offset to its last's; no producer, no leader epoch; no timestamp is -1
CreateTime, LogAppendTime stays with the wrapper's time in every record. Down, in the shapes of the fetch path: with a
codec one wrapper, without one message per record; what the old magic cannot say is counted (see losses). Control and
empty batches cannot be said at all and vanish, which leaves a legal hole, but not at the end of the log: where the
log's end offset would fall, and offsets be used twice, its last batch is kept as it is.

The page for people is docs/formats/conversion.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from kafkats.compression import compress, decompress
from kafkats.errors import BadInput, CorruptBatch, NotConvertible
from kafkats.formats import dispatch, v2
from kafkats.formats.build import Target, append_time, build, target_codec
from kafkats.formats.fetch import fetch
from kafkats.formats.losses import add_losses, count_losses
from kafkats.formats.model import Batch
from kafkats.formats.produce import produce
from kafkats.generations import LOSSES, MAX_RELATIVE_OFFSET
from kafkats.primitives import Buffer, view

__all__ = [
    "LOSSES",
    "MAX_SEGMENT_BYTES",
    "RULES",
    "Converted",
    "Target",
    "convert_batch",
    "convert_segment",
    "fetch",
    "produce",
]

MAX_SEGMENT_BYTES: Final = 2**31 - 1
"""Kafka cannot open a larger segment."""


class Converted(NamedTuple):
    """What a batch or a segment became."""

    data: bytes
    """Zero or more frames."""
    losses: dict[str, int]
    """Words of LOSSES -> how many; only those that occurred."""
    records: int
    """Records of the batches that were written anew; batches that are copied are not decoded for it."""


def convert_batch(buf: Buffer, batch: Batch, target: Target, *, last_of_log: bool = False) -> Converted:
    """One batch of `buf` by the cleaner's rule; its CRC is taken for checked (dispatch.batches does that).

    `last_of_log`: no batch follows in the whole log, so the batch is kept as it is where its last offset would be
    lost. Raises CorruptBatch when its records cannot be read, and NotConvertible, both at its position.
    """
    try:
        return _convert_batch(buf, batch, target, last_of_log)
    except (CorruptBatch, NotConvertible) as e:
        if e.position is not None:
            raise
        raise type(e)(e.reason, position=batch.position) from e


def _convert_batch(buf: Buffer, batch: Batch, target: Target, last_of_log: bool) -> Converted:
    copied = Converted(bytes(view(buf)[batch.position : batch.end]), {}, 0)
    down = target.magic < v2.MAGIC <= batch.magic
    if batch.magic == v2.MAGIC and (batch.control or batch.count == 0):
        if last_of_log or not down:
            return copied
        return Converted(b"", count_losses(batch, dispatch.records(buf, batch), target.magic), 0)
    if batch.magic == target.magic and target.codec in {None, batch.codec}:
        return copied
    codec = target_codec(batch.codec, target)
    records = dispatch.records(buf, batch)
    if batch.magic == target.magic == v2.MAGIC:
        return Converted(_recompressed(buf, batch, codec), {}, len(records))
    if last_of_log and records[-1].offset < batch.last_offset:
        return copied
    time = append_time(batch)
    if target.magic > 0 and time is not None and any(record.timestamp != time for record in records):
        # KAFKA-4298 under LogAppendTime. Kafka's cleaner gives it the wrapper's time, and readers another answer.
        raise NotConvertible("a message without a timestamp in a LogAppendTime wrapper")
    data = build(records, target.magic, codec, log_append_time=time)
    return Converted(data, count_losses(batch, records, target.magic), len(records))


def _recompressed(buf: Buffer, batch: Batch, codec: int) -> bytes:
    # Not by way of records: under LogAppendTime the area still holds the producer's times, and keys of headers any bytes.
    data = view(buf)
    header = v2.BatchHeader._make(v2.HEADER.unpack_from(data, batch.position))
    area = decompress(batch.codec, data[batch.position + v2.HEADER_BYTES : batch.end])
    attributes = header.attributes & ~0x07 | codec
    try:
        return v2.seal(header._replace(attributes=attributes), compress(codec, area))
    except BadInput as e:
        raise NotConvertible(e.reason) from e


def convert_segment(buf: Buffer, base_offset: int, target: Target, *, log_end: bool = False) -> Converted:
    """A whole `.log` by the cleaner's rule. `log_end`: it is the partition's last segment.

    Raises CorruptBatch for what Kafka's recovery would cut or its reader refuse, and NotConvertible for anything else
    that blocks the segment: bytes behind the last whole batch, an offset that does not belong to a segment of
    `base_offset`, more than 2^31 - 1 bytes.
    """
    batches = list(dispatch.batches(buf))
    end = batches[-1].end if batches else 0
    if end < len(view(buf)):
        raise NotConvertible(f"{len(view(buf)) - end} bytes after the last whole batch", position=end)
    parts = []
    for number, batch in enumerate(batches, 1):
        part = convert_batch(buf, batch, target, last_of_log=log_end and number == len(batches))
        _check_offsets(part.data, base_offset, batch)
        parts.append(part)
    size = sum(len(part.data) for part in parts)
    if size > MAX_SEGMENT_BYTES:
        raise NotConvertible(f"it would take {size} bytes, more than {MAX_SEGMENT_BYTES}")
    return Converted(
        b"".join(part.data for part in parts),
        add_losses(part.losses for part in parts),
        sum(part.records for part in parts),
    )


def _check_offsets(data: bytes, base_offset: int, source: Batch) -> None:
    # Kafka does not load a segment with an offset below its base, and cannot index one 2^31 above it.
    for frame in dispatch.batches(data, verify=False):
        for offset in (frame.last_offset, frame.base_offset if frame.magic == v2.MAGIC else frame.last_offset):
            if not 0 <= offset - base_offset <= MAX_RELATIVE_OFFSET:
                raise NotConvertible(
                    f"offset {offset} cannot be in a segment of base offset {base_offset}", position=source.position
                )


RULES: Final[dict[str, Callable[..., Converted | bytes]]] = {
    "cleaner": convert_segment,
    "produce": produce,
    "fetch": fetch,
}
"""Name -> rule; `cleaner` alone is for bytes that a broker will hold."""
