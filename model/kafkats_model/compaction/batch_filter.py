"""The decision on one batch: which of its records a cleaning keeps, and the bytes that stay.

A record stays if its key has no later offset in the map, and if it is no tombstone whose time is
over. A record without a key is deleted. Records beyond the map stay. The batch is copied if all of
it stays. Otherwise it is rebuilt with the same offsets, codec and producer fields; a wrapper gets
relative offsets from its first message that stays, with holes. An empty batch stays only for the
state of its producer, or as the last of the cleaned section. Source: Cleaner.cleanInto,
MemoryRecords.filterTo of Kafka 0.9 to 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kafkats.formats import dispatch, message_set, v2
from kafkats.formats.build import append_time, build
from kafkats.formats.model import Batch, Codec, Record
from kafkats.logdir.snapshot import ProducerEntry
from kafkats.primitives import Buffer, view, wrap_int64
from kafkats_model.broker.compaction_rules import CleaningRule
from kafkats_model.broker.error_names import UNCLEANABLE
from kafkats_model.broker.validate import Largest
from kafkats_model.compaction.splice import Part, spliced
from kafkats_model.compaction.transactions import Transactions
from kafkats_model.errors import Rejected


class Offsets(Protocol):
    """The offset map, as the filter reads it."""

    @property
    def latest_offset(self) -> int:
        """The last offset that the map covers."""
        ...

    def get(self, key: bytes) -> int:
        """Return the last offset of a key, -1 if it is not in the map."""
        ...


@dataclass(frozen=True)
class Cleaning:
    """The state of one cleaning that is the same for all of its batches."""

    rule: CleaningRule
    offsets: Offsets
    end_offset: int
    """The first offset that may not be cleaned: the end of the section at which it aims."""
    now_ms: int
    delete_retention_ms: int
    producers: Mapping[int, ProducerEntry]
    """The producers that are not expired."""

    @property
    def new_delete_horizon_ms(self) -> int:
        """The delete horizon of tombstones that have none; a negative one is not written.

        The sum wraps, as in MemoryRecords.filterTo; MemoryRecordsBuilder ignores a negative one.
        """
        return wrap_int64(self.now_ms + self.delete_retention_ms)


class Kept(NamedTuple):
    """The part of a batch that stays."""

    data: bytes
    largest: Largest
    last_offset: int
    """The last offset as the index entry of an append gets it."""


def keep(
    buf: Buffer, batch: Batch, cleaning: Cleaning, transactions: Transactions, keeps_deletes: bool
) -> Kept | None:
    """Return what stays of a batch of `buf`, None for nothing.

    `keeps_deletes`: tombstones and markers of the segment are too young to be deleted, by its
    mtime. Raises CorruptBatch, NotConvertible; Rejected where Kafka's cleaner fails.
    """
    rule = cleaning.rule
    discards = rule.transactions and transactions.discards(buf, batch)
    empty_marker = discards and batch.control
    if batch.control and discards:
        discards = _marker_is_over(batch, cleaning, keeps_deletes)
    stays = _must_stay(batch, cleaning)
    if discards and not stays:
        return None
    records = dispatch.records(buf, batch)
    kept = [] if discards else _kept(batch, records, cleaning, keeps_deletes)
    if not kept:
        return _emptied(batch) if stays else None
    return _written(buf, batch, records, kept, cleaning, empty_marker=empty_marker)


def _marker_is_over(batch: Batch, cleaning: Cleaning, keeps_deletes: bool) -> bool:
    """Return whether the time of a marker of an empty transaction is over."""
    if not cleaning.rule.delete_horizon:
        return not keeps_deletes
    horizon = batch.delete_horizon_ms
    return horizon is not None and horizon <= cleaning.now_ms


def _must_stay(batch: Batch, cleaning: Cleaning) -> bool:
    """Return whether the batch stays even if it is empty."""
    producer = cleaning.producers.get(batch.producer_id) if batch.producer_id >= 0 else None
    if producer is not None and _is_last(batch, producer, by_sequence=cleaning.rule.by_sequence):
        return True
    return cleaning.rule.keeps_last_batch and batch.last_offset + 1 == cleaning.end_offset


def _is_last(batch: Batch, producer: ProducerEntry, *, by_sequence: bool) -> bool:
    if by_sequence:
        return _last_sequence(batch) == producer.last_sequence
    if producer.last_offset >= 0:
        return batch.last_offset == producer.last_offset
    return batch.control and batch.producer_epoch == producer.producer_epoch


def _last_sequence(batch: Batch) -> int:
    if batch.base_sequence < 0:
        return -1
    return (batch.base_sequence + batch.last_offset - batch.base_offset) % 2**31


def _kept(
    batch: Batch, records: list[Record], cleaning: Cleaning, keeps_deletes: bool
) -> list[Record]:
    if batch.control and cleaning.rule.delete_horizon:
        return records
    if batch.magic == v2.MAGIC and cleaning.rule.delete_horizon:
        horizon = batch.delete_horizon_ms
        keeps_deletes = horizon is None or cleaning.now_ms < horizon
    return [r for r in records if _stays(r, cleaning.offsets, keeps_deletes)]


def _stays(record: Record, offsets: Offsets, keeps_deletes: bool) -> bool:
    if record.offset > offsets.latest_offset:
        return True
    if record.key is None or (record.value is None and not keeps_deletes):
        return False
    return record.offset >= offsets.get(record.key)


def _emptied(batch: Batch) -> Kept:
    if batch.magic < v2.MAGIC:
        reason = (
            f"{UNCLEANABLE}: no record of the last batch, of magic {batch.magic}, stays: Kafka's"
            " cleaner fails here, and marks the partition"
        )
        raise Rejected(reason, position=batch.position)
    fields = _fields(batch)
    fields["max_timestamp"] = batch.max_timestamp
    data = v2.encode_batch((), log_append_time=append_time(batch), **fields)
    return Kept(data, Largest(batch.max_timestamp, batch.last_offset), batch.last_offset)


def _fields(batch: Batch) -> v2.HeaderFields:
    return {
        "base_offset": batch.base_offset if batch.magic == v2.MAGIC else None,
        "last_offset": batch.last_offset if batch.magic == v2.MAGIC else None,
        "leader_epoch": batch.leader_epoch,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "transactional": batch.transactional,
        "control": batch.control,
    }


def _written(
    buf: Buffer,
    batch: Batch,
    records: list[Record],
    kept: list[Record],
    cleaning: Cleaning,
    *,
    empty_marker: bool,
) -> Kept:
    rule = cleaning.rule
    horizon = batch.delete_horizon_ms if rule.delete_horizon else None
    modern = batch.magic == v2.MAGIC or rule.writes_magic_2
    marks = rule.delete_horizon and modern and horizon is None
    if marks and (empty_marker or any(record.value is None for record in kept)):
        horizon = cleaning.new_delete_horizon_ms
    elif len(kept) == len(records) and _may_be_copied(buf, batch, rule):
        data = bytes(view(buf)[batch.position : batch.end])
        largest = Largest(batch.max_timestamp, batch.last_offset)
        return Kept(data, largest, batch.last_offset)
    data = _rebuilt(buf, batch, kept, rule, horizon)
    (made,) = dispatch.batches(data, verify=False)
    return Kept(data, Largest(made.max_timestamp, made.last_offset), kept[-1].offset)


def _may_be_copied(buf: Buffer, batch: Batch, rule: CleaningRule) -> bool:
    """Return whether a batch of which all stays keeps its bytes."""
    if batch.magic == v2.MAGIC:
        return True
    if batch.codec == Codec.NONE or rule.writes_magic_2 or rule.rebuilds_wrappers:
        return not rule.writes_magic_2 and batch.codec == Codec.NONE
    _, frames = message_set.wrapped(buf, batch, broken_lz4=batch.magic == 0)
    return all(frame.magic == batch.magic for frame in frames)


def _rebuilt(
    buf: Buffer, batch: Batch, kept: list[Record], rule: CleaningRule, horizon: int | None
) -> bytes:
    time = append_time(batch)
    if batch.magic == v2.MAGIC or rule.writes_magic_2:
        fields = _fields(batch)
        fields["delete_horizon_ms"] = None if horizon is None or horizon < 0 else horizon
        return build(
            kept,
            v2.MAGIC,
            batch.codec,
            log_append_time=time,
            position=batch.position,
            **fields,
        )
    if batch.codec != Codec.NONE and not rule.encodes_messages:
        return spliced([Part(buf, batch, frozenset(record.offset for record in kept))])
    return build(kept, batch.magic, batch.codec, log_append_time=time, position=batch.position)
