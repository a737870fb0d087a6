"""The files of a retention's plan: removed segments, new empty ones, updated checkpoints."""

from __future__ import annotations

from typing import TypeAlias

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

Column: TypeAlias = pa.Array | pa.ChunkedArray | Ints | list[str] | str | int | None
"""The values of a column, or the one value of all rows."""


def items_of(
    facts: Facts, by: pa.Array, reasons: pa.Array, deleted: Flags, rule: RetentionRule
) -> pa.Table:
    """Return plan.ITEMS. `deleted` flags the first rows of partitions.

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
    where = {"partition_dir": ROOT, "directory_ctime_ns": 0}
    begins, reasons = _by_log_dir(facts, own, start)
    tables.append(
        _ended(facts, begins, start, rule, file=paths.LOG_START, reason=reasons, **update, **where)
    )
    return pa.concat_tables(tables)


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


def _by_log_dir(facts: Facts, partitions: Ints, start: Ints) -> tuple[Ints, list[str]]:
    """Return the first partition of each log dir, which stands for the others, and the reasons."""
    together: dict[str, list[int]] = {}
    for number in partitions.tolist():
        together.setdefault(facts.log_dir[number], []).append(number)
    reasons = [
        f"{facts.partition_dir[first]} begins at {start[first]} by itself"
        + (f", and {len(rest)} more do" if rest else "")
        for first, *rest in together.values()
    ]
    return np.array([numbers[0] for numbers in together.values()], np.int64), reasons


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
