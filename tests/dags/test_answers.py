"""The files of a question and its answer: what they say is checked before anybody is asked, or anything allowed."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafkats_airflow.approvals import answers

from kafkats.errors import Changed, CorruptPlan, Refused
from kafkats.plans.parts import commit_plan, plan_in_parts
from kafkats.plans.plan import ITEMS, make_plan, write_plan
from tests.builders.plan_parts import write_part
from tests.builders.plans import rows_of

TOTALS: Any = {"files": 1, "blocked": 0}


@pytest.fixture
def context(tmp_path: Path) -> Any:
    """A task of the DAG `dag` and its run `run`, which has its folder."""
    (tmp_path / "dag" / "run").mkdir(parents=True)
    dag = SimpleNamespace(dag_id="dag")
    return {"params": {"folder": str(tmp_path)}, "run_id": "run", "dag": dag}


def written(tmp_path: Path, totals: Any = TOTALS) -> Any:
    """A plan of this run, with these totals; the task's own say that it writes nothing."""
    plan = make_plan("rebuild", {}, totals, ITEMS.empty_table())
    write_plan(plan, folder := tmp_path / "dag" / "run" / "plan")
    return {"plan": str(folder), "digest": plan.digest, "totals": {"files": 0}, "log_dirs": ["/v"]}


def test_the_totals_are_those_of_the_file(context: Any, tmp_path: Path) -> None:
    plan = written(tmp_path)
    assert answers.from_disk(context, plan) == plan | {"totals": TOTALS}


@pytest.mark.parametrize("totals", [None, 7, "many", []])
def test_a_plan_without_totals_is_corrupt(context: Any, tmp_path: Path, totals: Any) -> None:
    with pytest.raises(CorruptPlan, match="totals"):
        answers.from_disk(context, written(tmp_path, totals))


@pytest.mark.parametrize("large", [False, True])
def test_edited_totals_are_not_taken(context: Any, tmp_path: Path, large: bool) -> None:
    """With no files in them nobody would be asked."""
    plan = written(tmp_path)
    folder = Path(plan["plan"])
    if large:
        made = plan_in_parts("rebuild", {}, TOTALS, [write_part(folder, rows_of(0, 1))], folder)
        commit_plan(made)
        plan["digest"] = made.digest
    assert answers.from_disk(context, plan)["totals"] == TOTALS
    header = json.loads((folder / "plan.json").read_text())
    header["totals"] = TOTALS | {"files": 0}
    (folder / "plan.json").write_text(json.dumps(header))
    with pytest.raises(CorruptPlan, match="digest does not match"):
        answers.from_disk(context, plan)


def test_another_plan_than_was_made(context: Any, tmp_path: Path) -> None:
    with pytest.raises(Changed, match="clear the run"):
        answers.from_disk(context, written(tmp_path) | {"digest": "e" * 64})


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
