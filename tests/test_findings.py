"""The page of findings has every kind, with its severity."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from kafkats.findings import KINDS, REMEDIES, missing_index, remedy_of, severity_word

PAGE = Path(__file__).parent.parent / "docs" / "findings.md"


def test_the_page_has_every_kind_with_its_severity() -> None:
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| (\w+) \|", PAGE.read_text(), re.MULTILINE))
    assert rows == {kind: severity_word(severity) for kind, (severity, _) in KINDS.items()}


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


@pytest.mark.slow(2)
def test_no_other_module_repeats_a_text_of_this_one() -> None:
    """What several modules find has its text here: a text in two places says two things one day."""
    assert missing_index("0.index").reason == KINDS["missing-index"][1]
    texts = {text for _, text in KINDS.values()} | {one.step for one in REMEDIES}
    kafkats = PAGE.parents[1] / "kafkats"
    repeated = {
        (str(path.relative_to(kafkats)), text)
        for path in kafkats.rglob("*.py")
        if path.name != "findings.py"
        for text in texts & _strings(path)
    }
    assert not repeated


def _strings(path: Path) -> set[str]:
    return {
        node.value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
