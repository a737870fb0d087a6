"""Sorted rows of any number, processed in chunks: small runs in memory, others in a temporary file.

A run is a sequence of chunks: tables of TABLE sorted by topic, partition and timestamp, in
ascending order. Operations on runs hold one chunk of each run in memory, so the size of a table
does not matter.
"""

from __future__ import annotations

import itertools
import os
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkats.errors import storage
from kafkats.tables.schema import TABLE, Ints, ints, order, taken, together, word_codes

CHUNK_ROWS: Final = 1 << 15
MEMORY_ROWS: Final = 1 << 18
"""The most rows of a run in memory (17 MB). All runs together have at most four times this."""
MOST_SOURCES: Final = 24
"""The most sources of one merge, since each holds a chunk in memory."""

T = TypeVar("T")
Chunks = Iterator[pa.Table]


class Key(NamedTuple):
    """The sort key of rows."""

    topic: str
    partition: int
    timestamp: int


@dataclass(eq=False)
class Run:
    """Sorted rows. `chunks` may be called any number of times."""

    rows: int
    chunks: Callable[[], Chunks] = field(repr=False)


NOTHING: Final = Run(0, lambda: iter(()))


class Scratch:
    """Storage for runs that are too large for memory. `close` removes its files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._numbers = itertools.count()
        self._made: list[Path] = []
        self._held_rows = 0

    @property
    def full(self) -> bool:
        """Return whether memory holds as many rows as allowed."""
        return self._held_rows > 3 * MEMORY_ROWS

    def hold(self, rows: int, tables: Sequence[pa.Table], before: Sequence[Run] = ()) -> Run:
        """Return a run of the rows of runs in files, followed by those in memory.

        The rows in memory count as held until the run is garbage-collected.
        """
        count = sum(table.num_rows for table in tables)
        run = Run(rows, lambda: itertools.chain(*(one.chunks() for one in before), tables))
        self._held_rows += count
        weakref.finalize(run, self._release, count)
        return run

    def _release(self, rows: int) -> None:
        self._held_rows -= rows

    def keep(self, chunks: Iterable[pa.Table]) -> Run:
        """Return a run of all rows of the sorted `chunks`. Raises StorageFailed."""
        held: list[pa.Table] = []
        rows = 0
        waiting = iter(chunks)
        for chunk in waiting:
            if chunk.num_rows:
                held.append(chunk)
                rows += chunk.num_rows
            if rows > MEMORY_ROWS or (rows and self.full):
                return self._spilled(itertools.chain(held, waiting))
        return self.hold(rows, held)

    def split(self, chunks: Iterable[pa.Table], width: int) -> dict[tuple[int, int], Run]:
        """Return a run per span of this width that has rows, in order of time.

        It never holds many files open.
        """
        held: dict[int, list[pa.Table]] = defaultdict(list)
        aside: dict[int, list[Run]] = defaultdict(list)
        rows: Counter[int] = Counter()
        in_memory = 0
        for chunk in chunks:
            for number, some in _by_span(chunk, width):
                held[number].append(some)
                rows[number] += some.num_rows
            in_memory += chunk.num_rows
            if in_memory > (MEMORY_ROWS // 2 if self.full else MEMORY_ROWS):
                self._put_aside(held, aside)
                in_memory = 0
        return {
            (number * width, (number + 1) * width): self.hold(
                rows[number], held[number], aside[number]
            )
            for number in sorted(rows)
        }

    def _put_aside(self, held: dict[int, list[pa.Table]], aside: Mapping[int, list[Run]]) -> None:
        for number, tables in held.items():
            aside[number].append(self._spilled(iter([together(tables).combine_chunks()])))
        held.clear()

    def new_path(self) -> Path:
        """Return a file name that a table's `tidy` removes after a kill."""
        path = self.folder / f".cells-{os.getpid()}-{next(self._numbers)}.tmp"
        self._made.append(path)
        return path

    def _spilled(self, chunks: Iterator[pa.Table]) -> Run:
        path, rows = self.new_path(), 0
        with storage(path, "writing rows aside"), spill(path) as writer:
            while (chunk := next(chunks, None)) is not None:
                writer.write_table(chunk, CHUNK_ROWS)
                rows += chunk.num_rows
        return Run(rows, lambda: unspilled(path))

    def close(self) -> None:
        """Remove the files."""
        for path in self._made:
            with storage(path, "removing rows that were written aside"):
                path.unlink(missing_ok=True)


@contextmanager
def spill(path: Path) -> Generator[pa.RecordBatchWriter]:
    """Open a writer to a temporary file, an Arrow stream: every chunk has its own dictionaries."""
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with path.open("wb") as file, pa.ipc.new_stream(file, TABLE, options=options) as writer:
        yield writer


def unspilled(path: Path) -> Chunks:
    """Yield the chunks of a temporary file."""
    with storage(path, "reading rows that were written aside"), path.open("rb") as file:
        for batch in pa.ipc.open_stream(file):
            yield pa.Table.from_batches([batch])


def _by_span(chunk: pa.Table, width: int) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows of each span of this width, and the span's number."""
    numbers = ints(chunk, "timestamp") // width
    for number in np.unique(numbers).tolist():
        mine = numbers == number
        yield number, chunk if mine.all() else chunk.filter(pa.array(mine))


def in_lists(items: Iterable[T], size: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Yield the items in lists of at most this size together, or of one item."""
    held: list[T] = []
    count = 0
    for one in items:
        if held and count + size(one) > most:
            yield held
            held, count = [], 0
        held.append(one)
        count += size(one)
    if held:
        yield held


def merged(sources: Sequence[Run]) -> Iterator[list[pa.Table]]:
    """Merge runs in groups: each group holds, per source, all rows up to some key.

    So all rows of one cell are in one group. If every group is sorted, their sequence is sorted.
    """
    if len(sources) > MOST_SOURCES:
        raise ValueError(f"{len(sources)} sources: join some of them first")
    waiting = [source.chunks() for source in sources]
    held: list[pa.Table | None] = [next(one, None) for one in waiting]
    while any(table is not None for table in held):
        limit = min(_last(table) for table in held if table is not None)
        group = []
        for number, table in enumerate(held):
            if table is None:
                group.append(TABLE.empty_table())
                continue
            count = _up_to(table, limit)
            group.append(table.slice(0, count))
            held[number] = (
                table.slice(count) if count < table.num_rows else next(waiting[number], None)
            )
        yield group


def by_cell(rows: pa.Table) -> pa.Table:
    """Return the rows sorted."""
    return taken(rows, order(rows)[0])


def joined(
    sources: Sequence[Run], scratch: Scratch, sort: Callable[[pa.Table], pa.Table] = by_cell
) -> Run:
    """Return one run of all rows of runs without common cells. `sort` puts rows in order."""
    runs = list(sources)
    while len(runs) > MOST_SOURCES:
        some, runs = runs[:MOST_SOURCES], runs[MOST_SOURCES:]
        runs.append(joined(some, scratch, sort))
    if len(runs) == 1:
        return runs[0]
    return scratch.keep(sort(together(group)) for group in merged(runs))


def _last(table: pa.Table) -> Key:
    row = table.slice(table.num_rows - 1, 1)
    return Key(row["topic"][0].as_py(), row["partition"][0].as_py(), row["timestamp"][0].as_py())


def _up_to(table: pa.Table, limit: Key) -> int:
    """Return how many rows of a sorted table have a key of at most `limit`."""
    codes, topics = word_codes(table)
    below: NDArray[np.bool_] = np.array([topic < limit.topic for topic in topics] or [False])[codes]
    same: NDArray[np.bool_] = np.array([topic == limit.topic for topic in topics] or [False])[codes]
    numbers, times = ints(table, "partition"), ints(table, "timestamp")
    inside: Ints = (numbers < limit.partition) | (
        (numbers == limit.partition) & (times <= limit.timestamp)
    )
    return int((below | (same & inside)).sum())
