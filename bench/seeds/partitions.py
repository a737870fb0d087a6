"""Partitions for a play: of the broker room, on real files, and of the rejected options."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from bench.seeds.patterns import DAY, HOUR, Message
from bench.seeds.rejected import RejectedPartition
from kafkats.formats import dispatch
from kafkats.formats.model import NO_TIMESTAMP, Codec, Record, TimestampType
from kafkats.logdir.partition import log_bases
from kafkats.rolling.rules import Settings
from kafkats_model.broker import files, requests
from kafkats_model.broker.active import create_active
from kafkats_model.broker.generation import generation
from kafkats_model.broker.partition_log import PartitionLog
from kafkats_model.broker.settings import settings_from, topic_of
from kafkats_model.errors import Rejected

RETENTION_MS: Final = 12 * HOUR
SEGMENT_MS: Final = 2 * HOUR
LIMIT_MS: Final = DAY
_CONFIG: Final = {
    "retention.ms": RETENTION_MS,
    "segment.ms": SEGMENT_MS,
    "index.interval.bytes": 0,
}


class Played(Protocol):
    """A partition of any option."""

    def append(self, message: Message, clock: int) -> bool:
        """Append as the leader; False: rejected."""

    def replicate(self, leader: Played, clock: int) -> None:
        """Append what the leader has."""

    def retain(self, clock: int) -> int:
        """Delete what has expired; return the log start offset."""

    def search(self, time: int, clock: int) -> int:
        """Return the offset at a time, -1 for none."""

    def timestamp(self, offset: int) -> int:
        """The timestamp of a message as a consumer sees it; -1: none."""

    def segments(self) -> int:
        """The number of segments."""


class RoomPartition:
    """A partition of the broker room."""

    def __init__(
        self, directory: Path, kafka: str, config: Mapping[str, str | int], clock: int, start: int
    ) -> None:
        rules = generation(kafka)
        topic = topic_of(settings_from({**_CONFIG, **config}), rules)
        files.make_directory(directory)
        self.log = PartitionLog(
            directory, topic, rules, create_active(directory, start, rules, clock)
        )
        self.version = min(2, rules.produce.highest)

    def append(self, message: Message, clock: int) -> bool:
        timed = self.version > 1
        record = Record(
            0,
            message.created if timed else NO_TIMESTAMP,
            TimestampType.CREATE_TIME,
            b"%d" % message.number,
            b"v",
        )
        data = requests.message_set(self.version, Codec.NONE, [record])
        try:
            requests.produce(self.log, self.version, data, now_ms=clock, leader_epoch=0)
        except Rejected:
            return False
        self.log.high_watermark = self.log.log_end_offset
        return True

    def replicate(self, leader: Played, clock: int) -> None:
        assert isinstance(leader, RoomPartition)
        while self.log.log_end_offset < leader.log.log_end_offset:
            data = leader.log.read(self.log.log_end_offset, leader.log.log_end_offset, 1 << 20)
            self.log.append_as_follower(data, now_ms=clock)
        self.log.high_watermark = self.log.log_end_offset

    def retain(self, clock: int) -> int:
        self.log.delete_old_segments(clock)
        return self.log.log_start_offset

    def search(self, time: int, clock: int) -> int:
        version = self.log.generation.list_offsets.highest
        return requests.list_offsets(self.log, version, time, now_ms=clock).answer.offset

    def timestamp(self, offset: int) -> int:
        data = self.log.read(offset, self.log.log_end_offset, 1)
        batch = next(dispatch.batches(data))
        return next(r.timestamp for r in dispatch.records(data, batch) if r.offset == offset)

    def segments(self) -> int:
        return len(log_bases(self.log.directory))


class ModelPartition:
    """A partition of a rejected option."""

    def __init__(self) -> None:
        self.model = RejectedPartition(Settings(segment_ms=SEGMENT_MS), RETENTION_MS)

    def append(self, message: Message, clock: int) -> bool:
        self.model.append(message.created, clock)
        return True

    def replicate(self, leader: Played, clock: int) -> None:
        assert isinstance(leader, ModelPartition)
        self.model.replicate(leader.model, clock)

    def retain(self, clock: int) -> int:
        return self.model.retain(clock)

    def search(self, time: int, clock: int) -> int:
        return self.model.search(time)

    def timestamp(self, offset: int) -> int:
        return next(m.created for m in self.model.stored() if m.offset == offset)

    def segments(self) -> int:
        return len(self.model.segments)
