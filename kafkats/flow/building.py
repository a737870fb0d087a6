"""Lookup tables: partitions are searched by an executor, the table is written once, by this
process, under its lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from kafkats.execution import Executor
from kafkats.flow.looking import partition_bytes
from kafkats.lookup.partitions import PartitionUnit
from kafkats.tables import TABLE, Busiest, Written, open_cells, write
from kafkats.tables.cells import build_unit, pieces, spans_of
from kafkats.tables.store import check_interval

_ROUND_CELLS: Final = 1 << 20
"""Rows of so many cells are held at a time, whatever the interval."""

_Piece = tuple[PartitionUnit, Any, Any]
"""A partition, cells (ms, int64) to search for, and cells that earlier runs left open."""


def build_table(
    executor: Executor,
    folder: Path,
    units: Sequence[PartitionUnit],
    interval: tuple[int, int],
    *,
    step_ms: int,
    exact: bool,
    busy: Busiest | None = None,
) -> Written:
    """Add the cells of an interval (ms, its end excluded) to a table, and close what can be closed;
    `busy` is shown all rows.

    Raises as `tables.build`.
    """
    check_interval(*interval, step_ms)
    still = open_cells(folder)
    work = (
        (unit, *piece)
        for unit in units
        for piece in pieces(interval, spans_of(unit, still), step_ms)
    )
    return write(folder, _searched(executor, work, busy, exact=exact), *interval, step_ms=step_ms)


def _searched(
    executor: Executor, work: Iterable[_Piece], busy: Busiest | None, *, exact: bool
) -> Iterator[pa.Table]:
    suffix = ".log" if exact else ".timeindex"
    for some in _rounds(work):
        do = partial(_cells_of, exact=exact)
        rows = executor.map(
            "table", some, do, TABLE, size=lambda piece: partition_bytes(piece[0], suffix)
        )
        if busy is not None:
            busy.add(rows)
        yield rows


def _rounds(work: Iterable[_Piece]) -> Iterator[list[_Piece]]:
    """The work in lists of at most _ROUND_CELLS cells, or of one piece."""
    held: list[_Piece] = []
    count = 0
    for piece in work:
        cells = len(piece[1]) + len(piece[2])
        if held and count + cells > _ROUND_CELLS:
            yield held
            held, count = [], 0
        held.append(piece)
        count += cells
    if held:
        yield held


def _cells_of(piece: _Piece, *, exact: bool) -> pa.RecordBatch:
    unit, cells, still = piece
    return build_unit(unit, cells, still, exact=exact)
