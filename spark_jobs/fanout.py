"""Run a command of kafkats as a Spark job: same words, same result, its stages in Spark tasks.

Instead of words a job of a verb that requests have (kafkats.request) takes files:

    spark-submit spark_jobs/apply.py --request REQUEST.json --result RESULT.json [--progress FILE]

Standard output carries, besides people's lines, one JSON object per marker line; with --progress
that file has the progress (kafkats.progress), and there are none:

    KAFKATS_PROGRESS    done and total units and bytes, bytes per second, seconds left, failed
                        tasks, the Spark UI
    KAFKATS_RESULT      the command's summary; after an error {"error", "kind", "retryable"}, the
                        fields of the error, and what was done before it; the last line of a job
"""

from __future__ import annotations

from jvm import end_with_the_jvm  # first: it learns its parent

# isort: split
import json
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Final, NoReturn

from kafkats.cli import JOB, LazyExecutor, Session, run
from kafkats.cli.performing import Files, run_request
from kafkats.progress import Teller, telling
from pyspark_kafkats.execution import Progress, SparkExecutor
from pyspark_kafkats.session import SETTINGS, open_executor

__all__ = ["PROGRESS", "RESULT", "SETTINGS", "end_with_the_jvm", "main", "run_job", "say"]

PROGRESS: Final = "KAFKATS_PROGRESS"
RESULT: Final = "KAFKATS_RESULT"


def main(script: str) -> NoReturn:
    """Run the job that a script is named after; `command` is any. Exits with its code."""
    name = Path(script).stem
    sys.exit(run_job(*(() if name == "command" else (name,))))


def run_job(*command: str) -> int:
    """Run `command` with the words that this process was given, and print its result; or run the
    request in the given files. Returns the exit code.
    """
    end_with_the_jvm()
    match sys.argv[1:]:
        case ["--request", asked, "--result", told]:
            return _run(command, (asked, told), None)
        case ["--request", asked, "--result", told, "--progress", progress]:
            with telling(Path(progress)) as teller:
                return _run(command, (asked, told), teller)
    return _run(command, None, None)


def _run(command: Sequence[str], files: tuple[str, str] | None, teller: Teller | None) -> int:
    """Run the request in the files, or the words of this process."""
    rates: dict[str, Progress] = {}
    name = " ".join(["kafkats", *command])
    tell = teller.tell if teller else partial(say, PROGRESS)
    with LazyExecutor(partial(started, name, rates, tell)) as executor:
        session = Session(executor, JOB)
        if files is None:
            code = run(words_of(command, sys.argv[1:]), session)
        else:
            asked = Files(Path(files[0]), Path(files[1]), rates)
            begun = teller.begin if teller else None
            code = run_request(asked, session, " ".join(command), begun)
    if teller is None:
        say(RESULT, {**session.result(), **({} if session.error else {"rates": rates})})
    return code


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
def started(
    name: str, rates: dict[str, Progress], tell: Callable[[Progress], None]
) -> Generator[SparkExecutor]:
    """Start a Spark application that tells its progress; `rates` gets the last of each stage."""
    with open_executor(name, progress=tell) as executor:
        executor.rates = rates
        tell({"stage": "started", "ui": executor.spark.sparkContext.uiWebUrl})
        yield executor


def say(marker: str, content: Mapping[str, object]) -> None:
    """One marker line on standard output. A single write, so that it never mixes with another
    thread's.
    """
    sys.stdout.write(f"{marker} {json.dumps(content, separators=(',', ':'))}\n")
    sys.stdout.flush()
