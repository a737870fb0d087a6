"""The small files that recovery rebuilds from the batch headers of a partition's logs.

    .snapshot                 the producers at a segment's base offset and at the log end
    .txnindex                 the aborted transactions whose marker lies in the segment
    leader-epoch-checkpoint   the first offset of each leader epoch

Source: LogSegment.recover, UnifiedLog.rebuildProducerState, LeaderEpochFileCache of Kafka 2.8 to
4.3. Where a snapshot or an entry of leader-epoch-checkpoint contradicts the log, the log is
believed. A broker believes the entries; it drops expired producers itself when it loads a snapshot.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kafkats import paths
from kafkats.errors import CorruptFile, KafkatsError, Vanished, storage
from kafkats.index import txn_index
from kafkats.kernels import headers_state as k
from kafkats.logdir.checkpoints import EpochStart, encode_epochs, read_epochs
from kafkats.logdir.epochs import ReplayedEpochs, after
from kafkats.logdir.producers import Marker, OpenTransactions, Producers, advance, java_order
from kafkats.logdir.snapshot import ProducerEntry, encode_snapshot, read_snapshot
from kafkats.segment.headers import Rows, batch_headers
from kafkats.segment.reader import Source, open_source


class Snapshots(NamedTuple):
    """The producer snapshots of a partition directory, by offset."""

    readable: Mapping[int, Sequence[ProducerEntry]]
    unreadable: Mapping[int, str]
    """Why a snapshot cannot be read. A broker deletes it and takes the one before."""


class Wanted(NamedTuple):
    """The part of a partition's small files to make.

    `snapshots` are offsets. Transactions are wanted of the logs whose base offset is `first` or
    higher, epochs of those from `epochs_from` on.
    """

    log_end: int
    snapshots: frozenset[int]
    first: int
    epochs_from: int


class Epochs(NamedTuple):
    """The entries of a leader-epoch-checkpoint. `wrong`: why it cannot be read, ""."""

    entries: Sequence[EpochStart]
    wrong: str = ""


def read_snapshots(directory: Path, names: Iterable[str]) -> Snapshots:
    """Read the snapshots among the files `names` of a partition directory. Raises StorageFailed."""
    readable: dict[int, Sequence[ProducerEntry]] = {}
    unreadable: dict[int, str] = {}
    for name in names:
        parsed = paths.parse_segment_file(name)
        if parsed is None or parsed.kind != paths.SNAPSHOT or parsed.suffix:
            continue
        try:
            readable[parsed.base_offset] = read_snapshot(directory / name)
        except CorruptFile as e:
            unreadable[parsed.base_offset] = e.reason
    return Snapshots(readable, unreadable)


def epochs_there(directory: Path) -> Epochs:
    """Read the leader epochs of a partition directory. Raises StorageFailed.

    Where a broker was deleting the first segments they begin at the first that is left: its
    deletion ends so, and after it no other file tells why the log begins there.
    """
    try:
        entries = read_epochs(directory / paths.LEADER_EPOCH)
    except Vanished:
        return Epochs(())
    except CorruptFile as e:
        return Epochs((), e.reason)
    with storage(directory, "listing"):
        names = [path.name for path in directory.iterdir()]
    logs = [f for f in map(paths.parse_segment_file, names) if f and f.kind == paths.LOG]
    first = min((f.base_offset for f in logs if f.suffix in ("", ".swap")), default=-1)
    deleted = any(base < first for base in paths.deleted_logs(names))
    return Epochs(after(entries, first) if deleted else entries)


def remake(logs: Sequence[Log], snapshots: Snapshots, epochs: Epochs, wanted: Wanted) -> Replayed:
    """Replay the logs of a partition as far as `wanted` needs it.

    The replay begins at the nearest readable snapshot at or below `wanted.first`, else at the first
    of `logs`. Raises as `replay_logs`.
    """
    usable = [offset for offset in snapshots.readable if offset <= wanted.first]
    offset = max(usable, default=0)
    entries = snapshots.readable[offset] if usable else ()
    below = [log for log in logs if log.base_offset <= offset]
    begin = min(wanted.epochs_from, below[-1].base_offset) if below else offset
    needed = [log for log in logs if log.base_offset >= begin]
    start = Start(offset, entries, epochs.entries)
    return replay_logs(
        needed,
        start,
        wanted.log_end,
        snapshots.readable,
        wanted.snapshots,
        epochs_from=wanted.epochs_from,
    )


def contents(made: Replayed) -> dict[str, bytes]:
    """Return the bytes of each small file by name.

    b"" stands for an index of aborted transactions that there should not be.
    """
    files = {
        paths.segment_file(offset, paths.SNAPSHOT): content
        for offset, content in made.snapshots.items()
    }
    files |= {
        paths.segment_file(base, paths.TXN_INDEX): content for base, content in made.aborted.items()
    }
    return {**files, paths.LEADER_EPOCH: encode_epochs(made.epochs)}


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
        if epochs:
            self.epochs.add(rows)
        ours = (rows[:, k.PRODUCER_ID] >= 0) & (rows[:, k.LAST_OFFSET] >= self._from)
        if ours.any():
            advance(self._known, rows[ours], source, self._tell)

    def _tell(self, row: Sequence[int], before: ProducerEntry, marker: Marker | None) -> None:
        producer, offset = before.producer_id, row[k.LAST_OFFSET]
        if marker is None:
            self._open.add(self._known[producer])
            return
        first = self._open.end(producer)
        if marker.aborts and first >= 0:
            stable = self._open.last_stable(offset)
            self.aborted.append((0, producer, first, offset, stable))
