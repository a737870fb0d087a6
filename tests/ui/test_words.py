"""Sizes, times and spans of time in words, on the server and in the browser."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.ui.looking import looking

SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
SPANS: Final = {
    0: "0 s",
    499: "0 s",
    59 * SECOND: "59 s",
    61 * SECOND: "1 min",
    95 * MINUTE: "95 min",
    121 * MINUTE: "2 h",
    39 * HOUR + 20 * MINUTE: "39 h",
    72 * HOUR: "72 h",
    73 * HOUR: "3 d",
    5 * DAY + 22 * HOUR: "5.9 d",
    10 * DAY + 10 * HOUR: "10 d",
    400 * DAY + 13 * HOUR: "401 d",
    -39 * HOUR: "39 h",
}
"""A span in ms -> its words."""


def test_a_span_is_rounded_and_given_in_hours_below_three_days() -> None:
    from kafkats_airflow.ui.words import of_duration

    assert {ms: of_duration(ms).replace("\xa0", " ") for ms in SPANS} == SPANS
    assert of_duration(None) == "–"


@pytest.mark.slow(3)
def test_the_browser_says_the_same(browser: Any, site: str) -> None:
    """Ages grow there; the first ones come from the server."""
    with looking(browser) as seen:
        page = seen.open(f"{site}/volumes")
        module = page.locator('script[src$="/page.js"]').evaluate("one => one.src")
        said = page.evaluate(
            "async ([at, spans]) => { const { lasting } = await import(at); return spans.map(lasting); }",
            [module, list(SPANS)],
        )
        assert [one.replace("\xa0", " ") for one in said] == list(SPANS.values())
