"""The pages in a browser: both themes, names that would be scripts, pages that renew themselves, the keyboard."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.ui.folders import HOSTILE, HOUR_MS, change, ended, live, reclaimable, volume, write
from tests.ui.golden_runs import REBUILT, RETAINED, write_health, write_retention
from tests.ui.looking import Seen, looking
from tests.ui.story import REBUILD, WAITS, Story

DAG = "rebuild_time_indexes"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def luminance(colour: str) -> float:
    """Relative, of `rgb(r, g, b)` (WCAG 2)."""
    parts = [int(one) / 255 for one in re.findall(r"\d+", colour)[:3]]
    r, g, b = (one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def test_all_pages_in_both_themes_with_hostile_names(seen: Seen, site: str, folder: Path) -> None:
    run = ended(
        folder,
        now_ms() - HOUR_MS,
        volume(f"/{HOSTILE}", kinds={"danger": {HOSTILE: 2}}, reclaimable=reclaimable()),
        volume("/data/a"),
        run="r",
        run_id=HOSTILE,
        outcome=HOSTILE,
    )
    live(run, now_ms() - 2 * HOUR_MS, about=HOSTILE, stage=HOSTILE, state="done")
    write(run / "report.json", {"outcome": HOSTILE, "failures": [HOSTILE], "remarks": [HOSTILE]})
    for path, text in (
        ("volumes", f"/{HOSTILE}"),
        ("runs", HOSTILE),
        (f"dag?dag_id={DAG}", HOSTILE),
        (f"run?dag_id={DAG}&run_id=r", HOSTILE),
        ("run?dag_id=~&run_id=r", "names no DAG"),
    ):
        try:
            page = seen.open(f"{site}/{path}")
        finally:
            seen.complaints[:] = [one for one in seen.complaints if "status of 403" not in one]
        expect(page.get_by_text(text, exact=False).first).to_be_visible()
        assert "owned" not in page.title() or HOSTILE in page.title(), "nothing of it has run"
        assert page.locator("main img, main script").count() == 0
        colours = page.evaluate(
            "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
        )
        light, dark = sorted(map(luminance, colours), reverse=True)
        assert (light + 0.05) / (dark + 0.05) > 7
        assert (luminance(colours[1]) > 0.5) == (seen.theme == "light")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path


@pytest.mark.slow(1)
def test_a_person_finds_the_volume_in_trouble_by_keyboard(
    browser: Any, site: str, folder: Path
) -> None:
    ended(folder, now_ms(), volume("/a"), volume("/b", kinds={"damage": {"empty-index": 3}}))
    with looking(browser) as seen:
        page = seen.open(f"{site}/volumes")
        expect(page.locator(".answer")).to_have_text("1 of 2 volumes needs you.")
        expect(page.locator("tbody th").first).to_have_text("/b")
        page.get_by_role("link", name="damage 1").focus()
        page.keyboard.press("Enter")
        seen.ready()
        assert page.url.endswith("state=damage")
        expect(page.locator("tbody tr")).to_have_count(1)
        page.get_by_role("searchbox").fill("no such")
        page.keyboard.press("Enter")
        expect(page.get_by_text("No volume fits.")).to_be_visible()
        assert "state=damage" in page.url and "find=no%20such" in page.url.replace("+", "%20")
        page.go_back()
        expect(page.locator("tbody tr")).to_have_count(1)
        assert seen.complaints == []


def test_a_run_renews_itself_until_it_has_ended(browser: Any, site: str, folder: Path) -> None:
    run = folder / DAG / "r"
    live(run, now_ms())
    with looking(browser) as seen:
        seen.page.clock.install()
        page = seen.open(f"{site}/run?dag_id={DAG}&run_id=r")
        expect(page.get_by_text("10 of 40 units")).to_be_visible()
        live(run, now_ms(), units=20, bytes=2 * 1024**3)
        page.clock.run_for(5_100)
        expect(page.get_by_text("20 of 40 units")).to_be_visible()
        live(run, now_ms(), state="done", units=40, bytes=4 * 1024**3)
        ended(folder, now_ms() + 1000, volume("/a"), run="r", outcome="dry run")
        page.clock.run_for(5_100)
        expect(page.locator("[data-stage=Report]")).to_contain_text("dry run")
        assert page.locator("#main").get_attribute("data-refresh") is None, "it rests"
        assert seen.complaints == []


@pytest.mark.slow(2)
def test_axe_has_no_serious_findings(seen: Seen, site: str, folder: Path, golden: Any) -> None:
    defects = {"danger": {"bad-offset": 1}, "damage": {"empty-index": 3}}
    run = folder / DAG / "r"
    undo = change(run, "d" * 64, {"/a": 7}, now_ms() + HOUR_MS)
    found = volume("/a", kinds=defects, reclaimable=reclaimable(), magic_bytes=[1, 2, 3])
    ended(folder, now_ms() - HOUR_MS, found, volume("/b"), run="r", undo=[undo])
    ended(folder, now_ms(), volume("/c"), run="failed", failed=True)
    live(folder / DAG / "live", now_ms())
    (folder / DAG / "half").mkdir()
    write(folder / DAG / "half" / "overview.json", "{")
    write_health(folder, golden)
    write_retention(folder, golden)
    story = Story(folder, folder.parent / "kafka", now_ms())
    story.asks()
    for path in (
        "volumes",
        "runs",
        f"run?dag_id={REBUILD}&run_id={WAITS}",
        f"plan?dag_id={REBUILD}&run_id={WAITS}",
        f"run?dag_id={DAG}&run_id=r",
        f"health?{REBUILT}",
        f"retention?{RETAINED}",
    ):
        seen.open(f"{site}/{path}")
        assert seen.axe() == [], path


@pytest.mark.slow(12)
def test_axe_finds_what_is_wrong(browser: Any, site: str) -> None:
    with looking(browser) as seen:
        page = seen.open(f"{site}/volumes")
        page.evaluate("document.querySelector('#main').append(document.createElement('button'))")
        assert [name for name, *_ in seen.axe()] == ["button-name"]
