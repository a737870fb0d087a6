"""What the Spark jobs share: a session, an executor on it, and what they print.

Standard output carries, besides people's lines, one JSON object per marker line:

    KAFKATS_PROGRESS    done and total units and bytes, bytes per second, seconds left, failed tasks, the Spark UI
    KAFKATS_RESULT      the job's summary, or {"error", "kind", "retryable"}; the last line of a job
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from pyspark import SparkConf
from pyspark.sql import SparkSession

from kafkats.errors import KafkatsError
from pyspark_kafkats.execution import PROGRESS_SECONDS, SparkExecutor

PROGRESS: Final = "KAFKATS_PROGRESS"
RESULT: Final = "KAFKATS_RESULT"

SETTINGS: Final = {
    # Small Python tasks start in 5 ms instead of 50.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.faulthandler.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
}


def run_job(name: str, job: Callable[[SparkExecutor], Mapping[str, Any]]) -> int:
    """Run `job` in a Spark session and print its result. Returns the exit code, as the command line has them."""
    conf = SparkConf()
    for key, value in SETTINGS.items():
        conf.setIfMissing(key, value)
    _end_with_the_jvm()
    with SparkSession.builder.appName(name).config(conf=conf).getOrCreate() as spark:
        say(PROGRESS, {"stage": "started", "ui": spark.sparkContext.uiWebUrl})
        executor = SparkExecutor(spark, partial(say, PROGRESS))
        try:
            result = dict(job(executor))
        except KafkatsError as e:
            print(f"{name}: {e}", file=sys.stderr)
            say(RESULT, {"error": str(e), "kind": type(e).__name__, "retryable": e.retryable})
            return e.exit_code
    code = int(result.pop("exit_code", 0))
    say(RESULT, result | {"rates": executor.rates})
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


def say(marker: str, content: Mapping[str, Any]) -> None:
    """One marker line on standard output. A single write, so that it never mixes with another thread's."""
    sys.stdout.write(f"{marker} {json.dumps(content, separators=(',', ':'))}\n")
    sys.stdout.flush()
