"""The report of a run: rows of facts.ACTIONS. A repeated apply adds to the results of earlier ones
and keeps them.

The report is for people: the journals record what was done. The rows of a plan in parts are in a
file without a name until its apply ends, so no more than one table of them is in memory.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from kafkats.errors import CorruptPlan, KafkatsError, StorageFailed, exists, storage
from kafkats.plans.facts import ACTIONS, opened, write_table, write_tables
from kafkats.plans.files import write_json
from kafkats.plans.plan import ORDER
from kafkats.plans.rows import ActionRow
from kafkats.plans.run import read_actions

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile, ParquetWriter

REPORT: Final = "report.parquet"
_FILE: Final = ("log_dir", "partition_dir", "file")


class Attempt:
    """The rows of facts.ACTIONS of one apply, in the order of the plan. Iterating over it yields
    the tables that were added.

    An error while they are written does not stop the apply: `keep` raises it.
    """

    def __init__(self, folder: Path, file: IO[bytes]) -> None:
        self._folder, self._file = folder, file
        self._writer: ParquetWriter | None = None
        self._error: KafkatsError | None = None

    def add(self, actions: pa.Table) -> None:
        """Add rows."""
        import pyarrow.parquet as pq  # undo starts without it

        if self._error is not None:
            return
        try:
            with storage(self._folder, "writing the report"):
                if self._writer is None:
                    self._writer = pq.ParquetWriter(self._file, ACTIONS, compression="zstd")
                self._writer.write_table(actions.cast(ACTIONS))
        except KafkatsError as e:
            self._error = e

    def end(self) -> None:
        """All rows were added."""
        if self._writer is None:
            return
        try:
            with storage(self._folder, "writing the report"):
                self._writer.close()
        except KafkatsError as e:
            self._error = self._error or e

    def __iter__(self) -> Iterator[pa.Table]:
        import pyarrow.parquet as pq

        if self._error is None and self._writer is not None:
            with storage(self._folder, "reading the rows of this apply"):
                yield from _row_groups(pq.ParquetFile(self._file))

    def keep(self, summary: Mapping[str, object]) -> None:
        """Write the report of the run. Raises StorageFailed."""
        if self._error is not None:
            raise self._error
        report = self._folder / REPORT
        with _alone(self._folder):
            write_tables(report, chain((ACTIONS.empty_table(),), _with_earlier(self, report)))
            write_json(self._folder / "report.json", summary)


@contextmanager
def attempt_in(folder: Path) -> Generator[Attempt]:
    """Yield an attempt whose rows are on the disk of the run's folder meanwhile."""
    with ExitStack() as held:
        with storage(folder, "writing the report"):
            file = held.enter_context(tempfile.TemporaryFile(dir=folder))
        attempt = Attempt(folder, file)
        held.callback(attempt.end)
        yield attempt


def finish_run(folder: Path, actions: pa.Table, summary: Mapping[str, object]) -> None:
    """Write the report of a run whose rows are in memory. Raises StorageFailed."""
    rows: list[ActionRow] = actions.cast(ACTIONS).to_pylist()
    with _alone(folder):
        earlier = {_file(row): row for row in _earlier(folder)}
        done = {file: row for file, row in earlier.items() if row["outcome"] == "done"}
        rows = [row if row["outcome"] == "done" else done.get(_file(row), row) for row in rows]
        reached = set(map(_file, rows))  # an apply may end before its last partition
        rows += [row for file, row in earlier.items() if file not in reached]
        write_table(folder / REPORT, pa.Table.from_pylist(rows, schema=ACTIONS).sort_by(ORDER))
        write_json(folder / "report.json", summary)


@contextmanager
def _alone(folder: Path) -> Generator[None]:
    """Wait for another apply of the same run that writes its report."""
    with ExitStack() as held:
        with storage(folder, "writing the report"):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            held.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _row_groups(source: ParquetFile) -> Iterator[pa.Table]:
    """Yield the tables of a file as they were written."""
    for number in range(source.num_row_groups):
        yield source.read_row_group(number).select(ACTIONS.names).cast(ACTIONS)


def _with_earlier(attempt: Iterable[pa.Table], report: Path) -> Iterator[pa.Table]:
    """Yield the tables of an attempt, with what earlier ones have done in the place of its rows.

    Tables that this attempt has not reached are kept. A report that is missing or damaged, or has
    other rows, changes nothing.
    """
    there = exists(report, "looking for an earlier report")
    earlier = (table for table in (_until_damaged(report) if there else ()) if table.num_rows)
    for now in attempt:
        if not now.num_rows:  # of a piece in which all is blocked
            continue
        before = next(earlier, None)
        yield now if before is None or not _same_files(now, before) else _merged(now, before)
    yield from earlier


def _until_damaged(path: Path) -> Iterator[pa.Table]:
    try:
        with opened(path) as source:
            yield from _row_groups(source)
    except (CorruptPlan, StorageFailed):
        return


def _same_files(one: pa.Table, other: pa.Table) -> bool:
    return all(one[name].equals(other[name]) for name in _FILE)


def _merged(now: pa.Table, before: pa.Table) -> pa.Table:
    was_done = pc.equal(before["outcome"], "done")
    kept = pc.and_(was_done, pc.not_equal(now["outcome"], "done"))
    numbers = pa.array(range(now.num_rows), pa.int64())
    rows = pc.if_else(kept, pc.add(numbers, now.num_rows), numbers)
    return pa.concat_tables([now, before]).take(rows)


def _earlier(folder: Path) -> list[ActionRow]:
    """Return the rows of the existing report, none of a missing or damaged one."""
    try:
        rows: list[ActionRow] = read_actions(folder).to_pylist()
    except (CorruptPlan, StorageFailed):
        return []
    return rows


def _file(row: ActionRow) -> tuple[str, str, str]:
    return row["log_dir"], row["partition_dir"], row["file"]
