"""The brokers of a replay: the log directory of each, and the logs that it holds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kafkats import paths
from kafkats.generations import ENRICHED, KIP228
from kafkats.logdir.checkpoints import encode_offsets
from kafkats_model.broker import enriched_steps, files
from kafkats_model.broker.enriched_log import EnrichedLog
from kafkats_model.broker.generation import Generation
from kafkats_model.broker.partition_log import PartitionLog
from kafkats_model.broker.settings import Config, Topic, settings_from, topic_of


@dataclass
class Broker:
    """A broker: its log directory, and the logs that it holds."""

    directory: Path
    generation: Generation
    config: Config
    """Its own settings."""
    logs: dict[str, PartitionLog | EnrichedLog] = field(default_factory=dict)
    settings: dict[str, Config] = field(default_factory=dict)

    def mark(self, now_ms: int) -> None:
        """Write the name of the dialect kip228 into the log directory: no bytes of a log tell it.

        Raises StorageFailed.
        """
        if self.generation.dialect == KIP228:
            files.write(self.directory / paths.DIALECT, f"{KIP228}\n".encode(), now_ms)

    def stop(self, now_ms: int) -> None:
        """Close the logs and write the checkpoints and the marker of a clean stop.

        Raises StorageFailed.
        """
        for log in self.logs.values():
            log.close(now_ms)
        kept: Mapping[str, Callable[[PartitionLog | EnrichedLog], int]] = {
            paths.RECOVERY_POINT: lambda log: log.recovery_point,
            paths.HIGH_WATERMARK: lambda log: log.high_watermark,
            paths.LOG_START: lambda log: log.log_start_offset,
        }
        for name, offset in kept.items():
            offsets = {paths.partition_name(p): offset(log) for p, log in self.logs.items()}
            files.write(self.directory / name, encode_offsets(offsets), now_ms)
        cleaned = {
            paths.partition_name(p): log.cleaned_to
            for p, log in self.logs.items()
            if isinstance(log, PartitionLog) and log.cleaned_to is not None
        }
        if cleaned:
            files.write(self.directory / paths.CLEANER, encode_offsets(cleaned), now_ms)
        files.write(self.directory / paths.CLEAN_SHUTDOWN, b"", now_ms)


def note_high_watermarks(brokers: Collection[Broker]) -> None:
    """Give each log the high watermark of its partition: the lowest log end of all replicas."""
    ends: dict[str, int] = {}
    for broker in brokers:
        for name, log in broker.logs.items():
            ends[name] = min(ends.get(name, log.log_end_offset), log.log_end_offset)
    for broker in brokers:
        for name, log in broker.logs.items():
            log.high_watermark = max(log.log_start_offset, ends[name])


def topic_for(config: Config, rules: Generation) -> Topic:
    """Return the topic's settings as a broker of this generation or dialect reads them.

    Raises UsageError.
    """
    if rules.dialect == ENRICHED:
        return enriched_steps.topic(config, rules)
    return topic_of(settings_from(config), rules)
