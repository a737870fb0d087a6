"""Refuse logs of a dialect, a format that never shipped, where they would be read as what shipped.

No bytes tell `kip228`. A replay names it in a file of the log directory, paths.DIALECT. Logs of
`enriched` have no time indexes, and their messages tell where they have tags:

    shipped     timestamp int64                      key  value
    enriched    timestamp int32  tags length int32   tags  key  value

Key and value fill the rest of a message. So one with tags fits one layout only, but for chance.
One without tags, whose tags length is -1, fits both, and has the same key and value in both.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

from kafkats import paths
from kafkats.compression.checksums import crc32
from kafkats.config.policy import Policy
from kafkats.errors import (
    CorruptBatch,
    CorruptFile,
    Refused,
    StorageFailed,
    UsageError,
    Vanished,
    exists,
    storage,
)
from kafkats.formats.framing import FRAME, MAGIC_AT, MIN_LEFT, OVERHEAD, Frame, frames
from kafkats.formats.message_set import CRC_FROM
from kafkats.generations import ENRICHED, KIP228
from kafkats.logdir.partition import PartitionDir
from kafkats.logdir.text import read_small
from kafkats.logdir.volume import refuse_copies
from kafkats.plans.units import Unit, list_units
from kafkats.primitives import INT32, Buffer, view
from kafkats.text import Command, Flag

_HEAD: Final = 1 << 20
"""Bytes of a log that are looked at, unless its first message is larger."""
_LARGEST: Final = 8 << 20
"""The largest first message that is looked at, in bytes."""
_LONGEST_NAME: Final = 40
_MAGIC: Final = 1
_SMALLEST: Final = 34
"""Bytes of a message of the dialect, with its frame."""
_TAGS_LENGTH_AT: Final = 22
_BODY_AT: Final = 26
"""The position of the tags, or of the key where there are none: the same in both layouts."""
_TIME_INDEX: Final = paths.SEGMENT_KINDS.index(paths.TIME_INDEX)
_HOW: Final = {
    ENRICHED: "with kafkats-model installed, kafkats dump --dialect enriched shows them, and"
    " kafkats plan migrate --dialect enriched converts them",
    KIP228: "with kafkats-model installed, kafkats dump and kafkats lookup --at read them with"
    " --dialect kip228",
}


class Listed(NamedTuple):
    """A segment, as a listing of its directory shows it."""

    base_offset: int
    log_bytes: int
    has_time_index: bool


def listed(partition: PartitionDir) -> Iterator[Listed]:
    """Yield the segments of a partition directory."""
    for one in partition.segments:
        yield Listed(one.base_offset, one.log.size, paths.TIME_INDEX in one.files)


def _listed_unit(unit: Unit) -> Listed:
    return Listed(unit.base_offset, unit.bytes, unit.files[_TIME_INDEX] is not None)


def read_as(units: Iterable[Unit], dialect: str | None = None) -> Iterator[Unit]:
    """Yield the units of logs that will be read as `dialect`, None for what shipped.

    Raises Refused for logs of another dialect, as far as their files tell; StorageFailed.
    """
    for log_dir, in_root in groupby(units, lambda unit: unit.log_dir):
        refuse_marked(Path(log_dir), dialect)
        for partition_dir, group in groupby(in_root, lambda unit: unit.partition_dir):
            together = list(group)
            if dialect != ENRICHED:
                refuse_enriched(f"{log_dir}/{partition_dir}", map(_listed_unit, together))
            yield from together


def units_in(
    log_dirs: Iterable[str | os.PathLike[str]],
    topics: str,
    dialect: str | None = None,
    *,
    policy: Policy | None = None,
    none_is_fine: bool = False,
) -> list[Unit]:
    """Return the units of logs that are read as `dialect`, None for what shipped.

    `policy` names volumes. Raises UsageError if no topic matches, unless `none_is_fine`; Refused
    for another dialect, and for copies that the policy does not name; as `units.list_units`.
    """
    units = list(read_as(list_units(log_dirs, topics=topics), dialect))
    named = policy.named_paths() if policy else ()
    refuse_copies(sorted({unit.log_dir for unit in units}), named)
    matched = topics == "*" or any(unit.partition_dir for unit in units)
    if not matched and not none_is_fine:
        raise no_topic(topics)
    return units


def no_topic(topics: str) -> UsageError:
    """Return the error for a filter that no topic passes."""
    return UsageError(
        *("no topic matches ", Flag("--topics"), f" {topics!r}: "),
        *(Command("inventory"), " lists them"),
    )


def refuse_marked(log_dir: Path, dialect: str | None = None) -> None:
    """Raise Refused for a log directory that names another dialect.

    Raises CorruptFile for a file that names none that is known: nothing else tells how the logs are
    to be read. Raises StorageFailed.
    """
    mark = log_dir / paths.DIALECT
    try:
        name = read_small(mark)[:_LONGEST_NAME].decode(errors="replace").strip()
    except Vanished:
        if mark.is_symlink():
            raise
        return
    if name not in _HOW:
        raise CorruptFile("names no dialect that this release knows", path=mark)
    if name != dialect:
        raise _refusal(log_dir, name)


def refuse_enriched(partition: str | Path, segments: Iterable[Listed]) -> None:
    """Raise Refused if the first log with bytes has no time index, and proves `enriched`.

    `segments` are those of the partition directory, in order.
    """
    first = next((one for one in segments if one.log_bytes), None)
    if first is None or first.has_time_index:
        return
    log, head = Path(partition, paths.segment_file(first.base_offset)), b""
    # who reads the log as a whole reports what cannot be read
    with suppress(StorageFailed), storage(log, "reading"), log.open("rb") as file:
        head = file.read(MIN_LEFT)
        if len(head) == MIN_LEFT and head[MAGIC_AT] == _MAGIC:
            size = OVERHEAD + int(FRAME.unpack_from(head)[1])
            head += file.read(min(max(size, _HEAD), _LARGEST))
    if are_enriched(head):
        raise _refusal(log.parent, ENRICHED)


def _refusal(path: Path, dialect: str) -> Refused:
    return Refused(
        f"has logs of the dialect {dialect}, which never shipped: {_HOW[dialect]}", path=path
    )


def are_enriched(buf: Buffer) -> bool:
    """Return whether the first messages of a log prove the dialect: the first one with tags does.

    Its checksum must be right, and it must not fit the layout that shipped.
    """
    data = view(buf)
    try:
        for frame in frames(data):
            if frame.magic != _MAGIC or frame.size < _SMALLEST:
                return False
            (tags,) = INT32.unpack_from(data, frame.position + _TAGS_LENGTH_AT)
            if not _fills(data, frame, _BODY_AT):
                return tags >= 0 and _fills(data, frame, _BODY_AT + tags) and _sound(data, frame)
            if tags != -1:
                return False
    except CorruptBatch:
        pass
    return False


def _fills(data: memoryview, frame: Frame, at: int) -> bool:
    """Return whether a key and a value, each behind its length, fill a message from `at` on."""
    for _ in range(2):
        if at + INT32.size > frame.size:
            return False
        (length,) = INT32.unpack_from(data, frame.position + at)
        if length < -1:
            return False
        at += INT32.size + max(length, 0)
    return at == frame.size


def _sound(data: memoryview, frame: Frame) -> bool:
    """Return whether the checksum of a message is right."""
    message = data[frame.position + OVERHEAD : frame.position + frame.size]
    stored = int.from_bytes(message[: CRC_FROM - OVERHEAD], "big")
    return stored == crc32(message[CRC_FROM - OVERHEAD :])


def refuse_broker(log_dir: Path, dialect: str) -> None:
    """Raise Refused for a log directory that a broker owns, which would misread logs of a dialect.

    Raises StorageFailed.
    """
    mark = log_dir / paths.META_PROPERTIES
    if exists(mark, "looking for a broker"):
        raise Refused(
            f"a broker owns this log directory, and would misread logs of the dialect {dialect}:"
            f" work on a copy without {paths.META_PROPERTIES}",
            path=log_dir,
        )
