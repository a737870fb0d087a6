"""Commands and jobs are one command line: a job gives it another executor, and nothing else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from kafkats.cli import cli

ROOT: Final = Path(__file__).parents[2]
PRODUCT: Final = ("kafkats", "pyspark_kafkats", "spark_jobs", "plugins", "dags")


def imported(folder: Path) -> Iterator[str]:
    """What of the library the modules in `folder` import, as module.name."""
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from (one.name for one in node.names if one.name.startswith("kafkats"))
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            if isinstance(node, ast.ImportFrom) and module.partition(".")[0] == "kafkats":
                yield from (f"{module}.{alias.name}" for alias in node.names)


def test_jobs_import_the_command_line_alone() -> None:
    assert set(imported(ROOT / "spark_jobs")) == {
        "kafkats.cli.JOB",
        "kafkats.cli.LazyExecutor",
        "kafkats.cli.Session",
        "kafkats.cli.run",
        "kafkats.cli.run_request",
    }


def test_words_are_declared_in_one_way() -> None:
    """The command line is click's; nothing beside it parses words."""
    found = [
        str(path.relative_to(ROOT))
        for folder in PRODUCT
        for path in (ROOT / folder).rglob("*.py")
        if any(word in path.read_text() for word in ("add_argument", "argparse"))
    ]
    assert found == []


@pytest.mark.parametrize("script", sorted((ROOT / "spark_jobs").glob("*.py")), ids=lambda p: p.stem)
def test_a_job_runs_the_command_of_its_name(script: Path) -> None:
    if script.stem == "fanout":
        return
    calls = [
        node
        for node in ast.walk(ast.parse(script.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "run_job"
    ]
    words = [one.value for call in calls for one in call.args if isinstance(one, ast.Constant)]
    assert len(calls) == 1
    assert words == ([] if script.stem == "command" else [script.stem])
    assert script.stem == "command" or script.stem in cli.commands
