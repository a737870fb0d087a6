"""Folders of DAG runs: distinct for distinct runs, inside FOLDER, and what earlier versions left is still found."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from kafkats_airflow.jobs.applications import planning
from kafkats_airflow.runs.folders import every_run, file_name, run_folder
from kafkats_airflow.runs.volumes import groups_of
from kafkats_airflow.tasks.lookup import tables

RUN_IDS = [
    ".", "..", "", "a", "a+b", "a:b", "a_b", "a/b", "../a", "a~b", "A", "é", "-x", "a b", "x" * 100, "x" * 101, "x" * 240,
    "x" * 100 + ":", "scheduled__2026-11-21T02:30:00+00:00", "scheduled__2026-11-21T02_30_00_00_00", "{{ 7*7 }}", "a\0b",
]  # fmt: skip


def test_distinct_runs_have_distinct_folders_inside_the_folder(tmp_path: Path) -> None:
    folders = [
        run_folder(str(tmp_path), dag_id, run_id)
        for dag_id in ("one", "..", "one:", "other")
        for run_id in RUN_IDS
    ]
    assert len(set(map(os.path.normpath, folders))) == len(folders)
    for folder in folders:
        inside = Path(os.path.normpath(folder)).relative_to(tmp_path)
        assert len(inside.parts) == 2
        folder.mkdir(parents=True)


@given(st.text(), st.text())
def test_no_two_texts_have_one_name(one: str, other: str) -> None:
    names = [file_name(one), file_name(other)]
    assert (names[0] == names[1]) == (one == other)
    for name in names:
        assert "/" not in name and name not in {"", ".", ".."} and len(os.fsencode(name)) <= 117


def test_runs_that_can_be_read_keep_their_names() -> None:
    assert run_folder("/f", "apply_retention", "manual__1") == Path("/f/apply_retention/manual__1")
    scheduled = run_folder("/f", "apply_retention", "scheduled__2026-11-21T02:00:00+00:00")
    assert scheduled.name.startswith("scheduled__2026-11-21T02_00_00_00_00~")


def params_with(tmp_path: Path, *volumes: dict[str, Any]) -> dict[str, Any]:
    path = tmp_path / "policy.yaml"
    path.write_text(
        yaml.safe_dump({"volumes": [{"path": f"/v/{n}"} | one for n, one in enumerate(volumes)]})
    )
    return {
        "policy": str(path), "folder": str(tmp_path / "f"), "volumes": [], "topics": "*", "rule": "last-offset",
        "only_after_unclean_stop": False, "tables": "",
    }  # fmt: skip


def test_groups_of_one_run_have_distinct_folders(tmp_path: Path) -> None:
    words = ("a", "b", "a-b", "b-c", "a/b", "a_b", "owner", "..", "a-owner-stopped", "x" * 210)
    volumes = [
        {"connection": connection, "broker": broker, "owner_stopped": stopped}
        for connection, broker, stopped in itertools.product(words, words, (False, True))
    ]
    params = params_with(tmp_path, *volumes)
    names = [group.name for group in groups_of(params, by_broker=True)]
    assert len(set(names)) == len(names) == len(volumes)
    assert all("/" not in name and not name.startswith(".") and len(name) <= 200 for name in names)
    by_connection = [group.name for group in groups_of(params)]
    assert len(set(by_connection)) == len(by_connection) == 2 * len(words)
    lookup = [folder for _, folder in tables(params)]
    assert len(set(lookup)) == len(words) ** 2, "no two brokers write one table"
    chosen = groups_of(params | {"volumes": ["/v/3"]}, by_broker=True)
    assert [group.name for group in chosen] == names[3:4], (
        "the same whatever volumes a run is asked for"
    )


@pytest.mark.parametrize(
    ("volume", "name"),
    [
        ({}, "spark_default"),
        ({"owner_stopped": True}, "spark_default-owner-stopped"),
        ({"connection": "a/b"}, "a_b"),
    ],
)
def test_names_as_before(tmp_path: Path, volume: dict[str, Any], name: str) -> None:
    [group] = groups_of(params_with(tmp_path, volume))
    assert group.name == name


def test_two_dags_with_one_run_id_have_their_own_plans(tmp_path: Path) -> None:
    params = params_with(tmp_path, {})
    said = {
        dag_id: planning(
            {"params": params, "run_id": "r", "dag": SimpleNamespace(dag_id=dag_id)}, "rebuild"
        )  # type: ignore[typeddict-item]
        for dag_id in ("one", "two")
    }
    assert said["one"][0]["request"] != said["two"][0]["request"]


def test_both_layouts_are_found(tmp_path: Path) -> None:
    old = tmp_path / "manual__1" / "spark_default" / "run-0123456789abcdef"
    new = tmp_path / "apply_retention" / "manual__1" / "spark_default" / "run-0123456789abcdef"
    for run in (old, new):
        run.mkdir(parents=True)
        (run / "run.json").write_text("{}")
    assert every_run(str(tmp_path)) == [new, old]
