"""The pages of kafkats inside Airflow's frame, as different people use them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from playwright.sync_api import Browser, FrameLocator, Locator, Page, expect

from tests.browser.forms import PATIENCE_MS, STILL
from tests.browser.standalone import Standalone
from tests.browser.volumes import Volumes

DAG: Final = "rebuild_time_indexes"
OTHERS_DAMAGED: Final = "gzip-ct-0/00000000000000000000.timeindex"


class Asking:
    """A run of DAG on a volume of its own, which waits for an answer about its plan."""

    def __init__(self, airflow: Standalone, volumes: Volumes) -> None:
        self.airflow = airflow
        self.root = volumes.roots["pages"] = volumes.unpack("rebuild", into="pages")
        volumes.policy()  # the policy of end_run, which has all volumes
        self.run = airflow.trigger(DAG, {"policy": str(volumes.policy("pages"))})
        airflow.asked(DAG, self.run)
        asked = (volumes.folder / DAG).glob("*/question.json")
        [self.folder] = [
            path.parent for path in asked if json.loads(path.read_text())["run_id"] == self.run
        ]

    def question(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "question.json").read_text()))

    @property
    def answered(self) -> bool:
        return (self.folder / "approval.json").exists()

    def path(self) -> str:
        """The question in Airflow's REST."""
        return f"/api/v2/dags/{DAG}/dagRuns/{self.run}/taskInstances/approve/-1/hitlDetails"

    def send(self, digest: str | None) -> None:
        """Approve by REST, naming a digest or none, and wait until the task has seen that."""
        seen = self._processes()
        form = {} if digest is None else {"digest": digest}
        given = {"chosen_options": ["Approve"], "params_input": form}
        self.airflow.api("PATCH", self.path(), given)
        self.airflow.until(lambda: self._processes() > seen, "does not take an answer", 600)

    def _processes(self) -> int:
        """How many processes of the task have ended, as the scheduler knows."""
        key = f"Received executor event with state success for task instance TaskInstanceKey(dag_id={DAG!r}, task_id='approve', run_id={self.run!r}"
        return self.airflow.log.read_text(errors="replace").count(key)

    def assign(self, *people: str) -> None:
        """Make the open question one for these people, as KAFKATS_APPROVERS would; for everybody without any."""
        users = json.dumps([{"id": one, "name": one} for one in people])
        change = "UPDATE hitl_detail SET assignees = ? WHERE ti_id IN (SELECT id FROM task_instance WHERE run_id = ?)"
        database = self.airflow.home / "airflow.db"
        with closing(sqlite3.connect(database, timeout=60)) as connection, connection:
            connection.execute(change, (users, self.run))


@contextmanager
def person(browser: Browser, airflow: Standalone, name: str) -> Generator[Page]:
    """A page of somebody who is signed in."""
    context = browser.new_context(reduced_motion="reduce", timezone_id="UTC", locale="en-GB")
    context.add_init_script(STILL)
    context.set_default_timeout(PATIENCE_MS)
    context.add_cookies([{"name": "_token", "value": airflow.token(name), "url": airflow.url}])
    try:
        yield context.new_page()
    finally:
        context.close()


def framed(page: Page, airflow: Standalone, name: str, run: str, dag: str = DAG) -> FrameLocator:
    """A page about a run, inside Airflow's page."""
    query = urlencode({"dag_id": dag, "run_id": run})
    page.goto(f"{airflow.framed}/{name}?{query}")
    frame = page.frame_locator("iframe[src*=kafkats]")
    frame.locator("html[data-ready]").wait_for(state="attached")
    return frame


def said(place: Locator, text: str) -> str:
    """What the page says, as soon as that has the text."""
    expect(place).to_contain_text(text, timeout=PATIENCE_MS)
    return place.inner_text()


def approve(frame: FrameLocator) -> Locator:
    """Click on Approve, and confirm; where the page says what came of it."""
    frame.locator('button[data-option="Approve"]').click()
    frame.locator("#answer-dialog .yes").click()
    return frame.locator("#said")


def undo(frame: FrameLocator) -> Locator:
    """Click on Undo, and confirm; where the page says what came of it."""
    frame.locator('button[data-verb="undo"]').click()
    frame.locator("#end-dialog .yes").click()
    return frame.locator("#ended")


def files(root: Path) -> dict[str, bytes]:
    """Every index of the volume."""
    return {str(path): path.read_bytes() for path in root.glob("*-*/*index")}
