"""Convert a producer's message set as a leader does before it appends it: LogValidator, 0.11 to 4.

In place: the leader overwrites the offsets and the leader epoch. Where they change, it also
overwrites timestamp, timestamp type and CRC. All other bytes are kept. This applies when the set
already has the topic's magic and codec; with a codec only for magic 1 and 2, and only if the inner
offsets are 0, 1, 2 ...

Rebuilt otherwise: the whole set becomes one batch of magic 2, or one wrapper, or one uncompressed
message per record. Both ways assign new, consecutive offsets.

Never use it for stored segments. It refuses only what a leader cannot write. Whether a leader
accepts the set is decided in broker/validate.py: timestamp ranges, keys of compacted topics,
sequences, offsets in a client's batch.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from kafkats.compression.checksums import crc32, crc32c
from kafkats.errors import NotConvertible
from kafkats.formats import dispatch, message_set, v1, v2
from kafkats.formats.build import Target, build, target_codec
from kafkats.formats.framing import FRAME
from kafkats.formats.model import NO_TIMESTAMP, Batch, Codec, Record, TimestampType
from kafkats.primitives import INT64, Buffer, view

_CODEC_BITS: Final = 0x07
_KEPT_V2_BITS: Final = _CODEC_BITS | v2.TRANSACTIONAL_BIT | v2.CONTROL_BIT


class MessageSet(NamedTuple):
    """A decoded message set: `buf`, its batches, and the records of each."""

    buf: Buffer
    batches: Sequence[Batch]
    records: Sequence[list[Record]]

    @property
    def codec(self) -> int:
        """The codec of the set as a leader takes it: that of the last compressed batch."""
        return next((b.codec for b in reversed(self.batches) if b.codec != Codec.NONE), Codec.NONE)


class Assigned(NamedTuple):
    """The bytes of a message set with its offsets; `in_place`: the batches are the given ones."""

    data: bytes
    in_place: bool


def produce(
    buf: Buffer,
    target: Target,
    *,
    timestamp_type: TimestampType,
    now_ms: int,
    offset: int,
    leader_epoch: int,
) -> bytes:
    """Return the message set `buf` as the leader of the topic appends it at `offset`.

    Raises CorruptBatch, and NotConvertible as `assign`.
    """
    batches = list(dispatch.batches(buf))
    if not batches:
        return b""
    sent = MessageSet(buf, batches, [dispatch.records(buf, batch) for batch in batches])
    return assign(
        sent,
        target,
        timestamp_type=timestamp_type,
        now_ms=now_ms,
        offset=offset,
        leader_epoch=leader_epoch,
    ).data


def assign(
    sent: MessageSet,
    target: Target,
    *,
    timestamp_type: TimestampType,
    now_ms: int,
    offset: int,
    leader_epoch: int,
    delete_horizon: bool = True,
    one_kind: bool = True,
    stamp_inner: bool = True,
) -> Assigned:
    """Return a set, of at least one batch, as the leader of the topic appends it at `offset`.

    `target` and `timestamp_type` describe the topic. Without a codec in `target` the set keeps its
    own. `now_ms` is the broker's clock; it is written under LogAppendTime. `delete_horizon`: bit 6
    stays where the header of magic 2 is written anew, as from 3.1 on. `stamp_inner` is that of
    `v1.encode_batch`. Raises NotConvertible for forms that a leader refuses: with `one_kind`, as
    from 2.4 on, several wrappers, several batches of magic 2, or mixed magics in a set; mixed
    magics in a wrapper, an empty batch; headers, transactions, producer ids and zstd below magic 2.
    """
    batches, codec = sent.batches, sent.codec
    wanted = target_codec(codec, target)
    for batch, records in zip(batches, sent.records, strict=True):
        _check(sent.buf, batch, records, target.magic)
    first = batches[0]
    if one_kind and any(batch.magic != first.magic for batch in batches):
        raise NotConvertible("batches of different magic in one set")
    if one_kind and len(batches) > 1 and (first.magic == v2.MAGIC or codec != Codec.NONE):
        raise NotConvertible(
            f"{len(batches)} batches in a set that must be one", position=batches[1].position
        )
    append_ms = now_ms if timestamp_type == TimestampType.LOG_APPEND_TIME else None
    if _in_place(sent, wanted, target.magic):
        kept = _KEPT_V2_BITS | (v2.DELETE_HORIZON_BIT if delete_horizon else 0)
        return Assigned(_all_stamped(sent, offset, append_ms, leader_epoch, kept), True)
    records = [record for some in sent.records for record in some]
    fields: v2.HeaderFields = {
        "leader_epoch": leader_epoch,
        "producer_id": first.producer_id,
        "producer_epoch": first.producer_epoch,
        "base_sequence": first.base_sequence,
        "transactional": first.transactional,
    }
    built = build(
        [record._replace(offset=offset + i) for i, record in enumerate(records)],
        target.magic,
        wanted,
        log_append_time=append_ms,
        stamp_inner=stamp_inner,
        **(fields if target.magic == v2.MAGIC else v2.HeaderFields()),
    )
    return Assigned(built, False)


def _all_stamped(
    sent: MessageSet, offset: int, append_ms: int | None, leader_epoch: int, kept: int
) -> bytes:
    """`kept` are the attribute bits of magic 2 that stay where they are written anew."""
    parts = []
    for batch, records in zip(sent.batches, sent.records, strict=True):
        try:
            parts.append(_stamped(sent.buf, batch, records, offset, append_ms, leader_epoch, kept))
        except struct.error as e:
            raise NotConvertible(f"offset {offset}, time or leader epoch does not fit: {e}") from e
        offset += len(records)
    return b"".join(parts)


def _check(buf: Buffer, batch: Batch, records: Sequence[Record], magic: int) -> None:
    reason = None
    if not records:
        reason = "an empty batch"
    elif magic < v2.MAGIC and (batch.transactional or batch.producer_id >= 0):
        reason = f"a producer id or a transaction cannot be in magic {magic}"
    elif magic < v2.MAGIC and any(record.headers for record in records):
        reason = f"record headers cannot be in magic {magic}"
    elif batch.magic < v2.MAGIC and batch.codec != Codec.NONE:
        inner = message_set.wrapped(buf, batch, broken_lz4=batch.magic == 0)[1]
        if any(frame.magic != batch.magic for frame in inner):
            reason = f"messages of another magic in a wrapper of magic {batch.magic}"
    if reason is not None:
        raise NotConvertible(reason, position=batch.position)


def _in_place(sent: MessageSet, wanted: int, magic: int) -> bool:
    codec, same = sent.codec, all(batch.magic == magic for batch in sent.batches)
    if codec == wanted == Codec.NONE:
        return same
    if codec == Codec.NONE and sent.batches[0].control:
        return True
    return codec == wanted and same and magic > 0 and contiguous(sent.records)


def contiguous(sets: Sequence[list[Record]]) -> bool:
    """Return whether the offsets in a client's set are 0, 1, 2 ..."""
    offsets = [record.offset for records in sets for record in records]
    return offsets == list(range(len(offsets)))


def _stamped(
    buf: Buffer,
    batch: Batch,
    records: list[Record],
    offset: int,
    append_ms: int | None,
    leader_epoch: int,
    kept: int,
) -> bytes:
    data = bytearray(view(buf)[batch.position : batch.end])
    last = offset + len(records) - 1
    appended = append_ms is not None
    # Kafka's maxima start at -1, so a lower timestamp in a magic-1 message becomes -1.
    time = max([NO_TIMESTAMP, *(r.timestamp for r in records)]) if append_ms is None else append_ms
    changed = time != batch.max_timestamp or appended != (
        batch.timestamp_type == TimestampType.LOG_APPEND_TIME
    )
    if batch.magic == v2.MAGIC:
        header = v2.BatchHeader._make(v2.HEADER.unpack_from(data))
        flags = header.attributes & kept | (v2.LOG_APPEND_TIME_BIT if appended else 0)
        header = header._replace(
            base_offset=last - header.last_offset_delta, leader_epoch=leader_epoch
        )
        if changed:
            header = header._replace(attributes=flags, max_timestamp=time)
        v2.HEADER.pack_into(data, 0, *header)
        if changed:
            header = header._replace(crc=crc32c(data[v2.CRC_FROM :]))
            v2.HEADER.pack_into(data, 0, *header)
        return bytes(data)
    FRAME.pack_into(data, 0, last, len(data) - FRAME.size)
    if batch.magic == v1.MAGIC and changed:
        data[message_set.ATTRIBUTES_AT] = batch.codec | (v1.LOG_APPEND_TIME_BIT if appended else 0)
        INT64.pack_into(data, message_set.TIMESTAMP_AT, time)
        data[FRAME.size : message_set.CRC_FROM] = crc32(data[message_set.CRC_FROM :]).to_bytes(
            4, "big"
        )
    return bytes(data)
