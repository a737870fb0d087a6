"""A person who looks at the pages, in Chromium and without Airflow around them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect

expect.set_options(timeout=30_000)  # as long as the rest of Playwright: machines are busy


class Seen:
    """`page` is Playwright's. `complaints` are errors of scripts and of the content security policy."""

    def __init__(self, page: Page, theme: str) -> None:
        self.page, self.theme = page, theme
        self.complaints: list[str] = []
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._console)

    def _console(self, message: Any) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)

    def open(self, address: str) -> Page:
        """Open a page, and wait until the last visible row has its data."""
        self.page.goto(address)
        self.ready()
        return self.page

    def ready(self) -> None:
        self.page.locator("html[data-ready]").wait_for(state="attached")

    def picture(self, path: Path) -> None:
        self.page.screenshot(path=path, animations="disabled", caret="hide")


@contextmanager
def looking(browser: Browser, theme: Any = "light") -> Generator[Seen]:
    """A view of its own, with nothing stored in it."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 800},
        color_scheme=theme,
        reduced_motion="reduce",
        timezone_id="UTC",
        locale="en-GB",
    )
    try:
        yield Seen(context.new_page(), theme)
    finally:
        context.close()
