"""Build the cells of an interval, and add them to a table.

The partitions are searched in this process or by an executor. This process alone writes the table,
under its lock.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from kafkats import paths
from kafkats.clock import MINUTE_MS
from kafkats.execution.executor import Executor
from kafkats.search import PartitionUnit
from kafkats.tables.cells import build_unit
from kafkats.tables.merge import Written, open_cells, write
from kafkats.tables.runs import in_lists
from kafkats.tables.schema import TABLE, Ints
from kafkats.tables.spans import Span, check_interval, unite
from kafkats.tables.view import Busiest

PIECE: Final = 1 << 17
"""Cells of a partition searched in one pass. More would only need more memory."""
_ROUND_CELLS: Final = 1 << 20
"""An executor returns the rows of so many cells at a time."""
_NONE: Final = np.empty(0, np.int64)

_Piece = tuple[PartitionUnit, Ints, Ints]
"""A partition, cells (ms) to search for, and cells that earlier runs left open."""


def build(
    folder: str | os.PathLike[str],
    partitions: Iterable[PartitionUnit],
    from_ms: int,
    to_ms: int,
    *,
    step_ms: int = MINUTE_MS,
    exact: bool = False,
    executor: Executor | None = None,
    size: Callable[[PartitionUnit], int] = lambda _: 0,
    busy: Busiest | None = None,
) -> Written:
    """Add the cells of an interval to the table in `folder`, and close open cells where possible.

    A missing table is created. Intervals may come in any order: over an unchanged directory the
    runs leave the same files. `executor` searches the partitions, and `size` returns about how many
    bytes it reads of one; without an executor this process does it. `busy` gets all rows.

    Raises Locked while another process writes the table, UsageError (another step, a folder in a
    log directory), and as build_cells and write.
    """
    check_interval(from_ms, to_ms, step_ms)
    still = open_cells(folder)
    work = (
        (unit, *piece)
        for unit in partitions
        for piece in pieces((from_ms, to_ms), spans_of(unit, still), step_ms)
    )
    do = partial(_cells_of, exact=exact)
    rows = map(do, work) if executor is None else _searched(executor, work, do, size)
    seen = rows if busy is None else _shown(rows, busy)
    return write(folder, seen, from_ms, to_ms, step_ms=step_ms)


def _searched(
    executor: Executor,
    work: Iterable[_Piece],
    do: Callable[[_Piece], pa.RecordBatch],
    size: Callable[[PartitionUnit], int],
) -> Iterator[pa.Table]:
    for some in in_lists(work, lambda piece: len(piece[1]) + len(piece[2]), _ROUND_CELLS):
        yield executor.map("table", some, do, TABLE, size=lambda piece: size(piece[0]))


def _shown(rows: Iterable[pa.RecordBatch | pa.Table], busy: Busiest) -> Iterator[pa.Table]:
    for some in rows:
        busy.add(some)
        yield some


def _cells_of(piece: _Piece, *, exact: bool) -> pa.RecordBatch:
    unit, cells, still = piece
    return build_unit(unit, cells, still, exact=exact)


def pieces(interval: Span, still: Sequence[Span], step_ms: int) -> Iterator[tuple[Ints, Ints]]:
    """Yield the cells of an interval and the `still` open ones, by time, at most PIECE each."""
    for begin, end in unite([interval, *still]):
        first = -(-begin // step_ms) * step_ms
        for at in range(first, end, PIECE * step_ms):
            window = at, min(at + PIECE * step_ms, end)
            open_here = [_cells_in(span, window, step_ms) for span in still]
            yield _cells_in(interval, window, step_ms), np.concatenate([_NONE, *open_here])


def _cells_in(span: Span, window: Span, step_ms: int) -> Ints:
    begin, end = max(span[0], window[0]), min(span[1], window[1])
    return np.arange(-(-begin // step_ms) * step_ms, end, step_ms, dtype=np.int64)


def spans_of(
    unit: PartitionUnit, still: Mapping[tuple[str, int], Sequence[Span]]
) -> Sequence[Span]:
    """Return the open spans of the partition in the result of `open_cells`."""
    name = paths.parse_partition(unit.partition_dir)
    return still.get((name.topic, name.partition), ()) if name else ()
