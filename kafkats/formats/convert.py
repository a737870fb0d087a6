"""Convert a log to another magic or codec: the reference rules for the kernels.

The rule is what the log cleaner of Kafka 4 does to magic 0 and 1 (KIP-724, KAFKA-13093), in every
direction: one batch in, one batch out; offsets and their holes are kept. Brokers convert by other
rules what a producer sends and what an old consumer fetches; neither is for stored segments. A
leader merges a message set into one batch and assigns new offsets, so a follower whose log ends
inside a merged batch could not continue. A fetch drops records that its reader did not request.

The cleaner's rule:

* A batch that already has the target's magic and codec is copied.
* A change of codec alone keeps every other header field of magic 2, and the bytes of the records.
* To a newer magic: an uncompressed message becomes a batch of one record. A wrapper becomes one
  batch from its first record's offset to its last record's. The batch has no producer and no leader
  epoch. A missing timestamp becomes -1 CreateTime. LogAppendTime is kept, with the wrapper's
  timestamp in every record.
* To an older magic, in the shapes of the fetch path: one wrapper with a codec, else one message per
  record. Everything that the old magic cannot hold is counted (`count_losses`).
* Control batches and empty batches do not exist in an older magic. They are deleted, which leaves a
  legal hole in the offsets. The exception is the last batch of the log: if its conversion would
  lower the log end offset, a broker would assign those offsets twice, so the batch is kept as it
  is.

The user page is docs/formats/conversion.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kafkats.compression import compress, decompress
from kafkats.errors import BadInput, CorruptBatch, NotConvertible
from kafkats.formats import dispatch, v2
from kafkats.formats.build import Target, append_time, build, target_codec
from kafkats.formats.control import ControlType, decode_control_type
from kafkats.formats.model import NO_TIMESTAMP, Batch, Record
from kafkats.generations import LOSSES, MAX_RELATIVE_OFFSET
from kafkats.primitives import Buffer, view

MAX_SEGMENT_BYTES: Final = 2**31 - 1
"""Kafka cannot open a larger segment."""


class Converted(NamedTuple):
    """The result of converting a batch or a segment."""

    data: bytes
    """Zero or more frames."""
    losses: dict[str, int]
    """Word of LOSSES -> count; zero counts are left out."""
    records: int
    """Number of records in rebuilt batches. Copied batches are not decoded and do not count."""


def convert_batch(
    buf: Buffer, batch: Batch, target: Target, *, last_of_log: bool = False
) -> Converted:
    """Convert one batch of `buf` by the cleaner's rule. The caller has checked its CRC.

    dispatch.batches checks the CRC. `last_of_log`: no batch follows in the log, so the batch is
    kept as it is if conversion would lose its last offset. Raises CorruptBatch for records that
    cannot be decoded, and NotConvertible; both carry the batch's position.
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
    if (
        target.magic > 0
        and time is not None
        and any(record.timestamp != time for record in records)
    ):
        # KAFKA-4298 under LogAppendTime: Kafka's cleaner writes the wrapper's time, but Kafka's
        # readers report no timestamp for such a message.
        raise NotConvertible("a message without a timestamp in a LogAppendTime wrapper")
    data = build(records, target.magic, codec, log_append_time=time)
    return Converted(data, count_losses(batch, records, target.magic), len(records))


def _recompressed(buf: Buffer, batch: Batch, codec: int) -> bytes:
    # Recompress the area without decoding records: under LogAppendTime the area still holds the
    # producer's timestamps, and header keys can be any bytes.
    data = view(buf)
    header = v2.BatchHeader._make(v2.HEADER.unpack_from(data, batch.position))
    area = decompress(batch.codec, data[batch.position + v2.HEADER_BYTES : batch.end])
    attributes = header.attributes & ~0x07 | codec
    try:
        return v2.seal(header._replace(attributes=attributes), compress(codec, area))
    except BadInput as e:
        raise NotConvertible(e.reason) from e


def convert_segment(
    buf: Buffer, base_offset: int, target: Target, *, log_end: bool = False
) -> Converted:
    """Convert a whole `.log` by the cleaner's rule. `log_end`: it is the partition's last segment.

    Raises CorruptBatch for bytes that Kafka's recovery would truncate or its reader refuse. Raises
    NotConvertible for other obstacles: bytes after the last whole batch, an offset that does not
    belong to a segment of `base_offset`, a result above 2^31 - 1 bytes. Of several
    faults the first in the file counts.
    """
    size, end, parts = len(view(buf)), 0, []
    for batch in dispatch.batches(buf):
        end = batch.end
        part = convert_batch(buf, batch, target, last_of_log=log_end and end == size)
        _check_offsets(part.data, base_offset, batch)
        parts.append(part)
    if end < size:
        raise NotConvertible(f"{size - end} bytes after the last whole batch", position=end)
    size = sum(len(part.data) for part in parts)
    if size > MAX_SEGMENT_BYTES:
        raise NotConvertible(f"it would take {size} bytes, more than {MAX_SEGMENT_BYTES}")
    return Converted(
        b"".join(part.data for part in parts),
        add_losses(part.losses for part in parts),
        sum(part.records for part in parts),
    )


def _check_offsets(data: bytes, base_offset: int, source: Batch) -> None:
    # Kafka does not load a segment with an offset below its base offset, and cannot index an offset
    # 2^31 or more above it.
    for frame in dispatch.batches(data, verify=False):
        for offset in (
            frame.last_offset,
            frame.base_offset if frame.magic == v2.MAGIC else frame.last_offset,
        ):
            if not 0 <= offset - base_offset <= MAX_RELATIVE_OFFSET:
                raise NotConvertible(
                    f"offset {offset} cannot be in a segment of base offset {base_offset}",
                    position=source.position,
                )


_ALL_SINCE: Final = 2
"""The first magic that carries everything."""


def count_losses(batch: Batch, records: list[Record], magic: int) -> dict[str, int]:
    """Return what a conversion of `batch` with `records` to `magic` cannot carry, without zeros.

    By the words of `--accept-loss`:

        headers           records with headers                               below magic 2
        timestamps        records whose timestamp is not -1                  magic 0
        transactions      transactional batches, which lose that mark        below magic 2
        control           control batches, which are dropped                 below magic 2
        aborted-visible   dropped ABORT markers: all readers then see the
                          aborted records                                    below magic 2
        idempotence       batches with a producer id, and empty batches,
                          which are dropped                                  below magic 2
        delete-horizon    batches with the time to delete their tombstones
                          (KIP-534)                                          below magic 2
        leader-epochs     batches with a leader epoch                        below magic 2

    A control batch counts only as `control`, `aborted-visible` and `leader-epochs`: the batches of
    its transaction already count the transaction and the producer. A conversion to a newer magic
    loses nothing. Raises CorruptBatch for a control record without a type.
    """
    counts = dict.fromkeys(LOSSES, 0)
    if magic == 0:
        counts["timestamps"] = sum(
            record.timestamp != NO_TIMESTAMP for record in records if not batch.control
        )
    if magic < _ALL_SINCE <= batch.magic:
        counts["leader-epochs"] = int(batch.leader_epoch >= 0)
        if batch.control:
            counts["control"] = 1
            counts["aborted-visible"] = sum(
                decode_control_type(r.key) == ControlType.ABORT for r in records
            )
        else:
            counts["headers"] = sum(bool(record.headers) for record in records)
            counts["transactions"] = int(batch.transactional)
            counts["idempotence"] = int(batch.producer_id >= 0 or not records)
            counts["delete-horizon"] = int(batch.delete_horizon_ms is not None)
    return {word: count for word, count in counts.items() if count}


def add_losses(parts: Iterable[dict[str, int]]) -> dict[str, int]:
    """Return the sum of several counts in the order of LOSSES; zeros are left out."""
    parts = list(parts)
    sums = {word: sum(part.get(word, 0) for part in parts) for word in LOSSES}
    return {word: count for word, count in sums.items() if count}
