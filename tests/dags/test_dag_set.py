"""Sets of DAGs: one for the deployment's policy, and others with a prefix."""

from __future__ import annotations

from typing import Any

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
    assert get_provider_info()["package-name"] == "kafkats"
    assert (shipped.JOBS / "plan.py").is_file()
