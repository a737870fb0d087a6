"""The Spark of the tests: one session in a process, two task slots, four attempts per task, a real Python worker pool."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "spark_jobs"))

JAVA = {
    "PYSPARK_PYTHON": sys.executable,
    "SPARK_LOCAL_IP": "127.0.0.1",
    "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    # The tests' own functions, in the workers.
    "PYTHONPATH": f"{ROOT / 'spark_jobs'}{os.pathsep}{ROOT}",
}
"""What a JVM is started with: this Python for the workers, loopback, and quick to start."""


def session() -> Iterator[Any]:
    """The session, stopped at the end."""
    import fanout
    from pyspark.sql import SparkSession

    logging.getLogger("py4j").setLevel(logging.WARNING)
    builder = (
        SparkSession.builder
        .master("local[2,4]")
        .appName("tests")
        .config("spark.ui.enabled", "false")
    )
    for key, value in fanout.SETTINGS.items():
        builder = builder.config(key, value)
    with (
        pytest.MonkeyPatch.context() as patch
    ):  # the JVM keeps it; other tests' programs never see it
        for name, value in JAVA.items():
            patch.setenv(name, value)
        started = builder.getOrCreate()
    yield started
    started.stop()
