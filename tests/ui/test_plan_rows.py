"""The rows of a plan in parts, on the page and in the question: those of the same plan in one table."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from kafkats_airflow import deployment
from kafkats_airflow.approvals.questions import _items
from kafkats_airflow.reading.files import Unreadable
from kafkats_airflow.ui.reading import plan_rows

from kafkats.errors import CorruptPlan
from kafkats.plans.facts import read_table, write_table
from kafkats.plans.parts import commit_plan, open_plan, plan_in_parts, rows_files
from kafkats.plans.plan import ITEMS, make_plan, write_plan
from kafkats.request import Request
from tests.builders.plan_parts import write_part
from tests.builders.plans import TOTALS, rows_of


@pytest.fixture
def both(tmp_path: Path) -> tuple[Path, Path]:
    """The folders of a plan in one table, and in three parts."""
    tables = [rows_of(n) for n in range(3)]
    write_plan(make_plan("rebuild", {}, TOTALS, pa.concat_tables(tables)), tmp_path / "one")
    large = tmp_path / "large"
    commit_plan(plan_in_parts("rebuild", {}, TOTALS, [write_part(large, t) for t in tables], large))
    return tmp_path / "one", large


def test_a_page_finds_the_same_rows(both: tuple[Path, Path]) -> None:
    one, large = map(plan_rows.table_of, both)
    assert isinstance(one, pa.Table) and isinstance(large, pa.Table)
    for asked in ({}, {"words": "orders-1"}, {"action": "add"}, {"start": 8, "count": 5}):
        assert plan_rows.find(large, **asked) == plan_rows.find(one, **asked)  # type: ignore[arg-type]
    assert plan_rows.since(large) == plan_rows.since(one)
    assert plan_rows.table_of(both[1]) is large


def test_an_answer_is_checked_for_a_plan_in_parts(
    both: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[list[str]] = []
    own = SimpleNamespace(
        check_guards=lambda plan: None,
        check_approval=lambda record, digests: checked.append(digests),
    )
    monkeypatch.setattr(deployment, "hardened", lambda: True)
    monkeypatch.setattr(deployment.Deployment, "of_environment", lambda: own)
    for folder in both:
        deployment.check_answer(
            Request.model_validate({"verb": "apply", "made_ms": 1, "plan": {"folder": folder}})
        )
    assert checked == [[open_plan(folder).digest] for folder in both]


def test_a_part_that_is_missing_is_shown_as_such(
    both: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_rows, "MOST", 25)
    found = plan_rows.table_of(both[1])
    assert isinstance(found, Unreadable) and "too large" in found.why
    missing = rows_files(both[1])[1]
    missing.unlink()
    found = plan_rows.table_of(both[1])
    assert isinstance(found, Unreadable) and found.path == missing


@pytest.mark.parametrize("number", [0, 1])
def test_rows_of_another_digest_are_not_shown(both: tuple[Path, Path], number: int) -> None:
    folder = both[number]
    path = rows_files(folder)[-1]
    rows = read_table(path, ITEMS)
    harmless = pa.array(["harmless.timeindex"] * rows.num_rows)
    write_table(path, rows.set_column(rows.schema.get_field_index("file"), "file", harmless))
    found = plan_rows.table_of(folder)
    assert isinstance(found, Unreadable) and "the digest does not match" in found.why
    plan: Any = {"plan": str(folder), "digest": "", "log_dirs": [], "totals": {}}
    with pytest.raises(CorruptPlan, match="the digest does not match"):
        list(_items(plan, "rebuild"))


def test_a_question_shows_the_same_first_rows(both: tuple[Path, Path]) -> None:
    plans = [{"plan": str(folder), "digest": "", "log_dirs": [], "totals": {}} for folder in both]
    one, large = (list(_items(plan, "rebuild")) for plan in plans)  # type: ignore[arg-type]
    assert one == large and len(one) == 30
