"""The page of findings has every kind, with its severity."""

from __future__ import annotations

import re
from pathlib import Path

from kafkats.findings import KINDS

PAGE = Path(__file__).parent.parent / "docs" / "findings.md"


def test_the_page_has_every_kind_with_its_severity() -> None:
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| (\w+) \|", PAGE.read_text(), re.MULTILINE))
    assert rows == {kind: severity for kind, (severity, _) in KINDS.items()}
