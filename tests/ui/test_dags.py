"""Two DAGs of one operation with different policies: each page leads to the one of its run's policy."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.ui.folders import change, ended, reclaimable, volume

COPIES = {
    "rebuild_time_indexes": ("rebuild", "/one.yaml"),
    "rebuild_east": ("rebuild", "/east.yaml"),
    "apply_retention": ("retain", "/one.yaml"),
    "delete_east": ("retain", "/east.yaml"),
    "end_run": ("end", "/one.yaml"),
    "end_east": ("end", "/east.yaml"),
    "offsets_east": ("table", "/east.yaml"),
}


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch, client: Any) -> Any:
    """The pages, where Airflow has COPIES."""
    from kafkats_airflow.ui import rights

    from tests.ui import harness

    deployed(monkeypatch, COPIES)
    everybody = {**harness.PEOPLE, "admin": frozenset(COPIES)}
    monkeypatch.setattr(harness, "PEOPLE", everybody)
    monkeypatch.setattr(rights, "ours", frozenset)
    return client


def deployed(monkeypatch: pytest.MonkeyPatch, copies: dict[str, tuple[str, str]]) -> None:
    from kafkats_airflow.forms.tags import Dag
    from kafkats_airflow.ui import dags

    known = dags.Dags(tuple(Dag(dag_id, *one) for dag_id, one in copies.items()))
    monkeypatch.setattr(dags, "deployed", lambda: known)


def left(folder: Path, dag: str, log_dir: str) -> None:
    """A run of this DAG that found damage and can be undone, and has reclaimable bytes."""
    undo = change(folder / dag / "r", "d1" * 32, {log_dir: 5}, None)
    found = volume(log_dir, kinds={"damage": {"empty-index": 3}}, reclaimable=reclaimable(5))
    ended(folder, time.time_ns() // 1_000_000, found, dag=dag, run="r", undo=[undo])


@pytest.mark.parametrize(
    ("dag", "rebuild", "retain", "end"),
    [
        ("rebuild_time_indexes", "rebuild_time_indexes", "apply_retention", "end_run"),
        ("rebuild_east", "rebuild_east", "delete_east", "end_east"),
    ],
)
def test_links_and_buttons_lead_to_the_dag_with_the_policy_of_the_run(
    copies: Any, folder: Path, dag: str, rebuild: str, retain: str, end: str
) -> None:
    left(folder, dag, "/a")
    volumes = copies.get("/kafkats/volumes").text
    assert f'href="../dags/{rebuild}" title="Opens {rebuild}' in volumes
    assert f'href="../dags/{retain}" title="Opens {retain}' in volumes
    assert volumes.count('title="Opens ') == 2
    run = copies.get(f"/kafkats/run?dag_id={dag}&run_id=r").text
    assert f'href="../dags/{rebuild}" title="Opens {rebuild}' in run
    assert f'data-end="{end}" data-dag="{dag}"' in run


def test_without_a_dag_of_the_operation_the_pages_say_so(
    copies: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left(folder, "rebuild_east", "/a")
    deployed(monkeypatch, {"offsets_east": ("table", "/east.yaml")})
    text = copies.get("/kafkats/volumes").text
    assert "Rebuild its indexes: no DAG with the tag kafkats:rebuild is deployed" in text
    assert "Delete it: no DAG with the tag kafkats:retain is deployed" in text
    assert 'href="../dags/' not in text
    run = copies.get("/kafkats/run?dag_id=rebuild_east&run_id=r").text
    assert "no DAG with the tag <code>kafkats:end</code> is deployed" in run
    assert "data-verb" not in run


def test_runs_of_a_copy_have_the_page_of_its_operation(copies: Any, folder: Path) -> None:
    ended(folder, 1_800_000_000_000, volume("/a"), dag="offsets_east", run="r")
    answer = copies.get("/kafkats/offsets", follow_redirects=False)
    assert "dag_id=offsets_east" in answer.headers["location"]
