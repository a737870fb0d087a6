"""Putting rows into a table: closed cells stay, open ones are closed, and files grow together.

Which files there are follows from the rows and the covered ranges alone. From the widest span down (30 days, a day, an hour): what
was built without a gap and is not too much for one file, is one. So no run, and no order of runs, leaves many small files or a trace.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafkats.errors import BadInput, CorruptFile, StorageFailed, UsageError, Vanished
from kafkats.tables import store
from kafkats.tables.anew import without_other_logs
from kafkats.tables.schema import CLOSED, TABLE, Ints, OpenRun, ints, order, standing, taken, together
from kafkats.tables.store import MANIFEST, Manifest, Part, Span, read_manifest, read_part, write_part, writing

HOUR_MS: Final = 3_600_000
LEVELS: Final = (30 * 24 * HOUR_MS, 24 * HOUR_MS, HOUR_MS)
"""Spans of files, multiples of these since 1970."""
MOST_ROWS: Final = 8_000_000
"""Of a file that is wider than an hour."""


class Written(NamedTuple):
    """What a run did to a table, in cells; `files` and `bytes` are the table's, afterwards."""

    added: int
    closed: int
    """Of those that were open before."""
    kept: int
    """Closed before, or as open as before."""
    open: int
    """Of all in the table, now."""
    unreadable: int
    """Of the cells that this run brought."""
    above_high_watermark: int
    """Likewise: open only because their records are not below the high watermark that the brokers have checkpointed."""
    files: int
    bytes: int
    other_logs: list[str]
    """Partitions whose log is not the one that the table tells of, and why: their cells stay open."""


def open_cells(folder: str | os.PathLike[str]) -> dict[tuple[str, int], list[Span]]:
    """The cells that are open, by topic and partition: from one up to another, not included. None where there is no table.

    Read from the footers of the files alone. Raises CorruptFile, BadInput, StorageFailed.
    """
    if not Path(folder, MANIFEST).exists():
        return {}
    found: dict[tuple[str, int], list[Span]] = {}
    for run in open_runs(folder)[1]:
        found.setdefault((run.topic, run.partition), []).append((run.from_ms, run.to_ms))
    return {key: list(store.unite(spans)) for key, spans in found.items()}


def open_runs(folder: str | os.PathLike[str]) -> tuple[Manifest, list[OpenRun]]:
    """The manifest, and all cells that are open, with the reason. Read from the footers, too; raises likewise, and UsageError without a table."""
    for attempt in range(5):
        manifest = read_manifest(folder)
        try:
            return manifest, [run for part in manifest.parts if part.open for run in store.read_open(folder, part)]
        except Vanished as e:
            if attempt == 4 or read_manifest(folder) == manifest:
                raise CorruptFile("a file that the table's manifest names is missing", path=e.path) from e
    raise AssertionError


def write(
    folder: str | os.PathLike[str],
    rows: Iterable[pa.RecordBatch | pa.Table],
    from_ms: int,
    to_ms: int,
    *,
    step_ms: int,
) -> Written:
    """Put rows of TABLE into the table in `folder`: those of the interval, and of cells that were open.

    Raises Locked, UsageError (another step than the table's), BadInput (rows off the grid, two of one cell, a time that is neither
    in the interval nor open), CorruptFile (what is there is damaged, or has lost its manifest), StorageFailed. Then the table is as it was.
    """
    store.check_interval(from_ms, to_ms, step_ms)
    with writing(folder):
        before = store.begun(folder, step_ms)
        if before.step_ms != step_ms:
            raise UsageError(f"the table has a step of {before.step_ms} ms, not {step_ms}", path=folder)
        new, others = without_other_logs(
            _checked(rows, step_ms), before.parts, lambda part: read_part(folder, part, step_ms)
        )
        covered = store.unite([*before.covered, (from_ms, to_ms)])
        run = _Run(Path(folder), before, Manifest(step_ms, covered), (from_ms, to_ms))
        try:
            return run.finish(new)._replace(other_logs=others)
        except StorageFailed:  # perhaps for want of room
            store.give_room(folder, before)
            raise


def compact(folder: str | os.PathLike[str]) -> Written:
    """Arrange all files anew; `write` does so where it writes. Raises as `write`."""
    with writing(folder):
        before = read_manifest(folder)
        run = _Run(Path(folder), before, Manifest(before.step_ms, before.covered), None)
        return run.finish(TABLE.empty_table())


def _checked(rows: Iterable[pa.RecordBatch | pa.Table], step_ms: int) -> pa.Table:
    tables = [pa.Table.from_batches([one]) if isinstance(one, pa.RecordBatch) else one for one in rows]
    try:
        new = together(one.select(TABLE.names).cast(TABLE) for one in tables)
    except (pa.ArrowException, KeyError) as e:
        raise BadInput(f"no rows of a table: {e}") from e
    if (ints(new, "timestamp") % step_ms).any():
        raise BadInput(f"a cell that is no multiple of the step of {step_ms} ms")
    by, same = order(new)
    if same.any():
        row = new.slice(int(by[int(np.flatnonzero(same)[0])]), 1).to_pylist()[0]
        where = f"{row['topic']}-{row['partition']} at {row['timestamp']}"
        raise BadInput(f"two rows of one cell: {where}; is a partition listed twice?")
    return taken(new, by)


@dataclass
class _Piece:
    """A span of rows: as a file that is there, or in memory."""

    span: Span
    rows: int
    part: Part | None = None
    table: pa.Table | None = None


class _Run:
    def __init__(self, folder: Path, before: Manifest, after: Manifest, interval: Span | None) -> None:
        self.folder, self.before, self.after, self.interval = folder, before, after, interval
        self.added = self.closed = self.kept = 0

    def finish(self, new: pa.Table) -> Written:
        by_top = _grouped(new, LEVELS[0])
        parts: list[Part] = []
        tops = self._tops(by_top)
        for top in tops:
            pieces = self._merged(top, by_top[top]() if top in by_top else new.slice(0, 0))
            parts += [self._part(piece) for piece in self._arranged(top, 0, pieces)]
        untouched = [part for part in self.before.parts if not any(_in(part, top) for top in tops)]
        manifest = Manifest(self.after.step_ms, self.after.covered, store.sorted_parts([*untouched, *parts]))
        if manifest != self.before:
            store.commit(self.folder, manifest)
        else:
            store.tidy(self.folder, manifest)
        opened = sum(part.open for part in manifest.parts)
        size = sum(part.bytes for part in manifest.parts)
        counts = {row["values"]: row["counts"] for row in pc.value_counts(new["reason"]).to_pylist()}
        unread, above = counts.get("unreadable", 0), counts.get("above-high-watermark", 0)
        return Written(self.added, self.closed, self.kept, opened, unread, above, len(manifest.parts), size, [])

    def _tops(self, new: Iterable[Span]) -> list[Span]:
        """The widest spans that something may change in."""
        wide = LEVELS[0]
        firsts = [part.from_ms // wide * wide for part in self.before.parts]
        if self.interval is not None:
            begin, end = self.interval
            ends = [part.to_ms for part in self.before.parts]
            firsts = [first for first, behind in zip(firsts, ends, strict=True) if first < end and behind > begin]
        return sorted({*new, *((first, first + wide) for first in firsts)})

    def _merged(self, top: Span, new: pa.Table) -> list[_Piece]:
        """What lies in `top`, and the new rows where they belong."""
        pieces = [_Piece((p.from_ms, p.to_ms), p.rows, p) for p in self.before.parts if _in(p, top)]
        times = ints(new, "timestamp")
        left = np.ones(len(times), np.bool_)
        for piece in pieces:
            inside = _between(times, piece.span)
            left &= ~inside
            if inside.any():
                self._merge(piece, new.filter(pa.array(inside)))
        rest = new if left.all() else new.filter(pa.array(left))
        self._allowed(ints(rest, "timestamp"))
        self.added += rest.num_rows
        if not pieces and rest.num_rows:
            return [_Piece(top, rest.num_rows, table=rest)]
        for hour, some in _grouped(rest, HOUR_MS).items():
            rows = some()
            pieces.append(_Piece(hour, rows.num_rows, table=rows))
        return sorted(pieces, key=lambda piece: piece.span)

    def _merge(self, piece: _Piece, new: pa.Table) -> None:
        old = self._rows(piece)
        rows = together([old, new])
        by, same = order(rows)
        worth = standing(rows)[by]
        better = same & (worth[1:] > worth[:-1])
        drop = np.zeros(len(by), np.bool_)
        drop[:-1] |= better
        drop[1:] |= same & ~better
        alone = (by >= old.num_rows) & ~np.concatenate(([False], same))
        self._allowed(ints(rows, "timestamp")[by[alone]])
        self.added += int(alone.sum())
        self.closed += int((better & (worth[1:] == CLOSED)).sum())
        self.kept += int((same & ~better).sum())
        if better.any() or alone.any():
            piece.table, piece.part = rows.take(by[~drop]), None
            piece.rows = piece.table.num_rows

    def _allowed(self, times: Ints) -> None:
        if self.interval is not None and not _between(times, self.interval).all():
            raise BadInput("a cell outside of the interval that was not open", path=self.folder)

    def _arranged(self, span: Span, level: int, pieces: Sequence[_Piece]) -> Iterator[_Piece]:
        inside = [piece for piece in pieces if span[0] <= piece.span[0] and piece.span[1] <= span[1]]
        rows = sum(piece.rows for piece in inside)
        if not rows:
            return
        if level == len(LEVELS) - 1 or (rows <= MOST_ROWS and self.after.covers(span)):
            yield inside[0] if inside[0].span == span else self._joined(span, inside)
            return
        narrow = LEVELS[level + 1]
        if inside[0].span == span:
            inside = self._split(inside[0], narrow)
        for begin in sorted({piece.span[0] // narrow * narrow for piece in inside}):
            yield from self._arranged((begin, begin + narrow), level + 1, inside)

    def _joined(self, span: Span, pieces: Sequence[_Piece]) -> _Piece:
        rows = together(self._rows(piece) for piece in pieces)
        by, _ = order(rows)
        return _Piece(span, rows.num_rows, table=taken(rows, by))

    def _split(self, piece: _Piece, width: int) -> list[_Piece]:
        found = []
        for span, some in _grouped(self._rows(piece), width).items():
            rows = some()
            found.append(_Piece(span, rows.num_rows, table=rows))
        return found

    def _rows(self, piece: _Piece) -> pa.Table:
        if piece.table is not None:
            return piece.table
        assert piece.part is not None
        return read_part(self.folder, piece.part, self.before.step_ms)

    def _part(self, piece: _Piece) -> Part:
        if piece.part is not None:
            return piece.part
        assert piece.table is not None
        part = write_part(self.folder, piece.span, piece.table, self.after.step_ms)
        piece.table = None
        return part


def _grouped(rows: pa.Table, width: int) -> dict[Span, Callable[[], pa.Table]]:
    """What takes the rows of each span of that width that has some, in their order; one pass for all spans."""
    numbers = ints(rows, "timestamp") // width
    if not len(numbers):
        return {}
    by = np.argsort(numbers, kind="stable")
    edges = [0, *(np.flatnonzero(np.diff(numbers[by])) + 1).tolist(), len(by)]
    firsts = (numbers[by[edges[:-1]]] * width).tolist()
    if len(firsts) == 1:
        return {(firsts[0], firsts[0] + width): lambda: rows}
    return {
        (first, first + width): partial(rows.take, pa.array(by[begin:end]))
        for first, (begin, end) in zip(firsts, pairwise(edges), strict=True)
    }


def _between(times: Ints, span: Span) -> NDArray[np.bool_]:
    return np.asarray((times >= span[0]) & (times < span[1]))


def _in(part: Part, span: Span) -> bool:
    return span[0] <= part.from_ms and part.to_ms <= span[1]
