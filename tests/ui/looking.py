"""A person who looks at the pages, in Chromium and without Airflow around them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import axe_playwright_python
from playwright.sync_api import Browser, Page

from tests.browser.forms import PATIENCE_MS

AXE: Final = Path(axe_playwright_python.__file__).parent / "axe.min.js"
"""It is evaluated: a script element would be refused by the content security policy."""


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

    def axe(self) -> list[tuple[str, str, str]]:
        """Serious findings of axe on what is open: the rule, the first element, how to mend it."""
        self.page.evaluate(AXE.read_text(encoding="utf-8"))
        result = self.page.evaluate("axe.run()")
        assert result["passes"], "it has looked"
        return [
            (one["id"], one["nodes"][0]["html"], one["nodes"][0]["failureSummary"])
            for one in result["violations"]
            if one["impact"] in {"serious", "critical"}
        ]

    def picture(self, path: Path, height: int = 800) -> None:
        self.page.set_viewport_size({"width": 1280, "height": height})
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
    context.set_default_timeout(PATIENCE_MS)
    try:
        yield Seen(context.new_page(), theme)
    finally:
        context.close()
