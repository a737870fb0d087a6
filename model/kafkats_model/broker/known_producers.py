"""One producer as a broker knows it: its last batches, and the change by a batch or a marker.

Source: ProducerIdEntry and ProducerAppendInfo of Kafka 0.11, ProducerStateEntry of 1.0 to 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kafkats.kernels import headers_state as k
from kafkats.logdir.producers import Marker, after_data, after_marker
from kafkats.logdir.snapshot import ProducerEntry
from kafkats_model.broker.log_rules import LogRule

MOST: Final = 2**31 - 1
"""The highest sequence."""


class Sent(NamedTuple):
    """A batch that a producer has sent."""

    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int
    """Its largest timestamp in ms."""

    @property
    def first_sequence(self) -> int:
        """Sequences wrap from 2^31-1 to 0."""
        return (self.last_sequence - (self.last_offset - self.first_offset)) & MOST


class Producer(NamedTuple):
    """A producer, and the batches of it that are known again."""

    entry: ProducerEntry
    sent: tuple[Sent, ...] = ()

    def after_data(self, row: Sequence[int], rule: LogRule) -> Producer:
        """Return the producer after its batch. `row` is one of `kernels.headers_state`."""
        entry = after_data(self.entry, row)
        sent = self.sent if entry.producer_epoch == self.entry.producer_epoch else ()
        offsets = row[k.FIRST_OFFSET], row[k.LAST_OFFSET]
        one = Sent(entry.last_sequence, *offsets, entry.timestamp)
        return Producer(entry, (*sent, one)[-rule.known_batches :])

    def after_marker(self, row: Sequence[int], marker: Marker, rule: LogRule) -> Producer:
        """Return the producer after its marker. `row` is one of `kernels.headers_state`."""
        entry = after_marker(self.entry, row, marker)
        if rule.known_batches == 1:
            return loaded(entry._replace(last_offset=row[k.LAST_OFFSET], offset_delta=0))
        if not rule.marker_timestamp:
            timestamp = self.entry.timestamp if entry.last_offset >= 0 else -1
            entry = entry._replace(timestamp=timestamp)
        return Producer(entry, self.sent if entry.last_offset >= 0 else ())


def loaded(entry: ProducerEntry) -> Producer:
    """Return a producer of a snapshot: its last batch is known, if it has one."""
    first = entry.last_offset - entry.offset_delta
    last = Sent(entry.last_sequence, first, entry.last_offset, entry.timestamp)
    return Producer(entry, (last,) if entry.last_offset >= 0 else ())


def unknown(producer: int) -> Producer:
    """Return a producer of which the log has no batch."""
    return Producer(ProducerEntry(producer, -1, -1, -1, 0, -1, -1, -1))
