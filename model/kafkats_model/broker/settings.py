"""The topic configuration that a broker judges requests by."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple, TypeAlias

from pydantic import Field, ValidationError

from kafkats.config.faults import faults
from kafkats.config.settings import KEYS, TopicSettings
from kafkats.config.values import DIGITS, magic_of
from kafkats.errors import UsageError
from kafkats.formats.build import Target
from kafkats.formats.model import Codec, TimestampType
from kafkats.generations import ENRICHED, PRODUCER
from kafkats.retention.rules import Limits
from kafkats.rolling.rules import Settings, settings_of
from kafkats_model.broker.generation import TEXTS, Generation
from kafkats_model.broker.generation import generation as generation_of
from kafkats_model.broker.leader_rules import LeaderRule

_LONG_MAX: Final = 2**63 - 1
_RETENTION_MS: Final = 604_800_000
_BEFORE: Final = "message.timestamp.before.max.ms"
_AFTER: Final = "message.timestamp.after.max.ms"
_DIFFERENCE: Final = "message.timestamp.difference.max.ms"
_FORMAT: Final = "message.format.version"
_TYPE: Final = "message.timestamp.type"
PROTOCOL: Final = "inter.broker.protocol.version"
INTERNAL_VERSION: Final = "0.9.0-1"
"""KIP-31's internal ApiVersion, between 0.9.0 and the release with the new requests."""
_LAG: Final = "min.compaction.lag.ms"
_RATIO: Final = "min.cleanable.dirty.ratio"
_PLAYED: Final = frozenset({
    "cleanup.policy", "retention.ms", "retention.bytes", "segment.bytes", "segment.ms",
    "segment.index.bytes", "index.interval.bytes", "max.compaction.lag.ms", _TYPE, _BEFORE, _AFTER,
    _DIFFERENCE, _FORMAT, "compression.type", "delete.retention.ms", _LAG, _RATIO,
})  # fmt: skip


Config: TypeAlias = Mapping[str, str | int | float | bool]
"""Settings of a topic by Kafka's keys."""


class BrokerSettings(TopicSettings):
    """The settings of a topic, with those that only the cleaner of a broker reads."""

    min_compaction_lag_ms: Annotated[int, Field(ge=0, le=_LONG_MAX), DIGITS] | None = Field(
        None, alias=_LAG, description="Compaction leaves records alone for this time."
    )
    min_cleanable_dirty_ratio: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, alias=_RATIO, description="The dirty share from which on a log is compacted."
    )

    def kafka_keys(self) -> frozenset[str]:
        """Return the given keys, by Kafka's names."""
        own = {"min_compaction_lag_ms": _LAG, "min_cleanable_dirty_ratio": _RATIO}
        return frozenset((KEYS | own)[name] for name in self.given())


class Compaction(NamedTuple):
    """The settings of the cleaner, with Kafka's defaults."""

    delete_retention_ms: int = 86_400_000
    min_lag_ms: int = 0
    max_lag_ms: int = _LONG_MAX
    dirty_ratio: float = 0.5


_CLEANER: Final = Compaction()


@dataclass(frozen=True)
class Topic:
    """The configuration of one topic on one broker, complete."""

    target: Target
    """The format on disk, and the codec; None keeps that of the producer."""
    timestamp_type: TimestampType
    before_max_ms: int
    """The largest distance of a CreateTime before the broker's clock."""
    after_max_ms: int
    rolling: Settings
    retention_ms: int
    retention_bytes: int
    deletes: bool
    """cleanup.policy includes delete."""
    compaction: Compaction = _CLEANER

    @property
    def compacted(self) -> bool:
        """True if cleanup.policy includes compact: every record needs a key."""
        return self.rolling.compacted


def fetch_version_of(config: Config, generation: Generation) -> int | None:
    """Return the version of fetch requests that inter.broker.protocol.version asks for.

    None: it is not given. Raises UsageError for any other key, a release that does not exist or is
    later than the broker's, and a release without this setting: before 0.9, and from 4.0 on.
    """
    for key in sorted(set(config) - {PROTOCOL}):
        raise UsageError(f"{key}: is not a setting of a broker; played is {PROTOCOL}")
    if PROTOCOL not in config:
        return None
    text = str(config[PROTOCOL])
    if generation.fetch.lowest > 0 or generation.fetch.highest < 1:
        raise UsageError(f"{PROTOCOL}: Kafka {generation.kafka} has no such setting")
    if text == INTERNAL_VERSION and generation.kafka in TEXTS:
        return generation.fetch.highest
    asked = generation_of(re.sub(r"-IV[0-9]+$", "", text))
    version, own = asked.fetch.highest, generation.kafka
    later = own not in TEXTS and _release(asked.kafka) > _release(own)
    if later or version > generation.fetch.highest or text in {*TEXTS, ENRICHED}:
        raise UsageError(f"{PROTOCOL} {text}: Kafka {generation.kafka} does not know it")
    return version


def _release(kafka: str) -> list[int]:
    return [int(part) for part in re.findall(r"[0-9]+", kafka)[:2]]


def settings_from(config: Config) -> BrokerSettings:
    """Return the settings of a topic from Kafka's keys. Raises UsageError for unknown ones."""
    try:
        return BrokerSettings.model_validate(dict(config))
    except ValidationError as e:
        first = e.errors()[0]
        if first["type"] == "extra_forbidden":
            raise UsageError(f"{first['loc'][0]}: replay plays no such setting") from e
        raise UsageError(faults(e)[0]) from e


def topic_of(given: BrokerSettings, generation: Generation) -> Topic:
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
    if rule.dialect and "compact" in policies:
        raise UsageError(f"cleanup.policy: the dialect {rule.dialect} is not played with compact")
    return Topic(
        Target(magic, None if word == PRODUCER else Codec[word.upper()]),
        TimestampType.LOG_APPEND_TIME if stamped else TimestampType.CREATE_TIME,
        before,
        after,
        settings_of(given),
        _RETENTION_MS if given.retention_ms is None else given.retention_ms,
        -1 if given.retention_bytes is None else given.retention_bytes,
        "delete" in policies,
        _compaction_of(given),
    )


def loads_timestamps(topic: Topic, generation: Generation) -> bool:
    """Return whether a broker takes timestamps from the topic's time indexes.

    By KIP-33's text it does so only from message.format.version 0.10 on.
    """
    return topic.target.magic > 0 or not generation.retention.by_format


def _compaction_of(given: BrokerSettings) -> Compaction:
    known = {
        "delete_retention_ms": given.delete_retention_ms,
        "min_lag_ms": given.min_compaction_lag_ms,
        "max_lag_ms": given.max_compaction_lag_ms,
    }
    made = Compaction(**{name: value for name, value in known.items() if value is not None})
    ratio = given.min_cleanable_dirty_ratio
    return made if ratio is None else made._replace(dirty_ratio=ratio)


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
        _DIFFERENCE: not rule.dialect and rule.magics in ((2,), (0,)),
        _FORMAT: rule.magics == (2,) or rule.magics == (0,),
        _TYPE: rule.magics == (0,),
        _LAG: not generation.cleaning.lag,
    }
    for key in sorted(keys):
        if unknown.get(key):
            raise UsageError(f"{key}: Kafka {kafka} has no such setting of a topic")
        if key not in _PLAYED:
            played = ", ".join(sorted(_PLAYED))
            raise UsageError(f"{key}: is not played; played are {played}")


def limits_of(topic: Topic, log_start_offset: int, high_watermark: int) -> Limits:
    """Return the limits by which retention decides; -1 where cleanup.policy has no delete."""
    return Limits(
        topic.retention_ms if topic.deletes else -1,
        topic.retention_bytes if topic.deletes else -1,
        log_start_offset,
        high_watermark,
    )
