"""Runs commands and jobs of one commit, in one process: what starts it puts that commit's folders on PYTHONPATH.

Standard input has one JSON object per line: {"kind", "words", "out", "err"}. The answer is one line on the standard output
that this process began with: {"code": n}. What a command prints goes into the files `out` and `err`.

kind    command    `words` are the words of the kafkats command
        job        `words` are the path of a spark_jobs script and its words
        dags       the DAGs of the folder words[0], as JSON into `out`

Nothing of the tests is imported here: it would be the same code on both sides.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import traceback
from pathlib import Path
from typing import Any

CRASHED = 99
"""An exit code that kafkats has not: something else than its own errors came out."""


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        request = json.loads(line)
        code = _redirected(request)
        answers.write(json.dumps({"code": code}) + "\n")
        answers.flush()


def _redirected(request: dict[str, Any]) -> int:
    """Do one request with the descriptors 1 and 2 on its files: also what C and Java print goes there."""
    saved = os.dup(1), os.dup(2)
    for fd, name in ((1, "out"), (2, "err")):
        file = os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, fd)
        os.close(file)
    streams = sys.stdout, sys.stderr
    try:
        with (
            open(1, "w", closefd=False, encoding="utf-8") as out,
            open(2, "w", closefd=False, encoding="utf-8") as err,
        ):
            sys.stdout, sys.stderr = out, err
            return _code(request["kind"], request["words"])
    finally:
        sys.stdout, sys.stderr = streams
        for fd in (1, 2):
            os.dup2(saved[fd - 1], fd)
            os.close(saved[fd - 1])


def _code(kind: str, words: list[str]) -> int:
    try:
        {"command": _command, "job": _job, "dags": _dags}[kind](words)
    except SystemExit as e:
        return e.code if isinstance(e.code, int) else int(e.code is not None)
    except BaseException:
        traceback.print_exc()
        return CRASHED
    return 0


def _command(words: list[str]) -> None:
    from kafkats.cli import main as kafkats

    kafkats(words)


def _job(words: list[str]) -> None:
    sys.argv = words
    runpy.run_path(words[0], run_name="__main__")


def _dags(words: list[str]) -> None:
    """Ids, edges and params; texts for people are left out."""
    from airflow.dag_processing.dagbag import BundleDagBag

    folder = Path(words[0])
    bag = BundleDagBag(dag_folder=folder, bundle_path=folder, bundle_name="dags-folder")
    if bag.import_errors:
        raise RuntimeError(bag.import_errors)
    found = {
        dag_id: {
            "tasks": {
                task.task_id: {"type": task.task_type, "then": sorted(task.downstream_task_ids)}
                for task in dag.tasks
            },
            "params": {name: _param(dag.params.get_param(name)) for name in dag.params},
        }
        for dag_id, dag in sorted(bag.dags.items())
    }
    print("\n" + json.dumps(found, default=repr))


def _param(param: Any) -> dict[str, Any]:
    texts = ("title", "description", "description_md", "section", "examples", "values_display")
    return {
        "default": param.value,
        "schema": {key: value for key, value in param.schema.items() if key not in texts},
    }


if __name__ == "__main__":
    main()
