"""Read a policy file. Report every error with its line and a suggestion.

Plain YAML scalars are read as text and parsed by their key, as Kafka reads its properties. YAML 1.1
would read `1:30` as 90, `010` as 8 and the release `2.10` as 2.1.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, Final, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from kafkats.config.faults import fault_text
from kafkats.config.kafka_configs import read_export
from kafkats.config.policy import Guard, Policy, PolicyFile, Volume, exported_settings
from kafkats.config.settings import ALIASES, KEYS, OTHER_KEYS, STRONGER, TopicSettings
from kafkats.config.values import suggestion
from kafkats.errors import BadInput, KafkatsError, UsageError
from kafkats.logdir.strict_json import Json
from kafkats.logdir.text import read_given

M = TypeVar("M", bound=BaseModel)
_MOST_SAID: Final = 10
_MERGE: Final = "tag:yaml.org,2002:merge"
_MOST_MERGED: Final = 100_000
_SECTIONS: Final[dict[str, type[BaseModel]]] = {
    "volumes": Volume, "defaults": TopicSettings, "topics": TopicSettings, "guard": Guard,
}  # fmt: skip
"""The model of the keys below each top-level key."""


class _Loader(yaml.SafeLoader):
    """Loads mappings, lists, text and null. Refuses a key that is given twice."""

    # A policy has no other types, so tags such as !!timestamp are not supported.
    yaml_constructors: ClassVar = {
        tag: make for tag, make in yaml.SafeLoader.yaml_constructors.items()
        if tag is None or tag.rpartition(":")[2] in ("str", "null", "map", "seq")
    }  # fmt: skip

    merged = 0

    def compose_mapping_node(self, anchor: dict[str, yaml.Node]) -> yaml.MappingNode:
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen: dict[str, yaml.Mark] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                first = _place(seen[key.value])
                raise UsageError(
                    f"{_place(key.start_mark)}: {key.value} is given twice, first in {first}"
                )
            seen[key.value] = key.start_mark
        if any(key.tag == _MERGE for key, _ in node.value):
            node.value = self._with_merged(node)
        return node

    def _with_merged(self, node: yaml.MappingNode) -> list[tuple[yaml.Node, yaml.Node]]:
        """Return its own keys, and the keys of `<<` mappings that it does not have.

        They are merged here once, so that a later merge does not double them.
        """
        own = [pair for pair in node.value if pair[0].tag != _MERGE]
        known = {key.value for key, _ in own if isinstance(key, yaml.ScalarNode)}
        for mapping in (
            one for key, value in node.value if key.tag == _MERGE for one in _mappings(value)
        ):
            self.merged += len(mapping.value)
            if self.merged > _MOST_MERGED:
                raise UsageError(
                    f"{_place(node.start_mark)}: more than {_MOST_MERGED} keys come by merging"
                )
            for key, value in mapping.value:
                if isinstance(key, yaml.ScalarNode) and key.value not in known:
                    known.add(key.value)
                    own.append((key, value))
        return own


def _mappings(value: yaml.Node) -> list[yaml.MappingNode]:
    """Return the mappings that a `<<` names, the strongest first."""
    several: list[yaml.Node] = value.value if isinstance(value, yaml.SequenceNode) else [value]
    mappings = [one for one in several if isinstance(one, yaml.MappingNode)]
    if other := next((one for one in several if not isinstance(one, yaml.MappingNode)), None):
        raise UsageError(f"{_place(other.start_mark)}: << takes a mapping, or a list of mappings")
    return mappings


def _place(mark: yaml.Mark) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}"


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in pairs if tag.rpartition(":")[2] in ("null", "merge")]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_policy(path: Path) -> Policy:
    """Read and validate a policy file and the exports that it names.

    Raises UsageError with the line of a wrong key or value, StorageFailed when a file cannot be
    read.
    """
    given, node = _load(_text(path, "policy file"), path)
    try:
        file = PolicyFile.model_validate(given)
    except ValidationError as e:
        raise UsageError(_explain(e, node), path=path) from e
    policy = Policy.model_construct(**dict(file))
    for export in file.exports:
        policy = with_export_file(policy, path.parent / export)
    return policy


def with_export_file(policy: Policy, path: Path) -> Policy:
    """Return `policy` with an export: the output of kafka-configs or kafka-topics --describe.

    Raises UsageError with the line of invalid text or of an invalid value, StorageFailed.
    """
    text = _text(path, "export of topic configs")
    try:
        export = read_export(text)
        configs: dict[str, dict[str, str]] = {topic: {} for topic in export.topics}
        for config in export.configs:
            try:
                exported_settings(config.topic, {config.key: config.value})
            except UsageError as e:
                raise UsageError(f"line {config.line}: {e.reason}") from e
            configs[config.topic][config.key] = config.value
    except (BadInput, UsageError) as e:
        raise UsageError(e.reason, path=path) from e
    return policy.with_export(configs)


def with_settings(policy: Policy, pairs: Iterable[str]) -> Policy:
    """Return `policy` with the command line's `KEY=VALUE` pairs, which override all other settings.

    Raises UsageError for an unknown key or an invalid value.
    """
    given: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"--config takes KEY=VALUE, not {pair!r}")
        given[key] = value
    if not given:
        return policy
    try:
        laid = TopicSettings.model_validate(given)
    except ValidationError as e:
        raise UsageError(_explain(e, None)) from e
    return policy.model_copy(update={"overrides": laid.over(policy.overrides)})


def read_model(path: Path, model: type[M], what: str) -> M:
    """Read a YAML file of another model, written as a policy is.

    `what` names the file. Raises UsageError with the line of a wrong key or value, StorageFailed.
    """
    given, node = _load(_text(path, what), path, what)
    try:
        return model.model_validate(given)
    except ValidationError as e:
        raise UsageError(_explain(e, node, model), path=path) from e


def _text(path: Path, what: str) -> str:
    data = read_given(path, what)
    try:
        return data.decode()
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        raise UsageError(f"line {line}: not UTF-8", path=path) from e


def _load(
    text: str, path: Path, what: str = "policy file"
) -> tuple[dict[str, Json], yaml.Node | None]:
    loader: _Loader | None = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        given = loader.construct_document(node) if node is not None else None
    except yaml.YAMLError as e:
        raise UsageError(f"not YAML: {' '.join(str(e).split())}", path=path) from e
    except RecursionError as e:
        raise UsageError("not YAML that a policy could have: nested too deeply", path=path) from e
    except KafkatsError as e:
        raise UsageError(e.reason, path=path) from e
    finally:
        if loader is not None:
            loader.dispose()
    if not isinstance(given, dict | None):
        raise UsageError(
            "a policy is a mapping with volumes, defaults, topics, guard and exports"
            if what == "policy file"
            else f"a {what} is a mapping: keys with values",
            path=path,
        )
    return given or {}, node


def _explain(
    error: ValidationError, node: yaml.Node | None, other: type[BaseModel] | None = None
) -> str:
    lines = []
    problems = error.errors()
    for problem in problems[:_MOST_SAID]:
        at = tuple(part for part in problem["loc"] if part != "[key]")
        line = _line(node, at)
        text = fault_text(problem)
        if problem["type"] == "extra_forbidden":
            model = _model(error.title, at) if other is None else other
            text = (
                f"unknown key{_suggestion(str(at[-1]), model)}"
                if len(at) == 1 or other is None
                else "unknown key"
            )
        lines.append(
            f"{f'line {line}: ' if line else ''}{'.'.join(str(part) for part in at)}: {text}"
        )
    more = len(problems) - _MOST_SAID
    return "; ".join([*lines, *([f"and {more} more"] if more > 0 else [])])


def _model(validated: str, at: tuple[int | str, ...]) -> type[BaseModel]:
    """Return the model that the key at `at` belongs to."""
    if validated == TopicSettings.__name__:
        return TopicSettings
    return _SECTIONS.get(str(at[0]), PolicyFile) if len(at) > 1 else PolicyFile


def _suggestion(key: str, model: type[BaseModel]) -> str:
    known = [field.alias or name for name, field in model.model_fields.items()]
    settings = [*KEYS.values(), *ALIASES, *STRONGER]
    if model is TopicSettings and key in OTHER_KEYS:
        return ": it is Kafka's, but nothing here needs it; leave it out"
    if model is PolicyFile and key in settings:
        return "; settings stand under 'defaults' or under a glob of 'topics'"
    return f"; {suggestion(key, known, settings if model is TopicSettings else ())}"


def _line(node: yaml.Node | None, at: tuple[int | str, ...]) -> int:
    """Return the line of the key or item at `at`, or of its nearest existing parent, 0 for none."""
    line = 0
    for part in at:
        if isinstance(node, yaml.MappingNode):
            entry = next(((k, v) for k, v in node.value if k.value == part), None)
            if entry is None:
                break
            line, node = entry[0].start_mark.line + 1, entry[1]
        elif (
            isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value)
        ):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            break
    return line
