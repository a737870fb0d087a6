"""The policy: which volumes there are, and the Kafka settings of their topics.

    volumes:
      - broker: "1"                    # names the broker in reports
        path: /var/lib/kafka/data      # one of its log.dirs
        connection: spark_default      # the Airflow connection whose Spark workers see that path
        owner_stopped: false           # true states that no broker runs on it, where a lock cannot prove that
    defaults:
      index.interval.bytes: 4096
    topics:
      "orders-*":                      # first match wins
        index.interval.bytes: 1024

Keys under `defaults` and `topics` are Kafka's own topic configuration keys; the broker's names with `log.` are
accepted too. What is not given is inferred from the existing index files, and reported as inferred.
"""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kafkats.errors import UsageError, storage

ALIASES: Final = {
    "log.index.interval.bytes": "index.interval.bytes",
    "log.index.size.max.bytes": "segment.index.bytes",
}
"""Broker-level names of topic keys."""


class TopicSettings(BaseModel):
    """Kafka settings of one topic that the index rules need; None means: infer from the files."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    index_interval_bytes: int | None = Field(None, alias="index.interval.bytes", ge=0, le=2**31 - 1)
    segment_index_bytes: int | None = Field(None, alias="segment.index.bytes", ge=4, le=2**31 - 1)


class Volume(BaseModel):
    """One log directory of one broker, and the Spark connection whose workers all see it at `path`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    broker: str = ""
    path: Path
    connection: str = "spark_default"
    owner_stopped: bool = False


class Policy(BaseModel):
    """A policy file, validated."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    volumes: tuple[Volume, ...] = ()
    defaults: TopicSettings = TopicSettings()
    topics: dict[str, TopicSettings] = {}

    def settings(self, topic: str) -> TopicSettings:
        """The settings of `topic`: the first matching glob's keys over the defaults."""
        found = next((s for glob, s in self.topics.items() if fnmatch.fnmatchcase(topic, glob)), TopicSettings())
        given = found.model_dump(by_alias=True, exclude_none=True)
        return TopicSettings.model_validate(self.defaults.model_dump(by_alias=True) | given)


def read_policy(path: Path) -> Policy:
    """Read and validate a policy file.

    Raises UsageError with the line of a wrong key or value, StorageFailed when the file cannot be read.
    """
    if not path.is_file():
        raise UsageError("there is no such policy file", path=path)
    with storage(path, "reading the policy"):
        text = path.read_text(encoding="utf-8", errors="replace")
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        given = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as e:  # ValueError: a date that there is not
        raise UsageError(f"not YAML: {' '.join(str(e).split())}", path=path) from e
    if not isinstance(given, dict | None):
        raise UsageError("a policy is a mapping with volumes, defaults and topics", path=path)
    try:
        return Policy.model_validate(_without_aliases(given or {}))
    except ValidationError as e:
        raise UsageError(_explain(e, node), path=path) from e


def with_settings(policy: Policy, pairs: Iterable[str]) -> Policy:
    """`policy` with `KEY=VALUE` pairs of the command line laid over its defaults and every topic.

    Raises UsageError for an unknown key or a value that is no number in range.
    """
    given: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"--config takes KEY=VALUE, not {pair!r}")
        given[ALIASES.get(key, key)] = value
    if not given:
        return policy
    try:
        TopicSettings.model_validate(given)
        raw = policy.model_dump(by_alias=True, exclude_none=True)
        raw["defaults"] |= given
        raw["topics"] = {glob: settings | given for glob, settings in raw["topics"].items()}
        return Policy.model_validate(raw)
    except ValidationError as e:
        raise UsageError(_explain(e, None)) from e


def _without_aliases(given: Mapping[str, Any]) -> dict[str, Any]:
    def renamed(settings: object) -> object:
        return {ALIASES.get(k, k): v for k, v in settings.items()} if isinstance(settings, dict) else settings

    clean = dict(given)
    if "defaults" in clean:
        clean["defaults"] = renamed(clean["defaults"])
    if isinstance(clean.get("topics"), dict):
        clean["topics"] = {glob: renamed(settings) for glob, settings in clean["topics"].items()}
    return clean


def _explain(error: ValidationError, node: yaml.Node | None) -> str:
    said = []
    for problem in error.errors():
        at = problem["loc"]
        name = ".".join(str(part) for part in at)
        line = _line(node, at)
        text = problem["msg"]
        if problem["type"] == "extra_forbidden":
            text = f"unknown key{_suggestion(str(at[-1]), _model(error.title, at))}"
        said.append(f"{f'line {line}: ' if line else ''}{name}: {text}")
    return "; ".join(said)


def _model(validated: str, at: tuple[int | str, ...]) -> type[BaseModel]:
    """What the key at `at` would have to be a field of."""
    if validated == TopicSettings.__name__ or at[0] in ("defaults", "topics"):
        return TopicSettings
    return Volume if at[0] == "volumes" else Policy


def _suggestion(key: str, model: type[BaseModel]) -> str:
    known = [field.alias or name for name, field in model.model_fields.items()]
    close = difflib.get_close_matches(key, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(known)}"


def _line(node: yaml.Node | None, at: tuple[int | str, ...]) -> int:
    """The line of the key or item that `at` leads to, as far as the file has it; 0 when nowhere."""
    line = 0
    for part in at:
        if isinstance(node, yaml.MappingNode):
            found = next(((k, v) for k, v in node.value if ALIASES.get(k.value, k.value) == part), None)
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            break
    return line
