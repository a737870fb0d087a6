"""The fan-out by itself: bins, retries, errors, progress."""

from __future__ import annotations

import importlib
import json
import os
import signal
from pathlib import Path
from typing import Any

import fanout
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from kafkats.errors import CorruptFile, Locked

SCHEMA = pa.schema([("unit", pa.string()), ("pid", pa.int64()), ("sizes", pa.list_(pa.int64(), 2))])


def row(unit: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"unit": unit, "pid": os.getpid(), "sizes": [1, len(unit)]}], schema=SCHEMA)


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


@pytest.mark.parametrize("slots", [1, 2, 16])
@pytest.mark.parametrize("sizes", [[1], [0] * 5000, [10**9, 1, 1, 1], [2**28] * 33, list(range(0, 10**8, 10**5))])
def test_bins_hold_every_unit_once_and_are_even(sizes: list[int], slots: int) -> None:
    bins = fanout.pack(sizes, slots=slots)
    assert sorted(i for chosen in bins for i in chosen) == list(range(len(sizes)))
    assert all(0 < len(chosen) <= 2 * fanout.BIN_UNITS for chosen in bins)
    assert len(bins) >= min(slots, len(sizes))
    costs = [sum(sizes[i] + fanout.UNIT_COST for i in chosen) for chosen in bins]
    assert costs[0] == max(costs)
    # Largest first into the lightest: no bin is heavier than another by more than one unit.
    assert all(
        cost - min(costs) <= sizes[min(chosen)] + max(sizes) + fanout.UNIT_COST
        for cost, chosen in zip(costs, bins, strict=True)
    )


def test_one_large_unit_stays_alone() -> None:
    assert fanout.pack([10**9, 1, 1, 1], slots=2)[0] == [0]


def test_rows_come_back_as_they_were_made(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    units = [f"unit-{n}" for n in range(50)]
    table = fanout.spread(spark, "verify", units, row, SCHEMA, size=lambda _: 10**7)
    assert table.schema == SCHEMA
    assert sorted(table["unit"].to_pylist()) == sorted(units)
    assert len(set(table["pid"].to_pylist())) == 2, "both slots worked"
    assert os.getpid() not in table["pid"].to_pylist()
    last = [line for line in capsys.readouterr().out.splitlines() if line.startswith(fanout.PROGRESS)][-1]
    said = json.loads(last.removeprefix(fanout.PROGRESS))
    assert (said["stage"], said["units"], said["of_units"], said["bytes"]) == ("verify", 50, 50, 50 * 10**7)
    assert said["seconds_left"] == 0


def test_no_units_no_job(spark: SparkSession) -> None:
    assert fanout.spread(spark, "verify", [], row, SCHEMA, size=len).num_rows == 0


@pytest.mark.parametrize("do", [die_once, locked_once])
def test_a_lost_task_is_run_again(spark: SparkSession, tmp_path: Path, do: object) -> None:
    marker = str(tmp_path / "marker")
    table = fanout.spread(spark, "apply", [marker], do, SCHEMA, size=len)
    assert table["unit"].to_pylist() == [marker]


def test_a_retry_that_cannot_help_is_not_made(spark: SparkSession, tmp_path: Path) -> None:
    tries = tmp_path / "tries"
    with pytest.raises(CorruptFile, match="at byte 7: no such thing"):
        fanout.spread(spark, "verify", [str(tries)], corrupt, SCHEMA, size=len)
    assert tries.read_text() == "x"


def test_our_error_also_after_the_last_retry(spark: SparkSession) -> None:
    with pytest.raises(Locked, match="/some/dir: held by a broker"):
        fanout.spread(spark, "apply", ["/some/dir"], always_locked, SCHEMA, size=len)


def test_attempts_are_known() -> None:
    assert fanout._attempts("local[*]", "4") == 1
    assert fanout._attempts("local", "4") == 1
    assert fanout._attempts("local[2,4]", "9") == 4
    assert fanout._attempts("spark://host:7077", "9") == 9


def test_the_limit_of_a_batch_holds_in_tasks_too(spark: Any) -> None:
    from kafkats.codecs import limit

    def do(unit: int) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([{"limit": limit.allowed()}], schema=schema)

    schema = pa.schema([("limit", pa.int64())])
    arguments = importlib.import_module("arguments")
    try:
        assert arguments.BATCH_LIMIT("1MiB") == 1024**2
        assert fanout.spread(spark, "x", [1, 2], do, schema, size=lambda _: 1)["limit"].to_pylist() == [1024**2] * 2
    finally:
        limit.allow(limit.MAX_OUTPUT_BYTES)
