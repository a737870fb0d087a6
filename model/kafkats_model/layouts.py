"""Compare proposed time index layouts, never shipped, with Kafka's own: size and accuracy.

Each layout is built from the log and looked up for the same times. Each lookup leads to a position
in the log. The best position is the start of the batch with the first record of that time or later.
From an earlier position bytes are read in vain; from a later one records are missed. Nothing is
written, unless a folder outside log directories is named: `dump` reads the files there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafkats import paths
from kafkats.config.policy import Policy
from kafkats.errors import CorruptBatch, KafkatsError, UsageError
from kafkats.findings import Finding, failure
from kafkats.generations import DEFAULT_RULE, INDEX_INTERVAL_BYTES, SEGMENT_INDEX_BYTES
from kafkats.index import offset_index, time_index
from kafkats.index.build import Built, build_from
from kafkats.plans.facts import DIRECTORY
from kafkats.plans.files import make_folder, write_bytes
from kafkats.plans.settling import settled
from kafkats.plans.units import Unit
from kafkats.segment.columns import columns
from kafkats.segment.reader import Source, open_source
from kafkats.segment.walk import walk_points
from kafkats_model.index import enriched_index, minute_index
from kafkats_model.index.compared import Compared, compare

LAYOUTS: Final = pa.schema([
    *DIRECTORY,
    ("base_offset", pa.int64()),
    ("layout", pa.string()),        # time-index (Kafka's), minute, second, enriched
    ("fill", pa.string()),          # of minute and second: append-time or create-time
    ("bytes", pa.int64()),          # of the file
    ("bytes_in_all", pa.int64()),   # with the offset index, which all but `enriched` need beside it
    ("times", pa.int64()),  # looked up, and with a record of that time or later in the segment
    ("exact", pa.int64()),          # of these: leads to the batch that holds the first such record
    ("early", pa.int64()),          # leads to an earlier batch
    ("late", pa.int64()),           # leads to a later batch: records are missed
    ("bytes_in_vain", pa.int64()),  # of the log before that batch, over all times
    ("most_in_vain", pa.int64()),   # for one time
    ("reason", pa.string()),  # why a segment could not be read; the row has no other values then
])  # fmt: skip
"""One row per segment and layout."""

STEPS: Final = {"minute": 60_000, "second": 1000}
_KEYS: Final = ("log_dir", "partition_dir", "layout", "fill")
_SUMS: Final = ("bytes", "bytes_in_all", "times", "exact", "early", "late", "bytes_in_vain")
_EVERY_BATCH: Final = -1

Ints = NDArray[np.int64]
Row = dict[str, int | str | None]
"""A row of LAYOUTS."""


@dataclass(frozen=True)
class LayoutOptions:
    """`times` (ms) to look up, by default each step of `every_ms` with a record.

    `folder` gets the files.
    """

    times: tuple[int, ...] = ()
    every_ms: int = 60_000
    folder: Path | None = None
    policy: Policy = field(default_factory=Policy.model_construct)


class _Index(NamedTuple):
    layout: str
    fill: str
    data: bytes
    find: Callable[[Ints], Ints]
    """Return the positions in the log at which to begin, for times."""

    @property
    def suffix(self) -> str:
        if self.layout not in STEPS:
            return enriched_index.SUFFIX if self.layout == "enriched" else paths.TIME_INDEX
        return f".{self.fill}.{self.layout}{minute_index.SUFFIX}"


def layouts_unit(unit: Unit, options: LayoutOptions) -> pa.RecordBatch:
    """Return rows of LAYOUTS for one segment, none for a directory's unit that was listed.

    What is unreadable becomes a row, not an error. Raises UsageError for a folder that is a log
    directory, StorageFailed when it cannot be written.
    """
    where: Row = {
        "log_dir": unit.log_dir,
        "partition_dir": unit.partition_dir,
        "base_offset": unit.base_offset,
    }
    if unit.base_offset < 0:
        return _unlisted(unit, where)
    unit, seen, findings, gone = settled(unit, lambda now: _look(now, options))
    if gone:
        return pa.RecordBatch.from_pylist([], LAYOUTS)
    if isinstance(seen, KafkatsError):
        reason = f"{seen}" if findings[0].kind != "transient" else findings[0].reason
        return _unread(where, reason)
    built, rows = seen
    if options.folder is not None:
        _keep(unit, built, options.folder)
    return pa.RecordBatch.from_pylist([where | row | {"reason": ""} for row in rows], LAYOUTS)


def _unlisted(unit: Unit, where: Row) -> pa.RecordBatch:
    """Return a row for a partition directory that could not be listed, none for another one."""
    for finding in unit.findings:
        if finding.kind == "unreadable" and finding.file == unit.partition_dir:
            return _unread(where, finding.reason)
    return pa.RecordBatch.from_pylist([], LAYOUTS)


def _unread(where: Row, reason: str) -> pa.RecordBatch:
    row = dict.fromkeys(_SUMS, 0) | where | {"reason": reason}
    return pa.RecordBatch.from_pylist([row], LAYOUTS)


def _look(
    unit: Unit, options: LayoutOptions
) -> tuple[tuple[list[_Index], list[Row]] | KafkatsError, tuple[Finding, ...]]:
    """Return the indexes and rows of one segment, or its error and the finding for it."""
    topic = paths.partition_name(unit.partition_dir).topic
    interval = options.policy.settings(topic).index_interval_bytes
    log = Path(unit.log_dir, unit.partition_dir, paths.segment_file(unit.base_offset, paths.LOG))
    try:
        with open_source(log, mapped=not unit.live) as source:
            every = INDEX_INTERVAL_BYTES if interval is None else interval
            return _looked(source, unit.base_offset, every, options), ()
    except KafkatsError as e:
        return e, (failure(log.name, e),)


def _keep(unit: Unit, built: list[_Index], to: Path) -> None:
    folder = to / unit.partition_dir
    if folder.resolve() == Path(unit.log_dir, unit.partition_dir).resolve():
        raise UsageError("is the log directory itself: no index of these belongs there", path=to)
    make_folder(folder, "the indexes")
    for index in built:
        write_bytes(folder / paths.segment_file(unit.base_offset, index.suffix), index.data)


def _looked(
    source: Source, base_offset: int, interval: int, options: LayoutOptions
) -> tuple[list[_Index], list[Row]]:
    built = build_from(source, base_offset, DEFAULT_RULE, interval, SEGMENT_INDEX_BYTES)
    if built.blocked:
        raise CorruptBatch(f"no index can be built: {built.blocked}", position=0)
    times, offsets = _rises(source)
    steps = (
        _steps(source, options.every_ms)
        if not options.times
        else np.array(sorted(options.times), np.int64)
    )
    starts, lasts = _batches(source, base_offset)
    hits = np.searchsorted(times, steps)
    known = steps[hits < len(times)]
    first = _batch_of(offsets[hits[hits < len(times)]], starts, lasts)
    indexes = list(_indexes(source, base_offset, interval, built))
    return indexes, [
        _row(one, compare(len(one.data), one.find(known), first), built) for one in indexes
    ]


def _row(index: _Index, result: Compared, built: Built) -> Row:
    beside = 0 if index.layout == "enriched" else len(built.offset_index)
    return {
        "layout": index.layout,
        "fill": index.fill,
        "bytes": result.bytes,
        "bytes_in_all": result.bytes + beside,
        "times": result.targets,
        "exact": result.exact,
        "early": result.early,
        "late": result.late,
        "bytes_in_vain": result.in_vain,
        "most_in_vain": result.most_in_vain,
    }


def _indexes(source: Source, base_offset: int, interval: int, built: Built) -> Iterator[_Index]:
    places = np.frombuffer(built.offset_index, offset_index.ENTRY)

    def position(offsets: Ints) -> Ints:
        return _at_or_below(places["relative_offset"], places["position"], offsets - base_offset)

    entries = np.frombuffer(built.time_index, time_index.ENTRY)
    yield _Index(
        "time-index", "", built.time_index,
        lambda times: position(
            base_offset + _at_or_below(entries["timestamp"], entries["relative_offset"], times)
        ),
    )  # fmt: skip
    for layout, step in STEPS.items():
        for fill in minute_index.OPTIONS:
            data = minute_index.build(
                source, base_offset, option=fill, step_ms=step, index_interval_bytes=interval
            )
            yield _Index(layout, fill, data, _by_steps(data, base_offset, fill, step, position))
    data = enriched_index.build(source, base_offset, index_interval_bytes=interval)
    enriched = np.frombuffer(data, enriched_index.ENTRY)
    yield _Index("enriched", "", data, lambda times: enriched_index.lookup(enriched, times))


def _by_steps(
    data: bytes, base_offset: int, fill: str, step: int, position: Callable[[Ints], Ints]
) -> Callable[[Ints], Ints]:
    entries = np.frombuffer(data, minute_index.ENTRY)
    return lambda times: position(
        minute_index.lookup(entries, base_offset, times, option=fill, step_ms=step)
    )


def _batch_of(offsets: Ints, starts: Ints, lasts: Ints) -> Ints:
    """Return the position of the batch with each of `offsets`.

    Raises CorruptBatch beyond the last batch.
    """
    number = np.searchsorted(lasts, offsets)
    beyond = np.flatnonzero(number == len(starts))
    if beyond.size:
        reason = (
            f"a record's offset is {offsets[beyond[0]]}, above the last one that any"
            " batch's header says"
        )
        raise CorruptBatch(reason, position=int(starts[-1]) if len(starts) else 0)
    return starts[number]


def _at_or_below(keys: NDArray[np.int_], values: NDArray[np.int_], wanted: Ints) -> Ints:
    """Return the value of the greatest key at or below each of `wanted`, 0 where there is none."""
    padded = np.concatenate(([0], values.astype(np.int64)))
    return padded[np.searchsorted(keys.astype(np.int64), wanted, side="right")]


def _rises(source: Source) -> tuple[Ints, Ints]:
    """Return timestamps (ascending) and offsets of records later than all before them."""
    times, offsets, newest = [np.empty(0, np.int64)], [np.empty(0, np.int64)], -1
    for chunk in columns(source, key=False, value=False, headers=False, quiet_zeros=True):
        largest = np.maximum.accumulate(np.concatenate(([newest], chunk.timestamp)))
        rises = largest[1:] > largest[:-1]  # not by their difference, which may exceed 64 bits
        times.append(chunk.timestamp[rises])
        offsets.append(chunk.offset[rises])
        newest = int(largest[-1])
    return np.concatenate(times), np.concatenate(offsets)


def _steps(source: Source, every_ms: int) -> Ints:
    """Return the steps that contain records."""
    times = [np.empty(0, np.int64)]
    for chunk in columns(source, key=False, value=False, headers=False, quiet_zeros=True):
        times.append(np.unique(chunk.timestamp[chunk.timestamp >= 0] // every_ms))
    return np.unique(np.concatenate(times)) * every_ms


def _batches(source: Source, base_offset: int) -> tuple[Ints, Ints]:
    """Return the position and the last offset of each batch."""
    points, _ = walk_points(source, base_offset, interval=_EVERY_BATCH)
    return points[:, 0], points[:, 2]


def by_partition(rows: Sequence[Row]) -> list[Row]:
    """Sum up rows of LAYOUTS by partition; `segments` counts them.

    Rows with a reason are kept apart.
    """
    table = pa.Table.from_pylist(list(rows), LAYOUTS)
    number = LAYOUTS.get_field_index("base_offset")
    listed = pc.greater_equal(table["base_offset"], 0)
    alone = pc.if_else(pc.equal(table["reason"], ""), None, table["base_offset"])
    groups = (
        table
        .append_column("segments", pc.if_else(listed, table["base_offset"], None))
        .append_column("first", pa.array(range(len(rows)), pa.int64()))
        .set_column(number, "base_offset", alone)
        .group_by([*_KEYS, "base_offset", "reason"], use_threads=False)
        .aggregate([
            *((name, "sum") for name in _SUMS), ("most_in_vain", "max"), ("segments", "count"),
            ("first", "min"),
        ])
        .sort_by("first_min")
    )  # fmt: skip
    groups = groups.rename_columns([
        re.sub(r"_(sum|max|count)$", "", n) for n in groups.column_names
    ])
    names = [*LAYOUTS.names, "segments"]
    return [
        {name: row[name] for name in names if name != "base_offset" or row["reason"]}
        for row in groups.to_pylist()
    ]
