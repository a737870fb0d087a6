"""The pass of the one background thread of the dialect `enriched`: it compacts or it cleans.

A topic is compacted or cleaned, not both.

compact    The last record of each key stays, and control messages. Consecutive wrappers with the
           same codec become one at the offset of the first; only relative offsets change, with
           holes. A tombstone stays. A merged wrapper takes at most MERGED_BYTES of message sets.
clean      Segments whose last message is old enough are deleted. Of the next one the head is cut:
           a binary search by time in the index, then the messages behind the entry that it finds.
           The active segment is no exception, so that cleaning does not wait for a roll.

Each log ends in a whole message: only a kill tears one, and the start cuts it.

Source: "Log Compaction / Log Cleaning" of the proposal (KAFKA-881, KAFKA-979).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np

from kafkats.formats.model import Batch, Codec, Record
from kafkats_model.broker import files
from kafkats_model.broker.enriched_log import EnrichedLog, ends_of, time_of
from kafkats_model.formats import enriched
from kafkats_model.index import enriched_index

MERGED_BYTES: Final = 1_000_012
"""Kafka's default of max.message.bytes: consumers could not fetch a larger wrapper."""


class Cleaned(NamedTuple):
    """The result of a pass that deletes."""

    segments: int
    head_bytes: int
    """Bytes that were cut from the head of the first segment that stays."""


class Compacted(NamedTuple):
    """The result of a pass that compacts."""

    batches_before: int
    batches_after: int
    records: int
    """Records that were removed."""


def clean(log: EnrichedLog, now_ms: int) -> Cleaned:
    """Delete what retention.ms no longer keeps, below the high watermark.

    A message without a time is never old. Raises CorruptBatch, CorruptIndex, StorageFailed.
    """
    retention = log.topic.retention_ms
    if retention < 0:
        return Cleaned(0, 0)
    horizon, deleted = now_ms - retention, 0
    bases = log.segments()
    for base, following in zip(bases, [*bases[1:], log.log_end_offset], strict=True):
        if following > log.high_watermark or not _is_old(log, base, horizon):
            break
        if base == log.active.base_offset:
            if base == following:  # it is empty
                break
            log.roll(following, now_ms)
        files.delete_segment(log.directory, base)
        deleted += 1
    cut = _cut_head(log, log.segments()[0], horizon, now_ms)
    log.log_start_offset = max(log.log_start_offset, log.segments()[0])
    return Cleaned(deleted, cut)


def _is_old(log: EnrichedLog, base: int, horizon: int) -> bool:
    """Return whether the last message of a segment, by its largest time, is old enough.

    A segment without messages is: compaction has removed them.
    """
    entries = log.entries(base)
    start = int(entries[-1]["position"]) if len(entries) else 0
    largest = int(entries[-1]["timestamp"]) if len(entries) else -1
    data, batches = log.batches(base, start)
    if not data:
        return True
    largest = max([largest, *(time_of(data, batch) for batch in batches)])
    return 0 <= largest < horizon


def _cut_head(log: EnrichedLog, base: int, horizon: int, now_ms: int) -> int:
    """Cut the old messages at the head of a segment below the high watermark; return their bytes.

    The rest becomes a segment of its own, which begins at its first message.
    """
    entries = log.entries(base)
    below = entries[entries["relative_offset"] < log.high_watermark - base]
    found = enriched_index.lookup(below, np.array([horizon], np.int64))
    data, following = log.batches(base, int(found[0]))
    batches = list(following)
    for batch, end in zip(batches, ends_of(data, batches), strict=True):
        if 0 <= time_of(data, batch) < horizon and end < log.high_watermark:
            continue
        if batch.position == 0:
            return 0
        _rewrite(log, base, batch.base_offset, data[batch.position :], now_ms)
        return batch.position
    return 0


def _rewrite(log: EnrichedLog, old_base: int, base: int, data: bytes, now_ms: int) -> None:
    """Put a segment with `data` in the place of another one, with its index.

    A start takes the log end from the last segment. If `data` ends below it, an empty segment
    begins there, so that no offset is given twice.
    """
    active, end = log.active, log.log_end_offset
    was_active = active.base_offset == old_base
    created = active.created_ms
    files.delete_segment(log.directory, old_base)
    files.write(log.path(base), data, now_ms)
    log.load(base, now_ms)
    loaded, log.log_end_offset = log.log_end_offset, end
    if not was_active:
        log.active = active
        return
    log.active.created_ms = created
    if loaded < end:
        log.roll(end, now_ms)


def compact(log: EnrichedLog, now_ms: int) -> Compacted:
    """Keep the last record of each key, and merge consecutive wrappers, below the high watermark.

    Raises CorruptBatch, StorageFailed.
    """
    latest = _latest(log)
    before = after = removed = 0
    for base in log.segments():
        data, batches = log.batches(base)
        parts: list[bytes] = []
        for group in _groups(data, batches, log.high_watermark):
            before += len(group)
            above = group[0].base_offset >= log.high_watermark
            new = _bytes_of(data, group) if above else _compacted(data, group, latest)
            removed += _count(data, group) - _count(new, enriched.batches(new))
            after += sum(1 for _ in enriched.batches(new))
            parts.append(new)
        if (written := b"".join(parts)) != data:
            _rewrite(log, base, base, written, now_ms)
    return Compacted(before, after, removed)


def _latest(log: EnrichedLog) -> dict[bytes, int]:
    """Return the last offset of each key below the high watermark."""
    latest: dict[bytes, int] = {}
    for base in log.segments():
        data, batches = log.batches(base)
        for batch in batches:
            if not batch.control and batch.base_offset < log.high_watermark:
                for record in enriched.decode_records(data, batch):
                    if record.key is not None:
                        latest[record.key] = record.offset
    return latest


def _groups(data: bytes, batches: Iterable[Batch], end: int) -> Iterator[list[Batch]]:
    """Yield batches to write as one: consecutive wrappers of a codec, and each other one alone."""
    group: list[Batch] = []
    size = 0
    for batch in batches:
        alone = batch.codec == Codec.NONE or batch.base_offset >= end
        plain = _plain_bytes(data, batch)
        if group and (alone or batch.codec != group[0].codec or size + plain > MERGED_BYTES):
            yield group
            group, size = [], 0
        if alone:
            yield [batch]
        else:
            group.append(batch)
            size += plain
    if group:
        yield group


def _plain_bytes(data: bytes, batch: Batch) -> int:
    records = enriched.decode_records(data, batch) if batch.codec != Codec.NONE else []
    return sum(len(enriched.encode_batch([record])) for record in records)


def _compacted(data: bytes, group: list[Batch], latest: dict[bytes, int]) -> bytes:
    """Return what stays of a group: as it is, if it is one batch that keeps all its records."""

    def stays(record: Record) -> bool:
        return record.key is not None and latest.get(record.key, -1) <= record.offset

    first = group[0]
    if first.control:
        return _bytes_of(data, group)
    if len(group) == 1:
        records = enriched.decode_records(data, first)
        kept = [record for record in records if stays(record)]
        if len(kept) == len(records):
            return _bytes_of(data, group)
        if first.codec == Codec.NONE:
            return b""
    return enriched.merge(data, group, Codec(first.codec), stays)


def _bytes_of(data: bytes, group: list[Batch]) -> bytes:
    return data[group[0].position : group[-1].end]


def _count(data: bytes, batches: Iterable[Batch]) -> int:
    return sum(len(enriched.decode_records(data, batch)) for batch in batches)
