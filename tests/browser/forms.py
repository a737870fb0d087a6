"""Airflow's own pages as a person uses them: the form that triggers a DAG, in a real Chromium."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import (
    Browser,
    Locator,
    Page,
    Request,
    TimeoutError,
    expect,
    sync_playwright,
)

from kafkats.config.option import FILES
from tests.browser.standalone import Standalone

CHROMIUM: Final = os.environ.get("KAFKATS_CHROMIUM") or "/usr/bin/chromium"
"""Debian's package `chromium`; no browser is downloaded."""
PATIENCE_MS: Final = 60_000
"""For one thing on a page, on a busy machine."""
RUN_PARAMETERS: Final = "Run Parameters"
"""Airflow's name for the section of params without one: the only one that is open at first."""
CLICK_MS: Final = 30_000
"""Until a click has made the page send something."""


STILL: Final = """
if (window === top) addEventListener("DOMContentLoaded", () => {
    const style = document.createElement("style");
    style.textContent = "*, *::before, *::after { animation: none !important; transition: none !important }";
    document.head.append(style);
});
"""
"""A script for Airflow's pages. Without a graphics card the processor draws each frame of their animations."""

expect.set_options(
    timeout=PATIENCE_MS
)  # of this process: five seconds are too few on a busy machine


@contextmanager
def chromium() -> Generator[Browser]:
    """A browser of this process."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def signed_in(browser: Browser, airflow: Standalone) -> Generator[Page]:
    """A page of a person who has signed in by Airflow's own form."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 1500},
        reduced_motion="reduce",
        timezone_id="UTC",
        locale="en-GB",
    )
    context.add_init_script(STILL)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto(f"{airflow.url}/")
    page.locator("input[name=username]").fill("admin")
    page.locator("input[name=password]").fill(airflow.password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(lambda url: "login" not in url)
    try:
        yield page
    finally:
        context.close()


class Form:
    """The form that triggers `dag`, opened and untouched."""

    def __init__(self, page: Page, airflow: Standalone, dag: str) -> None:
        self.page, self.dag = page, dag
        self._params, self._open = airflow.params(dag), RUN_PARAMETERS
        page.goto(f"{airflow.url}/dags/{dag}")
        page.get_by_test_id("trigger-dag-button").click()
        self.dialog = page.get_by_role("dialog").filter(has_text=dag).first
        self.dialog.get_by_role("button", name=FILES).wait_for()  # below all other params

    def box(self, param: str) -> Locator:
        """The box of a param, in its section: only one section is open at a time."""
        self._to(self._params[param]["schema"].get("section", RUN_PARAMETERS))
        return self.dialog.locator(f"#element_{param}")

    def _to(self, section: str) -> None:
        if self._open != section:
            self.dialog.get_by_role("button", name=section).click()
            self._open = section

    def said(self, param: str) -> str:
        """What the form says below the box of a param."""
        return str(self._params[param]["description"])

    def pick(self, label: str, moment: datetime) -> None:
        """Write a date and a time into what opens beside `label`: the description of a param, or From, or To."""
        group = (
            self.dialog
            .get_by_role("group")
            .filter(has=self.page.get_by_text(label, exact=True))
            .last
        )
        group.get_by_test_id("datetime-input").click()
        self.page.get_by_placeholder("YYYY/MM/DD").last.fill(f"{moment:%Y/%m/%d}")
        self.page.get_by_placeholder("HH:mm").last.fill(f"{moment:%H:%M}")
        self.page.keyboard.press("Escape")

    def choose(self, param: str, word: str) -> None:
        """Pick one of the words of a param."""
        self.box(param).get_by_role("combobox").fill(word)
        self.page.keyboard.press("Enter")

    @property
    def trigger(self) -> Locator:
        return self.dialog.get_by_test_id("trigger-dag-submit")

    @property
    def run_backfill(self) -> Locator:
        return self.dialog.get_by_role("button", name="Run Backfill")

    def to_backfill(self) -> None:
        self.dialog.get_by_text("Run this Dag for a range of dates").click()
        self.run_backfill.wait_for()

    def to_single_run(self) -> None:
        """Back from a backfill."""
        self.dialog.get_by_text("Trigger a single run of this Dag").click()
        self.trigger.wait_for()
        self._open = RUN_PARAMETERS

    def can_backfill(self) -> bool:
        return self.dialog.locator("input[type=radio][value=backfill]").is_enabled()

    def advanced(self, run_id: str, note: str) -> None:
        """Name the run, and put a note on it."""
        self._to("Advanced Options")
        self.dialog.get_by_label("Run ID").fill(run_id)
        group = self.dialog.get_by_role("group").filter(has_text="Dag Run Note").last
        group.get_by_text("Add a note").click()
        group.get_by_role("textbox").fill(note)
        # The next click only ends the editing.
        self.dialog.get_by_role("heading", name="Trigger Dag").click()
        self.dialog.locator("p").get_by_text(note, exact=True).wait_for()

    def send(self) -> dict[str, Any]:
        """Click Trigger; the run that Airflow made."""
        return self._click(self.trigger, f"/dags/{self.dag}/dagRuns")

    def send_backfill(self) -> None:
        """Click Run Backfill."""
        self._click(self.run_backfill, "/backfills")

    def _click(self, button: Locator, path: str) -> dict[str, Any]:
        """Again where the page was just drawn anew, which loses a click, and where SQLite had another writer, which is an error.

        A page on a busy machine may send later than in CLICK_MS. Then the button is gone, and the next click finds none.
        """
        sent: list[Request] = []

        def asks(request: Request) -> bool:
            return request.method == "POST" and request.url.endswith(path)

        def keep(request: Request) -> None:
            if asks(request):
                sent.append(request)

        self.page.on("request", keep)
        answer = None
        for _ in range(10):
            with suppress(TimeoutError), self.page.expect_request(asks, timeout=CLICK_MS):
                button.click()
            if sent:
                answer = sent.pop().response()
            if answer is not None and (answer.ok or "Database error" not in answer.text()):
                break
        self.page.remove_listener("request", keep)
        assert answer is not None, f"the page has not sent anything to {path}"
        assert answer.ok, answer.text()
        made = dict(answer.json())
        self.page.goto("about:blank")  # Airflow's pages ask for news all the time
        return made

    def picture(self, path: Path) -> None:
        """A screenshot of the whole form."""
        self.page.set_viewport_size({"width": 1280, "height": 2300})
        self.page.screenshot(path=path)
        self.page.set_viewport_size({"width": 1280, "height": 1500})
