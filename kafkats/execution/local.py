"""The executor of this machine: this thread, threads or worker processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from kafkats.errors import KafkatsError
from kafkats.execution.executor import (
    CHUNK_UNITS,
    FLUSHING_THREADS,
    UNIT_COST,
    Display,
    Executor,
    U,
    Work,
    rows_of,
    table_of,
)
from kafkats.execution.processors import memory_bytes, processors

if TYPE_CHECKING:
    from concurrent.futures import Future

    import pyarrow as pa

    from kafkats.execution.workers import Worker

SMALL_BYTES: Final = 64 * 1024**2
"""Less work than this is done in one process: starting a worker takes about as long."""
WORKER_BYTES: Final = 512 * 1024**2
"""Bytes per worker where the number of workers is not given: fewer take less time than its start.
"""
THREAD_BYTES: Final = 16 * 1024**2
"""Average bytes of a unit from which on threads are used: Python's part of it is small then."""
WORKER_MEMORY: Final = 300 * 1024**2
"""The bytes of memory that a worker process may take."""
_CHUNK_BYTES: Final = (4 * 1024**2, 256 * 1024**2)


def _jobs() -> int:
    found, memory = processors(), memory_bytes()
    return found if memory is None else min(found, max(memory // WORKER_MEMORY, 1))


@contextmanager
def _no_display(_stage: str, _total: int) -> Generator[Callable[[int], None]]:
    yield lambda _bytes: None


class LocalExecutor(Executor):
    """Runs units on this machine, in up to `jobs` threads or worker processes.

    The default is one per processor, but not more than one process per WORKER_BYTES of work, and
    as many as have room under a limit of memory. Large units that leave the GIL alone get threads,
    others get processes. Work of less than `SMALL_BYTES` is done in this thread, or in
    `FLUSHING_THREADS` if it waits for the disk. All work with one given job is done in this thread.
    A process that acts as another user has no workers: that user could trace them, and they answer
    with pickles.
    Processes are kept from stage to stage until `close`. The rows do not depend on `jobs`.
    """

    def __init__(self, jobs: int | None = None, *, display: Display = _no_display) -> None:
        self.jobs = jobs or _jobs()
        self._given = jobs is not None
        self._display = display
        self._workers: list[Worker] = []

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

    def run(self, stage: str, work: Work[U]) -> pa.Table:
        """Run a stage (Executor.run). Raises WorkerLost if a worker was killed or out of memory."""
        import pyarrow as pa

        with self._display(stage, sum(work.sizes)) as advance:
            acts = os.geteuid() != os.getuid()
            threads = work.threads and (acts or _are_large(work.sizes))
            jobs = 1 if acts and not threads else self._workers_for(work.sizes, threads=threads)
            alone = len(work.units) == 1 or (self._given and self.jobs == 1)
            if jobs < 2 and work.flushes and not alone:
                tables = _in_threads(FLUSHING_THREADS, work, advance)
            elif jobs < 2:
                tables = _in_this_process(work, advance)
            elif threads:
                tables = _in_threads(jobs, work, advance)
            else:
                tables = iter(self._in_workers(jobs, work, advance))
            return pa.concat_tables([work.schema.empty_table(), *tables])

    def _workers_for(self, sizes: Sequence[int], *, threads: bool = False) -> int:
        """Return how many workers to use; below 2 this thread does the work."""
        work = sum(sizes) + UNIT_COST * len(sizes)
        free = self._given or threads
        jobs = self.jobs if free else min(self.jobs, work // WORKER_BYTES)
        return min(jobs, len(sizes)) if work >= SMALL_BYTES else 1

    def _in_workers(
        self, jobs: int, work: Work[U], advance: Callable[[int], None]
    ) -> list[pa.Table]:
        from kafkats.execution.workers import Stage, Worker

        chunks = _chunks(work.sizes, jobs)
        while len(self._workers) < min(jobs, len(chunks)):
            self._workers.append(Worker())
        try:
            return Stage(work, chunks, advance).run(self._workers)
        except BaseException:  # also Ctrl-C: nobody wants the rest of the work
            self.close()
            raise


def _chunks(sizes: Sequence[int], jobs: int) -> list[range]:
    """Return runs of neighbouring units, small enough to keep all workers busy to the end."""
    low, high = _CHUNK_BYTES
    target = min(max(sum(sizes) // (8 * jobs), low), high)
    chunks, start, held = [], 0, 0
    for n, size in enumerate(sizes):
        if n > start and (held + size + UNIT_COST > target or n - start == CHUNK_UNITS):
            chunks.append(range(start, n))
            start, held = n, 0
        held += size + UNIT_COST
    return [*chunks, range(start, len(sizes))]


def _are_large(sizes: Sequence[int]) -> bool:
    """Return whether units are large enough for threads; those of a directory's names are free."""
    return sum(sizes) >= THREAD_BYTES * sum(size > 0 for size in sizes)


def _in_threads(jobs: int, work: Work[U], advance: Callable[[int], None]) -> Iterator[pa.Table]:
    for start in range(0, len(work.units), CHUNK_UNITS):
        units = range(start, min(start + CHUNK_UNITS, len(work.units)))
        yield _some_in_threads(jobs, units, work, advance)


def _some_in_threads(
    threads: int, units: range, work: Work[U], advance: Callable[[int], None]
) -> pa.Table:
    """Return the rows of some units of a stage; `advance` gets the bytes of each finished one.

    Raises the error of the first unit that has one, also if a later one failed earlier.
    """
    from concurrent.futures import ThreadPoolExecutor

    largest_first = sorted(units, key=lambda number: -work.sizes[number])
    pool = ThreadPoolExecutor(threads, "unit")
    try:
        numbers = {
            pool.submit(rows_of, work.units[number], work.do): number for number in largest_first
        }
        batches = _collected(numbers, work, advance)
    finally:  # also Ctrl-C: nobody wants the rest of the work
        pool.shutdown(cancel_futures=True)
    return table_of([batches[number] for number in units], work.schema)


def _collected(
    numbers: dict[Future[pa.RecordBatch], int], work: Work[U], advance: Callable[[int], None]
) -> dict[int, pa.RecordBatch]:
    """Return the rows by the number of the unit, or raise the error of the first one."""
    from concurrent.futures import FIRST_COMPLETED, wait

    batches: dict[int, pa.RecordBatch] = {}
    failed: dict[int, KafkatsError] = {}
    waiting = set(numbers)
    while waiting:
        ended, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        for one in ended:
            number = numbers[one]
            try:
                batches[number] = one.result()
            except KafkatsError as e:
                failed[number] = e
            advance(work.sizes[number])
        if failed:  # nobody wants the rows of later units
            waiting -= {one for one in waiting if numbers[one] > min(failed) and one.cancel()}
    if failed:
        raise failed[min(failed)]
    return batches


def _in_this_process(work: Work[U], advance: Callable[[int], None]) -> Iterator[pa.Table]:
    for start in range(0, len(work.units), CHUNK_UNITS):
        batches = []
        for number in range(start, min(start + CHUNK_UNITS, len(work.units))):
            batches.append(rows_of(work.units[number], work.do))
            advance(work.sizes[number])
        yield table_of(batches, work.schema)
