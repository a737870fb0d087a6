"""What the Spark jobs share: spread work units over tasks, report progress, bring the reports back.

One task per bin of units of about equal bytes. The task reads and writes the files itself, in Python; what crosses the
JVM is the pickled units on the way out and one Arrow IPC stream of report rows per bin on the way back. A task that is
lost is run again by Spark; the operations are made for that.

Standard output carries, besides people's lines, one JSON object per marker line:

    KAFKATS_PROGRESS    done and total units and bytes, bytes per second, seconds left, failed tasks, the Spark UI
    KAFKATS_RESULT      the job's summary, or {"error", "kind", "retryable"}; the last line of a job
"""

from __future__ import annotations

import gc
import heapq
import json
import os
import pickle  # ruff: ignore[suspicious-pickle-import] - only what our own driver and tasks pickled is read back
import re
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark import SparkConf, TaskContext
from pyspark.sql import SparkSession

import kafkats
from kafkats.codecs.limit import allow, allowed
from kafkats.errors import KafkatsError, UsageError

PROGRESS: Final = "KAFKATS_PROGRESS"
RESULT: Final = "KAFKATS_RESULT"
ATTEMPTS: Final = "kafkats.attempts"
"""Local property: how often Spark tries a task."""

SETTINGS: Final = {
    # Small Python tasks start in 5 ms instead of 50.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.faulthandler.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
}

UNIT_COST: Final = 64 * 1024
"""Bytes that could be read in the time it takes to open one unit's files."""
BIN_BYTES: Final = (16 * 1024**2, 1024**3)
"""A bin is at least this large, so that the task's start does not show, and at most that, so that progress does."""
BIN_UNITS: Final = 2000
PROGRESS_SECONDS: Final = 2.0

_rates: dict[str, dict[str, Any]] = {}
"""Per stage of this job its last progress line."""


def run_job(name: str, job: Callable[[SparkSession], Mapping[str, Any]]) -> int:
    """Run `job` in a Spark session and print its result. Returns the exit code, as the command line has them."""
    conf = SparkConf()
    for key, value in SETTINGS.items():
        conf.setIfMissing(key, value)
    _end_with_the_jvm()
    with SparkSession.builder.appName(name).config(conf=conf).getOrCreate() as spark:
        spark.sparkContext.addPyFile(__file__)
        say(PROGRESS, {"stage": "started", "ui": spark.sparkContext.uiWebUrl})
        try:
            result = dict(job(spark))
        except KafkatsError as e:
            print(f"{name}: {e}", file=sys.stderr)
            say(RESULT, {"error": str(e), "kind": type(e).__name__, "retryable": e.retryable})
            return e.exit_code
    code = int(result.pop("exit_code", 0))
    say(RESULT, result | {"rates": _rates})
    return code


def _end_with_the_jvm() -> None:
    """Ends this driver when the JVM that submitted it is gone: nobody hears of it any more, and another may have begun."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # started without spark-submit
        return
    jvm = os.getppid()

    def watch() -> None:
        while os.getppid() == jvm:
            time.sleep(PROGRESS_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="watch the JVM").start()


def spread(
    spark: SparkSession,
    stage: str,
    units: Sequence[Any],
    do: Callable[[Any], pa.RecordBatch | pa.Table],
    schema: pa.Schema,
    *,
    size: Callable[[Any], int],
) -> pa.Table:
    """`do` of every unit on some worker; the rows of all of them, in no particular order.

    `units` and `do` are pickled. Raises the first KafkatsError that no retry could help.
    """
    sc = spark.sparkContext
    if not units:
        return schema.empty_table()
    sizes = [size(unit) for unit in units]
    bins = pack(sizes, slots=sc.defaultParallelism)
    done, done_bytes = sc.accumulator(0), sc.accumulator(0)
    sc.setLocalProperty(ATTEMPTS, str(_attempts(sc.master, sc.getConf().get("spark.task.maxFailures", "4"))))
    version, limit = kafkats.__version__, allowed()

    def task(work: Iterator[bytes]) -> Iterator[bytes]:
        for packed in work:
            try:
                allow(limit)
                yield _run_bin(packed, do, schema, version, done, done_bytes)
            except KafkatsError as e:
                if e.retryable and not _last_attempt():
                    raise
                yield pickle.dumps(e)

    work = [pickle.dumps([(units[i], sizes[i]) for i in chosen]) for chosen in bins]
    sc.setJobDescription(f"{stage}: {len(units)} units, {sum(sizes)} bytes")
    with _progress(spark, stage, len(units), sum(sizes), lambda: (done.value, done_bytes.value)):
        answers = sc.parallelize(work, len(work)).mapPartitions(task).collect()
    return pa.concat_tables([_rows(answer, schema) for answer in answers])


def with_last_attempt(do: Callable[..., pa.RecordBatch]) -> Callable[[Any], pa.RecordBatch]:
    """`do` told, in the task, whether Spark would try it again."""
    return partial(_told, do)


def _told(do: Callable[..., pa.RecordBatch], unit: Any) -> pa.RecordBatch:
    return do(unit, last_attempt=_last_attempt())


def _last_attempt() -> bool:
    context = TaskContext.get()
    return context is None or context.attemptNumber() + 1 >= int(context.getLocalProperty(ATTEMPTS) or 1)


def pack(sizes: Sequence[int], *, slots: int) -> list[list[int]]:
    """Indexes into `sizes`, in bins of about equal bytes: enough to keep `slots` busy and to show progress.

    The largest first, each into the bin that is lightest so far; bins come back heaviest first.
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


def say(marker: str, content: Mapping[str, Any]) -> None:
    """One marker line on standard output. A single write, so that it never mixes with another thread's."""
    sys.stdout.write(f"{marker} {json.dumps(content, separators=(',', ':'))}\n")
    sys.stdout.flush()


def _run_bin(
    packed: bytes, do: Callable[[Any], Any], schema: pa.Schema, version: str, done: Any, done_bytes: Any
) -> bytes:
    if kafkats.__version__ != version:
        raise UsageError(f"this worker has kafkats {kafkats.__version__}, the driver {version}")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for unit, size in pickle.loads(packed):  # ruff: ignore[suspicious-pickle-usage]
            writer.write(do(unit))
            done.add(1)
            done_bytes.add(size)
    _keep_modules()
    return sink.getvalue().to_pybytes()


def _keep_modules() -> None:
    """Spark's worker collects garbage after each task: 75 ms of looking at what numba and pyarrow brought, while its slot waits.
    What is there after the first bin stays as long as the process, so it need not be looked at again."""
    if not gc.get_freeze_count():
        gc.freeze()


def _rows(answer: bytes, schema: pa.Schema) -> pa.Table:
    if answer[:1] == b"\x80":  # a pickle; an Arrow stream begins with 0xff
        raise pickle.loads(answer)  # ruff: ignore[suspicious-pickle-usage]
    return pa.ipc.open_stream(answer).read_all().cast(schema)


def _attempts(master: str, max_failures: str) -> int:
    local = re.fullmatch(r"local\[[^,\]]*(?:,\s*(\d+))?\]|local", master)
    return int(local[1] or 1) if local else int(max_failures)


@contextmanager
def _progress(
    spark: SparkSession, stage: str, units: int, total: int, done: Callable[[], tuple[int, int]]
) -> Generator[None, None, None]:
    """Says how far the stage is, every PROGRESS_SECONDS while it runs and once at its end."""
    tracker = spark.sparkContext.statusTracker()
    began, over, failed = time.monotonic(), threading.Event(), [0]

    def report(*, last: bool = False) -> dict[str, Any]:
        for number in tracker.getActiveStageIds():
            if info := tracker.getStageInfo(number):
                failed[0] = max(failed[0], info.numFailedTasks)
        seconds = time.monotonic() - began
        # A repeated task counts twice until the stage ends.
        now_units, now_bytes = (
            (units, total) if last else (min(n, of) for n, of in zip(done(), (units, total), strict=True))
        )
        rate = now_bytes / seconds if seconds > 0 else 0.0
        said = {
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
        say(PROGRESS, said)
        return said

    def loop() -> None:
        while not over.wait(PROGRESS_SECONDS):
            report()

    thread = threading.Thread(target=loop, daemon=True, name="progress")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    _rates[stage] = report(last=True)
