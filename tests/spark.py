"""The Spark of the tests: one session in a process, two task slots, four attempts per task, a real Python worker pool.

`python -m tests.spark` makes the archive of Java's parsed classes with which every JVM of the tests starts in a bit more than
half of the time. Without it they are slower, and do the same.
"""

from __future__ import annotations

import hashlib
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def archive_file() -> Path:
    """The archive for this Java and this Spark: another of either has another name."""
    java = Path(os.environ.get("JAVA_HOME", "/")) / "release"
    release = java.read_bytes() if java.is_file() else b""
    key = hashlib.sha256(release + version("pyspark").encode()).hexdigest()[:16]
    return Path(sys.prefix) / f"spark-classes-{key}.jsa"


def java_options() -> str:
    """Options of a JVM that starts quickly."""
    archive = archive_file()
    if not archive.exists():
        return QUICK_START
    # spark-submit's launcher has another class path, cannot use the archive, and would say so.
    return f"{QUICK_START} -XX:SharedArchiveFile={archive} -Xlog:cds=off -Xlog:cds+dynamic=off"


def make_archive() -> None:
    """Run a small job, and keep the classes that its driver loaded. Does nothing if there is an archive."""
    if (archive := archive_file()).exists():
        return
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix="spark-classes-") as folder:
        (partition := Path(folder, "data", "t-0")).mkdir(parents=True)
        (partition / "00000000000000000000.log").touch()
        made = Path(folder, archive.name)
        keep = f"-XX:ArchiveClassesAtExit={made} -Xlog:cds=off -Xlog:cds+dynamic=off"
        subprocess.run(
            [
                *("spark-submit", "--master", "local[2,4]", "--driver-java-options", keep),
                *(str(ROOT / "spark_jobs" / "inventory.py"), str(partition.parent)),
            ],
            env=os.environ | JAVA | {"JDK_JAVA_OPTIONS": QUICK_START},
            check=True,
            timeout=300,
            stdout=subprocess.DEVNULL,
        )
        made.replace(archive)


sys.path.insert(0, str(ROOT / "spark_jobs"))

JAVA = {
    "PYSPARK_PYTHON": sys.executable,
    "SPARK_LOCAL_IP": "127.0.0.1",
    "JDK_JAVA_OPTIONS": java_options(),
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


def executor(session: Any) -> Any:
    """The executor of a job in this session, which prints its progress."""
    import fanout

    from pyspark_kafkats.execution import SparkExecutor

    return SparkExecutor(session, partial(fanout.say, fanout.PROGRESS))


if __name__ == "__main__":
    make_archive()
