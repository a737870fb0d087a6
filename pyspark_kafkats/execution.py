"""An executor on Spark: units are worked on in Python tasks of one application.

One task per bin of units of about equal bytes. The task reads and writes the files itself, in
Python. Only the pickled units pass through the JVM on the way out, and one Arrow stream of rows per
bin on the way back. Spark runs a lost task again; operations allow that.
"""

from __future__ import annotations

import heapq
import pickle  # ruff: ignore[suspicious-pickle-import] - from our own tasks only
import re
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, TypeAlias

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import RDD, Accumulator, TaskContext
from pyspark.sql import SparkSession

import kafkats
from kafkats.clock import every
from kafkats.compression.limit import allow, allowed
from kafkats.counts import counted
from kafkats.errors import KafkatsError, UsageError
from kafkats.execution.executor import UNIT_COST, Executor, U, Work, attempt, log_dirs_of
from kafkats.logdir.volume import Volume, check_volume, volumes_at
from kafkats.plans.listed import check_listed
from pyspark_kafkats.modules import keep_modules

Progress: TypeAlias = dict[str, str | int | float | None]

ATTEMPTS: Final = "kafkats.attempts"
"""Local property: how often Spark tries a task."""
BIN_BYTES: Final = (16 * 1024**2, 1024**3)
"""A bin's least size hides the start of its task. Its greatest size keeps progress visible."""
BIN_UNITS: Final = 2000
PROGRESS_SECONDS: Final = 2.0


class SparkExecutor(Executor):
    """Runs units in the tasks of a Spark application (kafkats.execution.Executor).

    `progress` is called every PROGRESS_SECONDS of a stage and at its end. Its argument holds the
    stage, done and total units and bytes, seconds, bytes per second, seconds left and failed tasks.
    `rates` has the last of them per stage.
    """

    def __init__(
        self, spark: SparkSession, progress: Callable[[Progress], None] = lambda _: None
    ) -> None:
        self.spark = spark
        self.rates: dict[str, Progress] = {}
        self._progress = progress

    def run(self, stage: str, work: Work[U]) -> pa.Table:
        """Run a stage (Executor.run). Raises the first KafkatsError that no retry could help."""
        units, sizes, do, schema, *_ = work
        if not units:
            return schema.empty_table()
        sc = self.spark.sparkContext
        bins = pack(sizes, slots=sc.defaultParallelism)
        done, done_bytes = sc.accumulator(0), sc.accumulator(0)
        attempts = attempts_of(
            sc.master or "local", sc.getConf().get("spark.task.maxFailures") or "4"
        )
        sc.setLocalProperty(ATTEMPTS, str(attempts))
        version, limit = kafkats.__version__, allowed()
        listed = volumes_at(log_dir for unit in units for log_dir in log_dirs_of(unit))

        def task(packed_bins: Iterable[bytes]) -> Iterator[bytes]:
            for packed in packed_bins:
                last = _last_attempt()
                try:
                    allow(limit)
                    with attempt(last=last):
                        _check_version(version)
                        yield _run_bin(packed, do, schema, listed, done, done_bytes)
                except KafkatsError as e:
                    if e.retryable and not last:
                        raise
                    yield pickle.dumps(e)

        packed_bins = [pickle.dumps([(units[i], sizes[i]) for i in chosen]) for chosen in bins]
        sc.setJobDescription(f"{stage}: {counted(len(units), 'unit')}, {sum(sizes)} bytes")
        with self._watched(stage, len(units), sum(sizes), lambda: (done.value, done_bytes.value)):
            answers = _collected(sc.parallelize(packed_bins, len(packed_bins)).mapPartitions(task))
        batches: dict[int, pa.RecordBatch] = {}
        for chosen, answer in zip(bins, answers, strict=True):
            batches.update(zip(chosen, _batches(answer), strict=True))
        ordered = [batches[i] for i in range(len(units))]
        return pa.Table.from_batches(ordered).combine_chunks().cast(schema)

    @contextmanager
    def _watched(
        self, stage: str, units: int, total: int, done: Callable[[], tuple[int, int]]
    ) -> Generator[None, None, None]:
        """Report the progress of the stage every PROGRESS_SECONDS and once at its end."""
        tracker = self.spark.sparkContext.statusTracker()
        began, failed = time.monotonic(), [0]

        def report(*, last: bool = False) -> None:
            for number in tracker.getActiveStageIds():
                if info := tracker.getStageInfo(number):
                    failed[0] = max(failed[0], info.numFailedTasks)
            seconds = time.monotonic() - began
            # A repeated task counts twice until the stage ends.
            now_units, now_bytes = (
                (units, total)
                if last
                else (min(n, of) for n, of in zip(done(), (units, total), strict=True))
            )
            rate = now_bytes / seconds if seconds > 0 else 0.0
            self.rates[stage] = {
                "stage": stage,
                "units": now_units,
                "of_units": units,
                "bytes": now_bytes,
                "of_bytes": total,
                "seconds": round(seconds, 1),
                "bytes_per_second": round(rate),
                "seconds_left": round((total - now_bytes) / rate) if rate else None,
                "failed_tasks": failed[0],
            }
            self._progress(self.rates[stage])

        with every(PROGRESS_SECONDS, report, "progress"):
            yield
        report(last=True)


def pack(sizes: Sequence[int], *, slots: int) -> list[list[int]]:
    """Return indexes into `sizes` in bins of about equal bytes, the heaviest bin first.

    There are enough bins to keep `slots` busy and to show progress. The largest units come first,
    each into the bin that is lightest so far.
    """
    costs = [size + UNIT_COST for size in sizes]
    low, high = BIN_BYTES
    target = min(max(sum(costs) // (4 * slots), low), high)
    count = max(-(-sum(costs) // target), -(-len(costs) // BIN_UNITS), min(slots, len(costs)))
    heap: list[tuple[int, int, list[int]]] = [(0, n, []) for n in range(min(count, len(costs)))]
    for i in sorted(range(len(costs)), key=lambda i: (-costs[i], i)):
        cost, n, chosen = heap[0]
        chosen.append(i)
        heapq.heapreplace(heap, (cost + costs[i], n, chosen))
    return [chosen for _, _, chosen in sorted(heap, key=lambda one: (-one[0], one[1]))]


def attempts_of(master: str, max_failures: str) -> int:
    """Return how often Spark tries a task: in local mode once, unless the master says more."""
    local = re.fullmatch(r"local\[[^,\]]*(?:,\s*(\d+))?\]|local", master)
    return int(local[1] or 1) if local else int(max_failures)


def _last_attempt() -> bool:
    context = TaskContext.get()
    return context is None or context.attemptNumber() + 1 >= int(
        context.getLocalProperty(ATTEMPTS) or 1
    )


def _collected(tasks: RDD[bytes]) -> list[bytes]:
    """Return the answers of all tasks. Raises UsageError if Spark does not let them through."""
    try:
        return tasks.collect()
    except Py4JJavaError as e:
        if _TOO_LARGE not in str(e):
            raise
        raise UsageError(
            f"the answers of the tasks take more than {_TOO_LARGE} (1g if it is not set): submit"
            f" the job with more, as --conf {_TOO_LARGE}=4g, or name fewer log directories"
        ) from e


_TOO_LARGE: Final = "spark.driver.maxResultSize"


def _check_version(driver: str) -> None:
    if kafkats.__version__ != driver:
        raise UsageError(f"this worker has kafkats {kafkats.__version__}, the driver {driver}")


def _run_bin(
    packed: bytes,
    do: Callable[[U], pa.RecordBatch],
    schema: pa.Schema,
    listed: Mapping[str, Volume],
    done: Accumulator[int],
    done_bytes: Accumulator[int],
) -> bytes:
    """Return the rows of each unit, as an Arrow stream.

    Raises Refused before anything is opened or locked where a path is another volume than the one
    that the driver has `listed`, or its logs are others.
    """
    units = pickle.loads(packed)  # ruff: ignore[suspicious-pickle-usage]
    for log_dir in dict.fromkeys(place for unit, _ in units for place in log_dirs_of(unit)):
        check_volume(log_dir, listed)
    check_listed(unit for unit, _ in units)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for unit, size in units:
            writer.write_batch(do(unit))
            done.add(1)
            done_bytes.add(size)
    keep_modules()
    packed_rows: bytes = sink.getvalue().to_pybytes()
    return packed_rows


def _batches(answer: bytes) -> list[pa.RecordBatch]:
    """One batch per unit. Raises the error that a task gave back instead."""
    if answer[:1] == b"\x80":  # a pickle; an Arrow stream begins with 0xff
        raise pickle.loads(answer)  # ruff: ignore[suspicious-pickle-usage]
    return list(pa.ipc.open_stream(answer))
