from __future__ import annotations

from pathlib import Path

from tests.crash.points import page

PAGE = Path(__file__).parents[2] / "docs" / "crash-points.md"


def test_the_page_lists_the_points_of_today() -> None:
    assert PAGE.read_text(encoding="utf-8") == page() + "\n", (
        "run: python -m tests.crash.points > docs/crash-points.md"
    )
