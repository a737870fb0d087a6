"""What every DAG keeps to."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kafkats_airflow.failing import in_our_words
from kafkats_airflow.forms.params import form

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "plugins/kafkats_airflow/dags").glob("[!_]*.py"))
HEAVY = {"numpy", "numba", "pyarrow", "pyspark", "pandas", "matplotlib", "kafkats"}


def test_every_module_gives_its_dag(bag: Any) -> None:
    assert bag.import_errors == {}
    assert sorted(bag.dags) == [path.stem for path in FILES]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_short_and_light(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 100
    tops = {
        alias.name.partition(".")[0]
        for node in ast.parse(text).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in (
            node.names if isinstance(node, ast.Import) else [ast.alias(node.module or "")]
        )
    }
    assert not tops & HEAVY


def test_prose_owner_and_tags(bag: Any) -> None:
    for dag in bag.dags.values():
        assert dag.doc_md and len(dag.doc_md) > 500
        assert "**When it fails.**" in dag.doc_md
        assert dag.description
        assert "kafkats" in dag.tags
        [operation] = [tag.removeprefix("kafkats:") for tag in dag.tags if ":" in tag]
        assert set(dag.params) == set(form(operation)), "its tag names its form"
        assert dag.catchup is False
        assert dag.max_active_runs == (
            4
            if dag.dag_id == "end_run"
            or ("release" in dag.task_dict and "gate" not in dag.task_dict)
            else 1
        )
        for task in dag.tasks:
            assert task.owner == "kafka"
            assert task.retries >= 1, f"{task.task_id}: everything here may be tried again"


def test_every_param_says_what_it_is(bag: Any) -> None:
    for dag in bag.dags.values():
        for name in dag.params:
            assert dag.params.get_param(name).description, name


@pytest.mark.slow(3)
def test_parsing_loads_nothing_heavy() -> None:
    code = f"import sys, kafkats_dags; print(*{HEAVY - {'kafkats'}!r} & {{*sys.modules}})"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'dags'}:{ROOT / 'plugins'}:{ROOT}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.split() == []


def test_the_page_is_what_the_docstrings_say() -> None:
    subprocess.run([sys.executable, str(ROOT / "tools" / "dags_page.py"), "--check"], check=True)


def test_every_python_task_fails_in_our_words(bag: Any) -> None:
    """Each calls one function, and that is decorated."""
    tasks = [
        task for dag in bag.dags.values() for task in dag.tasks if hasattr(task, "python_callable")
    ]
    assert len(tasks) > len(bag.dags)
    for task in tasks:
        function = inspect.getclosurevars(task.python_callable).nonlocals["do"]
        function = getattr(function, "func", function)  # of a partial
        assert function.__code__ is in_our_words(len).__code__, task
