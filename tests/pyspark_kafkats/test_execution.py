"""The executor on Spark: bins, retries, errors, progress."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any, NamedTuple

import fanout
import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

from kafkats.compression import limit
from kafkats.errors import CorruptFile, Locked, Refused, UsageError, WorkerLost
from kafkats.execution.executor import UNIT_COST, Work, is_last_attempt
from kafkats.logdir.volume import Volume
from kafkats.plans.units import Unit, list_units
from pyspark_kafkats import execution
from pyspark_kafkats.execution import (
    BIN_UNITS,
    Answer,
    SparkExecutor,
    _collected,
    attempts_of,
    pack,
)
from pyspark_kafkats.execution import _answer_in as read

SCHEMA = pa.schema([("unit", pa.string()), ("pid", pa.int64()), ("sizes", pa.list_(pa.int64(), 2))])


def row(unit: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"unit": unit, "pid": os.getpid(), "sizes": [1, len(unit)]}], schema=SCHEMA
    )


def die_once(marker: str) -> pa.RecordBatch:
    """Kills its own Python worker the first time, as the kernel does when memory runs out."""
    if not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return row(marker)


def locked_once(marker: str) -> pa.RecordBatch:
    if not Path(marker).exists():
        Path(marker).touch()
        raise Locked("held", path=marker)
    return row(marker)


def always_locked(unit: str) -> pa.RecordBatch:
    raise Locked("held by a broker", path=unit)


def corrupt(unit: str) -> pa.RecordBatch:
    with Path(unit).open("a") as tries:
        tries.write("x")
    raise CorruptFile("no such thing", path=unit, position=7)


def several(unit: str) -> pa.RecordBatch:
    """No row, one or two."""
    return pa.concat_batches([row(unit).slice(0, 0), *[row(unit)] * (len(unit) % 3)])


def test_the_rows_of_many_units_come_in_few_batches_and_in_their_order(
    executor: SparkExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch takes 80 kB in the driver, however few rows it has."""
    answers: list[Answer] = []

    def kept(packed: bytes) -> Answer:
        answers.append(read(packed))
        return answers[-1]

    monkeypatch.setattr(execution, "_answer_in", kept)
    units = ["x" * (n % 7) + str(n) for n in range(1200)]
    sizes = [n * 7919 % 1000 for n in range(1200)]
    found = executor.run("many", Work(units, sizes, several, SCHEMA))
    expected = [unit for unit in units for _ in range(len(unit) % 3)]
    assert found["unit"].to_pylist() == expected
    batches = sum(len(list(pa.ipc.open_stream(one.rows))) for one in answers)
    assert batches <= 3 * len(answers)


@pytest.mark.parametrize("slots", [1, 2, 16])
@pytest.mark.parametrize(
    "sizes", [[1], [0] * 5000, [10**9, 1, 1, 1], [2**28] * 33, list(range(0, 10**8, 10**5))]
)
def test_bins_hold_every_unit_once_and_are_even(sizes: list[int], slots: int) -> None:
    bins = pack(sizes, slots=slots)
    assert sorted(i for chosen in bins for i in chosen) == list(range(len(sizes)))
    assert all(0 < len(chosen) <= 2 * BIN_UNITS for chosen in bins)
    assert len(bins) >= min(slots, len(sizes))
    costs = [sum(sizes[i] + UNIT_COST for i in chosen) for chosen in bins]
    assert costs[0] == max(costs)
    # Largest first into the lightest: no bin is heavier than another by more than one unit.
    assert all(
        cost - min(costs) <= sizes[min(chosen)] + max(sizes) + UNIT_COST
        for cost, chosen in zip(costs, bins, strict=True)
    )


def test_one_large_unit_stays_alone() -> None:
    assert pack([10**9, 1, 1, 1], slots=2)[0] == [0]


def test_rows_come_back_as_they_were_made(
    executor: SparkExecutor, capsys: pytest.CaptureFixture[str]
) -> None:
    units = [f"unit-{n}" for n in range(50)]
    table = executor.map("verify", units, row, SCHEMA, size=lambda _: 10**7)
    assert table.schema == SCHEMA
    assert table["unit"].to_pylist() == units, "in the order of the units"
    assert len(set(table["pid"].to_pylist())) == 2, "both slots worked"
    assert os.getpid() not in table["pid"].to_pylist()
    last = [
        line for line in capsys.readouterr().out.splitlines() if line.startswith(fanout.PROGRESS)
    ][-1]
    said = json.loads(last.removeprefix(fanout.PROGRESS))
    assert (said["stage"], said["units"], said["of_units"], said["bytes"]) == (
        "verify",
        50,
        50,
        50 * 10**7,
    )
    assert said["seconds_left"] == 0


def test_no_units_no_job(executor: SparkExecutor) -> None:
    assert executor.map("verify", [], row, SCHEMA, size=len).num_rows == 0


@pytest.mark.parametrize("do", [die_once, locked_once])
def test_a_lost_task_is_run_again(executor: SparkExecutor, tmp_path: Path, do: object) -> None:
    marker = str(tmp_path / "marker")
    table = executor.map("apply", [marker], do, SCHEMA, size=len)
    assert table["unit"].to_pylist() == [marker]


def test_a_retry_that_cannot_help_is_not_made(executor: SparkExecutor, tmp_path: Path) -> None:
    tries = tmp_path / "tries"
    with pytest.raises(CorruptFile, match="at byte 7: no such thing"):
        executor.map("verify", [str(tries)], corrupt, SCHEMA, size=len)
    assert tries.read_text() == "x"


@pytest.mark.slow(1)
def test_our_error_also_after_the_last_retry(executor: SparkExecutor) -> None:
    with pytest.raises(Locked, match="/some/dir: held by a broker"):
        executor.map("apply", ["/some/dir"], always_locked, SCHEMA, size=len)


def test_attempts_are_known() -> None:
    assert attempts_of("local[*]", "4") == 1
    assert attempts_of("local", "4") == 1
    assert attempts_of("local[2,4]", "9") == 4
    assert attempts_of("spark://host:7077", "9") == 9


@pytest.mark.slow(1)
def test_the_limit_of_a_batch_holds_in_tasks_too(executor: SparkExecutor) -> None:
    def do(unit: int) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([{"limit": limit.allowed()}], schema=schema)

    schema = pa.schema([("limit", pa.int64())])
    try:
        limit.allow(1024**2)
        assert (
            executor.map("x", [1, 2], do, schema, size=lambda _: 1)["limit"].to_pylist()
            == [1024**2] * 2
        )
    finally:
        limit.allow(limit.MAX_OUTPUT_BYTES)


@pytest.mark.slow(1)
def test_a_task_knows_whether_it_will_be_tried_again(
    executor: SparkExecutor, tmp_path: Path
) -> None:
    """The session tries four times (tests/spark.py)."""

    def do(marker: str) -> pa.RecordBatch:
        with Path(marker).open("a") as file:
            file.write("last " if is_last_attempt() else "again ")
        if not is_last_attempt():
            raise Locked("held", path=marker)
        return row(marker)

    marker = str(tmp_path / "marker")
    assert executor.map("x", [marker], do, SCHEMA, size=len).num_rows == 1
    assert Path(marker).read_text() == "again again again last "


class Listed(NamedTuple):
    log_dir: str
    partition_dir: str = "t-0"


def dug(unit: Listed) -> pa.RecordBatch:
    Path(unit.log_dir, "touched").touch()
    return row(unit.log_dir)


def test_a_task_that_sees_another_volume_than_the_driver_is_refused(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On two workers the same path can be two disks; here the driver is told of another one."""
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=2\ncluster.id=c\n")
    monkeypatch.setattr(
        "pyspark_kafkats.execution.volumes_at", lambda _: {str(tmp_path): Volume("c", 1, None)}
    )
    with pytest.raises(Refused, match="is another volume on host"):
        SparkExecutor(spark).map("dig", [Listed(str(tmp_path))], dug, SCHEMA, size=lambda _: 1)
    assert not (tmp_path / "touched").exists()


def undone(where: tuple[str, str]) -> pa.RecordBatch:
    return dug(Listed(*where))


def ends(chunk: tuple[Listed, ...]) -> pa.RecordBatch:
    return dug(chunk[-1])


@pytest.mark.parametrize("several", [False, True])
def test_a_task_checks_all_log_directories_of_its_units(
    several: bool, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An undo has pairs of names, a look at ends has units of several log directories in one."""
    places = [str(tmp_path / name) for name in ("one", "two")]
    for number, place in enumerate(places, start=1):
        Path(place).mkdir()
        meta = f"version=1\nnode.id={number}\ncluster.id=c\n"
        Path(place, "meta.properties").write_text(meta)
    listed = {place: Volume("c", 1, None) for place in places}
    monkeypatch.setattr("pyspark_kafkats.execution.volumes_at", lambda _: listed)
    executor = SparkExecutor(spark)
    with pytest.raises(Refused, match=f"^{places[1]}: is another volume on host"):
        if several:
            chunk = tuple(map(Listed, places))
            executor.map("ends", [chunk], ends, SCHEMA, size=lambda _: 1)
        else:
            executor.map("undo", [(places[1], "t-0")], undone, SCHEMA, size=lambda _: 1)
    assert os.listdir(places[1]) == ["meta.properties"]


def test_a_task_that_sees_other_logs_than_were_listed_is_refused(
    executor: SparkExecutor, tmp_path: Path
) -> None:
    """Without a meta.properties the files tell; the listing is as old as the driver's."""
    log = tmp_path / "t-0" / "00000000000000000000.log"
    log.parent.mkdir()
    log.write_bytes(b"")
    units = list(list_units([tmp_path / "t-0"]))
    log.unlink()
    log.write_bytes(b"another")
    os.utime(log, (1, 1))
    with pytest.raises(Refused, match=f"^{tmp_path}: on host .* none of 1 listed logs"):
        executor.map("verify", units, seen, SCHEMA, size=lambda _: 1)


def seen(unit: Unit) -> pa.RecordBatch:
    return row(unit.partition_dir)


def none(unit: str) -> pa.RecordBatch:
    return row(unit).slice(0, 0)


def test_fewer_rows_than_units_are_an_error(executor: SparkExecutor) -> None:
    with pytest.raises(WorkerLost, match="verify: 0 of 2 rows came back"):
        executor.map("verify", ["a", "b"], none, SCHEMA, size=len, least=lambda _: 1)


def test_answers_above_sparks_limit_end_in_a_sentence() -> None:
    """Spark's limit is set once for an application, so its error is made here."""
    said = "Total size of serialized results of 2 tasks is bigger than spark.driver.maxResultSize"

    class Gateway(Py4JJavaError):
        def __init__(self) -> None:
            pass

        def __str__(self) -> str:
            return said

    class Tasks:
        def collect(self) -> list[bytes]:
            raise Gateway

    with pytest.raises(UsageError, match="maxResultSize=4g"):
        _collected(Tasks())  # type: ignore[arg-type]


def test_a_worker_with_another_kafkats_opens_nothing(
    executor: SparkExecutor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tries = tmp_path / "tries"
    monkeypatch.setattr("kafkats.__version__", "0.0.1")
    with pytest.raises(UsageError, match=r"^on host .* is kafkats .*, the driver has 0\.0\.1$"):
        executor.map("verify", [str(tries)], corrupt, SCHEMA, size=len)
    assert not tries.exists()
