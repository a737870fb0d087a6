"""Producer state of a partition: sequences, epochs, transactions, and their snapshots.

A leader answers a batch that it has already with the offsets of then, and rejects sequences with a
gap and epochs below the producer's last one. It knows the last five batches of each producer, up to
0.11 one. A snapshot holds only the last one, so a start forgets the others unless it reads them
from the log.
Source: ProducerStateManager, ProducerAppendInfo, UnifiedLog.rebuildProducerState of Kafka 0.11 to
4.3. Not kept: transactions that end above the high watermark, which only readers of committed
records see.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kafkats import paths
from kafkats.errors import CorruptBatch, CorruptFile
from kafkats.formats.model import Batch
from kafkats.formats.v2 import CONTROL_BIT, MAGIC
from kafkats.index.txn_index import ENTRY
from kafkats.kernels import headers_state as k
from kafkats.logdir.producers import (
    Marker,
    Producers,
    java_order,
    read_marker,
)
from kafkats.logdir.snapshot import ProducerEntry, encode_snapshot, read_snapshot
from kafkats.primitives import Buffer
from kafkats.segment.headers import batch_headers
from kafkats.segment.reader import Source, open_source
from kafkats_model.broker import files
from kafkats_model.broker.error_names import (
    FENCED,
    INVALID_EPOCH,
    INVALID_STATE,
    OUT_OF_ORDER_SEQUENCE,
)
from kafkats_model.broker.generation import Generation
from kafkats_model.broker.known_producers import MOST, Producer, Sent, loaded, unknown
from kafkats_model.broker.log_rules import LogRule
from kafkats_model.broker.places import places
from kafkats_model.broker.settings import Topic
from kafkats_model.errors import Rejected
from kafkats_model.memory_source import array_source


class Judged(NamedTuple):
    """The producers that an append changes."""

    changed: dict[int, Producer]
    """By producer."""
    begun: dict[int, int]
    """The producers of the transactions that begin, by first offset."""
    ended: list[tuple[ProducerEntry, int, Marker]]
    """The producer before the marker, the marker's offset, and the marker."""


class ProducerState:
    """The producers of one partition, and its `.snapshot` files."""

    def __init__(
        self, directory: Path, expiry_ms: int, rule: LogRule, *, kept: bool = True
    ) -> None:
        """`kept`: the format of the topic has producer state; if not, snapshots are empty."""
        self._rule = rule
        self._directory, self._expiry_ms, self._kept = directory, expiry_ms, kept
        self._producers: dict[int, Producer] = {}
        self._open: dict[int, int] = {}
        """Producer by the first offset of its open transaction."""
        self._end = 0
        """The offset that the state is of."""
        self._newest = 0
        """The offset of the newest snapshot."""
        self._snapshots = {
            name.base_offset
            for path in files.listed(directory)
            if (name := paths.parse_segment_file(path))
            and name.kind == paths.SNAPSHOT
            and not name.suffix
        }

    def sent_before(self, batches: Sequence[Batch]) -> Sent | None:
        """Return the first batch of a client's set that was appended before, None for new ones.

        The whole set then counts as appended. Each batch is judged by what the producer was after
        those of the set before it. Raises Rejected as `check`.
        """
        earlier: dict[int, ProducerEntry] = {}
        for batch in (batch for batch in batches if batch.producer_id >= 0):
            if sent := self.duplicate(batch):
                return sent
            known = self._producers.get(batch.producer_id, unknown(batch.producer_id)).entry
            entry = earlier.get(batch.producer_id, known)
            self.check(batch, entry)
            begins = batch.transactional and entry.txn_first_offset < 0
            earlier[batch.producer_id] = entry._replace(
                producer_epoch=batch.producer_epoch,
                last_sequence=_last_sequence(batch),
                txn_first_offset=batch.base_offset if begins else entry.txn_first_offset,
            )
        return None

    def duplicate(self, batch: Batch) -> Sent | None:
        """Return the batch as it was appended before, None if it is not known."""
        known = self._producers.get(batch.producer_id)
        if known is None or known.entry.producer_epoch != batch.producer_epoch:
            return None
        first, last = batch.base_sequence, _last_sequence(batch)
        same = [s for s in known.sent if (s.first_sequence, s.last_sequence) == (first, last)]
        return same[0] if same else None

    def check(self, batch: Batch, entry: ProducerEntry) -> None:
        """Raise Rejected for the batch of a client that does not follow its last one in `entry`."""
        first, at = batch.base_sequence, batch.position
        if entry.producer_epoch < 0:
            if first > 0 and self._rule.unknown_producer:
                reason = f"sequence {first} of producer {batch.producer_id}, which is not known"
                error = f"{self._rule.unknown_producer}: {reason}"
                raise Rejected(error, path=self._directory, position=at)
            return
        self._check_epoch(entry, batch.producer_epoch, at)
        newer = batch.producer_epoch > entry.producer_epoch
        last = -1 if newer else entry.last_sequence
        if first != last + 1 and not (first == 0 and last == MOST):
            reason = f"sequence {first} of producer {batch.producer_id} follows {last}"
            forgotten = last < 0 and not newer
            error = self._rule.unknown_sequence if forgotten else OUT_OF_ORDER_SEQUENCE
            raise Rejected(f"{error}: {reason}", path=self._directory, position=at)
        if entry.txn_first_offset >= 0 and not batch.transactional:
            reason = f"producer {batch.producer_id} has an open transaction, the batch is in none"
            raise Rejected(f"{INVALID_STATE}: {reason}", path=self._directory, position=at)

    def check_marker(self, batch: Batch, coordinator_epoch: int) -> None:
        """Raise Rejected for a marker of an older producer or coordinator."""
        known = self._producers.get(batch.producer_id)
        if known is not None:
            self._check_marker(known.entry, batch.producer_epoch, coordinator_epoch)

    def _check_marker(self, entry: ProducerEntry, epoch: int, coordinator_epoch: int) -> None:
        self._check_epoch(entry, epoch)
        if entry.coordinator_epoch > coordinator_epoch:
            reason = f"coordinator epoch {coordinator_epoch}, after {entry.coordinator_epoch}"
            raise Rejected(f"{FENCED}: {reason}", path=self._directory)

    def _check_epoch(self, entry: ProducerEntry, epoch: int, position: int = 0) -> None:
        if epoch < entry.producer_epoch:
            reason = f"epoch {epoch} of producer {entry.producer_id}, after {entry.producer_epoch}"
            raise Rejected(f"{INVALID_EPOCH}: {reason}", path=self._directory, position=position)

    def append(self, data: Buffer, end: int) -> bytes:
        """Judge and note the batches `data`. As `note`; raises as `judged`."""
        return self.note(self.judged(data), end)

    def judge_append(self, data: bytes, batches: Sequence[Batch]) -> Judged:
        """As `judged`."""
        return self.judged(data if any(batch.producer_id >= 0 for batch in batches) else b"")

    def judged(self, data: Buffer) -> Judged:
        """Return what the batches `data` of one append change.

        Raises Rejected for a batch outside of its producer's open transaction, and by the rule as
        `check_marker`.
        """
        try:
            return self._judged(data)
        except CorruptBatch as e:
            reason = f"{INVALID_STATE}: {e.reason}"
            raise Rejected(reason, path=self._directory, position=e.position) from e

    def _judged(self, data: Buffer) -> Judged:
        changed: dict[int, Producer] = {}
        ended: list[tuple[ProducerEntry, int, Marker]] = []
        begun: dict[int, int] = {}
        source = array_source(np.frombuffer(data, np.uint8))
        for rows in batch_headers(source, producers_only=True):
            for row in rows.tolist():
                self._note(row, source, changed, begun, ended)
        return Judged(changed, begun, ended)

    def note(self, judged: Judged, end: int) -> bytes:
        """Note what an append changes, after which the log ends at `end`.

        Returns the entries of aborted transactions, as the transaction index has them.
        """
        self._producers |= judged.changed
        self._open |= judged.begun
        self._end = end
        return b"".join(self._ended(*one) for one in judged.ended)

    def _note(
        self,
        row: Sequence[int],
        source: Source,
        changed: dict[int, Producer],
        begun: dict[int, int],
        ended: list[tuple[ProducerEntry, int, Marker]],
    ) -> None:
        producer, offset = row[k.PRODUCER_ID], row[k.LAST_OFFSET]
        known = changed.get(producer) or self._producers.get(producer) or unknown(producer)
        rule = self._rule
        if row[k.ATTRIBUTES] & CONTROL_BIT:
            if row[k.COUNT]:
                marker = read_marker(row, source)
                if rule.judges_markers:
                    epochs = row[k.PRODUCER_EPOCH], marker.coordinator_epoch
                    self._check_marker(known.entry, *epochs)
                if known.entry.txn_first_offset >= 0:
                    ended.append((known.entry, offset, marker))
                elif not rule.skips_empty_transactions:
                    ended.append((known.entry._replace(txn_first_offset=offset), offset, marker))
                known = known.after_marker(row, marker, rule)
        else:
            before, known = known.entry, known.after_data(row, rule)
            if known.entry.txn_first_offset >= 0 > before.txn_first_offset:
                begun[known.entry.txn_first_offset] = producer
        changed[producer] = known

    def _ended(self, entry: ProducerEntry, offset: int, marker: Marker) -> bytes:
        """End a transaction, and return its entry of the index, b"" if it was committed."""
        others = [first for first, one in self._open.items() if one != entry.producer_id]
        stable = min(others, default=offset + 1)
        self._open.pop(entry.txn_first_offset, None)
        if not marker.aborts:
            return b""
        fields = (0, entry.producer_id, entry.txn_first_offset, offset, stable)
        return np.array([fields], ENTRY).tobytes()

    def take_snapshot(self, now_ms: int, end: int | None = None) -> None:
        """Write a snapshot, unless there is one of this offset. Raises StorageFailed.

        `end` is the log end, where it is higher than the last batch's.
        """
        self._end = self._end if end is None else end
        if self._end <= self._newest:
            return
        entries: Producers = {n: one.entry for n, one in self._producers.items()}
        files.write(self._path(self._end), encode_snapshot(java_order(entries)), now_ms)
        self._snapshots.add(self._end)
        self._newest = self._end

    def _path(self, offset: int) -> Path:
        return self._directory / paths.segment_file(offset, paths.SNAPSHOT)

    def delete_snapshots(self, offsets: Iterable[int]) -> None:
        """Delete those that there are. Raises StorageFailed."""
        for offset in self._snapshots.intersection(offsets):
            files.delete(self._path(offset))
            self._snapshots.discard(offset)

    def flushed(self, bases: Sequence[int], offset: int) -> None:
        """Note that the log, of segments at `bases`, is flushed up to `offset`.

        Raises StorageFailed.
        """
        if self._rule.flush_deletes_snapshots:
            kept_from = min(offset, *bases[-2:])
            self.delete_snapshots({one for one in self._snapshots if one < kept_from})

    def start_at(self, log_start: int) -> None:
        """Note that the log start has moved up. Raises StorageFailed."""
        if not self._rule.keeps_producers:
            self._forget_below(log_start)
        self._end = max(self._end, log_start)
        if not self._rule.keeps_snapshots:
            self.delete_snapshots({offset for offset in self._snapshots if offset < log_start})
        self._newest = max(self._snapshots, default=log_start)

    def _forget_below(self, log_start: int) -> None:
        """Forget producers without a batch above. The batches below of others stay known."""
        for number, known in [*self._producers.items()]:
            if not known.sent or known.sent[-1].last_offset < log_start:
                del self._producers[number]
                self._open.pop(known.entry.txn_first_offset, None)

    def clear(self, offset: int) -> None:
        """Forget all producers and delete all snapshots: the log starts again at `offset`."""
        self.delete_snapshots(set(self._snapshots))
        self._producers, self._open = {}, {}
        self._newest, self._end = 0, offset

    def delete_strays(self, bases: Sequence[int]) -> None:
        """Delete snapshots that are of no segment, but for the newest one above all of them."""
        if not self._rule.keeps_snapshots:
            return
        strays = sorted(self._snapshots.difference(bases))
        if strays and (not bases or strays[-1] >= max(bases)):
            strays.pop()
        self.delete_snapshots(strays)

    def rebuild(
        self,
        bases: Sequence[int],
        log_start: int,
        end: int,
        now_ms: int,
        *,
        clean: bool = False,
        recovers: bool = False,
    ) -> None:
        """Load the state at `end` from the newest snapshot and the segments at `bases`.

        `recovers`: the segment at `end` is recovered then. Raises as `judged`, StorageFailed.
        """
        rule = self._rule
        due = {*bases[-2:], end}
        if not self._kept or (clean and not self._snapshots):
            for offset in sorted(due):
                self.take_snapshot(now_ms, offset)
            return
        idle = not self._producers and self._end >= end
        self.delete_snapshots({o for o in self._snapshots if not log_start < o <= end})
        if self._end != end:
            self._load(log_start, now_ms)
        else:
            self.start_at(log_start)
        if end > self._end and not idle:
            due = due if rule.snapshot_at_end else set() if recovers else {*bases}
            self._replay(bases, log_start, end, due, now_ms)
        if rule.snapshot_at_end or (recovers and rule.snapshot_before_recovery):
            self.take_snapshot(now_ms, end)
        self._end = end

    def _load(self, log_start: int, now_ms: int) -> None:
        """Load the newest readable snapshot; delete those that are not."""
        self._producers, self._open = {}, {}
        self._newest = self._end = log_start
        for offset in sorted(self._snapshots, reverse=True):
            try:
                entries = read_snapshot(self._path(offset))
            except CorruptFile:
                self.delete_snapshots([offset])
                continue
            for entry in entries:
                if entry.last_offset < log_start and not self._rule.keeps_producers:
                    continue
                if entry.txn_first_offset >= 0 or now_ms - entry.timestamp < self._expiry_ms:
                    self._producers[entry.producer_id] = loaded(entry)
                    if entry.txn_first_offset >= 0:
                        self._open[entry.txn_first_offset] = entry.producer_id
            self._newest = self._end = offset
            return

    def _replay(
        self, bases: Sequence[int], log_start: int, end: int, due: set[int], now_ms: int
    ) -> None:
        below = [base for base in bases if base <= self._end][-1:]
        for base in (*below, *(base for base in bases if self._end < base < end)):
            start = max(base, self._end, log_start)
            self._end = start
            if base in due:
                self.take_snapshot(now_ms)
            with open_source(self._directory / paths.segment_file(base, paths.LOG)) as source:
                self.read(source, start, end)

    def read(self, source: Source, start: int, end: int = 2**63 - 1) -> bytes:
        """Note the batches of a segment with offsets in [start, end), one after the other.

        Only those of magic 2 count, also for the offset of the next snapshot. Returns as `note`.
        Raises as `judged`, StorageFailed.
        """
        found = b""
        for place in places(source, 0):
            if place.last_offset >= end:
                break
            if place.last_offset >= start and place.magic >= MAGIC:
                found += self.append(source.read(*place[:2]), place.last_offset + 1)
        return found


def _last_sequence(batch: Batch) -> int:
    return (batch.base_sequence + batch.last_offset - batch.base_offset) & MOST


def producer_state(directory: Path, topic: Topic, generation: Generation) -> ProducerState | None:
    """Return the producer state of an opened partition; None before 0.11. Raises StorageFailed."""
    if not generation.start.producers:
        return None
    # From 3.0 on also where the format has none.
    kept = generation.start.swaps_renamed or topic.target.magic >= MAGIC
    expiry_ms = generation.cleaning.producer_expiry_ms
    return ProducerState(directory, expiry_ms, generation.log, kept=kept)
