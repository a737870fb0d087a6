"""The files of a question and its answer: what they say is checked before anybody is asked, or anything allowed."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafkats_airflow.approvals import answers

from kafkats.errors import Changed, CorruptPlan, Refused

DIGEST = "d" * 64
TOTALS = {"files": 1, "blocked": 0}


@pytest.fixture
def context(tmp_path: Path) -> Any:
    """A task of the DAG `dag` and its run `run`, which has its folder."""
    (tmp_path / "dag" / "run").mkdir(parents=True)
    dag = SimpleNamespace(dag_id="dag")
    return {"params": {"folder": str(tmp_path)}, "run_id": "run", "dag": dag}


def written(tmp_path: Path, header: dict[str, Any]) -> Any:
    """A plan of this run, with this content of plan.json."""
    (folder := tmp_path / "dag" / "run" / "plan").mkdir()
    (folder / "plan.json").write_text(json.dumps(header))
    return {"plan": str(folder), "digest": DIGEST, "totals": {"files": 0}, "log_dirs": ["/v"]}


def test_the_totals_are_those_of_the_file(context: Any, tmp_path: Path) -> None:
    header = {"operation": "rebuild", "options": {}, "totals": TOTALS, "digest": DIGEST}
    plan = written(tmp_path, header)
    assert answers.from_disk(context, plan) == plan | {"totals": TOTALS}


@pytest.mark.parametrize("totals", [None, 7, "many", []])
def test_a_plan_without_totals_is_corrupt(context: Any, tmp_path: Path, totals: Any) -> None:
    header = {"operation": "rebuild", "options": {}, "totals": totals, "digest": DIGEST}
    with pytest.raises(CorruptPlan, match="totals"):
        answers.from_disk(context, written(tmp_path, header))


def test_another_plan_than_was_made(context: Any, tmp_path: Path) -> None:
    with pytest.raises(Changed, match="clear the run"):
        answers.from_disk(context, written(tmp_path, {"digest": "e" * 64}))


@pytest.mark.parametrize("options", [None, 7, ["Approve"], {}, {"Approve": 7}, {"Approve": [7]}])
def test_a_damaged_question_allows_nothing(context: Any, tmp_path: Path, options: Any) -> None:
    folder = tmp_path / "dag" / "run"
    (folder / "question.json").write_text(json.dumps({"options": options}))
    with pytest.raises(CorruptPlan, match="did not offer 'Approve'"):
        answers.answered(context, {"chosen_options": ["Approve"], "responded_by_user": None})
    assert not (folder / "approval.json").exists()


def test_an_answer_without_a_question(context: Any) -> None:
    with pytest.raises(Refused, match="without its question"):
        answers.answered(context, {"chosen_options": ["Approve"]})
