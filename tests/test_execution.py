"""The local executor: the same rows from any number of workers, errors as they are, and nothing left behind."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest

from kafkats.compression import limit
from kafkats.errors import CorruptFile, WorkerLost
from kafkats.execution import local
from kafkats.execution.executor import attempt, is_last_attempt, log_dirs_of, path_of
from kafkats.execution.local import LocalExecutor
from kafkats.plans.run import PartitionWork
from kafkats.plans.units import Unit
from kafkats.segment.reader import count_read, read_so_far

SCHEMA = pa.schema([("unit", pa.string()), ("pid", pa.int64()), ("limit", pa.int64())])
LARGE = local.SMALL_BYTES


def row(unit: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"unit": unit, "pid": os.getpid(), "limit": limit.allowed()}], schema=SCHEMA
    )


def two_rows_or_none(unit: int) -> pa.RecordBatch:
    rows = [{"unit": f"{unit}-{n}", "pid": 0, "limit": 0} for n in range(unit % 3)]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def killed(unit: tuple[str, str]) -> pa.RecordBatch:
    if unit[1] == "bad-0":
        os.kill(os.getpid(), signal.SIGKILL)
    return row(unit[1])


def leaves(unit: str) -> pa.RecordBatch:
    os._exit(3)


def out_of_memory(unit: object) -> pa.RecordBatch:
    raise MemoryError


def no_library(unit: object) -> pa.RecordBatch:
    raise ImportError("libLLVM.so: failed to map segment from shared object")


class Unloadable:
    """A unit whose modules do not fit into a worker's memory."""

    def __reduce__(self) -> tuple[object, ...]:
        return no_library, (0,)


def corrupt(unit: int) -> pa.RecordBatch:
    """The later units fail at once, the first of them last."""
    if unit == 3:
        time.sleep(0.3)
    if unit >= 3:
        raise CorruptFile("no such thing", path=f"/dir/{unit}", position=7)
    return row(str(unit))


def mistaken(unit: int) -> pa.RecordBatch:
    return {}["nothing"]  # type: ignore[return-value, index]


@pytest.fixture
def two() -> Iterator[LocalExecutor]:
    with LocalExecutor(2) as executor:
        yield executor


@pytest.mark.slow(2)
def test_rows_are_in_the_order_of_the_units(two: LocalExecutor) -> None:
    units = [f"unit-{n}" for n in range(1200)]
    table = two.map(
        "verify", units, row, SCHEMA, size=lambda unit: LARGE if unit == "unit-700" else 10**5
    )
    assert table.schema == SCHEMA
    assert table["unit"].to_pylist() == units
    pids = set(table["pid"].to_pylist())
    assert len(pids) == 2 and os.getpid() not in pids
    again = two.map("verify", units, row, SCHEMA, size=lambda _: LARGE)
    assert set(again["pid"].to_pylist()) <= pids, "workers are kept from stage to stage"


@pytest.mark.slow(2)
def test_rows_do_not_depend_on_the_number_of_workers(two: LocalExecutor) -> None:
    units = list(range(700))
    alone = LocalExecutor(1).map("x", units, two_rows_or_none, SCHEMA, size=lambda _: LARGE)
    assert alone.num_rows == sum(n % 3 for n in units)
    assert two.map("x", units, two_rows_or_none, SCHEMA, size=lambda _: LARGE).equals(alone)


@pytest.mark.parametrize(("units", "size"), [(100, 1000), (1, LARGE), (0, LARGE)])
def test_little_work_is_done_here(two: LocalExecutor, units: int, size: int) -> None:
    table = two.map("x", [str(n) for n in range(units)], row, SCHEMA, size=lambda _: size)
    assert table.num_rows == units and set(table["pid"].to_pylist()) <= {os.getpid()}


def test_jobs_that_are_not_given_go_by_processors_and_bytes() -> None:
    executor = LocalExecutor()
    executor.jobs = 8
    worker = local.WORKER_BYTES
    assert executor._workers_for([worker // 2] * 3) < 2
    assert executor._workers_for([worker // 2] * 6) == 3
    assert executor._workers_for([worker] * 100) == 8
    assert executor._workers_for([worker // 4] * 3, threads=True) == 3
    assert LocalExecutor().jobs == len(os.sched_getaffinity(0))
    assert LocalExecutor(8)._workers_for([worker // 8] * 8) == 8, "what is given holds"
    assert LocalExecutor(8)._workers_for([1000]) == 1


@pytest.mark.slow(2)
def test_the_limit_of_a_batch_holds_in_workers_too(two: LocalExecutor) -> None:
    try:
        limit.allow(12345)
        table = two.map("x", ["a", "b"], row, SCHEMA, size=lambda _: LARGE)
        assert (
            set(table["limit"].to_pylist()) == {12345}
            and os.getpid() not in table["pid"].to_pylist()
        )
    finally:
        limit.allow(limit.MAX_OUTPUT_BYTES)


@pytest.mark.slow(3)
def test_a_killed_worker_is_an_error_that_names_the_unit(two: LocalExecutor) -> None:
    units = [("/data", name) for name in ("good-0", "bad-0", "good-1")]
    with pytest.raises(
        WorkerLost, match=r"^/data/bad-0: the worker process was killed by SIGKILL"
    ) as caught:
        two.map("apply", units, killed, SCHEMA, size=lambda _: 10 * LARGE)
    assert caught.value.retryable and caught.value.exit_code == 2
    assert two.map("x", ["a", "b"], row, SCHEMA, size=lambda _: LARGE).num_rows == 2, (
        "it can be used again"
    )


def test_a_worker_that_ends_by_itself(two: LocalExecutor) -> None:
    with pytest.raises(WorkerLost, match="ended with exit code 3"):
        two.map("x", ["a", "b"], leaves, SCHEMA, size=lambda _: LARGE)


@pytest.mark.slow(1)
@pytest.mark.parametrize("do", [out_of_memory, no_library])
@pytest.mark.parametrize("jobs", [1, 2])
def test_memory_that_ends(jobs: int, do: Callable[[object], pa.RecordBatch]) -> None:
    with (
        LocalExecutor(jobs) as executor,
        pytest.raises(WorkerLost, match=r"^/data/topic-0: out of memory"),
    ):
        executor.map("x", [("/data", "topic-0")] * 2, do, SCHEMA, size=lambda _: LARGE)


def test_memory_that_ends_before_a_worker_begins(two: LocalExecutor) -> None:
    with pytest.raises(WorkerLost, match=r"exit code 12 \(out of memory\?\); fewer --jobs"):
        two.map("x", [Unloadable()] * 2, no_library, SCHEMA, size=lambda _: LARGE)


@pytest.mark.slow(2)
def test_arrow_starts_no_threads_of_its_own_to_group() -> None:
    """Arrow waits forever for a thread for which there is no memory."""
    calls = [
        (path, node)
        for path in (Path(__file__).parents[1] / "kafkats").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "group_by"
    ]
    threaded = [
        f"{path}:{node.lineno}"
        for path, node in calls
        if "use_threads" not in {word.arg for word in node.keywords}
    ]
    assert calls and threaded == []


@pytest.mark.slow(1)
@pytest.mark.parametrize(("jobs", "threads"), [(1, False), (2, False), (2, True)])
def test_the_error_is_that_of_the_first_unit_that_has_one(jobs: int, threads: bool) -> None:
    with (
        LocalExecutor(jobs) as executor,
        pytest.raises(CorruptFile, match=r"^/dir/3 at byte 7: no such thing$"),
    ):
        units = list(range(8))
        executor.map("x", units, corrupt, SCHEMA, size=lambda _: LARGE, threads=threads)


def test_large_units_that_leave_the_gil_alone_share_this_process(two: LocalExecutor) -> None:
    together = threading.Barrier(2, timeout=60)

    def meets(unit: str) -> pa.RecordBatch:
        if not unit.startswith("names"):
            together.wait()
            count_read(int(unit))
        return row(f"{unit} {read_so_far()}")

    units = ["3", "4"] * 300 + ["names"]
    sizes = {"names": 0, "3": local.THREAD_BYTES, "4": local.THREAD_BYTES}
    table = two.map("x", units, meets, SCHEMA, size=sizes.__getitem__, threads=True)
    assert [text.split()[0] for text in table["unit"].to_pylist()] == units
    assert set(table["pid"].to_pylist()) == {os.getpid()}


def test_small_units_wait_together_for_the_disk() -> None:
    met = threading.Barrier(2)

    def meets(unit: str) -> pa.RecordBatch:
        met.wait(60)  # breaks, and fails, unless two units are done at the same time
        return row(unit)

    table = LocalExecutor().map("x", ["a", "b"], meets, SCHEMA, size=lambda _: 1, flushes=True)
    assert table["unit"].to_pylist() == ["a", "b"]
    assert set(table["pid"].to_pylist()) == {os.getpid()}


@pytest.mark.parametrize(("jobs", "units"), [(1, 2), (2, 1)])
def test_one_unit_or_one_job_waits_in_this_thread(jobs: int, units: int) -> None:
    seen: list[int] = []

    def where(unit: str) -> pa.RecordBatch:
        seen.append(threading.get_ident())
        return row(unit)

    names = [f"unit-{n}" for n in range(units)]
    LocalExecutor(jobs).map("x", names, where, SCHEMA, size=lambda _: 1, flushes=True)
    assert seen == [threading.get_ident()] * units


@pytest.mark.slow(1)
def test_small_units_get_processes(two: LocalExecutor) -> None:
    size = local.THREAD_BYTES // 2
    units = [str(n) for n in range(20)]
    table = two.map("x", units, row, SCHEMA, size=lambda _: size, threads=True)
    assert os.getpid() not in table["pid"].to_pylist()


def test_a_process_that_acts_as_another_user_has_no_workers(
    two: LocalExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    rows = two.map("test", ["a", "b"], row, SCHEMA, size=lambda _: LARGE)
    assert set(rows["pid"].to_pylist()) == {os.getpid()}


def test_what_a_thread_has_read_is_its_own() -> None:
    count_read(5)
    before = read_so_far()
    other = threading.Thread(target=lambda: count_read(7))
    other.start()
    other.join()
    assert read_so_far() == before


def test_a_mistake_shows_where_it_was_made(two: LocalExecutor) -> None:
    with pytest.raises(KeyError) as caught:
        two.map("x", [1, 2], mistaken, SCHEMA, size=lambda _: LARGE)
    assert "in mistaken" in caught.value.__notes__[0]


def test_attempts() -> None:
    assert is_last_attempt()
    with attempt(last=False):
        assert not is_last_attempt()
    assert is_last_attempt()


def test_the_place_of_a_unit() -> None:
    assert path_of(("/data", "topic-0")) == "/data/topic-0"
    assert path_of(Unit("/data", "topic-0", -1)) == "/data/topic-0"
    assert path_of([(Unit("/data", "topic-0", 7), 1)]) == "/data/topic-0/00000000000000000007.log"
    assert path_of({"log_dir": "/data", "partition_dir": "topic-0", "base_offset": 0}).endswith(
        "0.log"
    )
    work = PartitionWork("rebuild", {}, "/data", "topic-0", "run", None, False, ())
    assert path_of(work) == "/data/topic-0", "a tuple that has names"
    assert path_of(3) == "3"


SLEEPS = """
import sys, time
from pathlib import Path
from typing import NamedTuple
import pyarrow as pa
from kafkats.execution.local import LocalExecutor
from kafkats.execution.local import SMALL_BYTES

SCHEMA = pa.schema([("unit", pa.string())])

def sleep(unit):
    import os
    path = Path(unit)
    path.with_suffix(".new").write_text(str(os.getpid()))
    try:
        path.with_suffix(".new").rename(path)  # who sees it may end this process at once
        time.sleep(600)
    finally:
        path.with_suffix(".cleared").touch()

if __name__ == "__main__":
    with LocalExecutor(2) as executor:
        executor.map("x", sys.argv[1:], sleep, SCHEMA, size=lambda _: SMALL_BYTES)
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow(1)
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("whole_group", [False, True])
def test_no_process_is_left_behind(tmp_path: Path, how: signal.Signals, whole_group: bool) -> None:
    """Ctrl-C reaches the whole group of a terminal; kill the parent alone. SIGKILL of the group would kill all by itself."""
    program = tmp_path / "sleeps.py"
    program.write_text(SLEEPS)
    units = [tmp_path / "a", tmp_path / "b"]
    parent = subprocess.Popen(
        [sys.executable, str(program), *map(str, units)],
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
        # a shell lets what it runs in the background ignore Ctrl-C
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        while not all(unit.exists() for unit in units):
            assert parent.poll() is None
            time.sleep(0.05)
        workers = [int(unit.read_text()) for unit in units]
        (os.killpg if whole_group else os.kill)(parent.pid, how)
        _, errors = parent.communicate()
        assert parent.returncode != 0
        while any(map(alive, workers)):
            time.sleep(0.05)
        if how == signal.SIGINT:
            assert errors.count("KeyboardInterrupt") == 1, "only the parent speaks"
            assert all(unit.with_suffix(".cleared").exists() for unit in units), (
                "workers clear what they have staged"
            )
    finally:
        parent.kill()


@pytest.mark.slow(2)
def test_the_threshold_of_a_command_is_one_of_bytes_and_units() -> None:
    """Where many small files are opened that counts, too."""
    few, many = 900, 1100
    with LocalExecutor(2) as executor:
        seen = [
            executor.map("x", [str(n) for n in range(count)], row, SCHEMA, size=lambda _: 0)[
                "pid"
            ].to_pylist()
            for count in (few, many)
        ]
    assert set(seen[0]) == {os.getpid()} and os.getpid() not in seen[1]


class Named(NamedTuple):
    log_dir: str
    partition_dir: str = "t-0"


class Logged(NamedTuple):
    log: str


@pytest.mark.parametrize(
    ("unit", "log_dirs"),
    [
        (("/a", "t-0"), ("/a",)),  # undo, purge, and verify of a run
        (Named("/a"), ("/a",)),
        ((Named("/a"), Named("/a"), Named("/b", "t-1")), ("/a", "/b")),  # ends of segments
        ([(Named("/a"), 1), (Named("/b"), 2)], ("/a", "/b")),
        ((Named("/a"), Named("/b")), ("/a", "/b")),
        ((Named("/a"), {7: "size"}), ("/a",)),
        ([{"log_dir": "/a"}, {"log_dir": "/b"}], ("/a", "/b")),
        (Logged("/a/t-0/7.log"), ("/a",)),
        ("unit", ()),
        (("x", "y"), ()),
        ((), ()),
        (3, ()),
    ],
)
def test_the_log_directories_of_a_unit(unit: object, log_dirs: tuple[str, ...]) -> None:
    assert log_dirs_of(unit) == log_dirs


def none_for_the_last(unit: int) -> pa.RecordBatch:
    return row(str(unit)) if unit < 2 else row(str(unit)).slice(0, 0)


@pytest.mark.slow(1)
@pytest.mark.parametrize("size", [1, LARGE])
def test_fewer_rows_than_units_are_an_error(two: LocalExecutor, size: int) -> None:
    units = [0, 1, 2]
    assert two.map("x", units, none_for_the_last, SCHEMA, size=lambda _: size).num_rows == 2
    with pytest.raises(WorkerLost, match="x: 2 of 3 rows came back"):
        two.map("x", units, none_for_the_last, SCHEMA, size=lambda _: size, least=lambda _: 1)
