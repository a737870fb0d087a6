"""The page of findings has every kind, with its severity."""

from __future__ import annotations

import re
from pathlib import Path

from kafkats.findings import KINDS, REMEDIES, remedy_of

PAGE = Path(__file__).parent.parent / "docs" / "findings.md"


def test_the_page_has_every_kind_with_its_severity() -> None:
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| (\w+) \|", PAGE.read_text(), re.MULTILINE))
    assert rows == {kind: severity for kind, (severity, _) in KINDS.items()}


def test_every_defect_has_one_remedy_and_the_page_has_its_words() -> None:
    defects = sorted(
        kind for kind, (severity, _) in KINDS.items() if severity in {"damage", "danger"}
    )
    assert sorted(kind for one in REMEDIES for kind in one.kinds) == defects
    text = PAGE.read_text()
    for one in REMEDIES:
        kinds = ", ".join(f"`{kind}`" for kind in one.kinds)
        assert f"| {kinds} | {one.consequence} | {one.step} |" in text
    assert remedy_of("sound") is None
