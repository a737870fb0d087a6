"""Convert a log between the formats that shipped and the dialect `enriched`, batch by batch.

To the dialect: a message becomes a message, a wrapper or a batch with a codec a wrapper, a batch
without one a message per record. Offsets and their holes are kept. ABORT and COMMIT markers become
control messages. From it: the same, in the shapes of formats/build.py; control messages are
dropped.

Losses, by the words of formats/losses.py:

    timestamps       to the dialect: CreateTime, because its timestamps are the broker's; the number
                     stays. To magic 0: all.
    headers          to the dialect: record headers. From it: messages with unknown tags.
    control          from the dialect: control messages.
    aborted-visible  to the dialect: ABORT markers, which do not tell whose records they abort.
    transactions, idempotence, delete-horizon, leader-epochs: to the dialect, as to magic 1

A log has one dialect: no batch can stay as it is to keep the log end, so such a log is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafkats.errors import BadInput, CorruptBatch, NotConvertible
from kafkats.formats import dispatch, v1
from kafkats.formats.build import Target, append_time, build, target_codec
from kafkats.formats.control import ControlType, decode_control_type
from kafkats.formats.convert import Converted, count_losses
from kafkats.formats.model import NO_TIMESTAMP, Batch, Codec, Record, TimestampType
from kafkats.generations import LOSSES
from kafkats.primitives import Buffer
from kafkats_model.formats import enriched
from kafkats_model.formats.enriched import MessageType, Tags

_MARKERS: Final[Mapping[int, MessageType]] = {
    ControlType.ABORT: MessageType.ABORT_TRANSACTION,
    ControlType.COMMIT: MessageType.COMMIT_TRANSACTION,
}


def convert_batch(
    buf: Buffer, batch: Batch, target: Target, *, last_of_log: bool = False
) -> Converted:
    """Convert one batch to or from the dialect, as `target` says. The caller has checked its CRC.

    Raises CorruptBatch, and NotConvertible for what the other side cannot hold; both with the
    batch's position.
    """
    convert = _to_dialect if target.dialect else _from_dialect
    try:
        made, end = convert(buf, batch, target)
        if last_of_log and end < _end_of(buf, batch):
            raise NotConvertible("the log end offset would fall: its last records are not kept")
    except (CorruptBatch, NotConvertible) as e:
        if e.position is not None:
            raise
        raise type(e)(e.reason, position=batch.position) from e
    return made


def _end_of(buf: Buffer, batch: Batch) -> int:
    return enriched.last_offset(buf, batch) if batch.last_offset < 0 else batch.last_offset


def _to_dialect(buf: Buffer, batch: Batch, target: Target) -> tuple[Converted, int]:
    """Return the converted batch, and its last offset; -1 if nothing is left."""
    records = dispatch.records(buf, batch)
    end = records[-1].offset if records else -1
    if batch.control:
        return _markers(batch, records), end
    losses = count_losses(batch, records, v1.MAGIC)
    own = sum(
        r.timestamp_type == TimestampType.CREATE_TIME and r.timestamp != NO_TIMESTAMP
        for r in records
    )
    if not records:
        return Converted(b"", losses, 0), end
    plain = [record._replace(headers=()) for record in records]
    codec = target_codec(batch.codec, target)
    time = append_time(batch) if codec != Codec.NONE else None
    try:
        data = enriched.encode_batch(plain, codec=codec, append_time_ms=time)
    except BadInput as e:
        raise NotConvertible(e.reason) from e
    return Converted(data, _ordered(losses | {"timestamps": own}), len(records)), end


def _markers(batch: Batch, records: list[Record]) -> Converted:
    data, aborts = b"", 0
    for record in records:
        number = decode_control_type(record.key)
        if number not in _MARKERS:
            raise NotConvertible(f"a control record of type {number} has no counterpart")
        aborts += number == ControlType.ABORT
        tags = Tags(timestamp_ms=record.timestamp)
        kind = _MARKERS[number]
        data += enriched.encode_message(record.offset, kind, record.key, record.value, tags)
    lost = {"aborted-visible": aborts, "leader-epochs": int(batch.leader_epoch >= 0)}
    return Converted(data, _ordered(lost), len(records))


def _from_dialect(buf: Buffer, batch: Batch, target: Target) -> tuple[Converted, int]:
    if batch.control:
        return Converted(b"", {"control": 1}, 0), -1
    records = enriched.decode_records(buf, batch)
    tags = enriched.decode_tags(buf, batch)
    codec = target_codec(batch.codec, target)
    # A wrapper without a time of its own has one in each record, as CreateTime has.
    stamped = batch.max_timestamp if batch.max_timestamp != NO_TIMESTAMP else None
    data = build(records, target.magic, codec, log_append_time=stamped, position=batch.position)
    times = sum(record.timestamp != NO_TIMESTAMP for record in records)
    lost = {"headers": int(bool(tags.unknown)), "timestamps": 0 if target.magic else times}
    return Converted(data, _ordered(lost), len(records)), records[-1].offset


def _ordered(losses: Mapping[str, int]) -> dict[str, int]:
    return {word: losses[word] for word in LOSSES if losses.get(word)}
