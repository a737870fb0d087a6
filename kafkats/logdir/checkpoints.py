"""Checkpoint files: four of offsets in a log.dirs root, one of epochs in a partition.

They share one text format, UTF-8, version 0 since 0.8:

    0                       version
    2                       number of entries
    orders 0 1250           topic, partition, offset (leader-epoch-checkpoint: epoch, start offset)
    orders 1 17

White space separates fields. The offset checkpoints list their lines in any order. A file of 0
bytes is an empty checkpoint. Kafka's CheckpointFile rejects another version, a wrong count and a
line with another number of fields. This module also rejects what Kafka never writes: negative
numbers, a partition that appears twice, epochs that do not rise. Kafka 3.9 and later do not start
on a damaged checkpoint. Earlier brokers count an unreadable recovery point as 0.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kafkats.counts import counted
from kafkats.errors import CorruptFile
from kafkats.logdir.text import Line, read_lines
from kafkats.paths import PartitionName

VERSION: Final = 0
_DIGITS: Final = re.compile(r"[0-9]{1,19}")
_INT32: Final = 2**31 - 1
_INT64: Final = 2**63 - 1


class EpochStart(NamedTuple):
    """A leader epoch and the first offset that its leader wrote."""

    epoch: int
    start_offset: int


def read_offsets(path: str | os.PathLike[str]) -> dict[PartitionName, int]:
    """Return the offset per partition of one of `paths.OFFSET_CHECKPOINTS`. The keys have no state.

    Raises CorruptFile with the line's number and position, Vanished when the file does not exist.
    """
    offsets: dict[PartitionName, int] = {}
    for line, (topic, partition, offset) in _entries(path, 3):
        if "\0" in topic or "/" in topic:
            raise line.corrupt(f"no directory can have the name of topic {topic[:40]!r}")
        name = PartitionName(topic, _number(line, partition, _INT32), "")
        if name in offsets:
            raise line.corrupt(f"{name} is there twice")
        offsets[name] = _number(line, offset, _INT64)
    return offsets


def encode_offsets(offsets: Mapping[PartitionName, int]) -> bytes:
    """Return the bytes of the file, with the lines in the order of `offsets`."""
    return _encode(f"{name.topic} {name.partition} {offset}" for name, offset in offsets.items())


def read_epochs(path: str | os.PathLike[str]) -> list[EpochStart]:
    """Return the entries of a `leader-epoch-checkpoint` (0.11+). Epochs rise, offsets do not fall.

    1.0 and 1.1 write two epochs at one offset where an append of the first was rejected.
    Raises CorruptFile with the line's number and position, Vanished when the file does not exist.
    """
    epochs: list[EpochStart] = []
    for line, (epoch, start) in _entries(path, 2):
        entry = EpochStart(_number(line, epoch, _INT32), _number(line, start, _INT64))
        if epochs and not (
            entry.epoch > epochs[-1].epoch and entry.start_offset >= epochs[-1].start_offset
        ):
            raise line.corrupt(f"{line.text!r} does not lie above the line before")
        epochs.append(entry)
    return epochs


def encode_epochs(epochs: Iterable[EpochStart]) -> bytes:
    """Return the bytes of the file."""
    return _encode(f"{e.epoch} {e.start_offset}" for e in epochs)


def _entries(path: str | os.PathLike[str], width: int) -> list[tuple[Line, list[str]]]:
    """Return the lines of all entries, each with its fields."""
    lines = read_lines(path)
    if not lines:
        return []
    version = _number(lines[0], lines[0].text, _INT32)
    if version != VERSION:
        raise lines[0].corrupt(f"version {version}, known is {VERSION}")
    if len(lines) == 1:
        raise CorruptFile(
            "line 2: the number of entries is missing", path=path, position=len(lines[0].text)
        )
    count = _number(lines[1], lines[1].text, _INT32)
    entries = [(line, re.split(r"\s+", line.text)) for line in lines[2:]]
    for line, fields in entries:
        if len(fields) != width or "" in fields:
            raise line.corrupt(f"not {width} fields: {line.text[:80]!r}")
    if len(entries) != count:
        raise lines[1].corrupt(f"{counted(count, 'entry')} announced, {len(entries)} found")
    return entries


def _number(line: Line, text: str, most: int) -> int:
    digits = text.strip()
    if _DIGITS.fullmatch(digits) is None or int(digits) > most:
        raise line.corrupt(f"{text[:40]!r} is not a number from 0 to {most}")
    return int(digits)


def _encode(entries: Iterable[str]) -> bytes:
    lines = list(entries)
    return "".join(f"{line}\n" for line in (VERSION, len(lines), *lines)).encode()
