"""Transaction markers, as a transaction coordinator sends them to the leaders of partitions.

Source: MemoryRecords.withEndTransactionMarker, LogValidator of Kafka 0.11 to 4.3.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkats.formats import v2
from kafkats.formats.control import ControlType, encode_end_marker
from kafkats.formats.model import Record, TimestampType


class EndMarker(NamedTuple):
    """The end of one producer's transaction in one partition."""

    producer_id: int
    producer_epoch: int
    commits: bool
    coordinator_epoch: int

    def encoded(
        self, offset: int, now_ms: int, leader_epoch: int, timestamp_type: TimestampType
    ) -> bytes:
        """Return the batch as the leader appends it at `offset`."""
        kind = ControlType.COMMIT if self.commits else ControlType.ABORT
        key, value = encode_end_marker(kind, self.coordinator_epoch)
        stamped = timestamp_type == TimestampType.LOG_APPEND_TIME
        return v2.encode_batch(
            [Record(offset, now_ms, timestamp_type, key, value)],
            log_append_time=now_ms if stamped else None,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=-1,
            leader_epoch=leader_epoch,
            transactional=True,
            control=True,
        )
