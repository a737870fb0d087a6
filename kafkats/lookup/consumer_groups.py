"""Read committed offsets of consumer groups from the table or the CSV of Kafka's own tool.

kafka-consumer-groups --describe --group G          GROUP TOPIC PARTITION CURRENT-OFFSET
                                                    LOG-END-OFFSET LAG ...
kafka-consumer-groups --reset-offsets --export      topic,partition,offset, or with the group
                                                    first; no header
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kafkats.errors import BadInput

_WORDS: Final = {
    "GROUP": r"(?P<group>\S+?(?: \S+)*?)",  # the only field that may contain blanks
    "TOPIC": r"(?P<topic>[a-zA-Z0-9._-]+)",
    "PARTITION": r"(?P<partition>[0-9]{1,9}|-)",
    "CURRENT-OFFSET": r"(?P<offset>[0-9]{1,18}|-|unknown)",
    "LOG-END-OFFSET": r"(?P<log_end>[0-9]{1,18}|-|unknown)",
}
"""The columns to read. The header gives their order, which varies between versions (0.9 to 4.3)."""
_NUMBER: Final = r"-?[0-9]+|-|unknown"
_NUMBERS: Final = {"LEADER-EPOCH", "LAG"}
_SAID: Final = re.compile(r"Consumer group '.*' has no active members|(Note|Warn|Warning): ")
"""Lines that the tool prints between the rows."""
_CSV_LINE: Final = "[GROUP,]TOPIC,PARTITION,OFFSET"
_LONGEST: Final = 80
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class Committed(NamedTuple):
    """The next offset that a group reads in a partition, -1 if it has committed none.

    `log_end` -1: unknown.
    """

    group: str
    topic: str
    partition: int
    offset: int
    log_end: int = -1


def read_committed_offsets(text: str, *, path: str = "", group: str = "") -> list[Committed]:
    """Return the offsets of either form, in the order of the file.

    `group` is the group's name if the file has none. `path` is for messages. Raises BadInput for an
    invalid line, a partition twice in a group, and a file without offsets.
    """
    lines = text.splitlines()
    described = any(_header(line) for line in lines)
    rows = list(_described(lines, path, group) if described else _csv(lines, path, group))
    seen = set()
    for row in rows:
        if (key := row[:3]) in seen:
            raise BadInput(
                f"group {row.group!r} has {row.topic}-{row.partition} twice", path=path or None
            )
        seen.add(key)
    if not rows:
        raise BadInput("no committed offset in it", path=path or None)
    return rows


def _header(line: str) -> list[str]:
    """Return the column names if this line has them, else []."""
    # as 0.9 prints them
    line = line.replace("CURRENT OFFSET", "CURRENT-OFFSET").replace(
        "LOG END OFFSET", "LOG-END-OFFSET"
    )
    words = line.replace(",", " ").split()
    return words if "TOPIC" in words and "PARTITION" in words and "CURRENT-OFFSET" in words else []


def _described(lines: Sequence[str], path: str, group: str) -> Iterator[Committed]:
    pattern = None
    for number, line in enumerate(lines, 1):
        if not line.strip() or _SAID.match(line.strip()):
            continue
        if header := _header(line):
            pattern = _pattern(header)
            continue
        match = pattern.fullmatch(line.strip()) if pattern else None
        if match is None:
            raise _refused(line, number, path, "a line of kafka-consumer-groups --describe")
        parts = match.groupdict()
        if parts["topic"] == "-" or parts["partition"] == "-":
            continue  # a member without partitions
        numbers = (
            _number(parts["partition"]),
            _number(parts["offset"]),
            _number(parts.get("log_end") or "-"),
        )
        yield Committed(parts.get("group") or group, parts["topic"], *numbers)


def _pattern(header: Sequence[str]) -> re.Pattern[str]:
    parts = []
    for word in header:
        part = _WORDS.get(word) or (f"(?:{_NUMBER})" if word in _NUMBERS else None)
        if part is None:
            break  # consumer, host and client: any text, or none
        parts.append(part)
    return re.compile(r"[\s,]+".join(parts) + r"(?:[\s,].*)?")


def _csv(lines: Sequence[str], path: str, group: str) -> Iterator[Committed]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            fields = next(csv.reader([line]))
        except csv.Error:  # a field of more than 128 KiB
            raise _refused(line, number, path, _CSV_LINE) from None
        name, words = (group, fields) if len(fields) == 3 else (fields[0], fields[1:])
        if (
            len(words) != 3
            or not _TOPIC.fullmatch(words[0])
            or not re.fullmatch(r"[0-9]{1,9}", words[1])
            or not re.fullmatch(r"[0-9]{1,18}", words[2])
        ):
            if _SAID.match(line):
                continue
            raise _refused(line, number, path, _CSV_LINE)
        yield Committed(name, words[0], int(words[1]), int(words[2]))


def _number(word: str) -> int:
    return int(word) if word.isdecimal() else -1


def _refused(line: str, number: int, path: str, wanted: str) -> BadInput:
    return BadInput(
        f"line {number} is not {wanted}: {line.strip()[:_LONGEST]!r}", path=path or None
    )
