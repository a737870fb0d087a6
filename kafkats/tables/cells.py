"""Build the cells of partitions in one pass over each.

The pass uses the time indexes and the batches that they lead to, or all batch headers (`exact`).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkats import paths, search
from kafkats.errors import BadInput, Changed, Vanished
from kafkats.logdir.steady import steady
from kafkats.search.sweep import WORDS, Answers, sweep
from kafkats.tables.schema import TABLE, TABLE_VERSION, Ints
from kafkats.tables.spans import check_interval

_NONE: Final = np.empty(0, np.int64)
_UNREADABLE: Final = WORDS.index("unreadable")
_ABOVE: Final = WORDS.index("above-high-watermark")


def grid(from_ms: int, to_ms: int, step_ms: int) -> Ints:
    """Return the cells of [from_ms, to_ms): multiples of the step, int64 ms. Raises UsageError."""
    check_interval(from_ms, to_ms, step_ms)
    return np.arange(-(-from_ms // step_ms) * step_ms, to_ms, step_ms, dtype=np.int64)


def build_cells(
    partition: search.Partition, topic: str, number: int, cells: Ints, *, exact: bool = False
) -> pa.RecordBatch:
    """Return rows of TABLE, one for each of `cells` (ms, ascending).

    A record at or above the high watermark may still be truncated, so it closes no cell. An
    unreadable place makes a cell open with the reason `unreadable`. Raises UsageError, Vanished,
    Changed, StorageFailed.
    """
    answers = sweep(partition, cells, depth="full" if exact else "tail")
    if partition.high_watermark is not None:
        hidden = answers.offset >= partition.high_watermark
        for column in answers[:4]:
            column[hidden] = -1
        answers.reason[hidden] = _ABOVE
    try:
        end = partition.log_end_offset
    except BadInput:
        end = -1
    return _rows(topic, number, cells, answers, partition.log_start_offset, end)


def build_unit(
    unit: search.PartitionUnit, cells: Ints, still: Ints = _NONE, *, exact: bool = False
) -> pa.RecordBatch:
    """Build the cells of a partition directory, and of its `still` open cells those that close now.

    If the partition is deleted or truncated meanwhile, its cells are `unreadable` and the next run
    tries again. A partition that a running broker deleted has no rows. Raises UsageError,
    StorageFailed.
    """
    built = steady(
        unit.path,
        lambda: _built(unit, cells, still, exact=exact),
        lambda seen: bool(seen[1]),
        live=unit.live,
    )
    return pa.RecordBatch.from_pylist([], TABLE) if built is None else built[0]


def _built(
    unit: search.PartitionUnit, cells: Ints, still: Ints, *, exact: bool
) -> tuple[pa.RecordBatch, str]:
    """Return the rows, and why the partition could not be searched or ""."""
    name = paths.parse_partition(unit.partition_dir)
    if name is None:
        return pa.RecordBatch.from_pylist([], TABLE), ""
    reason = unit.hidden
    try:
        if not reason:
            with search.open_unit(unit) as partition:
                wanted, added = _united(cells, still)
                rows = build_cells(partition, name.topic, name.partition, wanted, exact=exact)
                new = added | (rows["offset"].to_numpy() >= 0)
                return rows.filter(pa.array(new)), ""
    except (Vanished, Changed) as e:
        reason = str(e)
    none = np.full(len(cells), -1, np.int64)
    answers = Answers(*(none,) * 4, np.full(len(cells), _UNREADABLE, np.int8), reason)
    return _rows(name.topic, name.partition, cells, answers, unit.log_start_offset, -1), reason


def _united(cells: Ints, still: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """Return all cells once, ascending, and which of them are in `cells`.

    Both inputs are sorted, so one stable sort is enough: np.union1d takes five times as long.
    """
    both = np.concatenate((cells, still))
    by = np.argsort(both, kind="stable")
    ordered = both[by]
    first = np.concatenate((np.ones(min(len(by), 1), np.bool_), np.diff(ordered) > 0))
    return ordered[first], by[first] < len(cells)


def _rows(
    topic: str, number: int, cells: Ints, answers: Answers, start: int, end: int
) -> pa.RecordBatch:
    count = len(cells)

    def same(value: int, kind: pa.DataType) -> pa.Array:
        return pa.array(np.full(count, value), kind)

    columns = [
        pa.DictionaryArray.from_arrays(same(0, pa.int32()), [topic]),
        same(number, pa.int32()),
        cells,
        answers.offset,
        pa.DictionaryArray.from_arrays(pa.array(answers.reason, pa.int32()), list(WORDS)),
        answers.timestamp,
        answers.segment,
        pa.array(answers.leader_epoch, pa.int32()),
        same(start, pa.int64()),
        same(end, pa.int64()),
        same(TABLE_VERSION, pa.int32()),
    ]
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=TABLE)
