"""Run a job's command line in the tests' Spark session."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import fanout

from kafkats.cli import JOB, Session, run
from kafkats.cli.performing import Files, run_request
from kafkats.errors import KafkatsError
from kafkats.execution.executor import Executor

ROOT: Final = Path(__file__).parents[2]


def job(executor: Executor, name: str, *words: object) -> dict[str, Any]:
    """The result of spark_jobs/NAME.py with these words, and its exit code. Raises the error that it tells."""
    session = Session(executor, JOB)
    code = run(fanout.words_of([name], [str(word) for word in words]), session)
    if session.error is not None:
        raise session.error
    return {**session.result(), "exit_code": code}


def run_files(executor: Executor, name: str, files: Files) -> KafkatsError | None:
    """Run the request in the files, as spark_jobs/NAME.py does. Returns the error that ended it."""
    session = Session(executor, JOB)
    run_request(files, session, "" if name == "command" else name)
    return session.error


def options(**given: Any) -> list[object]:
    """The words for options named like keywords: a flag for True, nothing for False and None."""
    words: list[object] = []
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        if isinstance(value, bool) or value is None:
            words += [option] if value else []
        elif isinstance(value, list):
            words += [word for one in value for word in (option, one)]
        else:
            words += [option, value]
    return words


def rows_of(*given: object) -> list[dict[str, Any]]:
    """The rows of a kafkats command, and at their end its summary."""
    command = [
        sys.executable,
        "-c",
        "from kafkats.cli import main; main()",
        *map(str, given),
        "--json",
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert ran.returncode in {0, 1}, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]
