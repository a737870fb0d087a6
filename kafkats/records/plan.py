"""Plan which parts of which segments to read, from file names, checkpoints and indexes.

Few batches are read. An index entry is used only if a sound batch begins at its position.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kafkats import paths
from kafkats.config.topics import is_internal, topic_filter
from kafkats.errors import BadInput, Changed, KafkatsError, UsageError, Vanished
from kafkats.formats.v2 import MAGIC as MAGIC_V2
from kafkats.index import offset_index
from kafkats.logdir.partition import scan_partition
from kafkats.logdir.steady import steady
from kafkats.plans.dialects import read_as
from kafkats.plans.units import Unit, list_again, list_units, unseen
from kafkats.records.committed import Aborted, aborted_transactions, last_stable_offset
from kafkats.records.piece import LEAST_OFFSET, MOST_OFFSET, Piece, batch_at
from kafkats.search import Partition, find_exact
from kafkats.segment.reader import Source, open_source

EARLIEST: Final = -2
LATEST: Final = -1
_MAGIC_AT, _HEAD, _CODEC_BITS = 16, 18, 0b111
PIECE_BYTES: Final = 128 * 1024 * 1024
_NOT_CUT: Final = 1024 * 1024
"""Segments up to this many bytes are read as a whole, even if few records are wanted."""

Offsets = int | Mapping[tuple[str, int], int]
"""EARLIEST or LATEST for all partitions, or an offset, EARLIEST or LATEST for each partition."""


@dataclass(frozen=True)
class ReadOptions:
    """Options of a read. Timestamps take precedence over offsets, as in Spark's Kafka source."""

    topics: tuple[str, ...] = ()
    """Filters as in kafkats.config.topics.

    If empty: all topics except Kafka's own (`__*`), and those of Kafka's own that a path names.
    """
    starting_offsets: Offsets = EARLIEST
    ending_offsets: Offsets = LATEST
    """Exclusive: the read ends before this offset."""
    starting_timestamp: int | None = None
    """ms. Start at the first record with this timestamp or a later one, if there is one."""
    ending_timestamp: int | None = None
    """ms. End before the first record with this timestamp or a later one."""
    committed: bool = False
    fail_on_data_loss: bool = True
    """Raise an error for requested offsets that do not exist; otherwise read what exists."""
    piece_bytes: int = PIECE_BYTES


@dataclass(frozen=True)
class _Range:
    begin: int
    end: int


def plan_read(log_dirs: Sequence[str | os.PathLike[str]], options: ReadOptions) -> list[Piece]:
    """Return pieces of roots, partition directories and segments by topic, partition and offset.

    Partitions under a root that a broker is moving or deleting are left out. Raises UsageError for
    a path, an offset or a topic that does not exist, and for a partition found in two places.
    Raises BadInput for a partition that cannot be listed. Raises CorruptIndex, CorruptBatch,
    StorageFailed.
    """
    units = list(read_as(list_units(log_dirs)))
    named = {os.path.realpath(path) for path in log_dirs}
    partitions: dict[tuple[str, int], list[Unit]] = {}
    for (log_dir, name), group in groupby(
        units, key=lambda unit: (unit.log_dir, unit.partition_dir)
    ):
        group_pieces = list(group)
        _all_seen(group_pieces, Path(log_dir, name))
        parsed = paths.parse_partition(name)
        topic, number, state = parsed if parsed else ("", -1, "")
        segments = [unit for unit in group_pieces if unit.base_offset >= 0]
        ours = bool(
            named
            & {
                os.path.realpath(Path(log_dir, name)),
                *(os.path.realpath(u.log) for u in segments),
            }
        )
        if not segments or not _chosen(topic, options.topics, named=ours) or (state and not ours):
            continue
        other = partitions.setdefault((topic, number), segments)
        if other is not segments:
            raise UsageError(
                f"{name} lies in {other[0].log_dir} and in {log_dir}: its records would come"
                " twice; read one of them"
            )
    if options.topics and not partitions:
        raise UsageError(f"topics: nothing here matches {','.join(options.topics)}")
    _known(options.starting_offsets, partitions, "startingOffsets")
    _known(options.ending_offsets, partitions, "endingOffsets")
    return [
        piece
        for key in sorted(partitions)
        for piece in _settled_pieces(key, partitions[key], options)
    ]


def _all_seen(units: Iterable[Unit], directory: Path) -> None:
    for unit in units:
        for finding in unseen(unit):
            if finding.kind != "vanished":
                raise BadInput(
                    f"{finding.file}: {finding.reason}; its records cannot be seen", path=directory
                )


def _chosen(topic: str, globs: Iterable[str], *, named: bool) -> bool:
    wanted = ",".join(globs)
    return (
        topic_filter(wanted).matches(topic, named=named)
        if wanted
        else named or not is_internal(topic)
    )


def _known(offsets: Offsets, partitions: Mapping[tuple[str, int], object], word: str) -> None:
    """Raise UsageError unless offsets and partitions match, as in Spark's Kafka source."""
    if isinstance(offsets, int):
        return
    for missing, what in (
        (offsets.keys() - partitions.keys(), "names"),
        (partitions.keys() - offsets.keys(), "does not name"),
    ):
        if missing:
            topic, number = min(missing)
            where = "which is not there" if what == "names" else "which is there"
            raise UsageError(f"{word} {what} {topic}-{number}, {where} ({len(missing)} such)")


# ---------------------------------------------------------------- one partition


def _settled_pieces(
    key: tuple[str, int], units: Sequence[Unit], options: ReadOptions
) -> list[Piece]:
    """Return the pieces of a partition; beside a running broker those of one listing.

    A partition that its broker has deleted meanwhile has none.
    """
    if not units[0].live:
        return list(_partition_pieces(key, units, options))
    named = {unit.base_offset for unit in units}
    whole = (
        units[0].base_offset == (units[0].claims.first_base if units[0].claims else -1)
        and units[-1].active
    )

    def look() -> list[Piece] | KafkatsError:
        try:
            now = [unit for unit in list_again(units[0]) if unit.base_offset >= 0]
            return list(
                _partition_pieces(key, [u for u in now if whole or u.base_offset in named], options)
            )
        except (Vanished, Changed, BadInput) as e:
            return e

    directory = Path(units[0].log_dir, units[0].partition_dir)
    pieces = steady(
        directory, look, lambda result: isinstance(result, KafkatsError), live=True, any_change=True
    )
    if isinstance(pieces, KafkatsError):
        raise pieces
    return pieces or []


def _partition_pieces(
    key: tuple[str, int], units: Sequence[Unit], options: ReadOptions
) -> Iterator[Piece]:
    if not units:
        return
    directory = Path(units[0].log_dir, units[0].partition_dir)
    wanted = _wanted(key, directory, units, options)
    times = options.starting_timestamp is not None or options.ending_timestamp is not None
    required = (
        options.fail_on_data_loss and not times and not isinstance(options.starting_offsets, int)
    )
    aborted: tuple[Aborted, ...] | None = None
    if options.committed:
        open_at = last_stable_offset(directory)
        if open_at is not None:
            wanted = _Range(wanted.begin, min(wanted.end, open_at))
        bases = [segment.base_offset for segment in scan_partition(directory).segments]
        aborted = tuple(aborted_transactions(directory, bases))
    for unit in units:
        behind = unit.next_base_offset if unit.next_base_offset >= 0 else MOST_OFFSET
        if unit.base_offset >= wanted.end or behind <= wanted.begin:
            continue
        if not unit.bytes and (unit.next_base_offset < 0 or not options.fail_on_data_loss):
            continue
        own = aborted and tuple(
            a for a in aborted if a.first_offset < behind and a.last_offset >= unit.base_offset
        )
        log = unit.files[0]
        first = max(unit.base_offset, wanted.begin)
        for start, end, last in _with_offsets(unit, _cut(unit, wanted, options.piece_bytes)):
            until = min(behind, wanted.end) if last is None else last
            joins = unit.next_base_offset if last is None and wanted.end >= behind else -1
            yield Piece(
                str(unit.log), *key, unit.base_offset, start, end,
                unit.active and end == unit.bytes,
                wanted.begin if wanted.begin > unit.base_offset else LEAST_OFFSET,
                wanted.end if wanted.end < behind else MOST_OFFSET, own, unit.live, first, until,
                log.inode if log and unit.live else -1, unit.directory_ctime_ns, required,
                joins, options.fail_on_data_loss,
            )  # fmt: skip
            first = until


def _with_offsets(
    unit: Unit, spans: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int, int | None]]:
    """Yield (start, end, the offset at which the next span begins; None for the last).

    Spans of a live unit are joined where only a decompressed wrapper would tell that offset.
    """
    begin = spans[0][0]
    for _, end in spans[:-1]:
        offset = _first_offset(unit, end) if unit.live else -1
        if offset is not None:
            yield begin, end, offset
            begin = end
    yield begin, spans[-1][1], None


def _first_offset(unit: Unit, position: int) -> int | None:
    with open_source(unit.log) as source:
        head = source.read(position, _HEAD)
    magic, attributes = head[_MAGIC_AT], head[_MAGIC_AT + 1]
    if magic < MAGIC_V2 and attributes & _CODEC_BITS:
        return None
    return int.from_bytes(head[:8], "big", signed=True)


def _wanted(
    key: tuple[str, int], directory: Path, units: Sequence[Unit], options: ReadOptions
) -> _Range:
    log_start = max(units[0].log_start_offset, 0)
    begin, end = (
        o if isinstance(o, int) else o[key]
        for o in (options.starting_offsets, options.ending_offsets)
    )
    times = (options.starting_timestamp, options.ending_timestamp)
    if times == (None, None) and (begin, end) == (EARLIEST, LATEST):
        return _Range(log_start, MOST_OFFSET)
    unit = units[0]
    with Partition(
        directory, log_start_offset=log_start, clean=unit.clean, live=unit.live
    ) as partition:
        if times[0] is not None:
            begin = _offset_of(partition, times[0])
        if times[1] is not None:
            end = _offset_of(partition, times[1])
        named = [offset for offset in (begin, end) if offset >= 0]
        if times == (None, None) and named and options.fail_on_data_loss:
            _all_there(key, named, partition)
        first = partition.log_start_offset
    if begin == LATEST:
        return _Range(MOST_OFFSET, MOST_OFFSET)
    if times == (None, None) and 0 <= end < begin:
        raise UsageError(
            f"{key[0]}-{key[1]}: offset {end} to end at lies before {begin}, where to start"
        )
    return _Range(max(begin, first), {EARLIEST: first, LATEST: MOST_OFFSET}.get(end, end))


def _offset_of(partition: Partition, time: int) -> int:
    """Return the offset of the first record at `time` or later; LATEST if there is none."""
    offset = find_exact(partition, time, depth="tail").offset
    return offset if offset >= 0 else LATEST


def _all_there(key: tuple[str, int], offsets: Iterable[int], partition: Partition) -> None:
    first, behind = partition.log_start_offset, partition.log_end_offset
    for offset in offsets:
        if not first <= offset <= behind:
            raise UsageError(
                f"{key[0]}-{key[1]} has offsets {first} to {behind}, not {offset};"
                " failOnDataLoss=false reads what is there"
            )


# ---------------------------------------------------------------- one segment


def _cut(unit: Unit, wanted: _Range, piece_bytes: int) -> list[tuple[int, int]]:
    """Return (start, end) positions to read, each about `piece_bytes` at most.

    Borders lie at entries of the offset index.
    """
    behind = unit.next_base_offset if unit.next_base_offset >= 0 else MOST_OFFSET
    whole = wanted.begin <= unit.base_offset and behind <= wanted.end
    if unit.bytes <= (piece_bytes if whole else min(piece_bytes, _NOT_CUT)):
        return [(0, unit.bytes)]
    try:
        entries = offset_index.read(unit.log.with_suffix(paths.OFFSET_INDEX))
    except KafkatsError:
        return [(0, unit.bytes)]
    offsets = entries["relative_offset"].astype(np.int64) + unit.base_offset
    positions = entries["position"].astype(np.int64)
    if (np.diff(positions) <= 0).any() or (np.diff(offsets) <= 0).any():
        return [(0, unit.bytes)]
    with open_source(unit.log) as source:
        low, high = _narrowed(source, unit.bytes, offsets, positions, wanted)
        borders = [low]
        for at in range(low + piece_bytes, high - piece_bytes // 2, piece_bytes):
            n = int(np.searchsorted(positions, at))
            if (
                n < len(positions)
                and borders[-1] < positions[n] < high
                and batch_at(source, int(positions[n]))
            ):
                borders.append(int(positions[n]))
    return list(pairwise([*borders, high]))


def _narrowed(
    source: Source,
    size: int,
    offsets: NDArray[np.int64],
    positions: NDArray[np.int64],
    wanted: _Range,
) -> tuple[int, int]:
    """Return the start and end positions of the wanted offsets, narrowed by the offset index.

    An entry narrows the range only if the batch at its position confirms it: the first offset of
    the starting batch, and the last offset of the ending batch. `size` is the size when the segment
    was listed; a broker may have appended since.
    """
    low, high = 0, size
    n = int(np.searchsorted(offsets, wanted.begin, side="right")) - 1
    if n >= 0 and (batch := batch_at(source, int(positions[n]))) and batch[0] <= wanted.begin:
        low = int(positions[n])
    n = int(np.searchsorted(offsets, wanted.end))
    if (
        n + 1 < len(offsets)
        and (batch := batch_at(source, int(positions[n])))
        and batch[1] >= wanted.end - 1
    ):
        high = min(int(positions[n + 1]), size) if batch_at(source, int(positions[n + 1])) else high
    return low, high
