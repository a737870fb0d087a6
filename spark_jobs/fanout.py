"""Run a command of kafkats as a Spark job: same words, same result, its stages in Spark tasks.

Instead of words a job of a verb that requests have (kafkats.request) takes two files:

    spark-submit spark_jobs/apply.py --request REQUEST.json --result RESULT.json

Standard output carries, besides people's lines, one JSON object per marker line:

    KAFKATS_PROGRESS    done and total units and bytes, bytes per second, seconds left, failed
                        tasks, the Spark UI
    KAFKATS_RESULT      the command's summary; after an error {"error", "kind", "retryable"}, the
                        fields of the error, and what was done before it; the last line of a job
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Final

from kafkats.cli import JOB, LazyExecutor, Session, run, run_request
from pyspark_kafkats.execution import PROGRESS_SECONDS, Progress, SparkExecutor
from pyspark_kafkats.session import SETTINGS, open_executor

__all__ = ["PROGRESS", "RESULT", "SETTINGS", "end_with_the_jvm", "run_job", "say", "words_of"]

PROGRESS: Final = "KAFKATS_PROGRESS"
RESULT: Final = "KAFKATS_RESULT"


def run_job(*command: str) -> int:
    """Run `command` with the words that this process was given, and print its result. Returns the
    exit code.
    """
    end_with_the_jvm()
    rates: dict[str, Progress] = {}
    with LazyExecutor(partial(started, " ".join(["kafkats", *command]), rates)) as executor:
        session = Session(executor, JOB)
        code = _run(command, sys.argv[1:], session)
    if session.error is None:
        say(RESULT, {**session.result(), "rates": rates})
    else:
        say(RESULT, session.result())
    return code


def _run(command: Sequence[str], given: Sequence[str], session: Session) -> int:
    """Run the command with the given words, or the request in the given files."""
    match given:
        case ["--request", request, "--result", result]:
            return run_request(Path(request), Path(result), session, " ".join(command))
    return run(words_of(command, given), session)


def words_of(command: Sequence[str], given: Sequence[str]) -> list[str]:
    """Return the words of the command.

    In the job `plan`, --reserve HOLDER is the old name of --holder HOLDER.
    """
    if tuple(command) != ("plan",):
        return [*command, *given]
    words = []
    for word, following in zip_longest(given, given[1:], fillvalue="-"):
        old = word == "--reserve" and not following.startswith("-")
        words.append("--holder" if old else word.replace("--reserve=", "--holder=", 1))
    return [*command, *words]


@contextmanager
def started(name: str, rates: dict[str, Progress]) -> Generator[SparkExecutor]:
    """Start a Spark application that prints its progress; `rates` gets the last of each stage."""
    with open_executor(name, progress=partial(say, PROGRESS)) as executor:
        say(PROGRESS, {"stage": "started", "ui": executor.spark.sparkContext.uiWebUrl})
        try:
            yield executor
        finally:
            rates |= executor.rates


def end_with_the_jvm() -> None:
    """End this driver when the JVM that submitted it is gone.

    Nobody would read its result, and another driver may have started.
    """
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # started without spark-submit
        return
    jvm = os.getppid()

    def watch() -> None:
        while os.getppid() == jvm:
            time.sleep(PROGRESS_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="watch the JVM").start()


def say(marker: str, content: Mapping[str, object]) -> None:
    """One marker line on standard output. A single write, so that it never mixes with another
    thread's.
    """
    sys.stdout.write(f"{marker} {json.dumps(content, separators=(',', ':'))}\n")
    sys.stdout.flush()
