"""Search by time of a broker that writes a dialect (formats/readers.py).

The same steps as in `search.broker`, for which a negative number is no timestamp: the first segment
whose largest timestamp is not below the target, its time index, its offset index, its batches. A
segment without timestamps has the mtime of its file. Source: Log.fetchOffsetsByTimestamp,
LogSegment.findOffsetByTimestamp of Kafka 2.0, without their checks of negative timestamps.
"""

from __future__ import annotations

from kafkats import paths
from kafkats.search.answers import Answer
from kafkats.search.segment import Segment
from kafkats_model.broker import files
from kafkats_model.broker.partition_log import PartitionLog


def find(log: PartitionLog, time: int) -> Answer:
    """Return the first record of `time` (ms, any number) or later, as the broker answers.

    Raises CorruptBatch, CorruptIndex, StorageFailed.
    """
    ends = [*(one.base_offset for one in log.segments[1:]), log.log_end_offset]
    with log.opened() as partition:
        for one, end, segment in zip(log.segments, ends, partition.segments, strict=True):
            largest = one.largest.timestamp
            by_mtime = largest == log.generation.reader.no_timestamp
            if by_mtime:
                largest = files.mtime_of(one.path(paths.LOG))
            if end > log.log_start_offset and largest >= time:
                evidence = "mtime chose the segment" if by_mtime else "time index"
                return _in_segment(log, segment, time)._replace(evidence=evidence)
    return Answer(time, evidence="time index: every segment ends earlier")


def _in_segment(log: PartitionLog, segment: Segment, time: int) -> Answer:
    known = log.generation.reader
    start = segment.lookup(time, log.log_start_offset, warm=True).position
    data = segment.log.source.read(0, segment.log.size)
    for batch in known.batches(data, start, verify=False):
        for record in known.records(data, batch) if batch.max_timestamp >= time else ():
            timed = record.timestamp != known.no_timestamp
            if not timed or record.timestamp < time or record.offset < log.log_start_offset:
                continue
            if record.offset >= log.high_watermark:
                return Answer(time, reason="above-high-watermark", segment=segment.base_offset)
            reason = "exact" if record.timestamp == time else "first-after"
            return Answer(
                time,
                record.offset,
                record.timestamp,
                batch.leader_epoch,
                reason,
                segment.base_offset,
            )
    return Answer(time, segment=segment.base_offset)
