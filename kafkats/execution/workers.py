"""Worker processes on this machine, and one stage of work in them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from multiprocessing import connection, resource_tracker
from typing import TYPE_CHECKING, Final, Generic, NamedTuple

from kafkats.compression.limit import allow, allowed
from kafkats.errors import KafkatsError, WorkerLost, is_out_of_memory
from kafkats.execution.executor import U, Work, path_of, rows_of, table_of
from kafkats.execution.garbage import collect_rarely
from kafkats.text import Flag, Text

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

    import pyarrow as pa

_GRACE_SECONDS: Final = 10.0
"""How long a worker that is told to stop may take to clear what it had staged."""
_NO_MEMORY: Final = 12
"""Exit code of a worker without the memory for what it was to do (ENOMEM)."""


class _Chunk(NamedTuple, Generic[U]):
    """Neighbouring units of a stage, as a worker receives them."""

    units: Sequence[U]
    do: Callable[[U], pa.RecordBatch]
    schema: pa.Schema
    limit: int
    """How many bytes a batch may decompress to: `compression.limit`."""


class Stage(Generic[U]):
    """One stage in workers.

    A worker sends None for each finished unit, and for each finished chunk its rows or an error.
    `advance` gets the bytes of each finished unit.
    """

    def __init__(
        self, work: Work[U], chunks: Sequence[range], advance: Callable[[int], None]
    ) -> None:
        self._work = work
        self._advance = advance
        self._chunks = chunks
        by_size = sorted(range(len(chunks)), key=lambda n: -sum(work.sizes[i] for i in chunks[n]))
        self._waiting = deque(by_size)
        self._tables: dict[int, pa.Table] = {}
        self._first_error: tuple[int, KafkatsError] = (len(work.units), KafkatsError(""))

    def run(self, workers: Iterable[Worker]) -> list[pa.Table]:
        """Return the tables of all chunks, in order.

        Raises the error of the first unit that has one, also if a later one failed earlier.
        """
        busy: dict[connection.Connection, tuple[Worker, int, int]] = {}
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
                answer = worker.receive(self._work.units[unit])
                if answer is None:
                    self._advance(self._work.sizes[unit])
                    busy[ready] = worker, chunk, done + 1
                    continue
                self._take(answer, chunk, unit)
                self._give(worker, busy)
        if self._first_error[0] < len(self._work.units):
            raise self._first_error[1]
        return [self._tables[n] for n in range(len(self._chunks))]

    def _give(
        self, worker: Worker, busy: dict[connection.Connection, tuple[Worker, int, int]]
    ) -> None:
        while self._waiting:
            chunk = self._waiting.popleft()
            which = self._chunks[chunk]
            if which.start > self._first_error[0]:
                continue  # an earlier unit has failed: nobody wants these rows
            units = self._work.units[which.start : which.stop]
            worker.send(_Chunk(units, self._work.do, self._work.schema, allowed()), units[0])
            busy[worker.pipe] = worker, chunk, 0
            return

    def _take(self, answer: pa.Table | BaseException, chunk: int, unit: int) -> None:
        if not isinstance(answer, BaseException):
            self._tables[chunk] = answer
        elif not isinstance(answer, KafkatsError):
            raise answer
        elif unit < self._first_error[0]:
            self._first_error = unit, answer


class Worker:
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

    def send(self, chunk: _Chunk[U], unit: object) -> None:
        """Start a chunk; `unit` is its first. Raises WorkerLost if the process has ended."""
        try:
            self.pipe.send(chunk)
        except OSError:
            raise self._lost(unit) from None

    def receive(self, unit: object) -> pa.Table | BaseException | None:
        """Return None if `unit` is done. Raises WorkerLost if the process has ended instead."""
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
        no_memory = code in (-signal.SIGKILL, _NO_MEMORY)
        why = Text(" (out of memory?); fewer ", Flag("--jobs"), " need less of it")
        return WorkerLost(f"the worker process {how}", why if no_memory else "", path=path_of(unit))

    def stop(self) -> None:
        """Ask the process to end."""
        self.pipe.close()  # an idle worker ends by itself
        self._process.terminate()

    def join(self) -> None:
        """Wait until the process has ended, and kill it if it takes too long."""
        self._process.join(_GRACE_SECONDS)
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join()


def _signal(number: int) -> str:
    with suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"


def _serve(pipe: connection.Connection) -> None:
    """Work on chunks in a worker process until the pipe closes."""
    # Leave by an exception, so that staged files are deleted.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    collect_rarely()
    threading.Thread(target=_end_with_the_parent, daemon=True, name="watch the parent").start()
    with suppress(EOFError, OSError):
        while True:
            chunk = _received(pipe)
            allow(chunk.limit)
            pipe.send(_answer(chunk, pipe))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Python prints an exception of its own exit


def _received(pipe: connection.Connection) -> _Chunk[object]:
    """Return the next chunk. The modules that it names are imported here."""
    try:
        chunk: _Chunk[object] = pipe.recv()
    except Exception as e:
        if is_out_of_memory(e):
            sys.exit(_NO_MEMORY)
        raise
    return chunk


def _end_with_the_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)  # as if killed together with it: a second apply may have begun


def _answer(chunk: _Chunk[U], pipe: connection.Connection) -> pa.Table | BaseException:
    batches = []
    try:
        for unit in chunk.units:
            batches.append(rows_of(unit, chunk.do))
            pipe.send(None)
        return table_of(batches, chunk.schema)
    except KafkatsError as e:
        return e
    except Exception as e:  # a mistake of ours: show where
        e.add_note("in a worker process:\n" + "".join(traceback.format_exception(e)))
        return e
