"""The settings of a topic under a policy, and whether anything of it may be deleted."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Final

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from kafkats.config.faults import faults
from kafkats.config.globs import GLOB, Globs, useless
from kafkats.config.settings import KEYS, TopicSettings
from kafkats.config.settings_read import INSTEAD, NOWHERE
from kafkats.config.topics import INTERNAL
from kafkats.config.values import Boolean, Share, Size, wrong
from kafkats.errors import UsageError
from kafkats.text import Flag, Text

LIMITS: Final = ("retention.ms", "retention.bytes")
_LITERAL: Final = re.compile(r"[A-Za-z0-9._\-]")

BrokerName = Annotated[
    str,
    BeforeValidator(
        lambda value: (
            str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        )
    ),
    WithJsonSchema({"type": ["string", "integer"]}),
]


class Volume(BaseModel):
    """One log directory of one broker, and the connection that reaches it at `path`."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    broker: BrokerName = Field("", description="Names the broker in reports.")
    path: Path = Field(description="One of its log.dirs.")
    name: str | None = Field(
        None,
        min_length=1,
        description="Identifies the log directory instead of its meta.properties: one request may"
        " name a log directory and its copies if each has a name.",
    )
    connection: str = Field(
        "spark_default",
        description="The Airflow connection that reaches that path: Spark, whose workers see it,"
        " SSH, to the host that has it, or Kubernetes, whose pods mount it.",
    )
    owner_stopped: Boolean = Field(
        False, description="true states that no broker runs on it, where a lock cannot prove that."
    )
    work_area: Path | None = Field(
        None,
        description="A directory for undo material and the reservation, where there can be"
        " none beside the log directory:"
        " a mount of its own. The DAGs name it to their jobs.",
    )


class Guard(BaseModel):
    """The largest part of the segments that it considered which one plan may delete."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    max_share: Share | None = Field(
        None, alias="max.share", description="Share of all bytes, 0 to 1."
    )
    max_bytes: Size | None = Field(
        None, alias="max.bytes", description="Bytes, as a number or such as 500GiB."
    )


class PolicyFile(BaseModel):
    """The content of a policy file."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    volumes: tuple[Volume, ...] = Field(
        (), description="Log directories, and where they can be seen."
    )
    defaults: TopicSettings = Field(
        TopicSettings.model_construct(),
        description="Settings of every topic, as a broker would have them.",
    )
    topics: dict[str, TopicSettings] = Field(
        {},
        description="Settings by glob over topic names; the first match wins, and none but"
        " __* matches __*.",
        json_schema_extra={"propertyNames": {"pattern": f"^{GLOB.pattern}$"}},
    )
    guard: Guard = Field(Guard.model_construct(), description="What one plan may delete at most.")
    exports: tuple[Path, ...] = Field(
        (),
        description="What kafka-configs or kafka-topics --describe said of the topics;"
        " beside this file if relative.",
    )

    @model_validator(mode="after")
    def _check(self) -> PolicyFile:
        if problems := [*self._same_names(), *self._bad_globs()]:
            raise ValidationError.from_exception_data(type(self).__name__, problems)
        return self

    def _same_names(self) -> Iterator[InitErrorDetails]:
        seen: set[str | None] = {None}
        for number, volume in enumerate(self.volumes):
            if volume.name in seen - {None}:
                error = wrong(f"{volume.name!r} is the name of another volume, too")
                where = ("volumes", number, "name")
                yield {"type": error, "loc": where, "input": volume.name}
            seen.add(volume.name)

    def _bad_globs(self) -> Iterator[InitErrorDetails]:
        try:
            for glob, message in useless(self.topics):
                yield {"type": wrong(message), "loc": ("topics", glob), "input": None}
        except PydanticCustomError as e:
            yield {"type": e, "loc": ("topics",), "input": None}


class Policy(PolicyFile):
    """A policy: the file, the exports that it names, and the settings of the command line."""

    exported: dict[str, TopicSettings] = {}
    overrides: TopicSettings = TopicSettings.model_construct()

    def named_paths(self) -> frozenset[str]:
        """Return the real paths of the log directories that have a name."""
        return frozenset(os.path.realpath(one.path) for one in self.volumes if one.name is not None)

    def broker_of(self, log_dir: Path) -> str:
        """Return the broker of the volume at this path, "" if the policy has none or several."""
        real = os.path.realpath(log_dir)
        brokers = {one.broker for one in self.volumes if os.path.realpath(one.path) == real}
        return brokers.pop() if len(brokers) == 1 else ""

    def settings(self, topic: str) -> TopicSettings:
        """Return all settings of `topic`.

        The command line takes precedence over the topic's glob, the glob over the exports, the
        exports over the defaults.
        """
        strongest, *weaker = self._layers(topic)
        return strongest.over(*weaker)

    def explicit(self, topic: str) -> frozenset[str]:
        """Return the keys given explicitly for this topic, by Kafka's names.

        These are the keys of its glob, whatever the glob, and those in an export of the topic. Keys
        of the defaults count too if its glob names it at least in part (`*` does not). For Kafka's
        own topics (`__*`) keys are explicit only under a glob that begins with `__`. The command
        line makes no key explicit: it changes values of explicit keys.
        """
        glob = self.glob(topic)
        if glob is None and topic.startswith(INTERNAL):
            return frozenset()
        keys = self._of_glob(topic).kafka_keys() | self._exported(topic).kafka_keys()
        return (
            keys | self.defaults.kafka_keys()
            if glob and _LITERAL.search(_outside_brackets(glob))
            else keys
        )

    def why_kept(self, topic: str, *, limit_given: bool = False) -> str:
        """Return why retention may delete nothing of `topic`, "" if it may delete.

        `limit_given`: the limit was given otherwise, such as a time before which to delete. A legal
        hold is not a reason here: the settings have it, and it vetoes the deletion later.
        """
        explicit, exported = self.explicit(topic), self._exported(topic)
        settings = self.settings(topic)
        cleanup = settings.cleanup_policy
        if exported.remote_storage_enable or settings.remote_storage_enable:
            return "remote.storage.enable=true: segments that are not uploaded yet would be lost"
        if "cleanup.policy" not in explicit or cleanup is None:
            return f"cleanup.policy is not given for this topic{self._nearly('cleanup.policy')}"
        if "delete" not in cleanup:
            return f"cleanup.policy={','.join(cleanup)}: only compaction removes records"
        if exported.cleanup_policy is not None and "delete" not in exported.cleanup_policy:
            return (
                f"the export says cleanup.policy={','.join(exported.cleanup_policy)}, the"
                f" policy {','.join(cleanup)}"
            )
        if not limit_given and not explicit.intersection(LIMITS):
            return (
                "neither retention.ms nor retention.bytes is given for this"
                f" topic{self._nearly(LIMITS[0])}"
            )
        return ""

    def limits(self, topic: str) -> tuple[int, int]:
        """Return retention.ms and retention.bytes of `topic`, -1 for unlimited or not explicit."""
        explicit, settings = self.explicit(topic), self.settings(topic)
        ms = settings.retention_ms if "retention.ms" in explicit else None
        size = settings.retention_bytes if "retention.bytes" in explicit else None
        return -1 if ms is None else ms, -1 if size is None else max(size, -1)

    def broker_limits(self, topic: str) -> tuple[int, int]:
        """Return the retention.ms and retention.bytes that a broker with these settings applies.

        They need not be explicit. -1 is unlimited or not given. A topic that only compaction cleans
        has no limits.
        """
        settings = self.settings(topic)
        if settings.cleanup_policy is not None and "delete" not in settings.cleanup_policy:
            return -1, -1
        ms, size = settings.retention_ms, settings.retention_bytes
        return -1 if ms is None else ms, -1 if size is None else max(size, -1)

    def not_explicit(self, topic: str) -> str:
        """Return which of the broker's limits are not explicit for this topic, "" for none."""
        given = dict(zip(LIMITS, self.broker_limits(topic), strict=True))
        missing = [key for key in LIMITS if given[key] >= 0 and key not in self.explicit(topic)]
        return f"{' and '.join(missing)} not given for this topic" if missing else ""

    def glob(self, topic: str) -> str | None:
        """Return the glob whose settings `topic` has."""
        return self._globs.first(topic)

    def unmatched(self, topics: Iterable[str]) -> tuple[str, ...]:
        """Return the globs that none of `topics` uses: misspelt, or of absent topics."""
        used = {self.glob(topic) for topic in topics}
        return tuple(glob for glob in self.topics if glob not in used)

    def contradictions(self, topic: str) -> tuple[str, ...]:
        """Return where the topic's glob and an export differ. The glob takes precedence."""
        ours, theirs = self._of_glob(topic).given(), self._exported(topic).given()
        return tuple(
            f"{KEYS[name]}: the policy says {_text(ours[name])}, the export {_text(theirs[name])}"
            for name in sorted(ours.keys() & theirs.keys())
            if ours[name] != theirs[name]
        )

    def remarks(
        self, topics: Iterable[str], *, all_topics: bool = True, reads: frozenset[str] | None = None
    ) -> tuple[str, ...]:
        """Return remarks for the author of the policy, given the existing `topics`.

        They name ignored settings (`reads` as in `ignored`), globs that match no topic (only with
        `all_topics`), and contradictions.
        """
        known = sorted(set(topics))
        nobody = self.unmatched(known) if all_topics else ()
        unmatched = [f"policy: no topic comes under {glob!r}: is it misspelt?" for glob in nobody]
        return (
            *self.ignored(reads),
            *unmatched,
            *(
                f"policy: {topic}: {differs}"
                for topic in known
                for differs in self.contradictions(topic)
            ),
        )

    def ignored(self, reads: frozenset[str] | None = None) -> tuple[str, ...]:
        """Return a remark for each setting that is given and never read.

        Of the whole policy these are settings that no operation reads. Of the command line they are
        settings not in `reads` (None: the operation reads all others). Unused settings of an export
        give no remark.
        """
        ours = (self.defaults, *self.topics.values(), self.overrides)
        given = frozenset().union(*(settings.kafka_keys() for settings in ours)) & NOWHERE
        unread = frozenset() if reads is None else self.overrides.kafka_keys() - given - reads
        return (
            *(
                Text(f"policy: {key} is given, and read by no operation", INSTEAD.get(key, ""))
                for key in sorted(given)
            ),
            *(
                Text(Flag("--config"), f" {key} is given, and not read by this operation")
                for key in sorted(unread)
            ),
        )

    def with_export(self, configs: Mapping[str, Mapping[str, str]]) -> Policy:
        """Return this policy with the configs of an export (by topic, Kafka's keys).

        Unused keys are skipped. A later export takes precedence over an earlier one. Raises
        UsageError for a value that Kafka would not print.
        """
        read = {topic: exported_settings(topic, config) for topic, config in configs.items()}
        both = {topic: settings.over(self._exported(topic)) for topic, settings in read.items()}
        return self.model_copy(update={"exported": self.exported | both})

    @cached_property
    def _globs(self) -> Globs:
        return Globs(self.topics)

    def _layers(self, topic: str) -> tuple[TopicSettings, ...]:
        """Return the settings that apply to `topic`, the strongest first."""
        return self.overrides, self._of_glob(topic), self._exported(topic), self.defaults

    def _of_glob(self, topic: str) -> TopicSettings:
        glob = self.glob(topic)
        return _NOTHING if glob is None else self.topics[glob]

    def _exported(self, topic: str) -> TopicSettings:
        return self.exported.get(topic, _NOTHING)

    def _nearly(self, key: str) -> str:
        """Return a hint if the key is given only where it does not count for a topic."""
        if key in self.overrides.kafka_keys():
            return " (the command line alone does not count)"
        if key not in self.defaults.kafka_keys():
            return ""
        return " (that of defaults counts where a glob under topics names it, and * does not)"


def exported_settings(topic: str, config: Mapping[str, str]) -> TopicSettings:
    """Return the used keys of an export.

    Raises UsageError for a value that Kafka would not print.
    """
    try:
        return TopicSettings.model_validate({
            key: value for key, value in config.items() if key in _USED
        })
    except ValidationError as e:
        raise UsageError(f"{topic}: {'; '.join(faults(e))}") from e


_NOTHING: Final = TopicSettings.model_construct()
_USED: Final = frozenset(KEYS.values()) | {"internal.segment.bytes"}


def _outside_brackets(glob: str) -> str:
    return re.sub(r"\[.*?\]", "", glob)


def _text(value: object) -> str:
    return (
        ",".join(value)
        if isinstance(value, tuple)
        else str(value).lower()
        if isinstance(value, bool)
        else str(value)
    )
