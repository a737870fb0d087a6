"""One partition of one broker, on real files: what a request or a timer does to its log.

Not kept: producer state (`.snapshot`, `.txnindex`), so sequences are not compared. Source: Log,
from 3.0 UnifiedLog and LocalLog, of Kafka 0.8 to 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kafkats import paths
from kafkats.broker import files
from kafkats.broker.active import (
    ActiveSegment,
    Unit,
    create_active,
    cut_indexes,
    locate,
    open_active,
    scan,
)
from kafkats.broker.generation import Generation
from kafkats.broker.settings import Topic
from kafkats.broker.validate import Largest, Validated, largest_of_batches, validate
from kafkats.errors import Rejected
from kafkats.formats import dispatch, v2
from kafkats.formats.model import Batch
from kafkats.logdir.checkpoints import EpochStart, encode_epochs
from kafkats.logdir.epochs import assigned
from kafkats.logdir.partition import log_bases
from kafkats.primitives import view
from kafkats.retention.rules import Decision, Limits, Segment, decide
from kafkats.rolling import rules as rolling
from kafkats.rolling.replay import new_base_offset
from kafkats.search.partition import Partition, open_partition

RECORD_LIST_TOO_LARGE: Final = "RECORD_LIST_TOO_LARGE"
OUT_OF_ORDER: Final = "OffsetsOutOfOrder"
UNEXPECTED_OFFSET: Final = "UnexpectedAppendOffset"


class Appended(NamedTuple):
    """The result of an append."""

    first_offset: int
    last_offset: int
    bytes: int
    largest: Largest
    rolled: str
    """Why a new segment was begun before it; "" for no new segment."""


class PartitionLog:
    """The log of one partition. It is the only writer of its directory."""

    def __init__(
        self, directory: Path, topic: Topic, generation: Generation, active: ActiveSegment
    ) -> None:
        """As `create` and `starting.start` make it."""
        self.directory, self.topic, self.generation = directory, topic, generation
        self.active = active
        self.log_start_offset = active.base_offset
        self.log_end_offset = active.base_offset
        self.high_watermark = 0
        self.recovery_point = 0
        self.epochs: list[EpochStart] = []

    def append_as_leader(self, data: bytes, *, now_ms: int, leader_epoch: int) -> Validated:
        """Judge a client's message set, and append it. Raises Rejected, StorageFailed."""
        made = validate(
            data,
            self.topic,
            self.generation.leader,
            now_ms=now_ms,
            offset=self.log_end_offset,
            leader_epoch=leader_epoch,
        )
        batches = list(dispatch.batches(made.data, verify=False))
        self._append(made.data, batches, made.first_offset, made.largest, now_ms)
        return made

    def append_as_follower(self, data: bytes, *, now_ms: int) -> Appended | None:
        """Append the batches of a fetch as they are. None if there is no whole batch.

        A batch that is cut at the end of a fetch is left out. Nothing is judged but that offsets
        rise, and begin at the log end or above. Raises CorruptBatch, Rejected, StorageFailed.
        """
        batches = list(dispatch.batches(data))
        if not batches:
            return None
        last = self.log_end_offset - 1
        for number, batch in enumerate(batches):
            begin = batch.base_offset if batch.magic == v2.MAGIC else batch.last_offset
            if batch.last_offset <= last or begin <= last:
                name = OUT_OF_ORDER if number else UNEXPECTED_OFFSET
                reason = f"{name}: a batch from offset {begin} on, and the log has {last} already"
                raise Rejected(reason, path=self.directory, position=batch.position)
            last = batch.last_offset
        whole = bytes(view(data)[: batches[-1].end])
        largest = largest_of_batches(iter(batches))
        first = batches[0].base_offset if batches[0].magic == v2.MAGIC else -1
        return self._append(whole, batches, first, largest, now_ms)

    def _append(
        self, data: bytes, batches: Sequence[Batch], first: int, largest: Largest, now_ms: int
    ) -> Appended:
        """`first` is the first offset, -1 where a follower does not know it."""
        settings, rule = self.topic.rolling, self.generation.roll
        if len(data) > settings.segment_bytes:
            reason = f"{len(data)} bytes, segment.bytes is {settings.segment_bytes}"
            raise Rejected(f"{RECORD_LIST_TOO_LARGE}: {reason}", path=self.directory)
        shallow = first if first >= 0 else batches[0].last_offset
        units = [Unit(shallow, batches[-1].last_offset, len(data), largest)]
        if rule.batches:
            units = [
                Unit(b.base_offset, b.last_offset, b.size, largest_of_batches(iter((b,))))
                for b in batches
            ]
        parts = [
            rolling.Batch(
                first if n == 0 else unit.first_offset,
                unit.last_offset,
                unit.bytes,
                unit.largest.timestamp,
            )
            for n, unit in enumerate(units)
        ]
        append = rolling.Append((*parts,), now_ms)
        why = rolling.should_roll(self.active.facts(), append, settings, rule)
        if why:
            self.roll(new_base_offset(append, self.log_end_offset, rule), now_ms)
        self._assign_epochs(batches, first, now_ms)
        self.active.write(data, append, units, settings)
        self.log_end_offset = append.last_offset + 1
        return Appended(first, append.last_offset, len(data), largest, why)

    def roll(self, base_offset: int, now_ms: int) -> None:
        """Begin a segment at `base_offset`. An empty one at that offset is replaced.

        The old one is flushed. Raises StorageFailed.
        """
        old = self.active
        if old.size == 0 and old.base_offset == base_offset:
            files.delete_segment(self.directory, base_offset)
        else:
            old.close(base_offset, now_ms)
        self.active = create_active(self.directory, base_offset, self.generation, now_ms)
        self.recovery_point = base_offset
        self.log_end_offset = max(self.log_end_offset, base_offset)

    def truncate(self, offset: int, now_ms: int) -> int:
        """Delete all batches that end at `offset` or above. Returns the new log end offset.

        Entries of both indexes from `offset` on are cut, and the largest timestamp is read again.
        Below the first segment an empty log begins at `offset`. Raises CorruptBatch, CorruptIndex,
        StorageFailed.
        """
        if offset >= self.log_end_offset:
            return self.log_end_offset
        bases = log_bases(self.directory)
        kept = [base for base in bases if base <= offset]
        for base in bases[len(kept) :]:
            files.delete_segment(self.directory, base)
        if not kept:
            self.active = create_active(self.directory, offset, self.generation, now_ms)
            self.log_start_offset = self.log_end_offset = offset
        else:
            if kept[-1] != self.active.base_offset:
                self.active = open_active(self.directory, kept[-1], self.generation, now_ms)
            self._cut_active(offset, now_ms)
        self._cut_epochs(now_ms)
        self.recovery_point = min(self.recovery_point, offset)
        self.high_watermark = min(self.high_watermark, self.log_end_offset)
        return self.log_end_offset

    def _cut_active(self, offset: int, now_ms: int) -> None:
        active = self.active
        log = active.path(paths.LOG)
        position, end = locate(active, offset, files.read(log))
        cut_indexes(active, offset, now_ms)
        files.cut(log, position, now_ms)
        active.size = position
        if position == 0:
            active.created_ms = now_ms
        scan(active)
        self.log_end_offset = end

    def close(self, now_ms: int) -> None:
        """Write the closing time index entry, as a clean stop does. Raises StorageFailed."""
        self.active.close(self.log_end_offset, now_ms)
        self.recovery_point = self.log_end_offset

    def delete_old_segments(self, now_ms: int) -> Decision:
        """Delete what retention deletes now. Raises CorruptIndex, StorageFailed."""
        decision = self._decide(now_ms)
        if decision.rolls:
            self.roll(self.log_end_offset, now_ms)
        for verdict in decision.verdicts:
            if verdict.deletes:
                files.delete_segment(self.directory, verdict.base_offset)
        self.log_start_offset = decision.log_start_offset
        self._cut_epochs(now_ms)
        return decision

    def _decide(self, now_ms: int) -> Decision:
        topic = self.topic
        limits = Limits(
            topic.retention_ms if topic.deletes else -1,
            topic.retention_bytes if topic.deletes else -1,
            self.log_start_offset,
            self.high_watermark,
        )
        with self.opened() as partition:
            facts = [
                Segment(
                    s.base_offset,
                    s.next_base_offset if s.next_base_offset >= 0 else self.log_end_offset,
                    s.log.size,
                    -1 if s.largest.by_mtime else s.largest.timestamp,
                    s.mtime_ms,
                )
                for s in partition.segments
            ]
        return decide(facts, limits, self.generation.retention, now_ms=now_ms)

    def opened(self) -> Partition:
        """Open the partition for searches, as a context manager. Raises StorageFailed."""
        return open_partition(
            self.directory,
            log_start_offset=self.log_start_offset,
            high_watermark=self.high_watermark,
            searchable=self.topic.target.magic > 0,
            index_interval_bytes=self.topic.rolling.index_interval_bytes,
        )

    def read(self, offset: int, end_offset: int, max_bytes: int) -> bytes:
        """Return whole batches from the one with `offset` on, below `end_offset`, from one segment.

        At most `max_bytes`, but at least one batch. Raises CorruptBatch, CorruptIndex,
        StorageFailed.
        """
        bases = log_bases(self.directory)
        below = [base for base in bases if base <= offset]
        for base in bases[max(len(below) - 1, 0) :]:
            segment = ActiveSegment(self.directory, base, self.generation, 0)
            data = files.read(segment.path(paths.LOG))
            position, _ = locate(segment, offset, data)
            end = position
            for batch in dispatch.batches(data, position, verify=False):
                if batch.last_offset >= end_offset or 0 < end - position > max_bytes - batch.size:
                    break
                end = batch.end
            if position < len(data):
                return data[position:end]
        return b""

    def _assign_epochs(self, batches: Sequence[Batch], first: int, now_ms: int) -> None:
        """Note the epochs that the batches begin. An older format forgets all, as in Kafka."""
        epochs = self.epochs
        for batch in batches if self.generation.epochs else ():
            if batch.magic < v2.MAGIC:
                epochs = []
            elif batch.leader_epoch > (epochs[-1].epoch if epochs else -1):
                epochs = assigned(epochs, EpochStart(batch.leader_epoch, batch.base_offset))
        self.keep_epochs(epochs, now_ms)

    def _cut_epochs(self, now_ms: int) -> None:
        kept = [e for e in self.epochs if e.start_offset < self.log_end_offset]
        below = [e for e in kept if e.start_offset <= self.log_start_offset]
        above = [e for e in kept if e.start_offset > self.log_start_offset]
        if below:
            above = [EpochStart(below[-1].epoch, self.log_start_offset), *above]
        self.keep_epochs(above, now_ms)

    def keep_epochs(self, epochs: list[EpochStart], now_ms: int) -> None:
        """Write the epochs, if they changed. Raises StorageFailed."""
        if epochs != self.epochs:
            self.epochs = epochs
            files.write(self.directory / paths.LEADER_EPOCH, encode_epochs(epochs), now_ms)


def create(directory: Path, topic: Topic, generation: Generation, now_ms: int) -> PartitionLog:
    """Create the directory of a new partition, with an empty segment. Raises StorageFailed."""
    files.make_directory(directory)
    active = create_active(directory, 0, generation, now_ms)
    return PartitionLog(directory, topic, generation, active)
