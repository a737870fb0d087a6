"""Sets of DAGs: one for the deployment's policy, and others with a prefix."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module, metadata, resources
from typing import Any

import jsonschema
import pytest
from airflow.sdk.definitions.mappedoperator import MappedOperator
from kafkats_airflow import shipped
from kafkats_airflow.bundle import KafkatsDagBundle
from kafkats_airflow.dag_set import NAMES
from kafkats_airflow.dags import kafkats_dags
from kafkats_airflow.forms.tags import deployed_dag
from kafkats_airflow.jobs.spark_job import KafkatsJobOperator
from kafkats_airflow.provider import get_provider_info

from kafkats.errors import UsageError

POLICY = "/etc/kafkats/west.yaml"


def pools(dag: Any, submits: bool) -> set[str]:
    """The pools of the tasks that submit to Spark, or of the others."""
    return {
        task.pool
        for task in dag.tasks
        if submits
        is (
            isinstance(task, MappedOperator) and issubclass(task.operator_class, KafkatsJobOperator)
        )
    }


def assets(dag: Any) -> set[str]:
    return {one.name for task in dag.tasks for one in task.outlets}


def test_all_without_arguments() -> None:
    made = kafkats_dags()
    assert tuple(made) == NAMES == tuple(dag.dag_id for dag in made.values())
    assert len(NAMES) == 9


def test_another_set_shares_nothing_with_the_first() -> None:
    first, west = kafkats_dags(), kafkats_dags(prefix="west_", params={"policy": POLICY})
    assert list(west) == [f"west_{name}" for name in first]
    for name, dag in first.items():
        other = west[f"west_{name}"]
        assert assets(other) == {f"west_{one}" for one in assets(dag)}
        assert sorted(other.task_ids) == sorted(dag.task_ids)
        assert {**other.params.dump(), "policy": ""} == {**dag.params.dump(), "policy": ""}
        (found,) = [deployed_dag(other.dag_id, other.tags, other.params.dump())]
        assert found is not None and found.policy == (POLICY if "policy" in dag.params else "")


def test_what_a_set_can_have_of_its_own() -> None:
    made = kafkats_dags(
        "apply_retention",
        "rebuild_time_indexes",
        params={"dry_run": False, "undo_days": 3},
        schedules={"apply_retention": "15 4 * * *", "rebuild_time_indexes": None},
        pool="disks",
        tags=["west"],
    )
    retain, rebuild = made["apply_retention"], made["rebuild_time_indexes"]
    assert (retain.schedule, rebuild.schedule) == ("15 4 * * *", None)
    assert retain.params["undo_days"] == 3 and retain.params["dry_run"] is False
    assert "undo_days" not in rebuild.params and rebuild.params["dry_run"] is False
    assert {"west", "kafkats"} <= {*retain.tags} & {*rebuild.tags}
    for dag in made.values():
        assert pools(dag, submits=True) == {"disks"}
        assert pools(dag, submits=False) == {"default_pool"}


@pytest.mark.parametrize(
    ("names", "given", "says"),
    [
        (["rebuild_time_index"], {}, "did you mean 'rebuild_time_indexes'"),
        ([], {"schedules": {"west_end_run": None}}, "'west_end_run' is no DAG of kafkats"),
        (
            [],
            {"params": {"polcy": POLICY}},
            "'polcy' is no param of kafkats; did you mean 'policy'",
        ),
        (["end_run"], {"params": {"before": "2026-01-01"}}, "'before' is no param of kafkats"),
    ],
)
def test_what_no_dag_has_is_refused(names: list[str], given: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        kafkats_dags(*names, **given)


def test_the_bundle_is_the_folder_of_one_file() -> None:
    bundle = KafkatsDagBundle(name="kafkats")
    assert bundle.path == shipped.DAGS
    assert [path.name for path in bundle.path.glob("*.py")] == ["kafkats_dags.py"]


def test_the_provider_and_the_jobs() -> None:
    schema = json.loads((resources.files("airflow") / "provider_info.schema.json").read_text())
    found = get_provider_info()
    jsonschema.validate(found, schema)
    assert (found["package-name"], found["versions"]) == ("kafkats", [metadata.version("kafkats")])
    for group in ("bundles", "operators"):
        for one in found[group]:
            for module in one["python-modules"]:
                import_module(module)
    assert (shipped.JOBS / "plan.py").is_file()


ABSENT = """
import sys
from pkgutil import walk_packages

absent = {"numba", "llvmlite", "pandas", "pyspark", "airflow.providers.apache.spark.hooks"}


class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Absent())
from importlib import import_module
import kafkats_airflow
from kafkats_airflow.dags import kafkats_dags

for one in walk_packages(kafkats_airflow.__path__, "kafkats_airflow."):
    import_module(one.name)
print(len(kafkats_dags()), *sorted(absent & sys.modules.keys()))
"""


@pytest.mark.slow(4)
def test_no_module_needs_numba_pandas_or_spark() -> None:
    """The api-server, the scheduler and the DAG processor have none of them."""
    ended = subprocess.run([sys.executable, "-c", ABSENT], capture_output=True, text=True)
    assert ended.stdout.splitlines()[-1:] == ["9"], ended.stderr


TABS = """
from kafkats_airflow.kafkats_plugin import KafkatsPlugin
print(*(one["destination"] for one in KafkatsPlugin.external_views))
"""


@pytest.mark.slow(3)
def test_the_tabs_are_a_setting() -> None:
    for value, views in (("off", "nav"), ("", "nav dag dag_run")):
        environ = os.environ | {"KAFKATS_TABS": value}
        command = [sys.executable, "-c", TABS]
        said = subprocess.check_output(command, env=environ, text=True)
        assert said.splitlines()[-1] == views
