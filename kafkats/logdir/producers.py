"""Replay a log into the state of its idempotent and transactional producers, as a broker does.

    data batch      sets epoch, last sequence, last offset and offset delta of the batch, and its
                    maximum timestamp. A transactional batch opens a transaction at its base offset
                    if none is open.
    ABORT, COMMIT   set epoch, coordinator epoch and the marker's timestamp, and end the
                    transaction. The last batch is kept, unless the epoch changes.
    empty batch     counts as a data batch: compaction keeps it for this purpose. An emptied
                    control batch has no marker and only creates the producer.

The replay starts from the nearest earlier readable snapshot, else from the first segment. Expired
producers are kept: the broker that loads a snapshot drops them by its own clock. Source:
ProducerStateManager and ProducerAppendInfo, UnifiedLog.rebuildProducerState of Kafka 2.8 to 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from kafkats import paths
from kafkats.errors import CorruptBatch, CorruptFile, KafkatsError, storage
from kafkats.formats import dispatch
from kafkats.formats.control import ControlType, decode_control_type, decode_coordinator_epoch
from kafkats.formats.v2 import CONTROL_BIT, TRANSACTIONAL_BIT
from kafkats.kernels import headers_state as k
from kafkats.logdir.snapshot import ProducerEntry, encode_snapshot, read_snapshot
from kafkats.segment.headers import Rows, batch_headers
from kafkats.segment.reader import Source, open_source

Producers = dict[int, ProducerEntry]
"""Entries by producer id, in the order in which the producers first appeared."""


class OpenTransactions:
    """The first offset of each open transaction of a log, by producer."""

    def __init__(self, entries: Iterable[ProducerEntry] = ()) -> None:
        self.first = {e.producer_id: e.txn_first_offset for e in entries if e.txn_first_offset >= 0}

    def add(self, entry: ProducerEntry) -> None:
        """Note that a batch of the producer was read. It need not belong to a transaction."""
        if entry.txn_first_offset >= 0:
            self.first[entry.producer_id] = entry.txn_first_offset

    def end(self, producer: int) -> int:
        """End the producer's transaction, and return its first offset, -1 if none was open."""
        return self.first.pop(producer, -1)

    def last_stable(self, offset: int) -> int:
        """Return the last stable offset after a marker at `offset`."""
        return min(self.first.values(), default=offset + 1)


class Marker(NamedTuple):
    """The end of a transaction: ABORT or COMMIT."""

    aborts: bool
    coordinator_epoch: int
    timestamp: int


Tell = Callable[[Sequence[int], ProducerEntry, Marker | None], None]
"""A callback with a batch's row (segment.headers.Rows), its producer before it, and its marker."""

_MOST_SEQUENCE: Final = 2**31 - 1
_NO_BATCH: Final = {"last_sequence": -1, "last_offset": -1, "offset_delta": 0}


def snapshot_at(directory: Path, offset: int, *, mapped: bool = False) -> bytes:
    """Return the bytes of the `.snapshot` for `offset`, a segment's base or the log end.

    Raises as `producers_at`.
    """
    return encode_snapshot(java_order(producers_at(directory, offset, mapped=mapped)))


def producers_at(directory: Path, offset: int, *, mapped: bool = False) -> Producers:
    """Return the producers at log end offset `offset`, from the directory's snapshots and logs.

    Set `mapped` only where no broker can truncate the files. Raises CorruptBatch, with path and
    position, for batches that a broker does not load either, Changed, Vanished, StorageFailed.
    """
    with storage(directory, "listing the partition directory"):
        names = [
            parsed
            for name in directory.iterdir()
            if (parsed := paths.parse_segment_file(name.name))
        ]
    snapshots = {
        n.base_offset
        for n in names
        if n.kind == paths.SNAPSHOT and not n.suffix and n.base_offset <= offset
    }
    bases = sorted(n.base_offset for n in names if n.kind == paths.LOG and not n.suffix)
    known, start = _nearest(directory, snapshots)
    for base, following in zip(bases, [*bases[1:], None], strict=True):
        if base >= offset or (following is not None and following <= start):
            continue
        log = directory / paths.segment_file(base)
        with open_source(log, mapped=mapped) as source:
            try:
                replay(known, source, from_offset=start, to_offset=offset)
            except KafkatsError as e:
                raise type(e)(e.reason, path=log, position=e.position) from e
    return known


def _nearest(directory: Path, snapshots: Iterable[int]) -> tuple[Producers, int]:
    """Return the producers of the last readable one of `snapshots` and its offset, else ({}, 0)."""
    for offset in sorted(snapshots, reverse=True):
        try:
            entries = read_snapshot(directory / paths.segment_file(offset, paths.SNAPSHOT))
        except CorruptFile:
            continue  # a broker deletes it and takes the one before
        return {entry.producer_id: entry for entry in entries}, offset
    return {}, 0


def replay(
    known: Producers, source: Source, *, from_offset: int = 0, to_offset: int = 2**63 - 1
) -> None:
    """Apply to `known` the segment's batches whose last offset is in [from_offset, to_offset).

    Raises CorruptBatch with its position, Changed, StorageFailed.
    """
    for rows in batch_headers(source, producers_only=True):
        last = rows[:, k.LAST_OFFSET]
        advance(known, rows[(last >= from_offset) & (last < to_offset)], source)


def advance(known: Producers, rows: Rows, source: Source, tell: Tell | None = None) -> None:
    """Apply `rows` to `known`: batches of `source` that have a producer id.

    `tell` is called in order with each batch that may change a producer. Raises CorruptBatch with
    its position, StorageFailed.
    """
    for row in _telling(rows).tolist():
        before = known.get(row[k.PRODUCER_ID]) or ProducerEntry(
            row[k.PRODUCER_ID], -1, -1, -1, 0, -1, -1, -1
        )
        marker = (
            read_marker(row, source) if row[k.ATTRIBUTES] & CONTROL_BIT and row[k.COUNT] else None
        )
        if marker is not None:
            known[before.producer_id] = after_marker(before, row, marker)
        elif row[k.ATTRIBUTES] & CONTROL_BIT:
            known[before.producer_id] = before
        else:
            known[before.producer_id] = after_data(before, row)
        if tell is not None:
            tell(row, before, marker)


def _telling(rows: Rows) -> Rows:
    """Return the rows that change the result.

    In a run of like batches of one producer these are the first, which may open a transaction, and
    the last. Every control batch is kept.
    """
    order = np.argsort(rows[:, k.PRODUCER_ID], kind="stable")
    kinds = rows[order][:, [k.PRODUCER_ID, k.PRODUCER_EPOCH, k.ATTRIBUTES, k.COUNT]]
    kinds[:, 2] &= CONTROL_BIT | TRANSACTIONAL_BIT
    kinds[:, 3] = kinds[:, 3] > 0  # whether there are records
    differs = np.empty(len(rows) + 1, bool)
    differs[[0, -1]] = True
    differs[1:-1] = (kinds[1:] != kinds[:-1]).any(axis=1)
    kept = differs[:-1] | differs[1:] | (kinds[:, 2] & CONTROL_BIT != 0)
    telling: Rows = rows[np.sort(order[kept])]
    return telling


def after_data(producer: ProducerEntry, row: Sequence[int]) -> ProducerEntry:
    transactional = row[k.ATTRIBUTES] & TRANSACTIONAL_BIT
    if producer.txn_first_offset >= 0 and not transactional:
        raise CorruptBatch(
            f"producer {producer.producer_id} has an open transaction, and the batch at"
            f" {row[k.FIRST_OFFSET]} is in none",
            position=row[k.AT],
        )
    delta = row[k.LAST_OFFSET] - row[k.FIRST_OFFSET]
    begins = transactional and producer.txn_first_offset < 0
    return producer._replace(
        producer_epoch=row[k.PRODUCER_EPOCH],
        last_sequence=_last_sequence(row[k.BASE_SEQUENCE], delta),
        last_offset=row[k.LAST_OFFSET],
        offset_delta=delta,
        timestamp=row[k.MAX_TIMESTAMP],
        txn_first_offset=row[k.FIRST_OFFSET] if begins else producer.txn_first_offset,
    )


def _last_sequence(first: int, delta: int) -> int:
    """Return the last sequence of a batch. Sequences wrap from 2^31-1 to 0."""
    return -1 if first < 0 else (first + delta) & _MOST_SEQUENCE


def read_marker(row: Sequence[int], source: Source) -> Marker:
    position = row[k.AT]
    data = source.read(position, row[k.SIZE])
    try:
        batch = next(dispatch.batches(data, verify=False))
        record = dispatch.records(data, batch)[0]
        kind = decode_control_type(record.key)
        if kind not in {ControlType.ABORT, ControlType.COMMIT}:
            raise CorruptBatch("a producer's control record is neither ABORT nor COMMIT")
        return Marker(
            kind == ControlType.ABORT, decode_coordinator_epoch(record.value), record.timestamp
        )
    except (CorruptBatch, StopIteration) as e:
        raise CorruptBatch(
            f"a transaction marker that cannot be read: {e}", position=position
        ) from e


def after_marker(producer: ProducerEntry, row: Sequence[int], marker: Marker) -> ProducerEntry:
    kept: Mapping[str, int] = {} if row[k.PRODUCER_EPOCH] == producer.producer_epoch else _NO_BATCH
    return producer._replace(
        producer_epoch=row[k.PRODUCER_EPOCH],
        timestamp=marker.timestamp,
        coordinator_epoch=marker.coordinator_epoch,
        txn_first_offset=-1,
        **kept,
    )


def java_order(known: Mapping[int, ProducerEntry]) -> list[ProducerEntry]:
    """Return the producers in the order of the file: the iteration order of java.util.HashMap.

    HashMap iterates by slot of its table, and within a slot by insertion.
    """
    slots = 16
    while len(known) > slots * 3 // 4:
        slots *= 2

    def slot(producer_id: int) -> int:
        folded = (producer_id ^ (producer_id >> 32)) & 0xFFFFFFFF
        return (folded ^ (folded >> 16)) & (slots - 1)

    return sorted(known.values(), key=lambda entry: slot(entry.producer_id))
