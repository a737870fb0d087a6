"""Keep the rows of an apply of a plan in parts on the disk: in a file during the apply, then in its
report.

No more than one table of rows is in memory. Tables come in the order of the plan, so the report of
an earlier attempt has the same rows in the same places.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from kafkats.errors import CorruptPlan, KafkatsError, StorageFailed, storage
from kafkats.plans.facts import ACTIONS, opened, write_tables
from kafkats.plans.files import write_json

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetWriter

NAME: Final = "attempt.parquet"
_FILE: Final = ("log_dir", "partition_dir", "file")


class Attempt:
    """The rows of facts.ACTIONS of one apply. Iterating over it yields the tables that were added.

    An error while they are written does not stop the apply: `keep` raises it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / NAME
        self._writer: ParquetWriter | None = None
        self._error: KafkatsError | None = None

    def add(self, actions: pa.Table) -> None:
        """Add rows."""
        if self._error is not None:
            return
        try:
            with storage(self._path, "writing the report"):
                if self._writer is None:
                    import pyarrow.parquet as pq  # undo starts without it

                    self._writer = pq.ParquetWriter(self._path, ACTIONS, compression="zstd")
                self._writer.write_table(actions.cast(ACTIONS))
        except KafkatsError as e:
            self._error = e

    def end(self) -> None:
        """All rows were added."""
        writer, self._writer = self._writer, None
        if writer is None:
            return
        try:
            with storage(self._path, "writing the report"):
                writer.close()
        except KafkatsError as e:
            self._error = self._error or e

    def __iter__(self) -> Iterator[pa.Table]:
        if self._error is not None or not self._path.exists():
            return
        yield from _tables(self._path)

    def keep(self, summary: Mapping[str, object]) -> None:
        """Write the report of the run. A repeated apply adds to the results of earlier ones and
        keeps them.

        Raises StorageFailed.
        """
        if self._error is not None:
            raise self._error
        report = self._folder / "report.parquet"
        write_tables(report, chain((ACTIONS.empty_table(),), _with_earlier(self, report)))
        write_json(self._folder / "report.json", summary)


@contextmanager
def attempt_in(folder: Path) -> Generator[Attempt]:
    """Yield an attempt whose rows are in the run's folder meanwhile."""
    attempt = Attempt(folder)
    try:
        yield attempt
    finally:
        attempt.end()
        (folder / NAME).unlink(missing_ok=True)


def _tables(path: Path) -> Iterator[pa.Table]:
    """Yield the tables of a file as they were written. Raises CorruptPlan, StorageFailed."""
    with opened(path) as source:
        for number in range(source.num_row_groups):
            yield source.read_row_group(number).select(ACTIONS.names).cast(ACTIONS)


def _with_earlier(attempt: Attempt, report: Path) -> Iterator[pa.Table]:
    """Yield the tables of an attempt, with what earlier ones have done in the place of its rows.

    A report that is missing or damaged, or has other rows, changes nothing: it is for people, and
    the journals record what was done.
    """
    earlier = _until_damaged(report) if report.exists() else iter(())
    for now in attempt:
        if not now.num_rows:  # of a piece in which all is blocked
            continue
        before = next((table for table in earlier if table.num_rows), None)
        yield now if before is None or not _same_files(now, before) else _merged(now, before)


def _until_damaged(path: Path) -> Iterator[pa.Table]:
    try:
        yield from _tables(path)
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
