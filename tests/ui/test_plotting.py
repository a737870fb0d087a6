"""The plots in a browser: they draw under the pages' headers, in both themes, and the keyboard does what the pointer does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Route, expect

from kafkats.lookup.marks import read_marks
from kafkats.rebuild.health import DAMAGED, health_of
from tests.builders.operations import inventoried
from tests.golden import Unpacked
from tests.ui.folders import HOSTILE
from tests.ui.golden_runs import (
    FIRST_MS,
    LOOKED_UP,
    REBUILT,
    RETAINED,
    hostile_rows,
    write_health,
    write_offsets,
    write_retention,
)
from tests.ui.looking import Seen, looking


def address(page: Any) -> str:
    """The page's own word: Playwright hears of a changed address later."""
    return str(page.evaluate("location.href"))


def test_the_script_is_that_of_the_package_and_kept_for_ever(client: Any) -> None:
    from kafkats_airflow.ui.rendering import PLOTLY

    given = client.get(f"/kafkats/{PLOTLY}")
    assert given.status_code == 200
    assert given.headers["content-type"].startswith("text/javascript")
    assert "immutable" in given.headers["cache-control"]
    assert re.fullmatch(r"static/plotly-[\d.]+/plotly\.min\.js", PLOTLY)
    assert b"plotly.js v" in given.content[:200]


@pytest.mark.slow(15)
def test_plots_draw_without_a_complaint_in_both_themes(
    seen: Seen, site: str, folder: Path, golden: Unpacked, tmp_path: Path
) -> None:
    write_health(folder, golden, *hostile_rows())
    write_retention(folder, golden)
    write_offsets(folder, golden, tmp_path / "table")
    health = health_of(inventoried(golden("crash-4.3.1", "before")))
    damaged = sum(bool((health.row(n) >= DAMAGED).any()) for n in range(len(health.partitions)))
    page = seen.open(f"{site}/health?{REBUILT}")
    expect(page.locator("#rows tbody tr")).to_have_count(damaged + 1)
    expect(page.locator("#rows")).to_contain_text(HOSTILE)
    colours = page.evaluate(
        "new Set(document.getElementById('map').getContext('2d')"
        ".getImageData(0, 0, 600, 200).data.join().match(/\\d+,\\d+,\\d+,255/g)).size"
    )
    assert colours >= 3
    page = seen.open(f"{site}/run-retention?{RETAINED}&topic=time-some")
    assert page.locator("#topics-plot .barlayer .point").count() > 10
    named = page.locator("#topics-plot .legendtext").all_text_contents()
    assert len(named) == 6 and "expired, kept by kafkats" not in named, "the states that are drawn"
    expect(page.locator("#segments-plot .barlayer .point")).to_have_count(4)
    page = seen.open(f"{site}/run-offsets?{LOOKED_UP}")
    assert page.locator("#stairs .scatterlayer .trace").count() == 2
    background = "getComputedStyle(document.querySelector('#stairs .main-svg')).backgroundColor"
    assert page.evaluate(background) == page.evaluate(
        "getComputedStyle(document.body).backgroundColor"
    )
    assert seen.axe() == []


@pytest.mark.slow(8)
def test_the_map_by_keyboard_and_its_address(
    browser: Any, site: str, folder: Path, golden: Unpacked
) -> None:
    write_health(folder, golden)
    with looking(browser) as seen:
        asked: list[str] = []
        seen.page.on("request", lambda request: asked.append(request.url))
        page = seen.open(f"{site}/health?{REBUILT}")
        assert sum("/data/health?" in url for url in asked) == 1, "early, and once"
        expect(page.locator("#hidden")).to_contain_text("without a defect hidden")
        page.locator("#map").focus()
        for key in ("ArrowDown", "ArrowRight"):
            page.keyboard.press(key)
        expect(page.locator("#note")).to_contain_text("lost-middle-segment-0, segment 2 of 4")
        expect(page.locator("#note")).to_contain_text("missing-records (danger)")
        page.keyboard.press("Enter")
        expect(page.locator("#partition h2")).to_contain_text("lost-middle-segment-0")
        page.keyboard.press("+")
        assert "zoom=" in address(page)
        fewer = page.locator("#rows tbody tr").count()
        page.get_by_role("checkbox", name="only rows with a defect").uncheck()
        page.get_by_role("searchbox").fill("torn")
        again = seen.open(address(page))
        expect(again.locator("#partition h2")).to_contain_text("lost-middle-segment-0")
        expect(again.get_by_role("searchbox")).to_have_value("torn")
        assert 0 < again.locator("#rows tbody tr").count() != fewer
        with again.expect_download() as download:
            again.get_by_role("button", name="CSV").click()
        assert download.value.path().read_text().startswith("Partition,Segments,With a defect")
        assert seen.complaints == []


@pytest.mark.slow(8)
def test_another_retention_time_and_a_line_for_the_policy(
    browser: Any, site: str, folder: Path, golden: Unpacked
) -> None:
    write_retention(folder, golden)
    with looking(browser) as seen:
        page = seen.open(f"{site}/run-retention?{RETAINED}&topic=time-some")
        expect(page.locator("#tried")).to_contain_text("As it is")
        page.get_by_label("in ms").fill("195237068000")
        expect(page.locator("#tried")).to_contain_text("With retention.ms=195237068000")
        expect(page.locator("#tried")).to_contain_text("Nothing is changed by this.")
        assert "retention_ms=195237068000" in address(page)
        again = seen.open(address(page))
        expect(again.locator("#tried")).to_contain_text("With retention.ms=195237068000")
        again.get_by_role("button", name="Copy as policy line").click()
        expect(again.locator("#tried")).to_contain_text('"time-some": {"cleanup.policy"')
        again.get_by_role("button", name="As it is").click()
        expect(again.locator("#tried")).to_contain_text("As it is")
        zoom = again.get_by_role("group", name="Zoom of the plot").last
        zoom.get_by_role("button", name="Zoom in").press("Enter")
        assert seen.complaints == []


@pytest.mark.slow(8)
def test_a_time_is_picked_and_all_partitions_answer(
    browser: Any, site: str, folder: Path, golden: Unpacked, tmp_path: Path
) -> None:
    write_offsets(folder, golden, tmp_path / "table")
    at = FIRST_MS + 1_660_000
    offsets = {one.topic: one.offset for one in read_marks(tmp_path / "table", at)[0]}
    with looking(browser) as seen:
        page = seen.open(f"{site}/run-offsets?{LOOKED_UP}&at={at}")
        row = page.locator("#answers tbody tr").filter(has_text="start-offset")
        expect(row.locator("td").nth(1)).to_have_text(str(offsets["start-offset"]))
        expect(page.locator("#said")).to_contain_text("5 partitions of 10 have an offset")
        pinned = page.locator("#answers tbody tr").filter(has_text="future-pins")
        expect(pinned.locator(".state-far")).to_have_text("far")
        expect(pinned).to_contain_text("d after it")
        near = page.locator("#answers tbody tr").filter(has_text="start-offset")
        expect(near.locator(".state-far")).to_have_count(0)
        expect(page.locator("#said")).to_contain_text("more than a day from the time")
        copied = page.get_by_role("button", name="Copy", exact=True)
        expect(copied).to_be_disabled()
        expect(copied).to_have_accessible_description("Copy is grey until Show has made the text.")
        page.get_by_role("button", name="Show").click()
        expect(page.locator("#exported")).to_contain_text("startingOffsets")
        expect(copied).to_be_enabled()
        expect(page.locator("#why-copy")).to_be_empty()
        box = page.locator("#stairs .nsewdrag").first.bounding_box()
        assert box is not None
        page.mouse.click(box["x"] + box["width"] * 0.95, box["y"] + box["height"] * 0.4)
        expect(page.get_by_label("in ms")).not_to_have_value(str(at))
        assert f"at={at}" not in address(page)
        assert seen.complaints == []


@pytest.mark.slow(1)
def test_without_a_cell_the_time_is_the_middle_of_what_was_asked(
    seen: Seen, site: str, folder: Path, golden: Unpacked, tmp_path: Path
) -> None:
    """As of an export about a time after all records: half an hour before and after it."""
    write_offsets(folder, golden, tmp_path / "table")
    told = {
        "offsets": {"partitions": [["t", 0]], "step_ms": 1000, "from_ms": 1000, "to_ms": 3000},
        "offsets-stairs": {"begins": [], "ends": [], "offsets": [], "points": []},
        "offsets-at": {"answers": []},
    }

    def play(route: Route) -> None:
        route.fulfill(json=told[urlsplit(route.request.url).path.rsplit("/", 1)[-1]])

    seen.page.route(re.compile(r"/data/offsets(-stairs|-at)?\?"), play)
    page = seen.open(f"{site}/run-offsets?{LOOKED_UP}")
    expect(page.locator("#ms")).to_have_value("2000")
    ticks = page.locator("#stairs .yaxislayer-above text, #stairs .yaxislayer-below text")
    expect(ticks.first).to_be_attached()
    texts = ticks.all_text_contents()
    assert len(set(texts)) == len(texts), "no tick twice"
