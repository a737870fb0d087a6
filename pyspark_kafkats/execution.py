"""An executor on Spark: units are worked on in Python tasks of one application.

One task per bin of units of about equal bytes. The task reads and writes the files itself, in
Python. Only the pickled units pass through the JVM on the way out, and one Arrow stream of rows per
bin on the way back. Spark runs a lost task again; operations allow that.
"""

from __future__ import annotations

import heapq
import pickle  # ruff: ignore[suspicious-pickle-import] - from our own tasks only
import re
import socket
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import RDD, Accumulator, TaskContext, cloudpickle
from pyspark.sql import SparkSession

import kafkats
from kafkats.clock import every
from kafkats.compression.limit import allow, allowed
from kafkats.counts import counted
from kafkats.errors import KafkatsError, OtherVolume, UsageError
from kafkats.execution.executor import (
    CHUNK_UNITS,
    UNIT_COST,
    Executor,
    U,
    Work,
    attempt,
    log_dirs_of,
    pace,
    table_of,
)
from kafkats.execution.garbage import collect_rarely
from kafkats.logdir.volume import Volume, check_volume, volumes_at
from kafkats.plans.listed import check_listed
from pyspark_kafkats.modules import keep_modules
from pyspark_kafkats.placing import (
    ANYWHERE,
    Offer,
    Place,
    Rounds,
    Seen,
    executor_hosts,
    placed,
)

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
        self._seen: Seen = {}

    def run(self, stage: str, work: Work[U]) -> pa.Table:
        """Run a stage (Executor.run). Raises the first KafkatsError that no retry could help, and
        OtherVolume if no host sees the log directory of a unit.

        Units whose task met another volume are offered again, on other hosts.
        """
        units, sizes, do, schema, *_ = work
        if not units:
            return schema.empty_table()
        sc = self.spark.sparkContext
        places = [log_dirs_of(unit) for unit in units]
        done, done_bytes = sc.accumulator(0), sc.accumulator(0)
        listed = volumes_at(log_dir for place in set(places) for log_dir in place)
        task = self._task(partial(run_bin, do, schema, listed, done, done_bytes))
        sc.setJobDescription(f"{stage}: {counted(len(units), 'unit')}, {sum(sizes)} bytes")
        tables: list[pa.Table] = []
        at: dict[int, range] = {}
        """The rows of each unit in the tables together."""
        count = 0
        rounds, left = Rounds(places, self._seen), list(range(len(units)))
        with self._watched(stage, len(units), sum(sizes), lambda: (done.value, done_bytes.value)):
            while left:
                offers = list(self._offers(rounds, left, sizes))
                bins = [
                    (
                        pickle.dumps([(units[i], sizes[i], places[i]) for i in offer.units]),
                        offer.host,
                    )
                    for offer in offers
                ]
                for offer, packed in zip(offers, self._collected(bins, task), strict=True):
                    answer = _answer_in(packed)
                    tables.append(pa.ipc.open_stream(answer.rows).read_all())
                    finished = [offer.units[number] for number, _ in answer.finished]
                    for unit, (_, rows) in zip(finished, answer.finished, strict=True):
                        at[unit] = range(count, count + rows)
                        count += rows
                    rounds.done(offer, finished)
                    rounds.refused(offer, answer.refusals)
                left = [i for i in left if i not in at]
                if left:
                    rounds.next(left, executor_hosts(sc))
        order = np.concatenate([np.arange(at[i].start, at[i].stop) for i in range(len(units))])
        return pa.concat_tables(tables).combine_chunks().take(pa.array(order)).cast(schema)

    def _offers(self, rounds: Rounds, left: Sequence[int], sizes: Sequence[int]) -> Iterator[Offer]:
        """Yield the units of each task; on hosts in turn where they are known."""
        for units, hosts in rounds.groups(left):
            slots = max(self.spark.sparkContext.defaultParallelism, len(hosts))
            among = cycle(hosts or (ANYWHERE,))
            for chosen in pack([sizes[i] for i in units], slots=slots):
                yield Offer([units[n] for n in chosen], next(among))

    def _collected(
        self, bins: Sequence[tuple[bytes, str]], task: Callable[[Iterable[bytes]], Iterator[bytes]]
    ) -> list[bytes]:
        """Return the answers of the tasks of one round. Raises as `_collected`."""
        sc = self.spark.sparkContext
        if any(host != ANYWHERE for _, host in bins):
            return _collected(placed(sc, bins).mapPartitions(task))
        return _collected(sc.parallelize([one for one, _ in bins], len(bins)).mapPartitions(task))

    def _task(self, work: Callable[[bytes], bytes]) -> Callable[[Iterable[bytes]], Iterator[bytes]]:
        """Return the function of a task, which gives bins to `work`.

        It names no function of kafkats before it has compared the versions: an earlier version may
        not have it.
        """
        sc = self.spark.sparkContext
        attempts = attempts_of(
            sc.master or "local", sc.getConf().get("spark.task.maxFailures") or "4"
        )
        sc.setLocalProperty(ATTEMPTS, str(attempts))
        version, packed_work, limit = kafkats.__version__, _pickled(work), allowed()

        def task(packed_bins: Iterable[bytes]) -> Iterator[bytes]:
            if kafkats.__version__ != version:
                here = f"on host {socket.gethostname()} is kafkats {kafkats.__version__}"
                yield pickle.dumps(UsageError(f"{here}, the driver has {version}"))
                return
            from pyspark_kafkats.execution import answers

            work = pickle.loads(packed_work)  # ruff: ignore[suspicious-pickle-usage]
            yield from answers(packed_bins, work, limit)

        return task

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
            self.rates[stage] = {
                "stage": stage,
                "units": now_units,
                "of_units": units,
                "bytes": now_bytes,
                "of_bytes": total,
                **pace(now_bytes, total, seconds),
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


def _pickled(work: Callable[[bytes], bytes]) -> bytes:
    packed: bytes = cloudpickle.dumps(work)  # type: ignore[no-untyped-call]
    return packed


def answers(
    packed_bins: Iterable[bytes], work: Callable[[bytes], bytes], limit: int
) -> Iterator[bytes]:
    """Yield the answer of each bin: a pickled Answer, or the error that no retry could help."""
    collect_rarely()
    for packed in packed_bins:
        last = _last_attempt()
        try:
            allow(limit)
            with attempt(last=last):
                yield work(packed)
        except KafkatsError as e:
            if e.retryable and not last:
                raise
            yield pickle.dumps(e)


class Answer(NamedTuple):
    """The answer of a task: an Arrow stream with the rows of the finished units.

    `finished` has the number of each in the bin, and how many rows it has. The others were
    returned: their places have a refusal.
    """

    rows: bytes
    finished: Sequence[tuple[int, int]]
    refusals: dict[Place, OtherVolume]


def run_bin(
    do: Callable[[U], pa.RecordBatch],
    schema: pa.Schema,
    listed: Mapping[str, Volume],
    done: Accumulator[int],
    done_bytes: Accumulator[int],
    packed: bytes,
) -> bytes:
    """Return the pickled Answer of a bin.

    Nothing is opened or locked where a path is another volume than the one that the driver has
    `listed`, or its logs are others.
    """
    units: list[tuple[U, int, Place]] = pickle.loads(packed)  # ruff: ignore[suspicious-pickle-usage]
    refusals = _other_volumes(units, listed)
    finished: list[tuple[int, int]] = []
    batches: list[pa.RecordBatch] = []
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for number, (unit, size, place) in enumerate(units):
            if place in refusals:
                continue
            try:
                batch = do(unit)
            except OtherVolume as e:
                refusals[place] = e
                continue
            batches.append(batch)
            finished.append((number, batch.num_rows))
            if len(batches) == CHUNK_UNITS:
                writer.write_table(table_of(batches, schema))
                batches = []
            done.add(1)
            done_bytes.add(size)
        writer.write_table(table_of(batches, schema))
    keep_modules()
    return pickle.dumps(Answer(sink.getvalue().to_pybytes(), finished, refusals))


def _other_volumes(
    units: Sequence[tuple[object, int, Place]], listed: Mapping[str, Volume]
) -> dict[Place, OtherVolume]:
    """Return the places that are others on this host, and why."""
    found: dict[Place, OtherVolume] = {}
    for place in dict.fromkeys(place for *_, place in units):
        try:
            for log_dir in place:
                check_volume(log_dir, listed)
            check_listed(unit for unit, _, at in units if at == place)
        except OtherVolume as e:
            found[place] = e
    return found


def _answer_in(packed: bytes) -> Answer:
    """Return the answer of a task. Raises the error that it gave back instead."""
    answer = pickle.loads(packed)  # ruff: ignore[suspicious-pickle-usage]
    if isinstance(answer, Answer):
        return answer
    raise answer
