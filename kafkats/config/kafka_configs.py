"""Read topic configs from the output of `kafka-configs --describe` and `kafka-topics --describe`.

There are three shapes, as printed by these versions and compared with their transcripts by tests:

    kafka-configs --zookeeper, to 3.x
    Configs for topic 'orders' are cleanup.policy=compact,delete,retention.ms=86400000

    kafka-configs --bootstrap-server, 2.x to 4.x ("All configs for topic" with --all)
    Dynamic configs for topic orders are:
      retention.ms=1 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=1}

    kafka-topics
    Topic: orders  TopicId: …  PartitionCount: 2  Configs: retention.ms=1,…

The `synonyms` of a config line are skipped: they lack a value that the broker has in hours or
minutes. Blocks of brokers, users and clients, and log lines of Kafka's tools are skipped too. Any
other line is refused, because an overlooked config could be the one that keeps data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from kafkats.errors import BadInput

_TOPIC: Final = r"'?(?P<topic>[A-Za-z0-9._-]{1,249})'?"
_BLOCK: Final = re.compile(
    rf"(?:All configs|Dynamic configs|Configs) for topics?[: ] ?{_TOPIC} are:?\s*(?P<pairs>.*)"
)
_OTHER_BLOCK: Final = re.compile(r"(?:\w+ )*[Cc]onfigs for (?!topic).* are:?(?: .*)?")
_TOPICS_LINE: Final = re.compile(
    rf"Topic: ?{_TOPIC}\s.*?\bConfigs:[ \t]?(?P<pairs>\S*)(?:\s+MarkedForDeletion: ?\w+)?\s*"
)
_PARTITION_LINE: Final = re.compile(r"\s*Topic: ?\S+\s+Partition: ?\d+\s.*")
_ENTRY: Final = re.compile(
    r"\s+(?P<key>[A-Za-z][A-Za-z0-9._-]*)=(?P<value>.*?) sensitive=(?P<sensitive>true|false)"
    r" synonyms=\{.*\}\s*"
)
_PAIR: Final = re.compile(r"(?P<key>[A-Za-z][A-Za-z0-9._-]*)=(?P<value>.*)", re.DOTALL)
_NEXT_PAIR: Final = re.compile(r",(?=[A-Za-z][A-Za-z0-9._-]*=)")
_NOISE: Final = re.compile(
    r"\s*|\[\d{4}-\d\d-\d\d .*|SLF4J.*|\s[\w.]+ = .*| \((?:org|kafka)\..*|#.*|\$ .*"
    r"|(?:log4j:|OpenJDK|Picked up|Warning|WARNING|Use --bootstrap-server|Completed [Uu]pdating"
    r"|ELR is ).*"
)


class Config(NamedTuple):
    """One key of one topic, and the number of its line."""

    line: int
    topic: str
    key: str
    value: str


class Export(NamedTuple):
    """An export. `topics` are all named topics, including those without a config of their own."""

    topics: frozenset[str]
    configs: tuple[Config, ...]


def read_export(text: str) -> Export:
    """Return the configs with their lines. Raises BadInput."""
    if text and not text.endswith("\n"):
        raise BadInput(
            f"line {text.count(chr(10)) + 1}: the last line has no end: was the text cut off?"
        )
    topics: set[str] = set()
    configs: dict[tuple[str, str], Config] = {}
    for topic, config in _lines(text):
        topics.add(topic)
        if config is None:
            continue
        before = configs.setdefault((topic, config.key), config)
        if before.value != config.value:
            raise BadInput(
                f"line {config.line}: {config.key} of {topic} is {config.value!r} here and"
                f" {before.value!r} in line {before.line}"
            )
    if not topics:
        raise BadInput(
            "no topic's configs in it: it has to be what kafka-configs or kafka-topics"
            " --describe printed"
        )
    return Export(frozenset(topics), tuple(configs.values()))


def _lines(text: str) -> Iterator[tuple[str, Config | None]]:
    """Yield each topic where it is named, and each of its configs."""
    topic: str | None = None
    other = False  # inside a block that is not about a topic
    for number, line in enumerate(text.split("\n"), 1):
        line = line.rstrip("\r")
        if match := _BLOCK.fullmatch(line) or _TOPICS_LINE.fullmatch(line):
            topic, other = match["topic"], False
            yield topic, None
            yield from (
                (topic, Config(number, topic, *pair)) for pair in _pairs(match["pairs"], number)
            )
        elif entry := _ENTRY.fullmatch(line):
            if topic is None and not other:
                raise BadInput(f"line {number}: a config without a topic before it")
            if topic is not None and entry["sensitive"] == "false" and entry["value"] != "null":
                yield topic, Config(number, topic, entry["key"], entry["value"])
        elif _PARTITION_LINE.fullmatch(line) or _NOISE.fullmatch(line):
            continue
        elif _OTHER_BLOCK.fullmatch(line):
            topic, other = None, True
        else:
            raise BadInput(f"line {number}: not of Kafka's --describe: {line[:60]!r}")


def _pairs(text: str, number: int) -> Iterator[tuple[str, str]]:
    """Yield KEY=VALUE pairs. A value may contain commas: a new pair begins at a key and =."""
    for part in _NEXT_PAIR.split(text.strip()) if text.strip() else ():
        pair = _PAIR.fullmatch(part)
        if pair is None:
            raise BadInput(f"line {number}: not KEY=VALUE: {part[:60]!r}")
        yield pair["key"], pair["value"]
