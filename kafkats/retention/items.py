"""The files of a retention's plan: removed segments, new empty ones, updated checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkats import paths
from kafkats.generations import RetentionRule
from kafkats.hashes import EMPTY_SHA256
from kafkats.logdir.workarea import ROOT
from kafkats.plans.plan import ITEMS
from kafkats.retention.columns import Flags
from kafkats.retention.evidence import Facts
from kafkats.retention.reasons import Ints
from kafkats.retention.stage import NEW_FAMILY

Column: TypeAlias = pa.Array | pa.ChunkedArray | Ints | list[str] | list[int] | str | int | None
"""The values of a column, or the one value of all rows."""


class Start(NamedTuple):
    """Partitions that leave a log directory's own file of log starts: the first one, the offset at
    which it begins by itself, and their number.
    """

    partition_dir: str
    offset: int
    partitions: int


def items_of(
    facts: Facts, by: pa.Array, reasons: pa.Array, deleted: Flags, rule: RetentionRule
) -> tuple[pa.Table, Mapping[str, Start]]:
    """Return plan.ITEMS of partitions, and by log directory what `own_items` writes. `deleted`
    flags the first rows of partitions.

    `by` and `reasons` say which pass deletes a row, and why.
    """
    rows, base, ends = facts.rows, facts.segments.base_offset, facts.segments.end_offset
    left = rows.first(~deleted)
    changed = np.flatnonzero(left > rows.starts)
    emptied = changed[(left == rows.ends)[changed]]
    start = np.where(left == rows.ends, ends[rows.ends - 1], base[np.minimum(left, len(base) - 1)])
    own = changed[
        (facts.log_start_offset[changed] > 0) & (facts.log_start_offset[changed] <= start[changed])
    ]
    tables = [_removed(facts, by, reasons, deleted, rule)]
    timed = pc.is_valid(facts.table["timeindex"]).to_numpy()
    for kind in NEW_FAMILY:
        # 0.8 and 0.9 have none
        those = emptied[timed[rows.ends[emptied] - 1]] if kind == paths.TIME_INDEX else emptied
        files = [paths.segment_file(each, kind) for each in start[those].tolist()]
        new = {
            "action": "add",
            "reason": "an empty segment at the log end",
            "after_sha256": EMPTY_SHA256,
        }
        tables.append(_ended(facts, those, start, rule, file=files, **new))
    update = {"action": "update", "after_bytes": -1}
    # Brokers that write producer snapshots write epochs too, whatever rule was chosen.
    newer = np.add.reduceat(pc.is_valid(facts.table["snapshot"]).to_numpy(), rows.starts) > 0
    epochs = changed[newer[changed] | rule.high_watermark]
    reasons = [f"begins at {each} now" for each in start[epochs].tolist()]
    tables.append(
        _ended(facts, epochs, start, rule, file=paths.LEADER_EPOCH, reason=reasons, **update)
    )
    return pa.concat_tables(tables), _by_log_dir(facts, own, start)


def own_items(starts: Mapping[str, Start], rule: RetentionRule) -> pa.Table:
    """Return plan.ITEMS of the log directories' own files."""
    return _rows(
        len(starts),
        rule,
        log_dir=list(starts),
        partition_dir=ROOT,
        directory_ctime_ns=0,
        base_offset=[start.offset for start in starts.values()],
        next_base_offset=-1,
        file=paths.LOG_START,
        action="update",
        reason=[
            f"{start.partition_dir} begins at {start.offset} by itself"
            + (f", and {start.partitions - 1} more do" if start.partitions > 1 else "")
            for start in starts.values()
        ],
        after_bytes=-1,
    )


def _removed(
    facts: Facts, by: pa.Array, reasons: pa.Array, deleted: Flags, rule: RetentionRule
) -> pa.Table:
    """Return the items for every file of every row to delete."""
    chosen = pa.array(deleted)
    names = ("log_dir", "partition_dir", "directory_ctime_ns", "base_offset", "next_base_offset")
    table = facts.table.select([
        *names,
        *(kind.removeprefix(".") for kind in paths.SEGMENT_KINDS),
    ]).filter(chosen)
    families = [table[kind.removeprefix(".")].combine_chunks() for kind in paths.SEGMENT_KINDS]
    there = np.stack(
        [pc.is_valid(files).to_numpy(zero_copy_only=False) for files in families], axis=1
    )
    row, kind = np.nonzero(there)
    stems = paths.segment_files(table["base_offset"].combine_chunks(), "")
    texts = pc.binary_join_element_wise("by ", by.filter(chosen), ": ", reasons.filter(chosen), "")
    columns = {name: table[name].combine_chunks().take(pa.array(row)) for name in names}
    return _rows(
        len(row),
        rule,
        **columns,
        file=pc.binary_join_element_wise(
            stems.take(pa.array(row)), pa.array(paths.SEGMENT_KINDS).take(pa.array(kind)), ""
        ),
        action="remove",
        reason=texts.take(pa.array(row)),
        before=pa.concat_arrays(families).take(pa.array(kind * len(table) + row)),
    )


def _by_log_dir(facts: Facts, partitions: Ints, start: Ints) -> dict[str, Start]:
    """Return the first partition of each log dir, which stands for the others."""
    together: dict[str, list[int]] = {}
    for number in partitions.tolist():
        together.setdefault(facts.log_dir[number], []).append(number)
    return {
        log_dir: Start(facts.partition_dir[some[0]], int(start[some[0]]), len(some))
        for log_dir, some in together.items()
    }


def _ended(
    facts: Facts, partitions: Ints, start: Ints, rule: RetentionRule, **columns: Column
) -> pa.Table:
    """Return a row for each partition that will begin at `start`."""
    first = facts.table.take(pa.array(facts.rows.starts[partitions]))
    common = {name: first[name] for name in ("log_dir", "partition_dir", "directory_ctime_ns")}
    return _rows(
        len(partitions),
        rule,
        **(common | {"base_offset": start[partitions], "next_base_offset": -1} | columns),
    )


def _rows(count: int, rule: RetentionRule, **columns: Column) -> pa.Table:
    """Return ITEMS of these columns. A single value fills its column."""
    values: dict[str, Column] = {
        "before": None,
        "log": None,
        "log_valid_bytes": 0,
        "after_bytes": 0,
        "after_sha256": "",
        "rule": rule.name,
        "index_interval_bytes": 0,
        "segment_index_bytes": 0,
        "settings_from": "given",
        **columns,
    }
    filled = {
        field.name: pa.repeat(pa.scalar(values[field.name], field.type), count)
        if isinstance(values[field.name], str | int | None)
        else values[field.name]
        for field in ITEMS
    }
    return pa.table(filled, schema=ITEMS)
