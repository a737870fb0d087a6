"""Define what every executor does, and name the unit of work that an error is about."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from kafkats import paths
from kafkats.counts import counted
from kafkats.errors import KafkatsError, WorkerLost, is_out_of_memory
from kafkats.text import Flag

if TYPE_CHECKING:
    import pyarrow as pa

U = TypeVar("U")

UNIT_COST: Final = 64 * 1024
"""Bytes that could be read in the time it takes to open one unit's files."""
CHUNK_UNITS: Final = 500
"""Rows of so many units become one table: a batch of one row takes 80 kB, a row in a table less
than one.
"""
FLUSHING_THREADS: Final = 8
"""Threads that wait for the disk at the same time."""

Display = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
"""Show a stage of so many bytes. It yields a function that gets the bytes of each finished unit."""


class Work(NamedTuple, Generic[U]):
    """One stage: the units with their approximate bytes, and the function that does one of them."""

    units: Sequence[U]
    sizes: Sequence[int]
    do: Callable[[U], pa.RecordBatch]
    schema: pa.Schema
    threads: bool = False
    """Whether `do` is mostly kernels and system calls, which run without the GIL.

    Threads then do large units as fast as processes, and need no start.
    """
    flushes: bool = False
    """Whether `do` mostly waits until the disk has flushed.

    A file system flushes for all that wait at the same time in one go.
    """


class Executor(ABC):
    """Runs the units of one stage after another."""

    def map(
        self,
        stage: str,
        units: Sequence[U],
        do: Callable[[U], pa.RecordBatch],
        schema: pa.Schema,
        *,
        size: Callable[[U], int],
        threads: bool = False,
        flushes: bool = False,
        least: Callable[[U], int] = lambda _unit: 0,
    ) -> pa.Table:
        """Return the rows that `do` returns for each unit, in the order of `units`.

        `size` returns the approximate bytes of a unit, `least` the number of rows that `do` returns
        for it at least; `threads` and `flushes` are those of Work. Other processes get `units` and
        `do` pickled. Raises what `do` raises, for the first such unit, and WorkerLost for fewer
        rows: what is missing could be a defect.
        """
        sizes = [size(unit) for unit in units]
        table = self.run(stage, Work(units, sizes, do, schema, threads, flushes))
        due = sum(map(least, units))
        if table.num_rows < due:
            raise WorkerLost(f"{stage}: {table.num_rows} of {counted(due, 'row')} came back")
        return table

    @abstractmethod
    def run(self, stage: str, work: Work[U]) -> pa.Table:
        """Return the rows of a stage, as `map`."""


_last_attempt: ContextVar[bool] = ContextVar("last_attempt", default=True)


def is_last_attempt() -> bool:
    """Return False if the executor will try the current unit again after an error."""
    return _last_attempt.get()


@contextmanager
def attempt(*, last: bool) -> Generator[None]:
    """Set what `is_last_attempt` returns meanwhile. Only executors call this."""
    token = _last_attempt.set(last)
    try:
        yield
    finally:
        _last_attempt.reset(token)


def rows_of(unit: U, do: Callable[[U], pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows of one unit. Raises WorkerLost if memory runs out."""
    try:
        return do(unit)
    except KafkatsError:
        raise
    except Exception as e:
        if not is_out_of_memory(e):
            raise
        raise WorkerLost(
            "out of memory; fewer ", Flag("--jobs"), " need less of it", path=path_of(unit)
        ) from e


def table_of(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """Return the rows of many units as one table of one chunk."""
    import pyarrow as pa

    return pa.Table.from_batches(batches, schema).combine_chunks()


def path_of(unit: object) -> str:
    """Return the path of a unit, for messages."""
    named = (
        unit if isinstance(unit, Mapping) else {name: getattr(unit, name, None) for name in _PLACE}
    )
    log_dir, partition_dir, base_offset = map(named.get, _PLACE)
    if not isinstance(log_dir, str) or not isinstance(partition_dir, str):
        if isinstance(unit, tuple | list) and unit:
            return (
                "/".join(unit) if all(isinstance(part, str) for part in unit) else path_of(unit[0])
            )
        return repr(unit)[:200]
    if not isinstance(base_offset, int) or base_offset < 0:
        return str(Path(log_dir, partition_dir))
    return str(Path(log_dir, partition_dir, paths.segment_file(base_offset)))


_PLACE: Final = ("log_dir", "partition_dir", "base_offset")


def log_dirs_of(unit: object) -> tuple[str, ...]:
    """Return the log directories whose files a unit is about, () if it names none.

    A unit is an object with `log_dir`, `root` or `log`, a row with `log_dir`, the names of a log
    directory and a partition directory, or several of these: tasks get units in chunks.
    """
    if place := _log_dir(unit):
        return (place,)
    if not isinstance(unit, tuple | list) or not unit:
        return ()
    first = unit[0]
    if isinstance(first, str):
        return (first,) if Path(first).is_absolute() else ()
    alike = (part for part in unit if type(part) is type(first))
    return tuple(dict.fromkeys(log_dir for part in alike for log_dir in log_dirs_of(part)))


def _log_dir(unit: object) -> str:
    if isinstance(unit, Mapping):
        found = unit.get("log_dir")
    elif hasattr(unit, "log_dir"):
        found = unit.log_dir
    elif hasattr(unit, "root"):
        found = str(getattr(unit.root, "path", ""))
    elif hasattr(unit, "log"):
        found = str(Path(str(unit.log)).parent.parent)
    else:
        found = ""
    return found if isinstance(found, str) else ""


def pace(done: int, total: int, seconds: float) -> dict[str, int | float | None]:
    """Return the seconds, bytes per second, and seconds left of a stage; None where not known."""
    rate = done / seconds if seconds > 0 else 0.0
    return {
        "seconds": round(seconds, 1),
        "bytes_per_second": round(rate),
        "seconds_left": round((total - done) / rate) if rate and total >= done else None,
    }
