"""The settings of one topic: Kafka's topic keys, their other names in Kafka, and our own keys.

A key may be given by the topic's name (`retention.ms`), by the broker's name (`log.retention.ms`),
and in the broker's minutes and hours. If several are given, Kafka's precedence holds: the topic's
key before the broker's, and milliseconds before minutes before hours
(`KafkaConfig.getLogRetentionTimeMillis`, all versions since 0.8.2). Bounds are Kafka's
(`LogConfig`, 0.10.2 to 4.3). Where versions differ, they are the widest with which every operation
can work.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError

from kafkats.clock import HOUR_MS, MINUTE_MS
from kafkats.config.faults import fault_text
from kafkats.config.values import (
    DIGITS,
    INT_MAX,
    LONG_MAX,
    LONG_MIN,
    Bogus,
    Boolean,
    CompressionType,
    Policies,
    Release,
    Share,
    Size,
    TimestampType,
    integer,
    wrong,
)
from kafkats.logdir.strict_json import Json

GivenKeys: TypeAlias = Mapping[str, Json]
"""Keys and values as written."""
Value: TypeAlias = int | float | bool | str | tuple[str, ...]
"""A value of a field of TopicSettings."""


class Name(NamedTuple):
    """Another name of a topic key. `unit` is in units of the key; `least` is the least value.

    `unlimited`: any negative value means -1, and 0 is refused, as for the broker's retention.
    """

    key: str
    unit: int = 1
    least: int | None = None
    unlimited: bool = False


ALIASES: Final[dict[str, Name]] = {
    "log.retention.hours": Name("retention.ms", HOUR_MS, unlimited=True),
    "log.retention.minutes": Name("retention.ms", MINUTE_MS, unlimited=True),
    "log.retention.ms": Name("retention.ms", 1, unlimited=True),
    "log.retention.bytes": Name("retention.bytes"),
    "log.roll.hours": Name("segment.ms", HOUR_MS, 1),
    "log.roll.ms": Name("segment.ms"),
    "log.roll.jitter.hours": Name("segment.jitter.ms", HOUR_MS, 0),
    "log.roll.jitter.ms": Name("segment.jitter.ms"),
    "log.segment.bytes": Name("segment.bytes"),
    "log.index.size.max.bytes": Name("segment.index.bytes"),
    "log.index.interval.bytes": Name("index.interval.bytes"),
    "log.cleanup.policy": Name("cleanup.policy"),
    "log.message.timestamp.type": Name("message.timestamp.type"),
    "log.message.timestamp.before.max.ms": Name("message.timestamp.before.max.ms"),
    "log.message.timestamp.after.max.ms": Name("message.timestamp.after.max.ms"),
    "max.message.time.difference.ms": Name("message.timestamp.difference.max.ms"),
    "log.message.timestamp.difference.max.ms": Name("message.timestamp.difference.max.ms"),
    "log.segment.delete.delay.ms": Name("file.delete.delay.ms"),
    "log.cleaner.delete.retention.ms": Name("delete.retention.ms"),
    "log.cleaner.max.compaction.lag.ms": Name("max.compaction.lag.ms"),
    "log.message.format.version": Name("message.format.version"),
    "kafkats.bogus.timestamps": Name("kafkats.implausible.timestamps"),
}
"""Other names of topic keys, the weakest first: brokers' names, KIP-32's and kafkats 0.1.0's."""
STRONGER: Final[dict[str, Name]] = {"internal.segment.bytes": Name("segment.bytes")}
"""Names that override the topic key.

Kafka 4.1 and later accept a segment.bytes below 1 MiB only by this name.
"""
OTHER_KEYS: Final = frozenset({
    "compression.gzip.level", "compression.lz4.level", "compression.zstd.level", "flush.messages",
    "flush.ms", "follower.replication.throttled.replicas", "leader.replication.throttled.replicas",
    "local.retention.bytes", "local.retention.ms", "max.message.bytes",
    "message.downconversion.enable", "min.cleanable.dirty.ratio", "min.compaction.lag.ms",
    "min.insync.replicas", "preallocate", "remote.log.copy.disable", "remote.log.delete.on.disable",
    "unclean.leader.election.enable",
})  # fmt: skip
"""Kafka's topic keys that kafkats does not use. A policy refuses them, an export may have them."""


def _key(field: str) -> str:
    """Return the key of a field: Kafka's, or ours."""
    return field.replace("_", ".")


Millis = Annotated[int, Field(ge=0, le=LONG_MAX), DIGITS]
SomeMillis = Annotated[int, Field(ge=1, le=LONG_MAX), DIGITS]


def unset(description: str) -> Any:
    """Return a field that is None unless it is given."""
    return Field(None, description=description)


class TopicSettings(BaseModel):
    """The settings given for a topic; None means not given.

    Units are in the names; retention -1 means unlimited.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        defer_build=True,
        alias_generator=_key,
        json_schema_extra={"title": "Settings of topics"},
    )

    cleanup_policy: Policies | None = unset(
        "delete, compact or both; nothing is deleted without delete."
    )
    retention_ms: Annotated[int, Field(ge=-1, le=LONG_MAX), DIGITS] | None = unset(
        "Delete segments older than this; -1 never."
    )
    retention_bytes: Annotated[int, Field(ge=LONG_MIN, le=LONG_MAX), DIGITS] | None = unset(
        "Delete the oldest segments as long as the rest of the partition has at"
        " least this size; negative never."
    )
    segment_bytes: Annotated[int, Field(ge=14, le=INT_MAX), DIGITS] | None = unset(
        "Roll before a segment would be larger."
    )
    segment_ms: SomeMillis | None = unset("Roll a segment once its records span this time.")
    segment_jitter_ms: Millis | None = unset("Roll up to this much earlier, at random.")
    segment_index_bytes: Annotated[int, Field(ge=4, le=INT_MAX), DIGITS] | None = unset(
        "Maximum size of each index file."
    )
    index_interval_bytes: Annotated[int, Field(ge=0, le=INT_MAX), DIGITS] | None = unset(
        "Bytes of log between two index entries."
    )
    message_timestamp_type: TimestampType | None = unset(
        "Timestamps are the producer's (CreateTime) or the broker's (LogAppendTime)."
    )
    message_timestamp_before_max_ms: Millis | None = unset(
        "How far in the past a CreateTime may lie (3.6 and later)."
    )
    message_timestamp_after_max_ms: Millis | None = unset(
        "How far in the future a CreateTime may lie (3.6 and later)."
    )
    message_timestamp_difference_max_ms: Millis | None = unset(
        "How far from the broker's clock a CreateTime may lie (0.10.0 to 3.9)."
    )
    file_delete_delay_ms: Millis | None = unset(
        "How long a broker keeps .deleted files on the disk."
    )
    delete_retention_ms: Millis | None = unset("How long compaction keeps tombstones.")
    max_compaction_lag_ms: SomeMillis | None = unset(
        "A compacted topic rolls after this time, if segment.ms is longer (2.3 and later)."
    )
    remote_storage_enable: Boolean | None = unset(
        "Tiered storage. If true, nothing is deleted: a segment may not be uploaded yet."
    )
    message_format_version: Release | None = unset("A magic (0, 1, 2) or a release such as 0.10.2.")
    compression_type: CompressionType | None = unset(
        "The topic's codec; producer keeps that of each batch."
    )
    kafkats_legal_hold: Boolean | None = unset(
        "If true, nothing of the topic is deleted, whatever the retention limits are."
    )
    kafkats_guard_max_share: Share | None = unset(
        "One run deletes at most this share of a partition's bytes, 0 to 1."
    )
    kafkats_guard_max_bytes: Size | None = unset(
        "One run deletes at most this much of a partition, as a number or such as 500GiB."
    )
    kafkats_implausible_timestamps: Bogus | None = unset(
        "What retention uses instead of an impossible timestamp: report uses it and"
        " reports it; ignore takes the largest plausible index entry, mtime the file's mtime,"
        " clamp the timestamp in the unit it seems to be in."
    )
    kafkats_keep_segments: Annotated[int, Field(ge=1, le=INT_MAX), DIGITS] | None = unset(
        "Keep at least this many segments of each partition. A given value overrides"
        " --last-segment; without one, --last-segment keeps none."
    )

    @model_validator(mode="before")
    @classmethod
    def _by_topic_keys(cls, given: GivenKeys | TopicSettings) -> GivenKeys | TopicSettings:
        return by_topic_keys(given) if isinstance(given, Mapping) else given

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core))
        known = schema["properties"]
        for name, alias in (ALIASES | STRONGER).items():
            known[name] = _same(known[alias.key], name, alias)
        return schema

    def given(self) -> dict[str, Value]:
        """Return all given values by field name."""
        return {name: value for name, value in self if value is not None}

    def kafka_keys(self) -> frozenset[str]:
        """Return the given keys, by Kafka's names."""
        return frozenset(KEYS[name] for name in self.given())

    def over(self, *weaker: TopicSettings) -> TopicSettings:
        """Return these settings, completed from `weaker` ones, the strongest first."""
        return self.model_copy(
            update={k: v for s in (*reversed(weaker), self) for k, v in s.given().items()}
        )


KEYS: Final = {name: _key(name) for name in TopicSettings.model_fields}
"""Kafka's topic key, or ours, by field name."""


def by_topic_keys(given: GivenKeys) -> dict[str, Json]:
    """Return `given` with every other name replaced by its topic key. The strongest name wins.

    Names that lose are checked too: Kafka refuses a broken log.retention.hours beside a valid
    log.retention.ms. Raises ValidationError with the names as given.
    """
    values: dict[str, Json] = {}
    wrong: list[InitErrorDetails] = []
    for names in (ALIASES, None, STRONGER):
        if names is None:
            values |= {
                key: value
                for key, value in given.items()
                if key not in ALIASES and key not in STRONGER and _counts(value, key, values)
            }
            continue
        for written, alias in names.items():
            if given.get(written) is None:
                continue
            try:
                values[alias.key] = _converted(given[written], alias)
            except (PydanticCustomError, ValidationError) as e:
                wrong.append(_details(written, e))
    if wrong:
        raise ValidationError.from_exception_data(TopicSettings.__name__, wrong)
    return values


def _counts(value: Json, key: str, found: GivenKeys) -> bool:
    """Return whether the key counts: an empty topic key does not hide its other names."""
    return value is not None or key not in found


def _converted(value: Json, alias: Name) -> Json:
    if alias.unit > 1 or alias.unlimited:
        number = integer(value, hint=alias.unit == 1)
        if alias.unit > 1 and not -INT_MAX - 1 <= number <= INT_MAX:
            raise wrong("must be a 32-bit number")
        if alias.unlimited and number == 0:
            raise wrong("must be -1 or at least 1")
        if alias.least is not None and number < alias.least:
            raise wrong(f"must be at least {alias.least}")
        value = max(number, -1) if alias.unlimited and number < 0 else number * alias.unit
    TopicSettings.model_validate({alias.key: value})
    return value


def _details(written: str, error: PydanticCustomError | ValidationError) -> InitErrorDetails:
    custom = wrong(fault_text(error.errors()[0])) if isinstance(error, ValidationError) else error
    return InitErrorDetails(type=custom, loc=(written,), input=None)


def _same(schema: JsonSchemaValue, written: str, alias: Name) -> JsonSchemaValue:
    if alias.unit == 1 and not alias.unlimited:
        return {**schema, "title": written, "description": f"Another name of {alias.key}."}
    least = -INT_MAX - 1 if alias.unlimited else alias.least
    number: JsonSchemaValue = {
        "type": "integer",
        "minimum": least,
        "maximum": INT_MAX if alias.unit > 1 else LONG_MAX,
    }
    if alias.unlimited:
        number["not"] = {"const": 0}
    description = f"{alias.key}, by the broker's name."
    return {
        "anyOf": [number, {"type": "null"}],
        "default": None,
        "title": written,
        "description": description,
    }
