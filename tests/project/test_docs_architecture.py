"""docs/architecture.md names files and functions that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
QUESTIONS = [
    line
    for line in PAGE.partition("## Where is it?")[2].partition("\n## ")[0].splitlines()
    if line.startswith("| ")
][1:]


def names(path: Path) -> set[str]:
    """Functions, classes and variables at the top of a module, and a DAG's `params`."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.keyword(arg=str(name)):
                found.add(name)
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                found.add(name)
    return found


@pytest.mark.parametrize("row", QUESTIONS, ids=lambda row: row.split("|")[1].strip())
def test_a_question_is_answered_in_two_files_that_exist(row: str) -> None:
    cited = re.findall(r"`([\w./]+)`", row.split("|")[2])
    files = [ROOT / word for word in cited if word.endswith(".py")]
    assert 1 <= len(files) <= 2
    known = set().union(*(names(path) for path in files))
    assert {word for word in cited if word.isidentifier()} <= known


def test_the_questions_are_found() -> None:
    assert len(QUESTIONS) >= 10


def test_every_module_that_is_named_exists() -> None:
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "kafkats").rglob("*.py")}
    for word in re.findall(r"`([\w/]+\.py)`", PAGE):
        assert (ROOT / word).exists() or any(path.endswith(f"/{word}") for path in modules), word
