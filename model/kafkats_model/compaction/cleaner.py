"""Compact a partition by key, as one round of the broker's log cleaner does.

1. the dirty section, and whether it is dirty enough     section.section
2. the offset map of the section                         offset_map
3. the segments from the log's begin to the section's end, in groups   section.groups
4. each group becomes one segment: what stays of each batch            batch_filter
5. the cleaner's checkpoint

The limits of a broker are Kafka's defaults: one thread, its buffers, its map. Source: LogCleaner,
Cleaner, LogCleanerManager of Kafka 0.9 to 4.3.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from kafkats import paths
from kafkats.errors import BadInput
from kafkats.formats import dispatch, v1, v2
from kafkats.formats.framing import MAGIC_AT
from kafkats.formats.model import NO_TIMESTAMP, Batch
from kafkats.kernels import headers_state as k
from kafkats.logdir.partition import log_bases
from kafkats.logdir.producers import Producers, producers_at
from kafkats.primitives import Buffer
from kafkats.segment.headers import batch_headers
from kafkats.segment.reader import Bytes, open_segment, open_source
from kafkats_model.broker import files
from kafkats_model.broker.partition_log import PartitionLog
from kafkats_model.compaction.batch_filter import Cleaning, keep
from kafkats_model.compaction.cleaned_segment import create_cleaned, replace
from kafkats_model.compaction.offset_map import MOST_KEYS, OffsetMap
from kafkats_model.compaction.section import Ends, Section, SegmentFacts, groups, section
from kafkats_model.compaction.sieve import Appends, Sieve
from kafkats_model.compaction.transactions import Transactions, aborted_transactions


class Compacted(NamedTuple):
    """The result of one round."""

    section: Section
    """As it was planned; `why_not` says why nothing was done."""
    cleaned_to: int
    """The first offset that is still dirty; below the section's end if the map was full."""
    segments: tuple[int, int]
    """The number of segments that were read, and of those that replaced them."""
    bytes: tuple[int, int]
    """Their bytes, before and after."""


def compact(log: PartitionLog, now_ms: int, *, most_keys: int = MOST_KEYS) -> Compacted:
    """Clean the partition, if it is dirty enough. `most_keys` is the size of the offset map.

    Raises CorruptBatch, CorruptIndex, NotConvertible, StorageFailed; Rejected where Kafka's cleaner
    fails.
    """
    rule, topic = log.generation.cleaning, log.topic
    producers: Producers = {}
    if rule.transactions:
        producers = producers_at(log.directory, log.log_end_offset)
    segments = _facts(log)
    stable = min(
        (p.txn_first_offset for p in producers.values() if p.txn_first_offset >= 0),
        default=log.high_watermark,
    )
    ends = Ends(
        log.log_start_offset, log.log_end_offset, min(stable, log.high_watermark), log.cleaned_to
    )
    planned = section(segments, ends, topic, rule, now_ms=now_ms)
    if planned.why_not:
        return Compacted(planned, planned.first_offset, (0, 0), (0, 0))
    offsets = _offset_map(log, segments, planned, most_keys)
    active = {
        p.producer_id: p
        for p in producers.values()
        if p.txn_first_offset >= 0 or now_ms - p.timestamp < rule.producer_expiry_ms
    }
    cleaning = Cleaning(
        rule, offsets, planned.end_offset, now_ms, topic.compaction.delete_retention_ms, active
    )
    clean = [s for s in segments if s.base_offset < planned.first_offset]
    horizon = clean[-1].mtime_ms - topic.compaction.delete_retention_ms if clean else 0
    end = offsets.latest_offset + 1
    chosen = groups(segments, end, planned.end_offset, topic)
    sieve, transactions = Sieve(offsets, cleaning), Transactions()
    for group in chosen:
        _clean(log, group, sieve, cleaning, transactions, horizon)
    log.cleaned_to = end
    before = [s for group in chosen for s in group]
    after = sum(files.size_of(_log_of(log, group[0].base_offset)) for group in chosen)
    return Compacted(
        planned, end, (len(before), len(chosen)), (sum(s.bytes for s in before), after)
    )


def _log_of(log: PartitionLog, base: int) -> Path:
    return log.directory / paths.segment_file(base, paths.LOG)


def _facts(log: PartitionLog) -> list[SegmentFacts]:
    made = []
    for segment in log.segments:
        base = segment.base_offset
        path = _log_of(log, base)
        mtime, time = files.mtime_of(path), segment.largest.timestamp
        made.append(
            SegmentFacts(
                base,
                files.size_of(path),
                files.size_of(path.with_suffix(paths.OFFSET_INDEX)),
                files.size_of(path.with_suffix(paths.TIME_INDEX)),
                mtime,
                mtime if time < 0 else time,
                _first_timestamp(path) if log.generation.cleaning.oldest else -1,
            )
        )
    return made


def _first_timestamp(path: Path) -> int:
    """Return the largest timestamp of the first batch, from its header; -1 for none."""
    head = files.read_head(path, v2.HEADER_BYTES)
    magic = head[MAGIC_AT] if len(head) > MAGIC_AT else 0
    if magic == v2.MAGIC and len(head) == v2.HEADER_BYTES:
        return v2.BatchHeader._make(v2.HEADER.unpack(head)).max_timestamp
    if magic == v1.MAGIC and len(head) >= v1.HEADER.size:
        *_, timestamp = v1.HEADER.unpack_from(head)
        return int(timestamp)
    return NO_TIMESTAMP


def _offset_map(
    log: PartitionLog, segments: Sequence[SegmentFacts], planned: Section, most_keys: int
) -> OffsetMap:
    """Return the map of the section's records. Aborted ones do not count."""
    rule = log.generation.cleaning
    first, end = planned.first_offset, planned.end_offset
    bases = [s.base_offset for s in segments]
    transactions = Transactions()
    if rule.transactions:
        transactions.add(aborted_transactions(log.directory, bases, first, end))
    dirty = [b for b in bases if b < end]
    dirty = [b for n, b in enumerate(dirty) if n + 1 == len(dirty) or dirty[n + 1] > first]
    offsets = OffsetMap(most_keys, sum(_records_in(_log_of(log, base)) for base in dirty))
    for base, following in zip(dirty, [*dirty[1:], end], strict=True):
        with _opened(_log_of(log, base)) as data:

            def other(batch: Batch, data: Bytes = data) -> bool:
                if rule.transactions and transactions.discards(data, batch):
                    fits = True
                else:
                    fits = batch.control or _mapped(data, batch, first, offsets)
                if fits and batch.last_offset >= first:
                    offsets.reach(batch.last_offset)
                return fits

            if not offsets.fill(data, first, other):
                return offsets
        if rule.skips_to_segment_end:
            offsets.reach(following - 1)
    return offsets


def _records_in(path: Path) -> int:
    """Return about how many records a log has, 0 for one that is not sound."""
    with suppress(BadInput), open_source(path, mapped=True) as source:
        return sum(int(rows[:, k.COUNT].clip(0).sum()) for rows in batch_headers(source))
    return 0


def _mapped(data: Buffer, batch: Batch, first: int, offsets: OffsetMap) -> bool:
    """Put the records of a batch into the map. Returns False if it is full."""
    return batch.last_offset < first or all(
        record.key is None or record.offset < first or offsets.put(record.key, record.offset)
        for record in dispatch.records(data, batch)
    )


@contextmanager
def _opened(path: Path) -> Generator[Bytes]:
    """Open a log. An error of its content gets the path."""
    with open_segment(path) as data:
        try:
            yield data
        except BadInput as e:
            if e.path is not None:
                raise
            raise type(e)(e.reason, path=path, position=e.position) from e


def _clean(
    log: PartitionLog,
    group: Sequence[SegmentFacts],
    sieve: Sieve,
    cleaning: Cleaning,
    transactions: Transactions,
    horizon_ms: int,
) -> None:
    """Write the cleaned segment of a group, and replace the group with it."""
    rule, now_ms = cleaning.rule, cleaning.now_ms
    bases = log_bases(log.directory)
    cleaned = create_cleaned(log.directory, group[0].base_offset, log.generation, now_ms)
    appends = Appends(cleaned, log.topic, now_ms)
    entries = b""
    for segment in group:
        if rule.transactions:
            if not rule.follows_on:
                entries += transactions.index()
                transactions = Transactions()
            following = [b for b in bases if b > segment.base_offset]
            end = min([*following, cleaning.end_offset])
            aborted = aborted_transactions(log.directory, bases, segment.base_offset, end)
            transactions.add(aborted)
        keeps_deletes = segment.mtime_ms > horizon_ms
        with _opened(_log_of(log, segment.base_offset)) as data:
            decide = partial(
                keep,
                data,
                cleaning=cleaning,
                transactions=transactions,
                keeps_deletes=keeps_deletes,
            )
            sieve.go_over(data, keeps_deletes, decide, appends)
    cleaned.close(-1, now_ms)
    entries += transactions.index()
    old = [s.base_offset for s in group]
    replace(cleaned, old, entries, group[-1].mtime_ms)
    log.replaced(old, now_ms)
