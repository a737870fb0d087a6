"""Commands and jobs are one command line: a job gives it another executor, and nothing else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kafkats.cli import cli
from kafkats.request import VERBS

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
        "kafkats.cli.performing.Files",
        "kafkats.cli.performing.run_request",
        "kafkats.progress.Teller",
        "kafkats.progress.telling",
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


def test_each_verb_is_a_command_a_job_and_a_module() -> None:
    flow = {path.stem for path in (ROOT / "kafkats/flow/verbs").glob("[!_]*.py")}
    jobs = {path.stem: path for path in (ROOT / "spark_jobs").glob("*.py")}
    assert flow == {*VERBS} and flow <= cli.commands.keys()
    assert {*jobs} == {*VERBS, "command", "fanout", "jvm"}
    for name in {*jobs} - {"fanout", "jvm"}:
        module = ast.parse(jobs[name].read_text())
        assert [ast.unparse(one) for one in module.body[1:]] == [
            "import fanout",
            "if __name__ == '__main__':\n    fanout.main(__file__)",
        ]
