"""Merge rows into a table: keep closed cells, close open ones, and combine files.

The files depend only on the rows and the covered ranges. A span of 30 days, a day or an hour, the
widest first, becomes one file if it was built without a gap and its rows fit one file. So neither a
run nor the order of runs leaves many small files or any other trace.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafkats.clock import DAY_MS, HOUR_MS
from kafkats.errors import BadInput, StorageFailed, UsageError
from kafkats.tables import store
from kafkats.tables.recreated_logs import without_other_logs
from kafkats.tables.runs import (
    CHUNK_ROWS,
    MEMORY_ROWS,
    NOTHING,
    Run,
    Scratch,
    in_lists,
    joined,
    merged,
)
from kafkats.tables.schema import (
    CLOSED,
    TABLE,
    Ints,
    OpenRun,
    ints,
    order,
    standing,
    taken,
    together,
)
from kafkats.tables.spans import Span, check_interval, unite
from kafkats.tables.store import MANIFEST, Manifest, Part, write_part, writing

LEVELS: Final = (30 * DAY_MS, DAY_MS, HOUR_MS)
"""Spans of files in ms, aligned to multiples since 1970."""
MOST_ROWS: Final = 8_000_000
"""The most rows of a file that is wider than an hour."""


class Written(NamedTuple):
    """The effect of a run on a table, in cells.

    `files` and `bytes` are the table's after the run.
    """

    added: int
    closed: int
    """Cells that were open before."""
    kept: int
    """Cells that were closed before, or are as open as before."""
    open: int
    """All open cells in the table now."""
    unreadable: int
    """Unreadable cells of this run."""
    above_high_watermark: int
    """Cells of this run that are open only because of the brokers' checkpointed high watermarks."""
    files: int
    bytes: int
    other_logs: list[str]
    """Partitions whose log replaced that of the table, with the reason. Their cells stay open."""


def open_cells(folder: str | os.PathLike[str]) -> dict[tuple[str, int], list[Span]]:
    """Return the open cells as spans [from, to) by topic and partition, {} without a table.

    Reads only the footers of the files. Raises CorruptFile, BadInput, StorageFailed.
    """
    if not Path(folder, MANIFEST).exists():
        return {}
    spans_of: dict[tuple[str, int], list[Span]] = {}
    for run in open_runs(folder)[1]:
        spans_of.setdefault((run.topic, run.partition), []).append((run.from_ms, run.to_ms))
    return {key: list(unite(spans)) for key, spans in spans_of.items()}


def open_runs(folder: str | os.PathLike[str]) -> tuple[Manifest, list[OpenRun]]:
    """Return the manifest and the runs of open cells with their reason, from the files' footers.

    Raises as `open_cells`, and UsageError without a table.
    """
    return store.read_again(
        folder,
        lambda manifest: [
            run for part in manifest.parts if part.open for run in store.read_open(folder, part)
        ],
    )


def write(
    folder: str | os.PathLike[str],
    rows: Iterable[pa.RecordBatch | pa.Table],
    from_ms: int,
    to_ms: int,
    *,
    step_ms: int,
) -> Written:
    """Write rows of TABLE into the table in `folder`: cells of the interval and open cells.

    Raises Locked, UsageError (another step than the table's), BadInput (rows off the grid, two of
    one cell, a time that is neither in the interval nor open), CorruptFile (damaged files, or a
    lost manifest), StorageFailed. After an error the table is as before.
    """
    check_interval(from_ms, to_ms, step_ms)
    with writing(folder):
        before = store.begun(folder, step_ms)
        if before.step_ms != step_ms:
            raise UsageError(
                f"the table has a step of {before.step_ms} ms, not {step_ms}", path=folder
            )
        covered = unite([*before.covered, (from_ms, to_ms)])
        with closing(Scratch(Path(folder))) as scratch:
            new = _sorted(rows, step_ms, scratch)
            new, others = without_other_logs(
                new, before.parts, lambda part: _of_part(folder, part, step_ms), scratch
            )
            run = _Run(Path(folder), before, Manifest(step_ms, covered), (from_ms, to_ms), scratch)
            try:
                return run.finish(new)._replace(other_logs=others)
            except StorageFailed:  # perhaps the disk is full
                store.give_room(folder, before)
                raise


def _of_part(folder: str | os.PathLike[str], part: Part, step_ms: int) -> Run:
    return Run(part.rows, lambda: store.read_part(folder, part, step_ms))


def _sorted(rows: Iterable[pa.RecordBatch | pa.Table], step_ms: int, scratch: Scratch) -> Run:
    """Return new rows in order, each cell once.

    Raises BadInput for anything but rows of a table, and for two rows of one cell.
    """
    runs = [scratch.keep(_in_chunks(_checked(some, step_ms))) for some in _batches(rows)]
    return joined(runs, scratch, _in_order) if runs else NOTHING


def _batches(rows: Iterable[pa.RecordBatch | pa.Table]) -> Iterator[list[pa.Table]]:
    """Group the incoming tables into lists that fit memory."""
    tables = (
        pa.Table.from_batches([one]) if isinstance(one, pa.RecordBatch) else one for one in rows
    )
    parts = (
        table.slice(begin, MEMORY_ROWS)
        for table in tables
        for begin in range(0, max(table.num_rows, 1), MEMORY_ROWS)
    )
    return in_lists(parts, lambda some: int(some.num_rows), MEMORY_ROWS)


def _in_chunks(table: pa.Table) -> Iterator[pa.Table]:
    return (table.slice(begin, CHUNK_ROWS) for begin in range(0, table.num_rows, CHUNK_ROWS))


def _checked(tables: Iterable[pa.Table], step_ms: int) -> pa.Table:
    try:
        new = together(one.select(TABLE.names).cast(TABLE) for one in tables)
    except (pa.ArrowException, KeyError) as e:
        raise BadInput(f"no rows of a table: {e}") from e
    if (ints(new, "timestamp") % step_ms).any():
        raise BadInput(f"a cell that is no multiple of the step of {step_ms} ms")
    return _in_order(new)


def _in_order(rows: pa.Table) -> pa.Table:
    """Return the rows sorted. Raises BadInput for two rows of one cell."""
    by, same = order(rows)
    if same.any():
        row = rows.slice(int(by[int(np.flatnonzero(same)[0])]), 1).to_pylist()[0]
        where = f"{row['topic']}-{row['partition']} at {row['timestamp']}"
        raise BadInput(f"two rows of one cell: {where}; is a partition listed twice?")
    return taken(rows, by)


@dataclass
class _Piece:
    """A span of rows: an existing file, or a run."""

    span: Span
    rows: int
    part: Part | None = None
    run: Run | None = None
    new: list[Run] = field(default_factory=list)
    """New rows that belong to this span."""


@dataclass
class _Run:
    folder: Path
    before: Manifest
    after: Manifest
    interval: Span
    scratch: Scratch
    added: int = 0
    closed: int = 0
    kept: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def finish(self, new: Run) -> Written:
        by_top = self.scratch.split(self._counted(new), LEVELS[0])
        parts: list[Part] = []
        tops = self._tops(by_top)
        for top in tops:
            pieces = self._merged(top, by_top.get(top, NOTHING))
            parts += [self._part(piece) for piece in self._arranged(top, 0, pieces)]
        untouched = [part for part in self.before.parts if not any(_in(part, top) for top in tops)]
        manifest = Manifest(
            self.after.step_ms, self.after.covered, store.sorted_parts([*untouched, *parts])
        )
        self.scratch.close()
        if manifest != self.before:
            store.commit(self.folder, manifest)
        else:
            store.tidy(self.folder, manifest)
        opened = sum(part.open for part in manifest.parts)
        size = sum(part.bytes for part in manifest.parts)
        unread, above = self.reasons["unreadable"], self.reasons["above-high-watermark"]
        return Written(
            self.added, self.closed, self.kept, opened, unread, above, len(manifest.parts), size, []
        )

    def _counted(self, new: Run) -> Iterator[pa.Table]:
        for chunk in new.chunks():
            for row in pc.value_counts(chunk["reason"]).to_pylist():
                self.reasons[row["values"]] += row["counts"]
            yield chunk

    def _tops(self, new: Iterable[Span]) -> list[Span]:
        """Return the widest spans in which something may change."""
        wide = LEVELS[0]
        begin, end = self.interval
        parts = self.before.parts
        known = [(part.from_ms // wide * wide, part.to_ms) for part in parts]
        firsts = [first for first, behind in known if first < end and behind > begin]
        return sorted({*new, *((first, first + wide) for first in firsts)})

    def _merged(self, top: Span, new: Run) -> list[_Piece]:
        """Return the pieces in `top`, merged with the new rows."""
        pieces = [_Piece((p.from_ms, p.to_ms), p.rows, p) for p in self.before.parts if _in(p, top)]
        if not new.rows:
            return pieces
        if not pieces:
            return [self._added(top, new)]
        for hour, some in self.scratch.split(new.chunks(), HOUR_MS).items():
            inside = next(
                (p for p in pieces if p.span[0] <= hour[0] and hour[1] <= p.span[1]), None
            )
            if inside is None:
                pieces.append(self._added(hour, some))
            else:
                inside.new.append(some)
        for piece in pieces:
            if piece.new:
                self._merge(piece, joined(piece.new, self.scratch))
        return sorted(pieces, key=lambda piece: piece.span)

    def _added(self, span: Span, new: Run) -> _Piece:
        """Return a piece of new rows only. Raises BadInput for a row outside the interval."""
        self.added += new.rows
        for chunk in new.chunks():
            self._allowed(ints(chunk, "timestamp"))
        return _Piece(span, new.rows, run=new)

    def _merge(self, piece: _Piece, new: Run) -> None:
        piece.new, changed = [], [False]
        old = self._rows(piece)
        kept = self.scratch.keep(self._laid_over(group, changed) for group in merged([old, new]))
        if changed[0]:
            piece.run, piece.part, piece.rows = kept, None, kept.rows

    def _laid_over(self, group: Sequence[pa.Table], changed: list[bool]) -> pa.Table:
        """Merge old and new rows of some cells.

        Of each cell the row with the higher standing is kept, the old one if both are equal.
        """
        old_rows = group[0].num_rows
        rows = together(group)
        by, same = order(rows)
        worth = standing(rows)[by]
        better = same & (worth[1:] > worth[:-1])
        drop = np.zeros(len(by), np.bool_)
        drop[:-1] |= better
        drop[1:] |= same & ~better
        alone = (by >= old_rows) & ~np.concatenate(([False], same))
        self._allowed(ints(rows, "timestamp")[by[alone]])
        self.added += int(alone.sum())
        self.closed += int((better & (worth[1:] == CLOSED)).sum())
        self.kept += int((same & ~better).sum())
        changed[0] |= bool(better.any() or alone.any())
        return rows.take(by[~drop])

    def _allowed(self, times: Ints) -> None:
        if not _between(times, self.interval).all():
            raise BadInput("a cell outside of the interval that was not open", path=self.folder)

    def _arranged(self, span: Span, level: int, pieces: Sequence[_Piece]) -> Iterator[_Piece]:
        inside = [
            piece for piece in pieces if span[0] <= piece.span[0] and piece.span[1] <= span[1]
        ]
        rows = sum(piece.rows for piece in inside)
        if not rows:
            return
        if level == len(LEVELS) - 1 or (rows <= MOST_ROWS and self.after.covers(span)):
            yield inside[0] if inside[0].span == span else self._together(span, inside)
            return
        narrow = LEVELS[level + 1]
        if inside[0].span == span:
            inside = self._split(inside[0], narrow)
        for begin in sorted({piece.span[0] // narrow * narrow for piece in inside}):
            yield from self._arranged((begin, begin + narrow), level + 1, inside)

    def _together(self, span: Span, pieces: Sequence[_Piece]) -> _Piece:
        run = joined([self._rows(piece) for piece in pieces], self.scratch)
        return _Piece(span, run.rows, run=run)

    def _split(self, piece: _Piece, width: int) -> list[_Piece]:
        runs_by_span = self.scratch.split(self._rows(piece).chunks(), width)
        return [_Piece(span, run.rows, run=run) for span, run in runs_by_span.items()]

    def _rows(self, piece: _Piece) -> Run:
        if piece.run is not None:
            return piece.run
        assert piece.part is not None
        return _of_part(self.folder, piece.part, self.before.step_ms)

    def _part(self, piece: _Piece) -> Part:
        if piece.part is not None:
            return piece.part
        assert piece.run is not None
        part = write_part(self.folder, piece.span, piece.run, self.after.step_ms)
        piece.run = None
        return part


def _between(times: Ints, span: Span) -> NDArray[np.bool_]:
    return np.asarray((times >= span[0]) & (times < span[1]))


def _in(part: Part, span: Span) -> bool:
    return span[0] <= part.from_ms and part.to_ms <= span[1]
