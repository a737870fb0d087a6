"""Read the facts about segments from a table (facts.SEGMENTS) into columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkats import paths
from kafkats.config.policy import Policy
from kafkats.config.settings import TopicSettings
from kafkats.config.values import magic_of
from kafkats.errors import KafkatsError
from kafkats.findings import DEFECTS
from kafkats.index import time_index
from kafkats.plans.missing import KIND as MISSING_RECORDS
from kafkats.plans.rows import SegmentKey
from kafkats.retention.columns import Flags, Rows, Segments, rows_of
from kafkats.retention.implausible_timestamps import SEEMS, SUSPECT, Believed, believe, detect_units
from kafkats.retention.reasons import Ints

_KINDS: Final = tuple(kind.removeprefix(".") for kind in paths.SEGMENT_KINDS)
_ORDER: Final = [(name, "ascending") for name in ("log_dir", "partition_dir", "base_offset")]
_COLUMNS: Final = (
    "log_dir", "partition_dir", "topic", "directory_ctime_ns", "base_offset", "next_base_offset",
    "last_offset", "first_timestamp", "max_timestamp", "offset_of_max_timestamp", "clean",
    "recovery", "high_watermark", "log_start_offset", "findings", *_KINDS,
)  # fmt: skip


class Facts(NamedTuple):
    """Facts about segments and partitions.

    `table` has a sorted row per segment with a log. `log_dir` and later fields have one value per
    partition.
    """

    table: pa.Table
    rows: Rows
    segments: Segments
    largest_timestamp: Ints
    """The timestamp in the files, -1 for none. `segments` has the trusted one."""
    unit: pa.Array
    family_bytes: Ints
    recovery: Flags
    log_dir: list[str]
    partition_dir: list[str]
    topic: list[str]
    settings: Mapping[str, TopicSettings]
    """By topic."""
    clean: Flags
    end_known: Flags
    """Whether the log end is known: the last segment's records could be read."""
    log_start_offset: Ints
    high_watermark: Ints


def read_facts(segments: pa.Table, policy: Policy) -> Facts:
    """Read the facts. `policy` says how to treat implausible timestamps.

    Only its setting `ignore` reads files: the time indexes of suspects.
    """
    table = _sorted_segments(segments)
    rows = _rows(table)
    first = table.select([
        "log_dir",
        "partition_dir",
        "topic",
        "clean",
        "log_start_offset",
        "high_watermark",
    ])
    first = first.take(pa.array(rows.starts))
    topic = [topic or "" for topic in first["topic"].to_pylist()]
    base, mtime = (
        _ints(table["base_offset"]),
        _ints(pc.divide(_of(table, "log", "mtime_ns"), 1_000_000)),
    )
    end = np.append(base[1:], 0)[: len(base)]
    last = rows.ends - 1
    log_end = _ints(table["last_offset"], -1)[last] + 1
    end[last] = np.maximum(log_end, base[last])
    settings = {name: policy.settings(name) for name in set(topic)}
    how = [settings[name].kafkats_implausible_timestamps or "report" for name in topic]
    largest, unit = _believed(table, rows, mtime, how)
    size = _ints(_of(table, "log", "size"))
    family = size + sum(_ints(_of(table, kind, "size"), 0) for kind in _KINDS[1:])
    return Facts(
        table,
        rows,
        Segments(base, end, size, largest, mtime, ~_misled(table["findings"])),
        _ints(table["max_timestamp"], -1),
        unit,
        family,
        _flags(table["recovery"]),
        first["log_dir"].to_pylist(),
        first["partition_dir"].to_pylist(),
        topic,
        settings,
        _flags(first["clean"]),
        (size[last] == 0) | (log_end > base[last]),
        np.maximum(_ints(first["log_start_offset"], 0), 0),
        np.maximum(_ints(first["high_watermark"], -1), -1),
    )


def without_times(facts: Facts) -> Facts:
    """Return the facts as KIP-33's brokers know them, without timestamps of topics below 0.10.

    If message.format.version is below 0.10, such brokers load nothing from time indexes.
    """
    versions = [facts.settings[topic].message_format_version for topic in facts.topic]
    old = np.array([version is not None and magic_of(version) == 0 for version in versions], bool)
    largest = np.where(old[facts.rows.of], -1, facts.segments.largest_timestamp)
    return facts._replace(segments=facts.segments._replace(largest_timestamp=largest))


def _sorted_segments(segments: pa.Table) -> pa.Table:
    """Return the segments sorted.

    Copies only if necessary: this determines the memory for many rows.
    """
    table = segments.select(list(_COLUMNS))
    real = pc.and_(pc.greater_equal(segments["base_offset"], 0), pc.is_valid(segments["log"]))
    table = table if pc.all(real).as_py() else table.filter(real)
    order = pc.sort_indices(table, sort_keys=_ORDER)
    in_order = bool((np.diff(order.to_numpy().astype(np.int64)) == 1).all())
    return table if in_order else table.take(order)


def _rows(table: pa.Table) -> Rows:
    count = table.num_rows
    begins = np.ones(count, bool)
    if count:
        same = [
            pc.equal(column.slice(1), column.slice(0, count - 1))
            for column in (table["log_dir"], table["partition_dir"])
        ]
        begins[1:] = ~pc.and_(*same).to_numpy()
    return rows_of(np.flatnonzero(begins), count)


def _of(table: pa.Table, file: str, field: str) -> pa.ChunkedArray:
    return pc.struct_field(table[file], field)


def _ints(column: pa.ChunkedArray, missing: int | None = None) -> Ints:
    values: Ints = (column if missing is None else pc.fill_null(column, missing)).to_numpy()
    return values


def _flags(column: pa.ChunkedArray) -> Flags:
    flags: Flags = pc.fill_null(column, False).to_numpy()
    return flags


def _misled(findings: pa.ChunkedArray) -> Flags:
    """Return where the largest timestamp may be wrong."""
    flat = pc.list_flatten(findings)
    beside = pc.or_(
        *(
            pc.ends_with(pc.struct_field(flat, "file"), kind)
            for kind in (paths.SNAPSHOT, paths.TXN_INDEX)
        )
    )
    # everything is known of the records that exist
    beside = pc.or_(beside, pc.equal(pc.struct_field(flat, "kind"), MISSING_RECORDS))
    bad = pc.and_not(pc.is_in(pc.struct_field(flat, "severity"), pa.array(DEFECTS)), beside)
    flags = np.zeros(len(findings), bool)
    flags[pc.list_parent_indices(findings).filter(bad).to_numpy()] = True
    return flags


def _believed(
    table: pa.Table, rows: Rows, mtime: Ints, policies: Sequence[str]
) -> tuple[Ints, pa.Array]:
    """Return the timestamps that the policies trust, and the units of the largest timestamps."""
    largest = np.copy(_ints(table["max_timestamp"], -1))
    following = np.append(largest[1:], -1)
    following[rows.ends - 1] = -1
    units = detect_units(largest, mtime, following)
    judged = np.array([policy != "report" for policy in policies], bool)[rows.of]
    suspects = np.isin(units, [SEEMS.index(unit) for unit in SUSPECT]) & judged
    for row in np.flatnonzero(suspects).tolist():
        seen = int(largest[row]), int(mtime[row]), policies[rows.of[row]]
        largest[row] = _believe(table, row, *seen, int(following[row])).timestamp
    return largest, pa.array(SEEMS).take(pa.array(units))


def _believe(
    table: pa.Table, row: int, largest: int, mtime_ms: int, policy: str, neighbour: int
) -> Believed:
    believed = believe(largest, mtime_ms, policy, neighbour=neighbour)
    if policy != "ignore" or believed.timestamp == largest:
        return believed
    where = SegmentKey(*(table[name][row].as_py() for name in SegmentKey._fields))
    file = paths.segment_file(where.base_offset, paths.TIME_INDEX)
    try:
        entries = time_index.read(Path(*where.partition, file))
    except KafkatsError:
        # without an index the timestamp is taken as it is, which keeps the segment
        return believed._replace(timestamp=largest)
    times = entries["timestamp"].tolist()
    return believe(largest, mtime_ms, policy, entries=times, neighbour=neighbour)
