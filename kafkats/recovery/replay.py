"""Replay the logs of a partition as a broker's recovery does, from batch headers.

Recovery rebuilds three things besides the indexes by offset and by time:

    .snapshot                 the producers at a segment's base offset and at the log end
    .txnindex                 the aborted transactions whose marker lies in the segment
    leader-epoch-checkpoint   the first offset of each leader epoch

Source: LogSegment.recover, UnifiedLog.rebuildProducerState, LeaderEpochFileCache of Kafka 2.8 to
4.3. Where a snapshot or an entry of leader-epoch-checkpoint contradicts the log, the log is
believed. A broker believes the entries; it drops expired producers itself when it loads a snapshot.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kafkats.errors import KafkatsError
from kafkats.index import txn_index
from kafkats.logdir.checkpoints import EpochStart
from kafkats.logdir.epochs import ReplayedEpochs
from kafkats.logdir.producers import Marker, OpenTransactions, Producers, advance, java_order
from kafkats.logdir.snapshot import ProducerEntry, encode_snapshot
from kafkats.segment.headers import Rows, batch_headers
from kafkats.segment.reader import Source, open_source


class Log(NamedTuple):
    """A .log to replay: its first `end` bytes are good batches."""

    base_offset: int
    path: Path
    end: int
    plain: bool = False
    """Whether it is known to have no batch of magic 2, and so neither producers nor epochs."""


class Start(NamedTuple):
    """The state from which a replay begins: batches below `offset` are known already."""

    offset: int
    producers: Sequence[ProducerEntry]
    epochs: Sequence[EpochStart]


class Replayed(NamedTuple):
    """The result of a replay."""

    snapshots: Mapping[int, bytes]
    """The bytes of the .snapshot for each wanted offset at which none can be believed."""
    differing: frozenset[int]
    """The offsets of readable snapshots that contradict the log."""
    aborted: Mapping[int, bytes]
    """The bytes of each segment's .txnindex, by base offset."""
    epochs: Sequence[EpochStart]
    """Without entries above the log end."""
    epochs_differ: bool
    """Whether entries of the leader-epoch-checkpoint contradict the log."""


def replay_logs(
    logs: Sequence[Log],
    start: Start,
    log_end: int,
    there: Mapping[int, Sequence[ProducerEntry]],
    wanted: Collection[int],
    *,
    epochs_from: int,
) -> Replayed:
    """Replay `logs`, in order, up to the offset `log_end`.

    `there` has the readable snapshots by offset. `wanted` are offsets, each the base of one of
    `logs` or `log_end`, at which a snapshot is compared with the log, or made if it is missing.
    Epochs are read from the logs whose base offset is `epochs_from` or higher. Raises CorruptBatch
    with path and position for batches that a broker does not load, Changed, Vanished,
    StorageFailed.
    """
    state = _State(start, there)
    aborted: dict[int, bytes] = {}
    for log in logs:
        if log.base_offset in wanted:
            state.snapshot(log.base_offset)
        aborted[log.base_offset] = b""
        if log.plain or not log.end:
            continue
        state.aborted = []
        with open_source(log.path, mapped=True) as source:
            try:
                for rows in batch_headers(source, end=log.end):
                    state.add(rows, source, epochs=log.base_offset >= epochs_from)
            except KafkatsError as e:
                raise type(e)(e.reason, path=log.path, position=e.position) from e
        aborted[log.base_offset] = np.array(state.aborted, txn_index.ENTRY).tobytes()
    if log_end in wanted:
        state.snapshot(log_end)
    epochs, differ = state.epochs.until(log_end)
    return Replayed(state.made, frozenset(state.differing), aborted, epochs, differ)


class _State:
    """The producers, open transactions and epochs so far."""

    def __init__(self, start: Start, there: Mapping[int, Sequence[ProducerEntry]]) -> None:
        self._from, self._there = start.offset, there
        self._known: Producers = {}
        self._believe(start.producers)
        self.epochs = ReplayedEpochs(start.epochs)
        self.aborted: list[tuple[int, int, int, int, int]] = []
        self.made: dict[int, bytes] = {}
        self.differing: set[int] = set()

    def _believe(self, entries: Sequence[ProducerEntry]) -> None:
        self._known = {entry.producer_id: entry for entry in entries}
        self._open = OpenTransactions(entries)

    def snapshot(self, offset: int) -> None:
        """Believe the snapshot at `offset`, or make it from the producers so far."""
        there = self._there.get(offset)
        if there is not None and self._agrees(there):
            self._believe(there)
            return
        if there is not None:
            self.differing.add(offset)
        self.made[offset] = encode_snapshot(java_order(self._known))

    def _agrees(self, entries: Sequence[ProducerEntry]) -> bool:
        return {entry.producer_id: entry for entry in entries} == self._known

    def add(self, rows: Rows, source: Source, *, epochs: bool) -> None:
        from kafkats.kernels import headers as k

        if epochs:
            self.epochs.add(rows)
        ours = (rows[:, k.PRODUCER_ID] >= 0) & (rows[:, k.LAST_OFFSET] >= self._from)
        if ours.any():
            advance(self._known, rows[ours], source, self._tell)

    def _tell(self, row: Sequence[int], before: ProducerEntry, marker: Marker | None) -> None:
        from kafkats.kernels import headers as k

        producer, offset = before.producer_id, row[k.LAST_OFFSET]
        if marker is None:
            self._open.add(self._known[producer])
            return
        first = self._open.end(producer)
        if marker.aborts and first >= 0:
            stable = self._open.last_stable(offset)
            self.aborted.append((0, producer, first, offset, stable))
