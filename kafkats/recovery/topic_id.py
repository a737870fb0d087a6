"""Read the topic id in partition.metadata as a broker does, and tell how a broker fails on it.

    a line is missing, or the id is none    the exception is no IOException: the broker stops
    a malformed line, another version       the log directory goes offline; up to 3.2.0 it stops

Brokers from 3.7 on accept later versions. They read the file at the end of a log's load. Source:
PartitionMetadataFile, Uuid.fromString.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

from kafkats import paths
from kafkats.errors import CorruptFile, Vanished
from kafkats.logdir.text import read_lines
from kafkats.recovery.facts import Outcome
from kafkats.recovery.rules import StartRule

_SPLIT: Final = re.compile(r":\s+", re.ASCII)
_INT: Final = re.compile(r"[+-]?[0-9]{1,9}")
_ID: Final = re.compile(r"[A-Za-z0-9_-]*")
_NOTHING: Final = "java.lang.NullPointerException"
_ID_BYTES: Final = 16
_LONGEST: Final = 24
_ZERO: Final = "A" * 22


class TopicId(NamedTuple):
    """The topic id of a partition directory, "" without one; or the end of the load, with words."""

    value: str = ""
    outcome: Outcome = "loads"
    words: str = ""


def read_topic_id(directory: Path, rule: StartRule) -> TopicId:
    """Return the topic id that a broker reads in a partition directory. Raises StorageFailed."""
    path = directory / paths.PARTITION_METADATA
    if not rule.topic_ids:
        return TopicId()
    try:
        lines = [line.text for line in read_lines(path)]
    except Vanished:
        return TopicId()
    except CorruptFile as e:
        return failed(rule, f"{path}: {e.reason}")
    for n in range(2):
        if n >= len(lines):
            why = f"{path} is empty or cut off, without a topic id: {_NOTHING}"
            return TopicId("", "stops", why)
        value = _value(lines[n])
        if value is None or (n == 0 and not _INT.fullmatch(value)):
            return failed(rule, _malformed(rule, path, lines[n]))
        if n == 0 and (int(value) < 0 or (int(value) and not rule.marker_epoch)):
            return failed(rule, _wrong_version(rule, path, int(value)))
    return _decoded(rule, path, _value(lines[1]) or "")


def _value(line: str) -> str | None:
    """Return what stands behind the only colon of a line, None for a malformed line."""
    fields = _SPLIT.split(line)
    while len(fields) > 1 and not fields[-1]:
        fields.pop()
    return fields[1] if len(fields) == 2 else None


def _decoded(rule: StartRule, path: Path, text: str) -> TopicId:
    if len(text) > _LONGEST:
        why = (
            f"Input string with prefix `{text[:_LONGEST]}` is too long to be decoded as a base64"
            " UUID"
        )
        return TopicId("", "stops", why)
    value = text.removesuffix("==") if len(text) == _LONGEST else text
    if not _ID.fullmatch(value) or len(value) % 4 == 1:
        return TopicId("", "stops", "java.lang.IllegalArgumentException")
    size = len(value) * 3 // 4
    if size != _ID_BYTES:
        why = (
            f"Input string `{text}` decoded as {size} bytes, which is not equal to the expected 16"
            " bytes of a base64-encoded UUID"
        )
        return TopicId("", "stops", why)
    if value == _ZERO:
        return failed(rule, f"Invalid topic ID in partition metadata file ({path})")
    return TopicId(value)


def failed(rule: StartRule, words: str) -> TopicId:
    """Return the end by an IOException: up to 3.2.0 it is no failed disk."""
    return TopicId("", "offline" if rule.epochs == "offline" else "stops", words)


def _malformed(rule: StartRule, path: Path, line: str) -> str:
    if rule.marker_epoch:
        return f"Malformed line in checkpoint file [{path}]: {line}"
    return f"Malformed line in checkpoint file ({path}): '{line}'"


def _wrong_version(rule: StartRule, path: Path, version: int) -> str:
    plus = "+ " if rule.marker_epoch else ""
    return f"Unrecognized version of partition metadata file {plus}({path}): {version}"
