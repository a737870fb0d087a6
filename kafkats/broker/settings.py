"""The topic configuration that a broker judges requests by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from pydantic import ValidationError

from kafkats.broker.generation import Generation
from kafkats.config.settings import KEYS, TopicSettings, faults
from kafkats.config.values import magic_of
from kafkats.errors import UsageError
from kafkats.formats.build import Target
from kafkats.formats.model import Codec, TimestampType
from kafkats.generations import PRODUCER, LeaderRule
from kafkats.rolling.rules import Settings, settings_of

_LONG_MAX: Final = 2**63 - 1
_RETENTION_MS: Final = 604_800_000
_BEFORE: Final = "message.timestamp.before.max.ms"
_AFTER: Final = "message.timestamp.after.max.ms"
_DIFFERENCE: Final = "message.timestamp.difference.max.ms"
_FORMAT: Final = "message.format.version"
_TYPE: Final = "message.timestamp.type"
_PLAYED: Final = frozenset({
    "cleanup.policy", "retention.ms", "retention.bytes", "segment.bytes", "segment.ms",
    "segment.index.bytes", "index.interval.bytes", "max.compaction.lag.ms", _TYPE, _BEFORE, _AFTER,
    _DIFFERENCE, _FORMAT, "compression.type",
})  # fmt: skip


Config: TypeAlias = Mapping[str, str | int | float | bool]
"""Settings of a topic by Kafka's keys."""


@dataclass(frozen=True)
class Topic:
    """The configuration of one topic on one broker, complete."""

    target: Target
    """The format on disk, and the codec; None keeps that of the producer."""
    timestamp_type: TimestampType
    before_max_ms: int
    """How far before the broker's clock a CreateTime may lie."""
    after_max_ms: int
    rolling: Settings
    retention_ms: int
    retention_bytes: int
    deletes: bool
    """cleanup.policy includes delete."""

    @property
    def compacted(self) -> bool:
        """True if cleanup.policy includes compact: every record needs a key."""
        return self.rolling.compacted


def settings_from(config: Config) -> TopicSettings:
    """Return the settings of a topic from Kafka's keys. Raises UsageError for unknown ones."""
    try:
        return TopicSettings.model_validate(dict(config))
    except ValidationError as e:
        raise UsageError(faults(e)[0]) from e


def topic_of(given: TopicSettings, generation: Generation) -> Topic:
    """Return a topic's configuration on a broker of `generation`, with its defaults.

    Raises UsageError for a setting that the generation does not have, or that is not played.
    """
    rule = generation.leader
    _check_keys(given.kafka_keys(), generation)
    magic = rule.magics[-1]
    if given.message_format_version is not None:
        magic = magic_of(given.message_format_version)
    if magic not in rule.magics:
        raise UsageError(
            f"{_FORMAT} {given.message_format_version}: Kafka {generation.kafka} writes only magic"
            f" {', '.join(map(str, rule.magics))}"
        )
    before, after = _limits(given, rule)
    word = given.compression_type or PRODUCER
    stamped = given.message_timestamp_type == "LogAppendTime"
    policies = ("delete",) if given.cleanup_policy is None else given.cleanup_policy
    return Topic(
        Target(magic, None if word == PRODUCER else Codec[word.upper()]),
        TimestampType.LOG_APPEND_TIME if stamped else TimestampType.CREATE_TIME,
        before,
        after,
        settings_of(given),
        _RETENTION_MS if given.retention_ms is None else given.retention_ms,
        -1 if given.retention_bytes is None else given.retention_bytes,
        "delete" in policies,
    )


def _limits(given: TopicSettings, rule: LeaderRule) -> tuple[int, int]:
    """Return the limits before and after the broker's clock.

    From 3.6 to 3.9 each counts unless it has its default; then the difference counts.
    """
    difference = given.message_timestamp_difference_max_ms
    otherwise = _LONG_MAX if difference is None else difference
    before, after = given.message_timestamp_before_max_ms, given.message_timestamp_after_max_ms
    if before is None or (before == _LONG_MAX and difference is not None):
        before = otherwise
    if after is None or (after == _LONG_MAX and difference is not None):
        after = rule.after_max_ms if difference is None else otherwise
    return before, after


def _check_keys(keys: frozenset[str], generation: Generation) -> None:
    kafka, rule = generation.kafka, generation.leader
    unknown: Mapping[str, bool] = {
        _BEFORE: not rule.bounds,
        _AFTER: not rule.bounds,
        _DIFFERENCE: rule.magics == (2,) or rule.magics == (0,),
        _FORMAT: rule.magics == (2,) or rule.magics == (0,),
        _TYPE: rule.magics == (0,),
    }
    for key in sorted(keys):
        if unknown.get(key):
            raise UsageError(f"{key}: Kafka {kafka} has no such setting of a topic")
        if key not in _PLAYED:
            played = ", ".join(sorted(_PLAYED & set(KEYS.values())))
            raise UsageError(f"{key}: is not played; played are {played}")
