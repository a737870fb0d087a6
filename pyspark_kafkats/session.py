"""A Spark application for the stages of a command."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from pyspark import SparkConf
from pyspark.sql import SparkSession

from pyspark_kafkats.execution import Progress, SparkExecutor

SETTINGS: Final = {
    # Small Python tasks start in 5 ms instead of 50.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.faulthandler.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
    # Tasks with a host wait for it (pyspark_kafkats.placing): another one sees another volume.
    "spark.locality.wait": "1h",
    "spark.log.level": "WARN",
}


@contextmanager
def open_executor(
    name: str,
    *,
    master: str | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
) -> Generator[SparkExecutor]:
    """Start the application `name`, and stop it at the end.

    `master` is Spark's, of spark-submit if not given. `progress` is called as SparkExecutor says.
    """
    conf = SparkConf()
    for key, value in SETTINGS.items():
        conf.setIfMissing(key, value)
    if master is not None:
        conf.setMaster(master)
    with SparkSession.builder.appName(name).config(conf=conf).getOrCreate() as spark:
        yield SparkExecutor(spark, progress)
