"""One stage of work in threads of this process."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from kafkats.errors import KafkatsError
from kafkats.execution.executor import U, Work, rows_of, table_of

if TYPE_CHECKING:
    import pyarrow as pa


def in_threads(
    threads: int, units: range, work: Work[U], advance: Callable[[int], None]
) -> pa.Table:
    """Return the rows of some units of a stage; `advance` gets the bytes of each finished one.

    Raises the error of the first unit that has one, also if a later one failed earlier.
    """
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
