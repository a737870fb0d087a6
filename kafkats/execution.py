"""Executors: where the units of an operation are worked on.

An operation cuts its work into units (a segment, a partition directory) and a function that does
one. An executor calls the function for each unit and returns the rows of all of them as one table,
in the order of the units:

    LocalExecutor                     in this process, or in worker processes on this machine
    pyspark_kafkats.SparkExecutor     in the tasks of a Spark application

Workers are spawned, not forked: a forked child would inherit the locks and threads of Arrow and
numba. A worker that ends before its unit is done raises WorkerLost, which names the unit. Workers
never outlive this process.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from multiprocessing import connection, resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from kafkats import paths
from kafkats.compression.limit import allow, allowed
from kafkats.errors import KafkatsError, WorkerLost

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

    import pyarrow as pa

U = TypeVar("U")

SMALL_BYTES: Final = 64 * 1024**2
"""Less work than this is done in one process: starting a worker takes about as long."""
WORKER_BYTES: Final = 256 * 1024**2
"""Bytes per worker where the number of workers is not given: fewer take less time than its start.
"""
UNIT_COST: Final = 64 * 1024
"""Bytes that could be read in the time it takes to open one unit's files."""
_CHUNK_BYTES: Final = (4 * 1024**2, 256 * 1024**2)
_CHUNK_UNITS: Final = 500
"""Rows of so many units become one table: a batch of one row takes 80 kB, a row in a table less
than one.
"""
_GRACE_SECONDS: Final = 10.0
"""How long a worker that is told to stop may take to clear what it had staged."""

Display = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
"""Shows a stage of so many bytes; what it yields is called with the bytes of each unit that is
done.
"""


class Executor(Protocol):
    """Runs the units of one stage after another."""

    def map(
        self,
        stage: str,
        units: Sequence[U],
        do: Callable[[U], pa.RecordBatch],
        schema: pa.Schema,
        *,
        size: Callable[[U], int],
    ) -> pa.Table:
        """The rows that `do` returns for each unit, in the order of `units`. `size` is a unit's
        bytes, about.

        `units` and `do` are pickled where they are worked on elsewhere. Raises what `do` raises,
        for the first such unit.
        """


_last_attempt: ContextVar[bool] = ContextVar("last_attempt", default=True)


def is_last_attempt() -> bool:
    """Whether the executor will not try the unit again that is being worked on."""
    return _last_attempt.get()


@contextmanager
def attempt(*, last: bool) -> Generator[None]:
    """For executors: what `is_last_attempt` says meanwhile."""
    token = _last_attempt.set(last)
    try:
        yield
    finally:
        _last_attempt.reset(token)


@contextmanager
def _no_display(_stage: str, _total: int) -> Generator[Callable[[int], None]]:
    yield lambda _bytes: None


class LocalExecutor:
    """Runs units on this machine, in up to `jobs` worker processes.

    If not given, as many as processors, but no more than one per WORKER_BYTES of work.

    Work of less than `SMALL_BYTES` and all work with one job is done in this process. Workers are
    kept from stage to stage until `close`. The rows do not depend on `jobs`.
    """

    def __init__(self, jobs: int | None = None, *, display: Display = _no_display) -> None:
        self.jobs = jobs or len(os.sched_getaffinity(0))
        self._given = jobs is not None
        self._display = display
        self._workers: list[_Worker] = []

    def __enter__(self) -> LocalExecutor:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers."""
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.stop()
        for worker in workers:
            worker.join()

    def map(
        self,
        stage: str,
        units: Sequence[U],
        do: Callable[[U], pa.RecordBatch],
        schema: pa.Schema,
        *,
        size: Callable[[U], int],
    ) -> pa.Table:
        """As `Executor.map`. Raises WorkerLost for a worker that was killed, and where memory ran
        out.
        """
        import pyarrow as pa

        sizes = [size(unit) for unit in units]
        with self._display(stage, sum(sizes)) as advance:
            jobs = self._workers_for(sizes)
            if jobs < 2:
                tables = _in_this_process(units, sizes, do, schema, advance)
            else:
                tables = self._in_workers(jobs, units, sizes, do, schema, advance)
            return pa.concat_tables([schema.empty_table(), *tables])

    def _workers_for(self, sizes: Sequence[int]) -> int:
        """Return how many workers to use; below 2 this process does the work."""
        work = sum(sizes) + UNIT_COST * len(sizes)
        jobs = self.jobs if self._given else min(self.jobs, work // WORKER_BYTES)
        return min(jobs, len(sizes)) if work >= SMALL_BYTES else 1

    def _in_workers(
        self,
        jobs: int,
        units: Sequence[Any],
        sizes: Sequence[int],
        do: Callable[[Any], pa.RecordBatch],
        schema: pa.Schema,
        advance: Callable[[int], None],
    ) -> Iterator[pa.Table]:
        chunks = _chunks(sizes, jobs)
        while len(self._workers) < min(jobs, len(chunks)):
            self._workers.append(_Worker())
        try:
            return iter(_Stage(units, sizes, do, schema, advance, chunks).run(self._workers))
        except BaseException:  # also Ctrl-C: what was under way is not wanted any more
            self.close()
            raise


def _chunks(sizes: Sequence[int], jobs: int) -> list[range]:
    """Runs of neighbouring units, small enough to keep all workers busy to the end."""
    low, high = _CHUNK_BYTES
    target = min(max(sum(sizes) // (8 * jobs), low), high)
    chunks, start, held = [], 0, 0
    for n, size in enumerate(sizes):
        if n > start and (held + size + UNIT_COST > target or n - start == _CHUNK_UNITS):
            chunks.append(range(start, n))
            start, held = n, 0
        held += size + UNIT_COST
    return [*chunks, range(start, len(sizes))]


def _in_this_process(
    units: Sequence[Any],
    sizes: Sequence[int],
    do: Callable[[Any], pa.RecordBatch],
    schema: pa.Schema,
    advance: Callable[[int], None],
) -> Iterator[pa.Table]:
    for start in range(0, len(units), _CHUNK_UNITS):
        batches = []
        for unit, size in zip(
            units[start : start + _CHUNK_UNITS], sizes[start : start + _CHUNK_UNITS], strict=True
        ):
            batches.append(_rows_of(unit, do))
            advance(size)
        yield _table(batches, schema)


def _rows_of(unit: Any, do: Callable[[Any], pa.RecordBatch]) -> pa.RecordBatch:
    try:
        return do(unit)
    except MemoryError as e:
        raise WorkerLost("out of memory; fewer --jobs need less of it", path=path_of(unit)) from e


def _table(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
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
    return str(Path(log_dir, partition_dir, paths.segment_file(base_offset, paths.LOG)))


_PLACE: Final = ("log_dir", "partition_dir", "base_offset")


class _Work(NamedTuple):
    """One chunk of a stage, as a worker receives it."""

    units: Sequence[Any]
    do: Callable[[Any], pa.RecordBatch]
    schema: pa.Schema
    limit: int


class _Stage:
    """One stage in workers. The workers answer per unit that it is done, and per chunk with its
    rows or an error.
    """

    def __init__(
        self,
        units: Sequence[Any],
        sizes: Sequence[int],
        do: Callable[[Any], pa.RecordBatch],
        schema: pa.Schema,
        advance: Callable[[int], None],
        chunks: Sequence[range],
    ) -> None:
        self._units, self._sizes, self._do, self._schema, self._advance = (
            units,
            sizes,
            do,
            schema,
            advance,
        )
        self._chunks = chunks
        by_size = sorted(range(len(chunks)), key=lambda n: -sum(sizes[i] for i in chunks[n]))
        self._waiting = deque(by_size)
        self._tables: dict[int, pa.Table] = {}
        self._first_error: tuple[int, KafkatsError] = (len(units), KafkatsError(""))

    def run(self, workers: Iterable[_Worker]) -> list[pa.Table]:
        """The tables of all chunks, in order. Raises the error of the first unit that has one,
        whoever was faster.
        """
        busy: dict[connection.Connection, tuple[_Worker, int, int]] = {}
        for worker in workers:
            self._give(worker, busy)
        while busy:
            for ready in connection.wait(list(busy)):
                assert isinstance(ready, connection.Connection)
                worker, chunk, done = busy.pop(ready)
                unit = (
                    self._chunks[chunk][done]
                    if done < len(self._chunks[chunk])
                    else self._chunks[chunk][-1]
                )
                answer = worker.receive(self._units[unit])
                if answer is None:
                    self._advance(self._sizes[unit])
                    busy[ready] = worker, chunk, done + 1
                    continue
                self._take(answer, chunk, unit)
                self._give(worker, busy)
        if self._first_error[0] < len(self._units):
            raise self._first_error[1]
        return [self._tables[n] for n in range(len(self._chunks))]

    def _give(
        self, worker: _Worker, busy: dict[connection.Connection, tuple[_Worker, int, int]]
    ) -> None:
        while self._waiting:
            chunk = self._waiting.popleft()
            which = self._chunks[chunk]
            if (
                which.start > self._first_error[0]
            ):  # an earlier unit has failed: the rows are not wanted any more
                continue
            units = self._units[which.start : which.stop]
            worker.send(_Work(units, self._do, self._schema, allowed()), units[0])
            busy[worker.pipe] = worker, chunk, 0
            return

    def _take(self, answer: pa.Table | BaseException, chunk: int, unit: int) -> None:
        if not isinstance(answer, BaseException):
            self._tables[chunk] = answer
        elif not isinstance(answer, KafkatsError):
            raise answer
        elif unit < self._first_error[0]:
            self._first_error = unit, answer


class _Worker:
    """A process that works on one chunk at a time."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process: SpawnProcess = context.Process(target=_serve, args=(theirs,), daemon=True)
        resource_tracker.ensure_running()  # starting it would unblock the signal
        # Ctrl-C reaches every process of a terminal. Only this one is to act on it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()

    def send(self, work: _Work, unit: object) -> None:
        try:
            self.pipe.send(work)
        except OSError:
            raise self._lost(unit) from None

    def receive(self, unit: object) -> pa.Table | BaseException | None:
        """None when `unit` is done. Raises WorkerLost where the process has ended instead."""
        try:
            answer: pa.Table | BaseException | None = self.pipe.recv()
        except (EOFError, OSError):
            raise self._lost(unit) from None
        return answer

    def _lost(self, unit: object) -> WorkerLost:
        self._process.join(_GRACE_SECONDS)
        code = self._process.exitcode
        how = (
            f"ended with exit code {code}"
            if code is None or code >= 0
            else f"was killed by {_signal(-code)}"
        )
        why = " (out of memory?); fewer --jobs need less of it" if code == -signal.SIGKILL else ""
        return WorkerLost(f"the worker process {how}{why}", path=path_of(unit))

    def stop(self) -> None:
        self.pipe.close()  # an idle worker ends by itself
        self._process.terminate()

    def join(self) -> None:
        self._process.join(_GRACE_SECONDS)
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join()


def _signal(number: int) -> str:
    with suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"


def _serve(pipe: connection.Connection) -> None:
    """The worker's life: chunks come, rows go, until the pipe closes."""
    # Leave by an exception, so that what was staged is cleared.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    threading.Thread(target=_end_with_the_parent, daemon=True, name="watch the parent").start()
    with suppress(EOFError, OSError):
        while True:
            work: _Work = pipe.recv()
            allow(work.limit)
            pipe.send(_answer(work, pipe))


def _end_with_the_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)  # as if killed together with it: a second apply may have begun


def _answer(work: _Work, pipe: connection.Connection) -> pa.Table | BaseException:
    batches = []
    try:
        for unit in work.units:
            batches.append(_rows_of(unit, work.do))
            pipe.send(None)
        return _table(batches, work.schema)
    except KafkatsError as e:
        return e
    except Exception as e:  # a mistake of ours: show where
        e.add_note("in a worker process:\n" + "".join(traceback.format_exception(e)))
        return e
