"""All DAGs in a whole Airflow, by their forms and by the REST API. One file, so that one Airflow serves all tests."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser import attack
from tests.browser.forms import Form
from tests.browser.standalone import Standalone

DAGS = sorted(path.stem for path in (Path(__file__).parents[2] / "dags").glob("*.py"))
NEVER_BY_ITSELF = "export_offsets"
"""It has no schedule: there is nothing to backfill."""
TIME = "Which offset was it at this time? To be given"
MOMENT = datetime(2026, 11, 2, 10, 0, tzinfo=UTC)

pytestmark = [pytest.mark.timeout(1800), pytest.mark.slow(30)]


def stop(airflow: Standalone, dag: str) -> None:
    """The tests of forms want no results."""
    for run, state in airflow.runs(dag).items():
        if state in {"queued", "running"}:
            airflow.end(dag, run)


@pytest.mark.parametrize("dag", DAGS)
def test_an_untouched_form_triggers(airflow: Standalone, page: Page, dag: str) -> None:
    known = set(airflow.runs(dag))
    form = Form(page, airflow, dag)
    if dag == NEVER_BY_ITSELF:
        expect(form.trigger).to_be_disabled()
        form.pick(TIME, MOMENT)
    expect(form.trigger).to_be_enabled()
    made = form.send()
    assert made["dag_run_id"] not in known
    assert made["dag_run_id"] in airflow.runs(dag)
    stop(airflow, dag)
    if dag == NEVER_BY_ITSELF:
        time = datetime.fromisoformat(made["conf"]["time"])
        assert time == MOMENT, "the form names the offset from UTC"


@pytest.mark.parametrize("dag", DAGS)
def test_a_form_backfills_where_there_is_a_schedule(airflow: Standalone, page: Page, dag: str) -> None:
    form = Form(page, airflow, dag)
    if dag == NEVER_BY_ITSELF:
        assert not form.can_backfill()
        return
    form.to_backfill()
    form.pick("From", datetime(2026, 11, 1, tzinfo=UTC))
    form.pick("To", datetime(2026, 11, 2, tzinfo=UTC))
    expect(form.run_backfill).to_be_enabled()


@pytest.mark.parametrize("dag", DAGS)
def test_boxes_that_were_written_in_and_cleared_are_as_before(airflow: Standalone, page: Page, dag: str) -> None:
    form = Form(page, airflow, dag)
    if dag == NEVER_BY_ITSELF:
        form.pick(TIME, MOMENT)
    params = airflow.params(dag)
    for name in attack.strings(params):
        if "null" in params[name]["schema"]["type"] and "format" not in params[name]["schema"]:
            form.box(name).fill("x")
            form.box(name).fill("")
            form.box(name).blur()
    expect(form.trigger).to_be_enabled()
    form.send()
    stop(airflow, dag)
