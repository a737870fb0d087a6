"""The transactions that a cleaning passes, and the `.txnindex` of the cleaned segment.

Records of aborted transactions are deleted whatever their keys. A marker may be deleted once no
batch of its transaction is left. Source: CleanedTransactionMetadata, TransactionIndex,
UnifiedLog.collectAbortedTransactions of Kafka 0.11 to 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kafkats import paths
from kafkats.formats import dispatch
from kafkats.formats.control import ControlType, decode_control_type
from kafkats.formats.model import Batch
from kafkats.index import txn_index
from kafkats.primitives import Buffer
from kafkats_model.broker import files


class Aborted(NamedTuple):
    """An aborted transaction, as an entry of the index has it."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def aborted_transactions(
    directory: Path, bases: Sequence[int], start: int, end: int
) -> list[Aborted]:
    """Return the aborted transactions that reach into [start, end).

    `bases` are the base offsets of all segments. Raises CorruptIndex, StorageFailed.
    """
    below = [base for base in bases if base <= start][-1:]
    found = []
    for base in (*below, *(base for base in bases if base > start)):
        path = directory / paths.segment_file(base, paths.TXN_INDEX)
        if not files.size_of(path):
            continue
        for entry in txn_index.read(path):
            one = Aborted(*(int(field) for field in entry))
            if one.last_offset >= start and one.first_offset < end:
                found.append(one)
            if one.last_stable_offset >= end:
                return found
    return found


class Transactions:
    """The transactions that are open at the batch that is read."""

    def __init__(self) -> None:
        """No transaction is open."""
        self._coming: list[Aborted] = []
        self._aborted: dict[int, Aborted] = {}
        self._seen: set[int] = set()
        """The producers of `_aborted` of which a batch was read."""
        self._committed: set[int] = set()
        self._kept: list[Aborted] = []

    def add(self, aborted: Iterable[Aborted]) -> None:
        """Add the aborted transactions of the next segment."""
        self._coming = sorted([*self._coming, *aborted], key=lambda one: one.first_offset)

    def index(self) -> bytes:
        """Return the `.txnindex` entries since the last call."""
        entries = np.array(self._kept, txn_index.ENTRY)
        self._kept = []
        return entries.tobytes()

    def discards(self, buf: Buffer, batch: Batch) -> bool:
        """Return whether no reader needs the batch any more. Raises CorruptBatch.

        Data: its transaction was aborted. A marker: no batch of its transaction is left.
        """
        self._advance(batch.last_offset)
        producer = batch.producer_id
        if batch.control:
            return self._ended(buf, batch)
        if not batch.transactional:
            return False
        if producer in self._aborted:
            self._seen.add(producer)
            return True
        self._committed.add(producer)
        return False

    def _advance(self, offset: int) -> None:
        while self._coming and self._coming[0].first_offset <= offset:
            one = self._coming.pop(0)
            self._aborted.setdefault(one.producer_id, one)

    def _ended(self, buf: Buffer, marker: Batch) -> bool:
        records = dispatch.records(buf, marker)
        if not records:
            return True
        kind, producer = decode_control_type(records[0].key), marker.producer_id
        if kind == ControlType.COMMIT:
            known = producer in self._committed
            self._committed.discard(producer)
            return not known
        if kind != ControlType.ABORT:
            return False
        one, seen = self._aborted.pop(producer, None), producer in self._seen
        self._seen.discard(producer)
        if one is not None and seen:
            self._kept.append(one)
        return not seen
