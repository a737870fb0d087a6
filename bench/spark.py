"""Spark and Airflow: the gain of two task slots over one thread, and the cost of a run that finds
nothing. Wall time.

The first measures verify --deep of gzip segments, and their conversion to magic 1 as a plan
forecasts it. It uses the jobs' own code on local[2], in a session that has run a job before, beside
the same work in one thread. Two plain processes without Spark take turns with it and show the
capacity of the machine. The second measures airflow dags test of rebuild_time_indexes over a
healthy directory, beside a DAG of one task that submits an application of one empty Spark task.
Both DAGs run with the same settings and take turns.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import pyarrow as pa
import yaml

from bench.harness import (
    MIB,
    ROOT,
    Figure,
    Figures,
    process,
    scratch,
    take_turns,
    tell,
    times_cheaper,
    wall_seconds,
)
from bench.segments import V2_GZIP, write_indexes, write_segment
from kafkats.formats.build import Target
from kafkats.inspect.verify import VerifyOptions, verify_unit
from kafkats.migration.forecast import FORECAST, forecast_unit
from kafkats.plans.facts import SEGMENTS
from kafkats.plans.units import Unit, list_units

SEGMENT_COUNT = 32
ROUNDS = 3
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def figures(*, small: bool = False) -> Figures:
    with scratch() as folder:
        do = partial(verify_unit, options=VerifyOptions(deep=True))
        yield from _two_slots(
            folder, (1 if small else 32) * MIB, "verify --deep of gzip", do, SEGMENTS, ()
        )
    with scratch() as folder:
        do = partial(forecast_unit, target=Target(1))
        yield from _two_slots(
            folder, (1 if small else 4) * MIB, "conversion of gzip", do, FORECAST, ("seconds",)
        )
    with scratch() as folder:
        yield _nothing_found(folder)


def _two_slots(
    folder: Path,
    size: int,
    what: str,
    do: Callable[[Unit], pa.RecordBatch],
    schema: pa.Schema,
    untold: Sequence[str],
) -> Figures:
    """`untold` are columns that differ from run to run."""
    sys.path.insert(0, str(ROOT / "spark_jobs"))
    import fanout
    from pyspark.sql import SparkSession

    from pyspark_kafkats.execution import SparkExecutor

    root = folder / "data"
    for n in range(SEGMENT_COUNT):
        write_indexes(write_segment(root / f"zipped-{n}", V2_GZIP, size))
    (root / ".kafka_cleanshutdown").touch()
    units = list(list_units([root]))
    builder = (
        SparkSession.builder.master("local[2]").appName("bench").config("spark.ui.enabled", "false")
    )
    for key, value in fanout.SETTINGS.items():
        builder = builder.config(key, value)
    with (
        ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool,
        builder.getOrCreate() as spark,
    ):
        executor = SparkExecutor(spark)

        def spread() -> pa.Table:
            return executor.map("bench", units, do, schema, size=_size)

        def plain() -> list[object]:
            return list(pool.map(do, units))

        plain()
        one = pa.Table.from_batches([do(unit) for unit in units])
        if _told(spread(), untold) != _told(one, untold):
            raise RuntimeError("the job found other things than one thread")
        costs = take_turns(
            {
                "one thread": lambda: wall_seconds(lambda: [do(unit) for unit in units]),
                "local[2]": lambda: wall_seconds(spread),
                "two processes": lambda: wall_seconds(plain),
            },
            ROUNDS,
            warm=0,
        )
    seconds = {name: statistics.median(cost) for name, cost in costs.items()}
    work = f"{sum(unit.bytes for unit in units) / 1e9:.2f} GB: one thread {seconds['one thread']:.1f} s"
    for name, label, goal in (
        ("local[2]", f"{what} on local[2], a session's later job / one thread", 1.6),
        ("two processes", f"{what} in two processes without Spark / one thread", None),
    ):
        told = f"{work}, {name} {seconds[name]:.1f} s"
        yield Figure(label, times_cheaper(costs, name, "one thread"), "x", goal, detail=told)
    yield Figure(
        f"{what} on local[2] / two processes without Spark",
        times_cheaper(costs, "local[2]", "two processes"),
        "x",
        detail=f"{seconds['two processes']:.1f} s / {seconds['local[2]']:.1f} s",
    )


def _told(table: pa.Table, untold: Sequence[str]) -> pa.Table:
    return table.drop_columns(list(untold)).sort_by("partition_dir").combine_chunks()


def _size(unit: Unit) -> int:
    return unit.bytes


def _nothing_found(folder: Path) -> Figure:
    root = folder / "data"
    for n in range(4):
        write_indexes(write_segment(root / f"healthy-{n}", V2_GZIP, MIB))
    (root / ".kafka_cleanshutdown").touch()
    (root / ".lock").touch()
    policy = folder / "policy.yaml"
    policy.write_text(yaml.safe_dump({"volumes": [{"broker": "1", "path": str(root)}]}))
    empty = folder / "dags"
    empty.mkdir()
    (empty / "empty.py").write_text(_EMPTY_DAG)
    (empty / "nothing.py").write_text(_EMPTY_APPLICATION)
    environment = {
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder}/airflow/airflow.db",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2]"}',
        "JDK_JAVA_OPTIONS": QUICK_JVM,
        "PYTHONPATH": str(ROOT),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    (folder / "airflow").mkdir()
    tell("airflow db migrate")
    process(["airflow", "db", "migrate"], **environment)

    def test(dag: str, dags: Path, conf: dict[str, object]) -> float:
        return process(
            ["airflow", "dags", "test", dag, "--conf", json.dumps(conf)],
            **environment | {"AIRFLOW__CORE__DAGS_FOLDER": str(dags)},
        )[0]

    conf = {"policy": str(policy), "folder": str(folder / "reports"), "need_approval": False}
    costs = take_turns(
        {
            "rebuild_time_indexes": lambda: test("rebuild_time_indexes", ROOT / "dags", conf),
            "empty": lambda: test("empty", empty, {}),
        },
        ROUNDS,
        warm=0,
    )
    reports = sorted((folder / "reports").glob("*/*/report.json"))
    if len(reports) != ROUNDS or any(
        json.loads(r.read_text())["seen"]["worst"] not in ("", "remark", "state") for r in reports
    ):
        raise RuntimeError("the healthy directory's runs did not end as expected")
    seconds = {name: statistics.median(cost) for name, cost in costs.items()}
    told = f"{seconds['rebuild_time_indexes']:.1f} s / {seconds['empty']:.1f} s"
    ratio = 1 / times_cheaper(costs, "rebuild_time_indexes", "empty")
    return Figure(
        "a DAG run that finds nothing / an empty spark-submit DAG",
        ratio,
        "x",
        1.3,
        at_least=False,
        detail=told,
    )


_EMPTY_DAG = """
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

with DAG("empty", schedule=None):
    SparkSubmitOperator(task_id="nothing", application=str(Path(__file__).with_name("nothing.py")))
"""
_EMPTY_APPLICATION = """
from pyspark.sql import SparkSession

if __name__ == "__main__":
    with SparkSession.builder.appName("nothing").getOrCreate() as spark:
        spark.sparkContext.parallelize([0], 1).count()
"""
