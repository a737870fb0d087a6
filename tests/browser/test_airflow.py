"""All DAGs in a whole Airflow, by their forms and by the REST API. One file, so that one Airflow serves all tests."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser import attack
from tests.browser.forms import Form
from tests.browser.standalone import Failed, Standalone
from tests.browser.volumes import Volumes

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


def attacks(airflow: Standalone, dag: str, place: Path) -> list[dict[str, Any]]:
    """What a person gives who wants a template rendered: words that reach the jobs, words that are refused, and volumes."""
    params = airflow.params(dag)
    every = {name: attack.value(params, name, place) for name in attack.strings(params)}
    first = {name: every[name] for name in every if name in attack.PLAIN_WORDS + attack.PLACES}
    volumes = {name: every.pop(name) for name in ("policy", "volumes")}
    return [first, *([every] if every != first else []), every | volumes]


MORE: dict[str, dict[str, Any]] = {"export_offsets": {"time": "2026-11-02T10:00:00Z", "missing": "none"}}
"""What a run needs besides."""


@pytest.mark.slow(60)
@pytest.mark.parametrize("dag", DAGS)
def test_no_template_is_rendered_and_no_secret_leaves(
    airflow: Standalone, page: Page, volumes: Volumes, dag: str
) -> None:
    place = volumes.place / f"attacked-{dag}"
    place.mkdir()
    for name, one in airflow.params(dag).items():
        if "enum" in one["schema"]:
            with pytest.raises(Failed, match=": 4"):
                airflow.trigger(dag, MORE.get(dag, {}) | {name: attack.ASKS})
    given = attacks(airflow, dag, place)
    runs = [
        airflow.trigger(dag, MORE.get(dag, {}) | conf, dag_run_id=f"{number} {attack.ASKS}", note=attack.ASKS)
        for number, conf in enumerate(given)
    ]
    if dag == "roll_segments":
        runs.append(by_form(airflow, page, place))
    if dag in ASKED:
        runs.append(ASKED[dag](airflow, volumes, place))
    states = [airflow.wait(dag, run) for run in runs]
    assert states[len(given) - 1] == "failed", "there is no such policy"
    assert reached(airflow, place), "it was tried"
    assert attack.leaks(airflow, volumes.folder, place) == []


def reached(airflow: Standalone, place: Path) -> bool:
    """Whether the very text of the template was in an argument of a job, and nothing was made of it."""
    words = [word for line in airflow.submitted.read_text().splitlines() for word in json.loads(line)]
    return any(word.startswith(f"{place}/") and attack.ASKS in word for word in words)


def by_form(airflow: Standalone, page: Page, place: Path) -> str:
    """The same words, written into the boxes."""
    form = Form(page, airflow, "roll_segments")
    form.box("topics").fill(attack.ASKS)
    form.box("folder").fill(f"{place}/form {attack.ASKS}")
    form.advanced(f"form {attack.ASKS}", attack.ASKS)
    return str(form.send()["dag_run_id"])


def question(airflow: Standalone, volumes: Volumes, place: Path) -> str:
    """A run that asks a person about a plan."""
    conf = {"policy": str(volumes.policy("rebuild")), "folder": f"{place}/asks {attack.ASKS}"}
    return ask(airflow, "rebuild_time_indexes", conf, "Reject")


def guarded(airflow: Standalone, volumes: Volumes, place: Path) -> str:
    """A run that asks a person about what a guard keeps."""
    topics = {"time-all": {"cleanup.policy": "delete", "retention.ms": 1, "kafkats.guard.max.share": 0.01}}
    conf = {"policy": str(volumes.policy("retention", topics=topics)), "folder": f"{place}/guard {attack.ASKS}"}
    return ask(airflow, "apply_retention", conf | {"dry_run": False}, "Keep to the guard")


def ask(airflow: Standalone, dag: str, conf: dict[str, Any], answer: str) -> str:
    run = airflow.trigger(dag, conf, dag_run_id=f"asks {attack.ASKS}", note=attack.ASKS)
    asked = airflow.asked(dag, run)
    assert attack.ASKS in asked["subject"], "as it is"
    assert f"asks {attack.ASKS}" in asked["body"] or f"guard {attack.ASKS}" in asked["body"]
    airflow.answer(dag, run, answer)
    return run


ASKED = {"rebuild_time_indexes": question, "apply_retention": guarded}
"""Runs in which a person is asked."""
