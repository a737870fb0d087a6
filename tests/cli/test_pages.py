"""`kafkats help`, --json before the command, and a first word that is an operation."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from kafkats.operations import OPERATIONS
from tests.builders.commands import run
from tests.golden import Unpacked

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def root(golden: Unpacked, tmp_path: Path) -> Path:
    shutil.copytree(golden("timestamps-4.3.1", "data"), tmp_path / "data")
    return tmp_path / "data"


def test_every_page_is_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "help")
    assert code == 0
    pages = {page.stem.lower(): page for page in DOCS.glob("*.md") if page.stem != "README"}
    assert [line.split()[0] for line in out.splitlines()] == sorted(pages)
    for name, page in pages.items():
        assert run(capsys, "help", f"{name}.md") == (0, page.read_text(), "")
        assert name == "recover" or run(capsys, "help", name) == (0, page.read_text(), "")


@pytest.mark.parametrize("topic", ["findings.md", "docs/findings.md", "FINDINGS"])
def test_a_page_is_found_as_it_is_named(topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "help", topic)[1] == (DOCS / "findings.md").read_text()


def test_the_help_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "help", "verify")
    assert (code, out) == (0, run(capsys, "verify", "--help")[1])
    code, out, _ = run(capsys, "help", "plan", "rebuild")
    assert (code, out) == (0, run(capsys, "plan", "rebuild", "--help")[1])
    code, _, err = run(capsys, "help", "nonsense")
    assert code == 2 and "no page is named 'nonsense'; the pages: airflow, " in err


def test_recover_is_the_guards_page_and_names_that_of_its_plan(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first, _, rest = run(capsys, "help", "recover")[1].partition("\n\n")
    assert "plan recover" in first and "kafkats help recover.md" in first
    assert rest == (DOCS / "guard.md").read_text()


def test_a_page_of_the_source_is_not_taken_for_another(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "help", "decisions/recovery")
    assert code == 2 and "docs/decisions/recovery.md is in the source only" in err


def test_a_page_on_a_terminal_is_laid_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGER", "cat")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    out = run(capsys, "help", "depths")[1]
    assert "How much is read" in out and "\n# How" not in out


def test_json_before_the_command(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("inventory", root), ("verify", root)):
        assert run(capsys, "--json", *words) == run(capsys, *words, "--json")
    code, out, _ = run(capsys, "--json", "plan", "retain", root, "-o", root.parent / "plan")
    assert code == 0 and "summary" in json.loads(out.splitlines()[-1])
    code, _, err = run(capsys, "--json", "help")
    assert code == 2 and "help prints no rows" in err


@pytest.mark.parametrize("operation", sorted({*OPERATIONS} - {"recover"}))
def test_an_operation_as_the_first_word(operation: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, operation, "/data")
    assert code == 2 and f"kafkats plan {operation} LOG_DIR... -o PLAN" in err
