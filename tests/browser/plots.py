"""The pages with plots inside Airflow's frame, as a person uses them by keyboard."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.pages import Pages


class Plots(Pages):
    """What a person does on a page with a plot."""

    def open(self, address: str) -> None:
        self.page.goto(f"{self.airflow.framed}/{address}")
        self.ready()

    def at(self, selector: str) -> Locator:
        return self.frame.locator(selector)

    def in_address(self, text: str) -> None:
        """The state of the view is in the address of Airflow's page: a reload keeps it."""
        expect(self.page).to_have_url(re.compile(re.escape(self.airflow.framed) + ".*" + text))

    def zoomed_by_keyboard(self, plot: str) -> None:
        """The buttons of a plot: in makes the range of its axis smaller, Whole sets it back."""
        bar = self.at(f"p:has(+ #{plot})")
        whole = self.span(plot)
        bar.get_by_role("button", name="Zoom in").press("Enter")
        assert self.span(plot) == pytest.approx(whole / 1.5, rel=1e-3)
        bar.get_by_role("button", name="Whole").press("Enter")
        assert self.span(plot) > whole / 1.2

    def span(self, plot: str) -> float:
        """The length of the plot's x axis: drawing is over when its promises are."""
        axis = """async box => {
            await Promise.all(box._promises ?? []);
            const [low, high] = box._fullLayout.xaxis.range.map((end) => typeof end === "string" ? +new Date(end) : end);
            return high - low;
        }"""
        return float(self.at(f"#{plot}").evaluate(axis))

    def copied(self, button: str) -> str:
        """What a copy button puts into the clipboard."""
        self.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        self.page.evaluate("navigator.clipboard.writeText('')")
        self.frame.get_by_role("button", name=button, exact=True).press("Enter")
        self.page.wait_for_function("navigator.clipboard.readText().then(Boolean)")
        return str(self.page.evaluate("navigator.clipboard.readText()"))

    def downloaded(self, button: str) -> list[str]:
        """The lines of the file that a button gives."""
        with self.page.expect_download() as download:
            self.frame.get_by_role("button", name=button, exact=True).press("Enter")
        return Path(download.value.path()).read_text().splitlines()

    def to_the_run(self, run: str) -> None:
        """The link to the run opens it in the frame."""
        self.click(run)
        self.in_address(rf"/run\?dag_id=.*{run}")


def colours(plots: Plots) -> int:
    """How many colours the map of index health has."""
    data: Any = plots.at("#map").evaluate(
        "map => new Set(map.getContext('2d').getImageData(0, 0, map.width, 100).data.join()"
        ".match(/\\d+,\\d+,\\d+,255/g)).size"
    )
    return int(data)
