"""The arguments of the jobs of a run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafkats_airflow.jobs.applications import options_of, planning
from kafkats_airflow.runs.tries import to_prove

from tests.dags.runs import REBUILD


@pytest.mark.parametrize(("given", "depth"), [({"depth": "tail"}, "tail"), ({}, "full")])
def test_the_depth_of_a_rebuild_is_a_param_and_full_without_it(
    tmp_path: Path, given: dict[str, str], depth: str
) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("volumes:\n  - {broker: '1', path: /volumes/one}\n")
    params = {name: value for name, value in REBUILD.items() if name != "depth"}
    context: Any = {
        "params": params | {"policy": str(path), "folder": str(tmp_path / "r")} | given,
        "run_id": "manual__1",
        "dag": SimpleNamespace(dag_id="rebuild_time_indexes"),
        "dag_run": SimpleNamespace(run_type="manual"),
    }
    (asked,) = planning(context, "rebuild")
    assert asked["request"]["options"]["Rebuild"]["depth"] == depth


def test_a_zero_is_given_and_an_empty_box_is_not() -> None:
    params: Any = {"generation": "3.0", "before": "", "free": None, "topics": "*", "segment_ms": 0}
    params |= {"split": "rolled", "earliest": "1970-01-01T00:00:00Z"}
    assert options_of("split", params, "roll") == {
        "Split": {"segment_ms": 0, "earliest": 0},
        "Topics": {"topics": "*"},
    }


@pytest.mark.parametrize(
    ("proof", "asked"),
    [
        ({"Topics": {"topics": "a"}}, {"request"}),
        (["--topics", "a"], {"application_args"}),  # of an earlier version: the job refuses it
    ],
)
def test_what_is_to_be_proved(tmp_path: Path, proof: Any, asked: set[str]) -> None:
    (run := tmp_path / "run-1").mkdir()
    (run / "run.json").write_text("{}")
    work: Any = {"conn_id": "c", "folder": str(tmp_path), "log_dirs": ["/a"], "proof": proof}
    found = to_prove(work)
    assert found.keys() == {"conn_id", *asked}
    if asked == {"request"}:
        assert found["request"]["log_dirs"] == ["/a"]
        assert found["request"]["options"] == {
            **proof,
            "ProofOptions": {"of_run": [str(run)]},
            "Report": {"report": str(tmp_path / "after")},
        }
    assert work["proof"] == proof, "a try begins with the same"
