"""One commit at work: its product folders, and the process in which its commands and jobs run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests import spark
from tools.same import words


class Ended(NamedTuple):
    code: int
    out: str
    err: str


class Side:
    """One commit: its product folders, and a process in which its commands run."""

    def __init__(self, name: str, tree: Path, into: Path) -> None:
        self.name, self.tree = name, tree
        self.out = (
            into / f"{name:_<6}"
        )  # equally long on both sides: tables are as wide as their paths
        self.out.mkdir(parents=True)
        self._process: subprocess.Popen[str] | None = None

    def ask(self, kind: str, given: Iterable[str], data: Path) -> None:
        """Begin one request; `answer` waits for its end."""
        named = [word.replace("@DATA", str(data)).replace("@OUT", str(self.out)) for word in given]
        named = [word.replace("@JOBS", str(self.tree / "spark_jobs")) for word in named]
        request = {
            "kind": kind,
            "words": named,
            "out": str(self.out / ".out"),
            "err": str(self.out / ".err"),
        }
        stdin = self._running().stdin
        assert stdin is not None
        stdin.write(json.dumps(request) + "\n")
        stdin.flush()

    def answer(self) -> Ended:
        process = self._running()
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            self._process = None
            raise SystemExit(
                f"{self.name}: its process ended: {(self.out / '.err').read_text()[-2000:]}"
            )
        texts = [(self.out / name).read_text(errors="replace") for name in (".out", ".err")]
        return Ended(json.loads(line)["code"], *texts)

    def do(self, step: words.Step, data: Path) -> Ended:
        self.ask("job" if step.job else "command", step.words, data)
        return self.answer()

    def clear(self) -> None:
        for path in self.out.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def end(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait()

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            names = ("", "model", "spark_jobs", "plugins")
            paths = [self.tree / name for name in names if (self.tree / name).is_dir()]
            env = os.environ | spark.JAVA | {
                "PYTHONPATH": os.pathsep.join(map(str, paths)),
                "PYTHONSAFEPATH": "1",
                "PYSPARK_SUBMIT_ARGS": "--master local[2] --conf spark.ui.enabled=false pyspark-shell",
                "AIRFLOW_HOME": str(self.out.parent / f"{self.name}.airflow"),
                "AIRFLOW__CORE__DAGS_FOLDER": str(self.tree / "dags"),
                "AIRFLOW__CORE__PLUGINS_FOLDER": str(self.tree / "plugins"),
                "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
                "USER": "ops",
                "COLUMNS": "160",
            }  # fmt: skip
            worker = Path(__file__).with_name("worker.py")
            self._process = subprocess.Popen(
                [sys.executable, worker],
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        return self._process
