"""A new operation is three files: its room, the registry, its DAG.

The room and the DAG in tests/project/new_operation are added to a copy of the product. Nothing else
is changed there but two lines of the registry.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

from kafkats.errors import CorruptPlan
from kafkats.operations import OPERATIONS, operation
from kafkats.plans.operation import Operation
from tests.builders.directories import contents, unpacked
from tests.project.references import ROOT

NEW: Final = ROOT / "tests" / "project" / "new_operation"
PRODUCT: Final = ("kafkats", "pyspark_kafkats", "spark_jobs", "plugins", "dags")
PARSED: Final = """
import json
from kafkats_airflow.dags import kafkats_dags
dag = kafkats_dags()["prune_time_indexes"]
params = {name: dag.params.get_param(name).dump()["value"] for name in dag.params}
print(json.dumps([sorted(dag.task_ids), params]))
"""
ARGUMENTS: Final = """
import json, sys
from types import SimpleNamespace
from kafkats_airflow.jobs.applications import planning
dag, params = SimpleNamespace(dag_id="prune_time_indexes"), json.loads(sys.argv[1])
print(json.dumps(planning({"params": params, "run_id": "r", "dag": dag}, "prune")))
"""


@pytest.mark.parametrize("one", OPERATIONS.values(), ids=OPERATIONS)
def test_an_operation_has_the_modules_that_it_names(one: Operation) -> None:
    assert callable(one.writes().check_item) and callable(one.writes().stage_partition)
    assert callable(import_module(one.proof).prove)


def test_an_operation_is_found_by_the_name_in_its_plans() -> None:
    assert all(operation(name).name == name for name in OPERATIONS)
    with pytest.raises(CorruptPlan, match="cannot apply a plan of operation 'shrink'"):
        operation("shrink")


@pytest.fixture
def product(tmp_path: Path) -> Path:
    """A copy of the product with the new operation."""
    to = tmp_path / "product"
    for folder in PRODUCT:
        shutil.copytree(ROOT / folder, to / folder)
    room = to / "kafkats" / "pruning"
    room.mkdir()
    (room / "__init__.py").touch()
    shutil.copy(NEW / "operation.py", room)
    shutil.copy(NEW / "prune_time_indexes.py", to / "plugins" / "kafkats_airflow" / "dags")
    registry = to / "kafkats" / "operations.py"
    text = registry.read_text()
    (line,) = (line for line in text.splitlines() if line.endswith(" as REBUILD"))
    added = "from kafkats.pruning.operation import OPERATION as PRUNE"
    text = text.replace(line, f"{added}\n{line}").replace("(REBUILD,", "(PRUNE, REBUILD,")
    registry.write_text(text)
    return to


def ran(product: Path, *words: object, code: int = 0, env: dict[str, str] | None = None) -> str:
    """Run Python in the copy. Return the last line that it prints."""
    paths = [product, product / "plugins"]
    given = (env or os.environ) | {"PYTHONPATH": os.pathsep.join(map(str, paths))}
    command = [sys.executable, *map(str, words)]
    end = subprocess.run(command, cwd=product, env=given, capture_output=True, text=True)
    assert end.returncode == code, end.stdout + end.stderr
    return end.stdout.splitlines()[-1]


@pytest.mark.slow(7)
def test_a_new_operation_is_three_files(
    product: Path, tmp_path: Path, java: dict[str, str]
) -> None:
    root, plan = unpacked("rolling-4.3.1", tmp_path), tmp_path / "plan"
    before = contents(root)
    command = ("-m", "kafkats", "plan", "prune", root, "--at-least", "1KiB", "--json", "-o", plan)
    assert json.loads(ran(product, *command))["summary"]["files"] == 0
    command = ("-m", "kafkats", "plan", "prune", root, "--json", "-o", plan)
    planned = json.loads(ran(product, *command))["summary"]
    assert planned["files"] > 0
    assert ran(product, "-m", "kafkats", "show", plan).startswith("to do it: kafkats apply")
    digest = planned["digest"]
    job = (product / "spark_jobs" / "plan.py", "prune", root, "-o", tmp_path / "job")
    ran(product, *job, env=java)
    assert json.loads((tmp_path / "job" / "plan.json").read_text())["digest"] == digest
    done = ran(product, "-m", "kafkats", "apply", plan, "--digest", digest, "--json")
    proof = json.loads(done)["summary"]["proof"]
    assert (proof["files"], proof["equal"]) == (planned["files"], planned["files"])
    assert len(before) - len(contents(root)) == planned["files"]
    words = ("-m", "kafkats", "verify", root, "--of-run", tmp_path / "plan.run")
    assert ran(product, *words).startswith(f"proved: {planned['files']} of {planned['files']}")
    ran(product, "-m", "kafkats", "undo", tmp_path / "plan.run")
    assert contents(root) == before


@pytest.mark.slow(4)
def test_the_dag_of_a_new_operation_has_its_form(product: Path, tmp_path: Path) -> None:
    env = os.environ | {
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    }
    tasks, params = json.loads(ran(product, "-c", PARSED, env=env))
    assert tasks == sorted([
        "applications",
        "plan",
        "changes",
        "approve",
        "apply",
        "verify",
        "release",
        "report",
    ])
    assert list(params)[:3] == ["dry_run", "need_approval", "volumes"]
    assert {"policy", "folder"} <= {*params}
    policy = tmp_path / "policy.yaml"
    policy.write_text("volumes:\n  - {broker: '1', path: /volumes/one}\n")
    given = params | {"policy": str(policy), "folder": str(tmp_path / "runs"), "at_least": "2KiB"}
    (one,) = json.loads(ran(product, "-c", ARGUMENTS, json.dumps(given), env=env))
    request = one["request"]
    assert (request["operation"], request["log_dirs"]) == ("prune", ["/volumes/one"])
    assert {"at_least": 2048} in request["options"].values()
