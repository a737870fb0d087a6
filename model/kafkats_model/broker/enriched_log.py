"""A partition of the dialect `enriched`, on real files of a directory of its own.

    .log      messages and wrappers (formats/enriched.py)
    .index    offset, timestamp and position in one entry (index/enriched_index.py)

A leader writes offset, time and checksum of what it receives. Tag 32 tells how many offsets a
wrapper takes. The proposal's leader opens nothing, so relative offsets with holes would reach into
the next set, and an offset would be given twice. This one opens a wrapper whose relative offsets
are honored, and rejects holes. It appends what it cannot open: no reader can. Source: the proposal
"Kafka Enriched Message Metadata"; rolling as in Kafka 0.8.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from kafkats import paths
from kafkats.errors import CorruptBatch
from kafkats.formats.model import NO_TIMESTAMP, Batch, Codec
from kafkats.generations import ENRICHED, MAX_RELATIVE_OFFSET
from kafkats.index.entries import Entries
from kafkats.logdir.partition import log_bases
from kafkats.primitives import view
from kafkats.rolling import rules as rolling
from kafkats_model.broker import files
from kafkats_model.broker.error_names import (
    INVALID_RECORD,
    OUT_OF_ORDER,
    RECORD_LIST_TOO_LARGE,
)
from kafkats_model.broker.generation import Generation
from kafkats_model.broker.settings import Topic
from kafkats_model.broker.validate import whole_batches
from kafkats_model.errors import Rejected
from kafkats_model.formats import enriched
from kafkats_model.formats.readers import reader
from kafkats_model.index import enriched_index
from kafkats_model.index.enriched_index import Point

_MESSAGES_TAG: Final = 32


class Judged(NamedTuple):
    """A client's set as a leader appends it: the bytes, and the last offset of each batch."""

    data: bytes
    ends: tuple[int, ...]


def judge(data: bytes, *, now_ms: int, offset: int, compacted: bool) -> Judged:
    """Return the set `data` as a leader appends it at `offset`, at `now_ms` by its clock.

    Nothing is compressed again. Raises Rejected with the position for a batch that is not whole, a
    wrapper without tag 32 or with holes in its honored offsets, and in a compacted topic for what
    says that it lacks a key.
    """
    batches = whole_batches(data, reader(ENRICHED), INVALID_RECORD)
    parts, ends = [], []
    for batch in batches:
        tags = enriched.decode_tags(data, batch)
        count = 1 if batch.codec == Codec.NONE else tags.messages
        reason = ""
        if count < 1:
            reason = f"a wrapper whose tag {_MESSAGES_TAG} does not say how many messages it has"
        elif _has_holes(data, batch, tags):
            reason = "the honored offsets in a wrapper are not 0, 1, 2 ..."
        elif compacted and not batch.control and _keyless(data, batch, tags):
            reason = "a message without a key, and the topic is compacted"
        if reason:
            raise Rejected(f"{INVALID_RECORD}: {reason}", position=batch.position)
        stamped = enriched.with_tags(data, batch, tags._replace(timestamp_ms=now_ms))
        (whole,) = enriched.batches(stamped)
        parts.append(enriched.assign(stamped, whole, offset))
        offset += count
        ends.append(offset - 1)
    return Judged(b"".join(parts), (*ends,))


def _has_holes(data: bytes, batch: Batch, tags: enriched.Tags) -> bool:
    if batch.codec == Codec.NONE or not tags.honored:
        return False
    with suppress(CorruptBatch):
        records = enriched.decode_records(data, batch)
        relative = [record.offset - batch.base_offset for record in records]
        return relative != list(range(len(relative)))
    return False


def _keyless(data: bytes, batch: Batch, tags: enriched.Tags) -> bool:
    if batch.codec != Codec.NONE:
        return tags.unkeyed
    return enriched.decode_records(data, batch)[0].key is None


def ends_of(data: bytes, batches: Sequence[Batch]) -> list[int]:
    """Return the offset at which each of consecutive batches ends, before that of the next one.

    Only the last one is opened, if only its content tells. If it cannot be, or if its offsets are
    out of range, tag 32 tells.
    """
    ends = [batch.base_offset - 1 for batch in batches[1:]]
    return [*ends, _end_of(data, batches[-1])] if batches else []


def _end_of(data: bytes, batch: Batch) -> int:
    with suppress(CorruptBatch):
        end = enriched.last_offset(data, batch)
        if 0 <= end - batch.base_offset <= MAX_RELATIVE_OFFSET:
            return end
    return batch.base_offset + max(batch.count, 1) - 1


def time_of(data: bytes, batch: Batch) -> int:
    """Return the largest time of a batch in ms, -1 for none or if only its content could tell."""
    try:
        return enriched.largest_time(data, batch)
    except CorruptBatch:
        return NO_TIMESTAMP


def _holding(data: bytes, batches: Iterator[Batch], offset: int) -> int:
    """Return the position of the first batch that ends at `offset` or above, else of the end.

    Raises CorruptBatch.
    """
    held: Batch | None = None
    for batch in batches:
        if batch.base_offset > offset:
            return batch.position if held is None or _end_of(data, held) < offset else held.position
        held = batch
    return len(data) if held is None or _end_of(data, held) < offset else held.position


@dataclass
class _Active:
    """The segment that is appended to."""

    base_offset: int
    created_ms: int
    size: int = 0
    largest: int = NO_TIMESTAMP
    entries: int = 0
    unindexed: int = 0


class EnrichedLog:
    """The log of one partition of the dialect. It is the only writer of its directory."""

    def __init__(
        self, directory: Path, topic: Topic, generation: Generation, active: _Active
    ) -> None:
        """As `create` and `start` make it."""
        self.directory, self.topic, self.generation = directory, topic, generation
        self.active = active
        self.log_start_offset = self.log_end_offset = active.base_offset
        self.high_watermark = 0
        self.recovery_point = 0

    def path(self, base_offset: int, kind: str = paths.LOG) -> Path:
        """Return the path of a file of a segment."""
        return self.directory / paths.segment_file(base_offset, kind)

    def append_as_leader(self, data: bytes, *, now_ms: int) -> Judged:
        """Judge a client's set, and append it. Raises Rejected, StorageFailed."""
        judged = judge(
            data, now_ms=now_ms, offset=self.log_end_offset, compacted=self.topic.compacted
        )
        self._append(judged, now_ms)
        return judged

    def append_as_follower(self, data: bytes, *, now_ms: int) -> int:
        """Append the batches of a fetch as they are. Returns their bytes.

        Raises CorruptBatch; Rejected where offsets do not rise.
        """
        batches = list(enriched.batches(data))
        ends = ends_of(data, batches)
        before = [self.log_end_offset - 1, *(batch.base_offset for batch in batches)]
        for last, batch in zip(before, batches, strict=False):
            if batch.base_offset <= last:
                reason = f"{OUT_OF_ORDER}: offset {batch.base_offset} follows {last}"
                raise Rejected(reason, path=self.directory, position=batch.position)
        if not batches:
            return 0
        self._append(Judged(bytes(view(data)[: batches[-1].end]), (*ends,)), now_ms)
        return batches[-1].end

    def _append(self, judged: Judged, now_ms: int) -> None:
        settings, active = self.topic.rolling, self.active
        batches = list(enriched.batches(judged.data, verify=False))
        if len(judged.data) > settings.segment_bytes:
            reason = f"{len(judged.data)} bytes, segment.bytes is {settings.segment_bytes}"
            raise Rejected(f"{RECORD_LIST_TOO_LARGE}: {reason}", path=self.directory)
        first, last = batches[0].base_offset, judged.ends[-1]
        if last - first > MAX_RELATIVE_OFFSET:
            reason = f"a set with offsets {first} to {last}, which no segment can index"
            raise Rejected(f"{INVALID_RECORD}: {reason}", path=self.directory, position=0)
        times = [time_of(judged.data, batch) for batch in batches]
        parts = [
            rolling.Batch(batch.base_offset, end, batch.size, time)
            for batch, end, time in zip(batches, judged.ends, times, strict=True)
        ]
        facts = rolling.Active(
            active.base_offset,
            active.size,
            NO_TIMESTAMP,
            active.largest,
            active.created_ms,
            active.entries,
            0,
            0,
        )
        append = rolling.Append((*parts,), now_ms)
        if last - active.base_offset > MAX_RELATIVE_OFFSET:
            self.roll(first, now_ms)  # a follower's first offset can be above its log end
        elif rolling.should_roll(facts, append, settings, self.generation.roll):
            self.roll(self.log_end_offset, now_ms)
        points = self._points(parts)
        files.append(self.path(self.active.base_offset), judged.data, now_ms)
        if points:
            index = self.path(self.active.base_offset, paths.OFFSET_INDEX)
            files.append(index, enriched_index.encode(points), now_ms)
        self.log_end_offset = judged.ends[-1] + 1

    def _points(self, parts: Sequence[rolling.Batch]) -> list[Point]:
        """Advance the active segment by these batches, and return their index entries."""
        active, points = self.active, []
        for part in parts:
            active.largest = max(active.largest, part.max_timestamp)
            relative = part.last_offset - active.base_offset
            fits = 0 <= relative <= MAX_RELATIVE_OFFSET  # if not, the content of a wrapper lies
            if fits and active.unindexed > self.topic.rolling.index_interval_bytes:
                points.append(Point(relative, active.largest, active.size))
                active.unindexed = 0
            active.unindexed += part.bytes
            active.size += part.bytes
        active.entries += len(points)
        return points

    def roll(self, base_offset: int, now_ms: int) -> None:
        """Begin a segment at `base_offset`, unless an empty one is there. Raises StorageFailed."""
        if self.active.size or self.active.base_offset != base_offset:
            self.active = _create_segment(self.directory, base_offset, now_ms)
        self.recovery_point = base_offset

    def close(self, _now_ms: int) -> None:
        """Stop cleanly."""
        self.recovery_point = self.log_end_offset

    def segments(self) -> list[int]:
        """Return the base offsets of the segments. Raises StorageFailed."""
        return log_bases(self.directory)

    def entries(self, base_offset: int) -> Entries:
        """Return the index entries of a segment. Raises CorruptIndex, StorageFailed."""
        return enriched_index.read(self.path(base_offset, paths.OFFSET_INDEX))

    def batches(self, base_offset: int, start: int = 0) -> tuple[bytes, Iterator[Batch]]:
        """Return a segment's bytes and its batches from position `start` on.

        Raises StorageFailed; the batches raise CorruptBatch.
        """
        data = files.read(self.path(base_offset))
        return data, enriched.batches(data, start, verify=False)

    def read(self, offset: int, end_offset: int, max_bytes: int) -> bytes:
        """Return whole batches from the one with `offset` on, below `end_offset`, of one segment.

        At most `max_bytes`, but at least one batch. Raises CorruptBatch, CorruptIndex,
        StorageFailed.
        """
        bases = self.segments()
        below = [base for base in bases if base <= offset]
        for base in bases[max(len(below) - 1, 0) :]:
            start = enriched_index.position_of(self.entries(base), offset - base)
            data, batches = self.batches(base, start)
            begin = end = _holding(data, batches, offset)
            for batch in enriched.batches(data, begin, verify=False):
                size = batch.end - begin
                if batch.base_offset >= end_offset or (size > max_bytes and size > batch.size):
                    break
                end = batch.end
            if begin < end:
                return data[begin:end]
        return b""

    def truncate(self, offset: int, now_ms: int) -> int:
        """Delete all batches that end at `offset` or above. Returns the new log end offset.

        Raises CorruptBatch, StorageFailed.
        """
        if offset >= self.log_end_offset:
            return self.log_end_offset
        bases = self.segments()
        kept = [base for base in bases if base <= offset]
        for base in bases[len(kept) :]:
            files.delete_segment(self.directory, base)
        if not kept:
            self.active = _create_segment(self.directory, offset, now_ms)
            self.log_start_offset = self.log_end_offset = offset
        else:
            data, batches = self.batches(kept[-1])
            files.cut(self.path(kept[-1]), _holding(data, batches, offset), now_ms)
            self.load(kept[-1], now_ms)
        self.recovery_point = min(self.recovery_point, offset)
        self.high_watermark = min(self.high_watermark, self.log_end_offset)
        return self.log_end_offset

    def load(self, base_offset: int, now_ms: int) -> None:
        """Open a segment as the active one: cut what is not whole, and rewrite its index.

        Raises StorageFailed.
        """
        self.active = _Active(base_offset, now_ms)
        self.log_end_offset = base_offset
        data, batches = files.read(self.path(base_offset)), list[Batch]()
        with suppress(CorruptBatch):  # what follows is cut, as by any broker that recovers
            batches.extend(enriched.batches(data))
        parts = [
            rolling.Batch(batch.base_offset, end, batch.size, time_of(data, batch))
            for batch, end in zip(batches, ends_of(data, batches), strict=True)
        ]
        points = self._points(parts)
        files.cut(self.path(base_offset), self.active.size, now_ms)
        index = self.path(base_offset, paths.OFFSET_INDEX)
        files.write(index, enriched_index.encode(points), now_ms)
        if parts:
            self.log_end_offset = parts[-1].last_offset + 1


def _create_segment(directory: Path, base_offset: int, now_ms: int) -> _Active:
    for kind in (paths.LOG, paths.OFFSET_INDEX):
        files.append(directory / paths.segment_file(base_offset, kind), b"", now_ms)
    return _Active(base_offset, now_ms)


def create(directory: Path, topic: Topic, generation: Generation, now_ms: int) -> EnrichedLog:
    """Create the directory of a new partition, with an empty segment. Raises StorageFailed."""
    files.make_directory(directory)
    return EnrichedLog(directory, topic, generation, _create_segment(directory, 0, now_ms))


def start(before: EnrichedLog, topic: Topic, now_ms: int) -> EnrichedLog:
    """Return the log as it is loaded where `before` stopped. Raises StorageFailed."""
    last = before.segments()[-1]
    log = EnrichedLog(before.directory, topic, before.generation, _Active(last, now_ms))
    log.load(last, now_ms)
    log.log_start_offset = before.log_start_offset
    log.high_watermark = min(before.high_watermark, log.log_end_offset)
    log.recovery_point = log.log_end_offset
    return log
