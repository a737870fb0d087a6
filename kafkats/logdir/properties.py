"""`meta.properties` of a root, `partition.metadata` of a partition, and the clean-shutdown marker.

meta.properties       Java properties. version=0 (0.8.2+, ZooKeeper): broker.id, cluster.id
                      (0.10.1+); version=1 (KRaft): node.id, cluster.id, directory.id (3.7+).
                      0.8.1 has none.
partition.metadata    `version: 0` and `topic_id: ` + 22 characters of base64url (2.8+).
                      The file does not end with a newline.
.kafka_cleanshutdown  empty, or JSON from 3.7 on: {"version":0,"brokerEpoch":8}. Only its existence
                      counts: the broker stopped cleanly, and its next start recovers nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kafkats.counts import counted
from kafkats.errors import CorruptFile
from kafkats.logdir import strict_json
from kafkats.logdir.text import Line, read_lines, read_small

_CONTINUED: Final = re.compile(r"(?<!\\)(?:\\\\)*\\\Z")
"""The end of a line that continues in the next one: an odd number of backslashes."""
_ID: Final = re.compile(r"[A-Za-z0-9_-]{22}")
_PROPERTY: Final = re.compile(r"(?P<key>(?:[^\s\\=:]|\\.)*)\s*[=:\s]\s*(?P<value>.*)", re.ASCII)
_LOADED: Final = re.compile(r"(?P<key>(?:[^\\=: \t\f]|\\.)*)[ \t\f]*(?:[=:][ \t\f]*)?(?P<value>.*)")
"""A line as java.util.Properties.load divides it."""
_LINE_END: Final = re.compile(r"\r\n|[\r\n]")
TRIMMED: Final = "".join(map(chr, range(33)))
"""What Java's trim() removes at both ends. Kafka trims each value, and each entry of a list."""
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_CONTROL: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True)
class MetaProperties:
    """The owner of a log directory.

    `node_id` is `broker.id` in version 0. `other` holds the remaining keys.
    """

    version: int
    node_id: int | None
    cluster_id: str | None
    directory_id: str | None
    other: Mapping[str, str]


@dataclass(frozen=True)
class PartitionMetadata:
    """The topic id of a partition directory."""

    version: int
    topic_id: str


def read_meta_properties(path: str | os.PathLike[str]) -> MetaProperties:
    """Decode `meta.properties`.

    Raises CorruptFile with the line, Vanished when there is no such file.
    """
    values = {key: (line, value) for line, key, value in _properties(path)}
    if "version" not in values:
        raise CorruptFile("has no version", path=path, position=0)
    version = _version(*values.pop("version"), known=(0, 1))
    node = values.pop("node.id" if version else "broker.id", None)
    if version and node is None:
        raise CorruptFile("version 1 has no node.id", path=path, position=0)
    cluster = values.pop("cluster.id", None)
    directory = values.pop("directory.id", None)
    return MetaProperties(
        version,
        None if node is None else _node_id(*node),
        cluster[1] if cluster else None,
        directory[1] if directory else None,
        {key: value for key, (_, value) in values.items()},
    )


def read_properties(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the keys and values of a Java properties file, the last one of equal keys.

    Raises CorruptFile with the line, Vanished when there is no such file.
    """
    return {key: value for _, key, value in _properties(path)}


def parse_properties(data: bytes) -> dict[str, str]:
    """Return the keys and values of a Java properties file that a person wrote.

    Its bytes are ISO 8859-1, so a name in UTF-8 is what Java makes of it. Lines may continue behind
    a backslash, and a key may have no value. The last of equal keys counts.
    Source: java.util.Properties.load.
    """
    values: dict[str, str] = {}
    begun = ""
    for one in [*_LINE_END.split(data.decode("latin-1")), ""]:
        line = begun + one.lstrip(" \t\f")
        begun = ""
        if not line or (line[0] in "#!"):
            continue
        if _CONTINUED.search(line):
            begun = line[:-1]
            continue
        if m := _LOADED.fullmatch(line):
            values[_unescaped(m["key"])] = _unescaped(m["value"]).strip(TRIMMED)
    return values


def read_partition_metadata(path: str | os.PathLike[str]) -> PartitionMetadata:
    """Decode `partition.metadata`.

    Raises CorruptFile with the line, Vanished when there is no such file.
    """
    lines = read_lines(path)
    if len(lines) != 2:
        raise CorruptFile(f"{counted(len(lines), 'line')} instead of 2", path=path, position=0)
    values = []
    for line, key in zip(lines, ("version", "topic_id"), strict=True):
        name, colon, value = line.text.partition(":")
        if name != key or not colon:
            raise line.corrupt(f"not {key!r}: {line.text[:80]!r}")
        values.append(value.strip())
    if not _ID.fullmatch(values[1]):
        raise lines[1].corrupt(f"{values[1][:80]!r} is not a topic id of 22 base64url characters")
    return PartitionMetadata(_version(lines[0], values[0], known=(0,)), values[1])


def read_clean_shutdown(path: str | os.PathLike[str]) -> int | None:
    """Return the broker epoch in the marker, or None when it has none.

    Raises CorruptFile for other contents (which brokers ignore), Vanished when there is no marker.
    """
    data = read_small(path)
    if not data.strip():
        return None
    try:
        marker = strict_json.loads(data)
        epoch = marker["brokerEpoch"]
    except (ValueError, KeyError, TypeError):
        raise CorruptFile(
            "neither empty nor JSON with a brokerEpoch", path=path, position=0
        ) from None
    if type(epoch) is not int:
        raise CorruptFile("brokerEpoch is not a number", path=path, position=0)
    return epoch


def _properties(path: str | os.PathLike[str]) -> list[tuple[Line, str, str]]:
    """Return the `key=value` lines of a Java properties file.

    Continuation lines (a backslash at the end) are not supported: Kafka never writes them.
    """
    properties = []
    for line in read_lines(path):
        text = line.text.lstrip(" \t\f")
        if not text or text[0] in "#!":
            continue
        m = _PROPERTY.fullmatch(text)
        if m is None or not m["key"]:
            raise line.corrupt(f"not key=value: {text[:80]!r}")
        properties.append((line, _unescaped(m["key"]), _unescaped(m["value"])))
    return properties


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(
        lambda m: chr(int(m[1][1:], 16)) if len(m[1]) > 1 else _CONTROL.get(m[1], m[1]), text
    )


def _version(line: Line, text: str, known: tuple[int, ...]) -> int:
    if text not in {str(v) for v in known}:
        raise line.corrupt(f"version {text[:40]!r}, known are {', '.join(map(str, known))}")
    return int(text)


def _node_id(line: Line, text: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,10}", text):
        raise line.corrupt(f"{text[:40]!r} is not a number")
    return int(text)
