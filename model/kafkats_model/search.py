"""The exact answer in a log of a dialect (formats/readers.py): every record is read, no index.

The kernels know only what shipped. So this reads whole segments through `formats`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafkats.errors import CorruptBatch
from kafkats.search import exact
from kafkats.search.answers import Answer, Target, Word
from kafkats.search.partition import Partition
from kafkats_model.formats.readers import reader


class _Timed(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int
    segment: int


def find_exact(partition: Partition, target: Target, dialect: str) -> Answer:
    """Return the first record of `target` or later, as `exact.find_exact` by the dialect's rule.

    A record without a timestamp answers no time. Raises CorruptBatch, Vanished, Changed,
    StorageFailed.
    """
    if isinstance(target, Word) and target is not Word.MAX_TIMESTAMP:
        return exact.find_exact(partition, target)
    evidence = f"every record, by dialect {dialect}"
    newest: _Timed | None = None
    for one in _timed(partition, dialect):
        if not isinstance(target, Word) and one.timestamp >= target:
            reason = "exact" if one.timestamp == target else "first-after"
            return Answer(target, *one[:3], reason, one.segment, evidence)
        if newest is None or one.timestamp > newest.timestamp:
            newest = one
    if newest is None:
        return Answer(target, reason="no-timestamps", evidence=evidence)
    if target is Word.MAX_TIMESTAMP:
        return Answer(target, *newest[:3], "exact", newest.segment, evidence)
    return Answer(target, reason="past-end", evidence=evidence)


def _timed(partition: Partition, dialect: str) -> Iterator[_Timed]:
    """Yield the records with a timestamp, from the log start on."""
    known = reader(dialect)
    for segment in exact.served(partition):
        data = segment.log.source.read(0, segment.log.size)
        try:
            for batch in known.batches(data):
                for record in known.records(data, batch):
                    timed = record.timestamp != known.no_timestamp
                    if timed and record.offset >= partition.log_start_offset:
                        yield _Timed(
                            record.offset,
                            record.timestamp,
                            batch.leader_epoch,
                            segment.base_offset,
                        )
        except CorruptBatch as e:
            raise CorruptBatch(e.reason, path=segment.log.path, position=e.position) from e
