"""All DAGs in a whole Airflow, by their forms and by the REST API. One file, so that one Airflow serves all tests."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import attack, people
from tests.browser.alerts import LATE, Told
from tests.browser.forms import Form
from tests.browser.pages import Pages, status
from tests.browser.plots import Plots, colours
from tests.browser.standalone import Failed, Standalone
from tests.browser.volumes import Volumes
from tests.golden import Unpacked
from tests.ui import golden_runs
from tests.ui.folders import HOSTILE, ended, volume
from tests.ui.harness import OURS

DAGS = sorted(OURS)
NEVER_BY_ITSELF = "export_offsets"
"""Its time has to be given."""
UNSCHEDULED = {NEVER_BY_ITSELF, "recover_log_dirs", "end_run"}
"""They have no schedule: there is nothing to backfill."""
ATTACKED = DAGS if os.environ.get("KAFKATS_FULL") else ["roll_segments"]
"""Each is attacked in the same way, by code that all share: a form and the API of one tell of the others."""
SUBMITTING = sorted({*ATTACKED} - {"end_run", "clean_reports"})
"""They hand params on to a job whatever they find. end_run first needs a run to end; clean_reports has no jobs."""
MOMENT = datetime(2026, 11, 2, 10, 0, tzinfo=UTC)

pytestmark = [pytest.mark.timeout(1800), pytest.mark.slow(5)]


def stop(airflow: Standalone, dag: str) -> None:
    """The tests of forms want no results."""
    for run, state in airflow.runs(dag).items():
        if state in {"queued", "running"}:
            airflow.end(dag, run)


def defaults(airflow: Standalone, dag: str) -> dict[str, Any]:
    """What an untouched form sends."""
    return {name: one["value"] for name, one in airflow.params(dag).items()}


@pytest.mark.parametrize("dag", ["apply_retention", NEVER_BY_ITSELF])
def test_an_untouched_form_sends_the_defaults(airflow: Standalone, page: Page, dag: str) -> None:
    """Two DAGs have every kind of box; the test below asks about the others."""
    known = set(airflow.runs(dag))
    form = Form(page, airflow, dag)
    if dag == NEVER_BY_ITSELF:
        expect(form.trigger).to_be_disabled()
        form.pick(form.said("time"), MOMENT)
    expect(form.trigger).to_be_enabled()
    made = form.send()
    assert made["dag_run_id"] not in known
    assert made["dag_run_id"] in airflow.runs(dag)
    stop(airflow, dag)
    sent, expected = made["conf"], defaults(airflow, dag)
    if dag == NEVER_BY_ITSELF:
        time = datetime.fromisoformat(sent.pop("time"))
        assert time == MOMENT, "the form names the offset from UTC"
        del expected["time"]
    assert sent == expected


@pytest.mark.parametrize("dag", DAGS)
def test_a_form_triggers_and_backfills_and_boxes_that_were_cleared_are_as_before(
    airflow: Standalone, page: Page, dag: str
) -> None:
    """One page for all: opening a form takes four seconds of processor time."""
    form = Form(page, airflow, dag)
    if dag != NEVER_BY_ITSELF:
        expect(form.trigger).to_be_enabled()
        assert airflow.trigger(dag, defaults(airflow, dag)) in airflow.runs(dag)
        stop(airflow, dag)  # before it reserves a volume
    if dag in UNSCHEDULED:
        assert not form.can_backfill()
    else:
        form.to_backfill()
        form.pick("From", datetime(2026, 11, 1, tzinfo=UTC))
        form.pick("To", datetime(2026, 11, 2, tzinfo=UTC))
        expect(form.run_backfill).to_be_enabled()
        form.to_single_run()
    if dag == NEVER_BY_ITSELF:
        form.pick(form.said("time"), MOMENT)
    params = airflow.params(dag)
    for name in attack.strings(params):
        if "null" in params[name]["schema"]["type"] and "format" not in params[name]["schema"]:
            form.box(name).fill("x")
            form.box(name).fill("")
            form.box(name).blur()
    expect(form.trigger).to_be_enabled()
    form.send()
    stop(airflow, dag)


MORE: dict[str, dict[str, Any]] = {
    "export_offsets": {"time": "2026-11-02T10:00:00Z", "missing": "none"}
}
"""What a run needs besides."""


@pytest.mark.parametrize("dag", DAGS)
def test_a_param_with_words_of_its_own_takes_no_other(airflow: Standalone, dag: str) -> None:
    for name, one in airflow.params(dag).items():
        if "enum" in one["schema"]:
            with pytest.raises(Failed, match=": 4"):
                airflow.trigger(dag, MORE.get(dag, {}) | {name: attack.ASKS})


@pytest.fixture(scope="module")
def attacked(airflow: Standalone, page: Page, volumes: Volumes) -> dict[str, dict[str, str]]:
    """The states in which the attacks on each DAG ended. All runs are under way at once, as they mostly wait."""
    runs: dict[tuple[str, str], str] = {}
    for dag, (conf, _) in questions(volumes).items():
        runs[dag, "asks"] = by_rest(airflow, dag, "asks", conf)
    for dag in ATTACKED:
        for name, conf in attacks(airflow, dag, place_of(volumes, dag)).items():
            by = by_form if (dag, name) == ("roll_segments", "jobs") else by_rest
            runs[dag, name] = by(airflow, dag, name, conf, page=page)
    for dag, (conf, answer) in questions(volumes).items():
        asked = airflow.asked(dag, runs[dag, "asks"])
        assert attack.ASKS in asked["subject"], "as it is"
        assert conf["folder"] in asked["body"]
        airflow.answer(dag, runs[dag, "asks"], answer)
    states: dict[str, dict[str, str]] = {dag: {} for dag, _ in runs}
    for (dag, name), run in runs.items():
        states[dag][name] = airflow.wait(dag, run)
    return states


def place_of(volumes: Volumes, dag: str) -> Path:
    """Where a DAG's attacks write: no other run's words are there."""
    place = volumes.place / "attacked" / dag
    place.mkdir(parents=True, exist_ok=True)
    return place


def attacks(airflow: Standalone, dag: str, place: Path) -> dict[str, dict[str, Any]]:
    """What a person gives who wants a template rendered: words that reach the jobs, and every param, which is refused."""
    params = airflow.params(dag)
    every = {name: attack.value(params, name, place) for name in attack.strings(params)}
    jobs = {name: every[name] for name in every if name in attack.PLAIN_WORDS + attack.PLACES}
    return {"jobs": jobs | {"volumes": ["broker-formats"]}, "every": every}


def questions(volumes: Volumes) -> dict[str, tuple[dict[str, Any], str]]:
    """Runs that ask a person, about a plan and about what a guard keeps; and the answer."""
    guarded = {
        "time-all": {"cleanup.policy": "delete", "retention.ms": 1, "kafkats.guard.max.share": 0.01}
    }
    (volumes.place / "asked").mkdir(exist_ok=True)
    found: dict[str, tuple[dict[str, Any], str]] = {
        "rebuild_time_indexes": ({"policy": str(volumes.policy("rebuild"))}, "Reject"),
        "apply_retention": (
            {"policy": str(volumes.policy("retention", topics=guarded)), "dry_run": False},
            "Keep to the guard",
        ),
    }
    for dag, (conf, _) in found.items():
        conf["folder"] = f"{volumes.place / 'asked' / dag} {attack.ASKS}"
    return found


def by_rest(airflow: Standalone, dag: str, name: str, conf: dict[str, Any], **_: Any) -> str:
    given = MORE.get(dag, {}) | conf
    return airflow.trigger(dag, given, dag_run_id=f"{name} {attack.ASKS}", note=attack.ASKS)


def by_form(airflow: Standalone, dag: str, name: str, conf: dict[str, Any], *, page: Page) -> str:
    """The same words, written into the boxes."""
    form = Form(page, airflow, dag)
    for param in ("topics", "folder"):
        form.box(param).fill(conf[param])
    form.advanced(f"{name} {attack.ASKS}", attack.ASKS)
    return str(form.send()["dag_run_id"])


@pytest.mark.slow(25)
@pytest.mark.parametrize("dag", SUBMITTING)
def test_a_template_is_handed_on_as_it_is(
    attacked: dict[str, dict[str, str]], airflow: Standalone, volumes: Volumes, dag: str
) -> None:
    """The very text was in an argument of a job."""
    assert attacked[dag]["every"] == "failed", "there is no such policy"
    words = [
        word for line in airflow.submitted.read_text().splitlines() for word in json.loads(line)
    ]
    assert any(
        word.startswith(f"{place_of(volumes, dag)}/") and attack.ASKS in word for word in words
    )


def test_no_template_is_rendered_and_no_secret_leaves(
    attacked: dict[str, dict[str, str]], airflow: Standalone, volumes: Volumes
) -> None:
    assert {dag for dag in attacked if "jobs" in attacked[dag]} == set(ATTACKED), (
        "all have been tried"
    )
    places = (volumes.folder, volumes.place / "attacked", volumes.place / "asked")
    assert attack.leaks(airflow, *places) == []
    [first, *_] = [line for line in airflow.submitted.read_text().splitlines() if "/asked/" in line]
    assert attack.ASKS in first, "a template has reached Spark's own reading of words, too"


def test_the_pages_of_kafkats_work_inside_of_airflow(
    airflow: Standalone, page: Page, volumes: Volumes
) -> None:
    now_ms = time.time_ns() // 1_000_000
    elsewhere = {"policy": "/no/policy", "folder": str(volumes.place / "elsewhere")}
    run = airflow.trigger("rebuild_time_indexes", elsewhere, dag_run_id="for_pages")
    ended(volumes.folder, now_ms, volume(f"/{HOSTILE}"), volume("/data/a"), run=run)
    view = Pages(page, airflow)
    view.open_by_menu()
    view.expect_text("/data/a")
    view.expect_text(HOSTILE)
    assert view.theme() == view.theme_of_airflow()
    view.click("Runs")
    expect(page).to_have_url(re.compile(re.escape(f"{airflow.framed}/runs")))
    view.click("for_pages")
    expect(page).to_have_url(re.compile(re.escape(f"{airflow.framed}/run?")))
    view.expect_text("rebuilt and proved")
    page.reload()
    view.expect_text("rebuilt and proved")
    address = view.copied_link()
    assert address.startswith(f"{airflow.framed}/run?")
    view.click("This run in Airflow", leaves=True)
    expect(page).to_have_url(re.compile(r"/dags/rebuild_time_indexes/runs/for_pages"))
    page.goto(address)
    view.expect_text("rebuilt and proved")
    page.goto(f"{airflow.url}/dags/rebuild_time_indexes/runs/for_pages/plugin/kafkats-run")
    view.expect_text("rebuilt and proved")
    page.goto(f"{airflow.url}/dags/rebuild_time_indexes/plugin/kafkats-dag")
    view.expect_text("for_pages")
    assert view.complaints == []
    page.goto("about:blank")


def test_the_pages_ask_airflow_who_asks(airflow: Standalone) -> None:
    for path in ("volumes", "runs", "run?dag_id=rebuild_time_indexes&run_id=x"):
        assert status(f"{airflow.url}/kafkats/{path}") == 401
        assert status(f"{airflow.url}/kafkats/{path}", airflow.token()) == 200
    assert status(f"{airflow.url}/kafkats/dag?dag_id=~", airflow.token()) == 403


@pytest.fixture(scope="module")
def plots(airflow: Standalone, page: Page, volumes: Volumes, golden: Unpacked) -> Plots:
    """The pages over runs of golden directories."""
    golden_runs.write_health(volumes.folder, golden)
    golden_runs.write_retention(volumes.folder, golden)
    (place := volumes.place / "plotted").mkdir()
    golden_runs.write_plotted(volumes.folder, golden, place)
    return Plots(page, airflow)


@pytest.fixture(autouse=True)
def blank(request: pytest.FixtureRequest) -> Iterator[None]:
    """No page is left open: those of runs ask again and again."""
    yield
    if "plots" in request.fixturenames:
        plots: Plots = request.getfixturevalue("plots")
        plots.page.goto("about:blank")
        assert plots.complaints == []


def test_the_map_of_index_health_inside_of_airflow(plots: Plots) -> None:
    plots.open(f"health?{golden_runs.REBUILT}")
    assert colours(plots) >= 3
    for key in ("ArrowDown", "ArrowRight", "Enter", "+"):
        plots.at("#map").press(key)
    expect(plots.at("#note")).to_contain_text("lost-middle-segment-0, segment 2 of 4")
    expect(plots.at("#partition h2")).to_contain_text("lost-middle-segment-0")
    plots.in_address("partition=lost-middle-segment-0.*zoom=")
    assert plots.downloaded("CSV")[0] == "Partition,Segments,With a defect,Worst"
    address = plots.copied("Link to this view")
    plots.page.goto(address)
    expect(plots.at("#partition h2")).to_contain_text("lost-middle-segment-0")
    plots.to_the_run("manual__health")


def test_another_retention_time_inside_of_airflow(plots: Plots) -> None:
    plots.open(f"run-retention?{golden_runs.RETAINED}&topic=time-some")
    expect(plots.at("#segments-plot .barlayer .point")).to_have_count(4)
    assert plots.at("#topics-plot .barlayer .point").count() > 10
    plots.zoomed_by_keyboard("segments-plot")
    plots.at("#slider").press("ArrowLeft")
    expect(plots.at("#tried")).to_contain_text("With retention.ms=")
    plots.in_address("retention_ms=")
    assert plots.copied("Copy as policy line").startswith('topics:\n  "time-some": {')
    plots.to_the_run("manual__retention")


def test_simulated_rolling_inside_of_airflow(plots: Plots) -> None:
    plots.open(f"run-rolling?{golden_runs.ROLLED}&topic=orders")
    assert plots.at("#days-plot .barlayer .point").count() > 14
    assert plots.at("#topics-plot .barlayer .point").count() == 4
    plots.zoomed_by_keyboard("days-plot")
    assert len(plots.downloaded("CSV of the days")) == 15
    plots.to_the_run("manual__rolling")


def test_offsets_by_time_are_copied_inside_of_airflow(plots: Plots) -> None:
    plots.open(f"run-offsets?{golden_runs.LOOKED_UP}&at={golden_runs.FIRST_MS + 1_660_000}")
    expect(plots.at("#stairs .scatterlayer .trace")).to_have_count(2)
    plots.zoomed_by_keyboard("stairs")
    expect(plots.at("#said")).to_contain_text("5 partitions of 10 have an offset")
    for name, contains in (
        ("Spark options (startingOffsets)", '"startingOffsets"'),
        ("group reset (CSV for kafka-consumer-groups)", "size,0,"),
        ("JSON", '"partitions"'),
    ):
        plots.at("#to").select_option(name)
        plots.frame.get_by_role("button", name="Show", exact=True).press("Enter")
        expect(plots.at("#copy-export")).to_be_enabled()
        shown = str(plots.at("#exported").text_content())
        assert contains in shown
        assert plots.copied("Copy") == shown
    plots.to_the_run("manual__table")


def test_a_migration_inside_of_airflow(plots: Plots) -> None:
    plots.open(f"run-migration?{golden_runs.MIGRATED}")
    expect(plots.at("#burn-down .scatterlayer .trace")).to_have_count(3)
    plots.zoomed_by_keyboard("burn-down")
    assert len(plots.downloaded("CSV")) == 4
    plots.to_the_run("manual__canary")


def test_a_restart_inside_of_airflow(plots: Plots) -> None:
    plots.open(f"run-restart?{golden_runs.RESTARTED}")
    expect(plots.at("#starts .barlayer .point")).to_have_count(4)
    plots.zoomed_by_keyboard("starts")
    plots.to_the_run("manual__restart")


def test_the_notifier_is_told_of_a_late_run(airflow: Standalone, told: Told) -> None:
    """By a worker, without a triggerer. The DAG is paused: its run waits as long as we do."""
    airflow.pause(LATE, paused=True)
    run = airflow.trigger(LATE, {})
    try:
        [said] = airflow.until(lambda: told.of(run), f"tells nobody that {run} is late", 600)
    finally:
        airflow.end(LATE, run)
        airflow.pause(LATE, paused=False)
    assert said.startswith(f"{LATE}: run {run} is not over 1 s after it was queued.")
    assert f"See {airflow.url}/dags/{LATE}/runs/manual__" in said


def test_the_notifier_is_told_of_a_failed_run(airflow: Standalone, told: Told) -> None:
    run = airflow.trigger("end_run", {"of_run": "none"})
    assert airflow.wait("end_run", run) == "failed"
    [said] = airflow.until(lambda: told.of(run), f"tells nobody that {run} failed", 600)
    assert said.startswith(f"end_run: run {run} failed. See {airflow.url}/dags/end_run/runs/")


@pytest.fixture(scope="module")
def asking(airflow: Standalone, volumes: Volumes) -> people.Asking:
    return people.Asking(airflow, volumes)


def test_a_plan_is_searched_inside_airflow(
    airflow: Standalone, browser: Browser, asking: people.Asking
) -> None:
    with people.person(browser, airflow, "ulla") as page:
        frame = people.framed(page, airflow, "plan", asking.run)
        expect(frame.locator("#rows tbody tr")).to_have_count(2)
        frame.get_by_role("searchbox").fill("zstd-lat")
        frame.get_by_role("button", name="Show").click()
        expect(frame.locator("#rows tbody tr")).to_have_count(1)
        expect(page).to_have_url(
            re.compile(re.escape(f"{airflow.framed}/plan?") + ".*find=zstd-lat")
        )


def test_airflows_own_form_shows_the_rows_and_has_the_digest(
    airflow: Standalone, browser: Browser, asking: people.Asking
) -> None:
    with people.person(browser, airflow, "ulla") as page:
        of = f"/dags/{people.DAG}/runs/{asking.run}/tasks/approve/required_actions"
        page.goto(f"{airflow.url}{of}")
        expect(page.get_by_role("cell", name="none-ct-0")).to_be_visible()
        link = page.get_by_role("link", name="Every row of this plan")
        expect(link).to_have_attribute(
            "href", re.compile(re.escape(f"{airflow.framed}/plan?dag_id="))
        )
        digest = asking.question()["digest"]
        expect(page.locator("#element_digest")).to_have_value(digest)
        page.goto("about:blank")


def test_a_viewer_sees_the_question_and_may_not_answer(
    airflow: Standalone, browser: Browser, asking: people.Asking
) -> None:
    with people.person(browser, airflow, "vera") as page:
        place = people.approve(people.framed(page, airflow, "plan", asking.run))
        assert "Nothing was done" in people.said(place, "(403)")
    for method, path in (("PATCH", asking.path()), ("POST", "/api/v2/dags/end_run/dagRuns")):
        assert status(airflow.url + path, method=method) == 401, "nobody is signed in"
    assert not asking.answered


def test_who_is_not_asked_does_not_answer(
    airflow: Standalone, browser: Browser, asking: people.Asking
) -> None:
    asking.assign("somebody-else")
    try:
        with people.person(browser, airflow, "ulla") as page:
            place = people.approve(people.framed(page, airflow, "plan", asking.run))
            assert "is not a respondent" in people.said(place, "(403)")
    finally:
        asking.assign()
    assert not asking.answered


@pytest.fixture(scope="module")
def cleared(airflow: Standalone, browser: Browser, asking: people.Asking) -> people.Asking:
    """The run, cleared while somebody looked at its plan; it asks about another plan now."""
    first = asking.question()["digest"]
    with people.person(browser, airflow, "ulla") as page:
        old = people.framed(page, airflow, "plan", asking.run)
        (asking.root / people.OTHERS_DAMAGED).unlink()
        airflow.clear(people.DAG, asking.run)
        assert "Nothing was answered" in people.said(people.approve(old), "(409)")
        airflow.asked(people.DAG, asking.run)
        assert asking.question()["digest"] != first
        assert "was cleared since" in people.said(people.approve(old), "asks about plan")
    return asking


def test_an_answer_to_the_plan_before_a_clear_is_not_taken(
    airflow: Standalone, cleared: people.Asking
) -> None:
    """As from a form of Airflow's own that was open before: the question stays open, and so does
    the try that asks it, also after an answer without a digest.
    """
    first = airflow.api("GET", cleared.path())["params"]["digest"]["value"]
    assert first != cleared.question()["digest"], "Airflow keeps the text of the first question"
    path = cleared.path().removesuffix("/-1/hitlDetails")
    tried = airflow.api("GET", path)["try_number"]
    for digest in (first, None):
        cleared.send(digest)
        assert not cleared.answered
        assert not airflow.asked(people.DAG, cleared.run)["response_received"]
    assert airflow.api("GET", path)["try_number"] == tried


@pytest.fixture(scope="module")
def approved(
    airflow: Standalone, browser: Browser, cleared: people.Asking
) -> tuple[people.Asking, str, dict[str, bytes]]:
    """The run after a yes by button, the digest that was shown, and the indexes before it."""
    airflow.asked(people.DAG, cleared.run)
    before = people.files(cleared.root)
    with people.person(browser, airflow, "ulla") as page:
        frame = people.framed(page, airflow, "plan", cleared.run)
        shown = str(frame.locator("#question").get_attribute("data-digest"))
        people.said(people.approve(frame), "Already answered: Approve, by ulla")
    assert airflow.wait(people.DAG, cleared.run) == "success"
    return cleared, shown, before


def test_a_button_applies_the_plan_that_was_shown(
    approved: tuple[people.Asking, str, dict[str, bytes]],
) -> None:
    asking, shown, before = approved
    record = json.loads((asking.folder / "approval.json").read_text())
    assert (record["digests"], record["by"]) == ([shown], "ulla")
    [run] = asking.folder.glob("*/run-*/run.json")
    assert json.loads(run.read_text())["digest"] == shown
    assert len(people.files(asking.root)) == len(before) + 3


@pytest.mark.slow(20)
def test_an_undo_by_button_is_one_run(
    airflow: Standalone,
    browser: Browser,
    approved: tuple[people.Asking, str, dict[str, bytes]],
) -> None:
    asking, _, before = approved
    with people.person(browser, airflow, "vera") as page:
        place = people.undo(people.framed(page, airflow, "run", asking.run))
        assert "Nothing was done" in people.said(place, "(403)")
    assert not any(run.startswith("undo__") for run in airflow.runs("end_run"))
    with people.person(browser, airflow, "ulla") as page:
        frame = people.framed(page, airflow, "run", asking.run)
        people.said(people.undo(frame), "Asked: undo")
        people.said(people.undo(frame), "Already asked")
        frame.get_by_role("link", name="Its run in Airflow").click()
        page.wait_for_url("**/dags/end_run/runs/**")
    [made] = [run for run in airflow.runs("end_run") if run.startswith(f"undo__{people.DAG}__")]
    assert airflow.wait("end_run", made) == "success"
    assert people.files(asking.root) == before
