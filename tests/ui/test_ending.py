"""The buttons that undo, purge and release a run, in a browser; Airflow's REST is played."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.ui.folders import change, ended, live, volume, write
from tests.ui.looking import Seen

DAG, RUN, DIGEST = "rebuild_time_indexes", "manual__1", "d1e2f3a4" * 8


class Airflow:
    """Answers the page's requests as Airflow does, and keeps those that would change something."""

    def __init__(self, page: Page) -> None:
        self.made: list[dict[str, Any]] = []
        page.route("**/api/v2/**", self._answer)

    def _answer(self, route: Route) -> None:
        if route.request.method == "GET":
            route.fulfill(json={"is_paused": True, "state": "running"})
            return
        given = json.loads(route.request.post_data or "{}")
        again = any(given["dag_run_id"] == one["dag_run_id"] for one in self.made)
        self.made.append(given)
        # A browser logs 409 as an error of its own, which is none of the page.
        route.fulfill(status=200, json=given) if not again else route.fulfill(status=409, json={})


def open_run(seen: Seen, site: str, folder: Path) -> Page:
    run = folder / DAG / RUN
    undo = change(run, DIGEST, {"/a": 41 << 30}, None)
    ended(folder, 1_800_000_000_000, volume("/a"), run=RUN, undo=[undo])
    return seen.open(f"{site}/run?dag_id={DAG}&run_id={RUN}")


def test_a_purge_wants_the_digits_of_the_digest(seen: Seen, site: str, folder: Path) -> None:
    page = open_run(seen, site, folder)
    airflow = Airflow(page)
    button = page.get_by_role(
        "button", name="Free 41.0\xa0GiB now: this run can then no longer be undone"
    )
    dialog, yes = page.locator("#end-dialog"), page.locator("#end-dialog .yes")
    button.click()
    expect(yes).to_be_disabled()
    dialog.get_by_role("textbox").fill("d1e2f3a5")
    expect(yes).to_be_disabled()
    dialog.get_by_role("textbox").press("Enter")
    page.keyboard.press("Escape")
    expect(page.locator("#ended")).to_have_text("Nothing was done.")
    assert airflow.made == []
    button.click()
    dialog.get_by_role("textbox").fill("d1e2f3a4")
    yes.click()
    expect(page.locator("#ended")).to_contain_text(
        "Asked: purge of d1e2f3a4. The DAG end_run is paused"
    )
    assert airflow.made == [
        {
            "dag_run_id": f"purge__{DAG}__{RUN}__{DIGEST[:16]}",
            "logical_date": None,
            "conf": {
                "verb": "purge",
                "of_dag": DAG,
                "of_run": RUN,
                "digest": DIGEST,
                "need_approval": False,
            },
        }
    ]


@pytest.mark.slow(1)
def test_a_second_click_makes_no_second_run(seen: Seen, site: str, folder: Path) -> None:
    page = open_run(seen, site, folder)
    airflow = Airflow(page)
    button = page.get_by_role("button", name="Undo 4 files of run d1e2f3a4")
    for said in ("Asked: undo", "Already asked: that run is running"):
        button.click()
        page.locator("#end-dialog .yes").click()
        expect(page.locator("#ended")).to_contain_text(said)
    assert len({one["dag_run_id"] for one in airflow.made}) == 1
    href = page.get_by_role("link", name="Its run in Airflow").get_attribute("href")
    assert href == f"../dags/end_run/runs/undo__{DAG}__{RUN}__{DIGEST[:16]}"
    seen.complaints = [one for one in seen.complaints if "409" not in one]


def test_a_release_names_the_run_and_no_digest(
    seen: Seen, site: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafkats_airflow.ui import dags

    monkeypatch.setattr(dags, "over", frozenset)
    run = folder / DAG / RUN
    live(run, 1_800_000_000_000, started={"volumes": {"/not/seen/from/here": "1"}})
    asked = {"options": {"Approve": [DIGEST]}, "run_id": RUN, "asked_ms": 7, "until_ms": 9}
    write(run / "question.json", asked)
    page = seen.open(f"{site}/run?dag_id={DAG}&run_id={RUN}")
    airflow = Airflow(page)
    page.get_by_role("button", name="Release 1 volume").click()
    page.locator("#end-dialog .yes").click()
    expect(page.locator("#ended")).to_contain_text(f"Asked: release of {RUN}.")
    [made] = airflow.made
    assert made["dag_run_id"] == f"release__{DAG}__{RUN}__7"
    assert made["conf"] == {
        "verb": "release", "of_dag": DAG, "of_run": RUN, "need_approval": False,
    }  # fmt: skip
