"""The pages of kafkats in the frame in which Airflow shows them, as a person uses them."""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import Any

from playwright.sync_api import FrameLocator, Page, expect

from tests.browser.standalone import Standalone

FRAME = "iframe"
READY = "html[data-ready]"


class Pages:
    """What a person does in the frame. `complaints` are the errors of the browser, such as of the content security policy."""

    def __init__(self, page: Page, airflow: Standalone) -> None:
        self.page, self.airflow = page, airflow
        self.complaints: list[str] = []
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._console)

    def _console(self, message: Any) -> None:
        if message.type == "error" and "/kafkats/" in str(message.location.get("url", "")):
            self.complaints.append(message.text)

    @property
    def frame(self) -> FrameLocator:
        return self.page.frame_locator(FRAME)

    def open_by_menu(self) -> None:
        self.page.goto(f"{self.airflow.url}/")
        self.page.get_by_role("button", name="Browse").click()
        self.page.get_by_role("menuitem", name="Kafka log directories").click()
        self.ready()

    def ready(self) -> None:
        self.frame.locator(READY).wait_for(state="attached")

    def expect_text(self, text: str) -> None:
        self.ready()
        expect(self.frame.get_by_text(text, exact=False).first).to_be_visible()

    def click(self, text: str, *, leaves: bool = False) -> None:
        """Click a link, and wait for the page that it opens: in the frame, unless it `leaves` that."""
        link = self.frame.get_by_role("link", name=text).first
        if leaves:
            link.click()
            return
        with self.page.expect_event("framenavigated", lambda frame: "/kafkats/" in frame.url):
            link.click()
        self.ready()

    def theme(self) -> str:
        return str(self.frame.locator("html").get_attribute("data-theme"))

    def theme_of_airflow(self) -> str:
        return (
            "dark"
            if "dark" in self.page.evaluate("document.documentElement.className")
            else "light"
        )

    def copied_link(self) -> str:
        """What *Link to this view* puts into the clipboard."""
        self.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        self.frame.get_by_role("button", name="Link to this view").click()
        expect(self.frame.get_by_role("status")).to_have_text("Copied")
        return str(self.page.evaluate("navigator.clipboard.readText()"))


def status(url: str, token: str = "", *, method: str = "GET") -> int:
    """The status of a request with this token of Airflow."""
    request = urllib.request.Request(
        url, headers={"Authorization": f"Bearer {token}"} if token else {}, method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=180) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as e:
        return e.code
