"""One partition of one broker, on real files: what a request or a timer does to its log.

Source: Log, from 3.0 UnifiedLog and LocalLog, of Kafka 0.8 to 4.3.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from kafkats import paths
from kafkats.formats import v2
from kafkats.formats.model import Batch
from kafkats.logdir.checkpoints import EpochStart, encode_epochs
from kafkats.logdir.epochs import after, until
from kafkats.primitives import view
from kafkats.retention.rules import Decision, decide
from kafkats.rolling import rules as rolling
from kafkats.rolling.replay import new_base_offset
from kafkats.search.partition import Partition
from kafkats_model.broker import files
from kafkats_model.broker.active import (
    ActiveSegment,
    Appended,
    Unit,
    append_of,
    create_active,
    cut,
    emptied,
    open_active,
    retention_facts,
)
from kafkats_model.broker.epochs import begun_by
from kafkats_model.broker.error_names import (
    OFFSET_OUT_OF_RANGE,
    OUT_OF_ORDER,
    RECORD_LIST_TOO_LARGE,
    UNKNOWN_ERROR,
    UNSUPPORTED_FORMAT,
)
from kafkats_model.broker.generation import Generation
from kafkats_model.broker.markers import EndMarker
from kafkats_model.broker.places import place_of, places, read_batches
from kafkats_model.broker.producers import producer_state
from kafkats_model.broker.settings import Topic, limits_of, loads_timestamps
from kafkats_model.broker.validate import Largest, Validated, largest_of_batches, validate
from kafkats_model.errors import Rejected

DUPLICATE: Final = "duplicate"


class PartitionLog:
    """The log of one partition. It is the only writer of its directory."""

    def __init__(
        self, directory: Path, topic: Topic, generation: Generation, *segments: ActiveSegment
    ) -> None:
        """As `create` and `starting.start` make it."""
        self.directory, self.topic, self.generation = directory, topic, generation
        self.segments = list(segments)
        """By base offset. A broker keeps all of them open."""
        self.log_start_offset = self.segments[0].base_offset
        self.log_end_offset = self.segments[-1].base_offset
        self.high_watermark = 0
        self.recovery_point = 0
        self.cleaned_to: int | None = None
        """The first offset that the cleaner has not cleaned; None if it never cleaned the log."""
        self.epochs: list[EpochStart] = []
        self.producers = producer_state(directory, topic, generation)
        """None before 0.11."""

    @property
    def active(self) -> ActiveSegment:
        """The segment that is appended to."""
        return self.segments[-1]

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
        batches = list(self.generation.reader.batches(made.data, verify=False))
        done = self.append(made.data, batches, made.first_offset, made.largest, now_ms, leads=True)
        if not done.bytes:
            return made._replace(
                data=b"",
                first_offset=done.first_offset,
                last_offset=done.last_offset,
                largest=done.largest,
                how=DUPLICATE,
            )
        return made

    def end_transaction(self, marker: EndMarker, *, now_ms: int, leader_epoch: int) -> Appended:
        """Append the marker that ends a producer's transaction, as the coordinator sends it.

        Raises Rejected for an older epoch of the producer or the coordinator; StorageFailed.
        """
        if self.producers is None or self.topic.target.magic < v2.MAGIC:
            reason = "a marker cannot be in this format"
            raise Rejected(f"{UNSUPPORTED_FORMAT}: {reason}", path=self.directory)
        data = marker.encoded(self.log_end_offset, now_ms, leader_epoch, self.topic.timestamp_type)
        (batch,) = self.generation.reader.batches(data, verify=False)
        largest = largest_of_batches(iter((batch,)))
        return self.append(
            data, [batch], batch.base_offset, largest, now_ms, coordinator=marker.coordinator_epoch
        )

    def append_as_follower(self, data: bytes, *, now_ms: int) -> Appended | None:
        """Append the batches of a fetch as they are. None if there is no whole batch.

        A batch that is cut at the end of a fetch is left out. Nothing is judged but that offsets
        rise, and begin at the log end or above. Raises CorruptBatch, Rejected, StorageFailed.
        """
        reader = self.generation.reader
        batches = list(reader.batches(data))
        if not batches:
            return None
        for before, batch in itertools.pairwise(batches):
            if batch.last_offset <= before.last_offset:
                reason = f"offset {batch.last_offset} follows {before.last_offset}"
                raise Rejected(
                    f"{OUT_OF_ORDER}: {reason}", path=self.directory, position=batch.position
                )
        first = batches[0].base_offset if batches[0].magic == v2.MAGIC else -1
        begin = first if first >= 0 else batches[0].last_offset
        if begin < self.log_end_offset:
            reason = f"a batch from offset {begin} on, and the log ends at {self.log_end_offset}"
            error = f"{self.generation.log.below_end}: {reason}"
            raise Rejected(error, path=self.directory, position=0)
        whole = bytes(view(data)[: batches[-1].end])
        largest = largest_of_batches(iter(batches), reader.no_timestamp)
        return self.append(whole, batches, first, largest, now_ms)

    def append(
        self,
        data: bytes,
        batches: Sequence[Batch],
        first: int,
        largest: Largest,
        now_ms: int,
        *,
        leads: bool = False,
        coordinator: int | None = None,
    ) -> Appended:
        """Append judged batches. Returns 0 bytes for a client's batch that was appended before.

        `first` is the first offset, -1 where a follower does not know it. `leads`: the batches are
        a client's. `coordinator` is the epoch of the coordinator that sends a marker. Raises
        Rejected, StorageFailed.
        """
        settings, rule = self.topic.rolling, self.generation.roll
        if self.generation.epochs:
            for batch in batches:  # each change is written: a file that was never one stays empty
                self.keep_epochs(begun_by(self.epochs, batch, self.generation), now_ms)
        if len(data) > settings.segment_bytes:
            reason = f"{len(data)} bytes, segment.bytes is {settings.segment_bytes}"
            raise Rejected(f"{RECORD_LIST_TOO_LARGE}: {reason}", path=self.directory)
        shallow = first if first >= 0 else batches[0].last_offset
        units = [Unit(shallow, batches[-1].last_offset, len(data), largest)]
        if rule.batches:
            none = self.generation.reader.no_timestamp
            units = [
                Unit(b.base_offset, b.last_offset, b.size, largest_of_batches(iter((b,)), none))
                for b in batches
            ]
        append = append_of(units, first, now_ms)
        why = rolling.should_roll(self.active.facts(), append, settings, rule)
        base = new_base_offset(append, self.log_end_offset, rule)
        rolls_first = self.generation.log.rolls_before_producers
        if why and rolls_first:
            self.roll(base, now_ms, position=0)
        producers = self.producers
        sent = producers.sent_before(batches) if leads and producers is not None else None
        if sent is not None:
            largest = Largest(sent.timestamp, sent.last_offset)
            return Appended(sent.first_offset, sent.last_offset, 0, largest, why)
        if self.producers is not None and coordinator is not None:
            self.producers.check_marker(batches[0], coordinator)
        judged = self.producers.judge_append(data, batches) if self.producers is not None else None
        if why and not rolls_first:
            self.roll(base, now_ms, position=0)
        self.active.write(data, append, units, settings)
        self.log_end_offset = append.last_offset + 1
        if self.producers is not None and judged is not None:
            aborted = self.producers.note(judged, self.log_end_offset)
            if aborted:
                files.append(self.active.path(paths.TXN_INDEX), aborted, now_ms)
        return Appended(first, append.last_offset, len(data), largest, why)

    def roll(self, base_offset: int, now_ms: int, *, position: int | None = None) -> None:
        """Begin a segment at `base_offset`, or at the log end if that is higher.

        `position` is that of the batch for which it rolls, for errors. An empty segment at that
        offset is replaced. The old one is flushed. Raises Rejected if the last segment begins
        above, or is filled and begins there, which it can after a start that an index has misled;
        up to 2.1.0 also for an empty one, and either loses all. StorageFailed.
        """
        base = max(base_offset, self.log_end_offset)
        old, rule = self.active, self.generation.log
        replaced = old.base_offset == base
        says = "is there already" if replaced else f"cannot follow the one at {old.base_offset}"
        reason = f"a segment at {base} {says}"
        # Below the last segment: after an append above the log end that was rejected.
        if base < old.base_offset or (replaced and old.size and rule.replaces_empty):
            raise Rejected(f"{UNKNOWN_ERROR}: {reason}", path=self.directory, position=position)
        cut_before = old.closed and rule.reopens
        old.close(base, now_ms)
        if replaced:
            self._delete([old])
        made = create_active(self.directory, base, self.generation, now_ms)
        if replaced and not rule.replaces_empty and not cut_before:
            made = emptied(old, now_ms)
        self.segments.append(made)
        if self.producers is not None:
            self.producers.take_snapshot(now_ms, base)
            if replaced and rule.deletes_own_snapshot:
                self.producers.delete_snapshots([base])
        if replaced and not rule.replaces_empty:
            raise Rejected(f"{UNKNOWN_ERROR}: {reason}", path=self.directory, position=position)
        self._flush(base)

    def _flush(self, offset: int) -> None:
        if offset > self.recovery_point:
            self.recovery_point = offset
            if self.producers is not None:
                self.producers.flushed([one.base_offset for one in self.segments], offset)

    def truncate(self, offset: int, now_ms: int) -> int:
        """Delete all batches that end at `offset` or above. Returns the new log end offset.

        That is `offset`, also if the last batch that is left ends below it. Entries of both indexes
        from `offset` on are cut, and the largest timestamp is read again. Below the first segment
        an empty log begins at `offset`. Raises CorruptBatch, CorruptIndex, StorageFailed.
        """
        if offset < self.log_end_offset + self.generation.log.truncates_at_end:
            self.log_start_offset = min(self.log_start_offset, offset)
            kept = [one for one in self.segments if one.base_offset <= offset]
            self._delete(self.segments[len(kept) :], snapshots=True)
            if kept:
                self._cut_active(offset, now_ms)
            else:
                self.segments = [create_active(self.directory, offset, self.generation, now_ms)]
                self.keep_epochs([], now_ms)
            self._cut_producers(offset, now_ms, anew=not kept)
            self.log_end_offset = offset
            self.recovery_point = min(self.recovery_point, offset)
            self.high_watermark = min(self.high_watermark, offset)
            if self.cleaned_to is not None:
                self.cleaned_to = min(self.cleaned_to, offset)
        elif not self.generation.log.always_cuts_epochs:
            return self.log_end_offset
        self.keep_epochs(until(self.epochs, self.log_end_offset), now_ms)
        return self.log_end_offset

    def _cut_active(self, offset: int, now_ms: int) -> None:
        active = self.active
        known = active.largest
        with self.opened() as partition:
            place = place_of(partition.segments[-1], offset)
        if place is None and not self.generation.log.reopens:
            return
        cut(active, offset, place.position if place else active.size, now_ms)
        rule = self.generation.roll
        if known.timestamp <= rule.no_timestamp or not rule.relative:
            active.largest = known
        else:
            self.find_largest()

    def find_largest(self) -> None:
        """Read the active segment's largest timestamp from its last time index entry on.

        An index entry that leads to the log's end hides all batches, as it does from a broker.
        Raises CorruptBatch, CorruptIndex, StorageFailed.
        """
        with self.opened() as partition:
            segment = partition.segments[-1]
            start = segment.position_of(self.active.largest.offset)
            if self.generation.dialect:
                data = files.read(self.active.path(paths.LOG))
                batches = self.generation.reader.batches(data, start, verify=False)
                later = largest_of_batches(batches, self.active.largest.timestamp)
                self.active.largest = max(self.active.largest, later)
                return
            for place in places(segment.log.source, start):
                if place.max_timestamp > self.active.largest.timestamp:
                    self.active.largest = Largest(place.max_timestamp, place.last_offset)

    def replaced(self, bases: Sequence[int], now_ms: int) -> None:
        """Open the segment at the first of `bases`, whose files are in the place of all of them.

        Raises CorruptIndex, StorageFailed.
        """
        made = open_active(self.directory, bases[0], self.generation, now_ms)
        kept = (one for one in self.segments if one.base_offset not in bases)
        self.segments = sorted([*kept, made], key=lambda one: one.base_offset)
        if self.producers is not None and self.generation.cleaning.deletes_snapshots:
            self.producers.delete_snapshots(bases[1:])

    def _cut_producers(self, offset: int, now_ms: int, *, anew: bool) -> None:
        if self.producers is None:
            return
        if anew:
            self.producers.clear(offset)
            if not self.generation.log.reloads_producers:
                return
        bases = [one.base_offset for one in self.segments]
        self.producers.rebuild(bases, self.log_start_offset, offset, now_ms)

    def _delete(self, segments: Sequence[ActiveSegment], *, snapshots: bool = False) -> None:
        for segment in segments:
            files.delete_segment(self.directory, segment.base_offset)
        gone = {segment.base_offset for segment in segments}
        if snapshots and self.producers is not None and self.generation.cleaning.deletes_snapshots:
            self.producers.delete_snapshots(gone)
        self.segments = [one for one in self.segments if one.base_offset not in gone]

    def close(self, now_ms: int) -> None:
        """Write the closing time index entry, as a clean stop does. Raises StorageFailed."""
        with suppress(Rejected):  # a broker logs it and goes on
            self.active.close(self.log_end_offset, now_ms)
        self._flush(self.log_end_offset)
        if self.producers is not None:
            self.producers.take_snapshot(now_ms)

    def delete_old_segments(self, now_ms: int) -> Decision:
        """Delete what retention deletes now. Raises StorageFailed."""
        timed = loads_timestamps(self.topic, self.generation)
        facts = retention_facts(self.segments, self.log_end_offset, timed=timed)
        limits = limits_of(self.topic, self.log_start_offset, self.high_watermark)
        decision = decide(facts, limits, self.generation.retention, now_ms=now_ms)
        deleted = {verdict.base_offset for verdict in decision.verdicts if verdict.deletes}
        if decision.rolls:
            self.roll(self.log_end_offset, now_ms)
        self._start_at(decision.log_start_offset, now_ms)
        gone = [one for one in self.segments[:-1] if one.base_offset in deleted]
        self._delete(gone, snapshots=True)
        return decision

    def delete_records(self, offset: int, now_ms: int) -> int:
        """Move the log start up to `offset`, and return it. Segments stay until retention runs.

        Raises Rejected above the high watermark; StorageFailed.
        """
        if offset > self.high_watermark:
            reason = f"{offset} is above the high watermark {self.high_watermark}"
            raise Rejected(f"{OFFSET_OUT_OF_RANGE}: {reason}", path=self.directory)
        self._start_at(offset, now_ms)
        return self.log_start_offset

    def _start_at(self, offset: int, now_ms: int) -> None:
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            if self.generation.log.moves_recovery_point:
                self.recovery_point = max(self.recovery_point, offset)
            falling = self.generation.start.falling_epochs
            self.keep_epochs(after(self.epochs, offset, falling=falling), now_ms)
            if self.producers is not None:
                self.producers.start_at(offset)

    def opened(self) -> Partition:
        """Open the partition for searches, as a context manager. Raises StorageFailed."""
        return Partition(
            self.directory,
            log_start_offset=self.log_start_offset,
            high_watermark=self.high_watermark,
            searchable=self.topic.target.magic > 0 or self.generation.search.unit == "entry",
            index_interval_bytes=self.topic.rolling.index_interval_bytes,
            log_end_offset=self.log_end_offset,
        )

    def read(self, offset: int, end_offset: int, max_bytes: int) -> bytes:
        """Return whole batches of one segment, see places.read_batches. Raises as that."""
        with self.opened() as partition:
            return read_batches(partition.segments, offset, end_offset, max_bytes)

    def keep_epochs(self, epochs: list[EpochStart], now_ms: int) -> None:
        """Write the epochs, if they changed. Raises StorageFailed."""
        if epochs != self.epochs:
            self.epochs = epochs
            files.write(self.directory / paths.LEADER_EPOCH, encode_epochs(epochs), now_ms)


def create(directory: Path, topic: Topic, generation: Generation, now_ms: int) -> PartitionLog:
    """Create the directory of a new partition, with an empty segment. Raises StorageFailed."""
    files.make_directory(directory)
    if generation.epochs:
        files.append(directory / paths.LEADER_EPOCH, b"", now_ms)
    active = create_active(directory, 0, generation, now_ms)
    return PartitionLog(directory, topic, generation, active)
