"""Links of the Markdown pages lead somewhere; files and options of commands that pages name exist."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import click
import pytest

from tests.builders.commands import command_of

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for folder in ("", "docs", "bench", "model", "tests")
    for path in (ROOT / folder).glob("**/*.md" if folder else "*.md")
    if "node_modules" not in path.parts
)
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
INLINE_CODE = re.compile(r"`[^`\n]+`")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.*?) *#*$", re.MULTILINE)


@cache
def anchors(page: Path) -> frozenset[str]:
    """Names by which GitHub links to the headings of a page; a repeated heading gets a number."""
    seen: Counter[str] = Counter()
    names = set()
    for heading in HEADING.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        names.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return frozenset(names)


def links(page: Path) -> list[str]:
    """Targets of the links in the prose of a page, without those to other hosts."""
    prose = INLINE_CODE.sub("`code`", FENCE.sub("", page.read_text(encoding="utf-8")))
    return [link for link in LINK.findall(prose) if not re.match(r"[a-z]+:", link)]


def broken(page: Path) -> list[str]:
    """Links of a page whose file or heading does not exist."""
    wrong = []
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = (page.parent / unquote(name)).resolve() if name else page
        if not target.is_relative_to(ROOT) or not target.exists():
            wrong.append(f"{link}: no such file")
        elif anchor and (target.suffix != ".md" or anchor not in anchors(target)):
            wrong.append(f"{link}: no such heading")
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_the_pages_are_found() -> None:
    names = {str(page.relative_to(ROOT)) for page in PAGES}
    assert {"README.md", "docs/findings.md", "docs/formats/batch-v2.md", "bench/README.md"} <= names
    assert sum(len(links(page)) for page in PAGES) > 50


def test_the_index_links_every_page() -> None:
    for index, folder in (
        (ROOT / "docs" / "README.md", "docs"),
        (ROOT / "model" / "README.md", "model/docs"),
    ):
        linked = {(index.parent / link.partition("#")[0]).resolve() for link in links(index)}
        assert {page for page in (ROOT / folder).rglob("*.md")} - linked <= {index}


def test_a_broken_link_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.project.test_docs.ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "# One `code`, two\n\n## Same\n\n## Same\n\n```\n[not a link](nothing.md)\n```\n"
        "[ok](#one-code-two) [ok](page.md#same-1) `[code](gone.md)` [host](https://example.org/x)\n"
        "[a](gone.md) [b](#three) [c](page.md#same-2) [d](../outside.md)\n"
    )
    wrong = [line.partition(":")[0] for line in broken(page)]
    assert wrong == ["gone.md", "#three", "page.md#same-2", "../outside.md"]


FOLDERS = "kafkats|model|pyspark_kafkats|tests|docs|scripts|bench|plugins|spark_jobs|dags"
CODE_PATH = re.compile(rf"`((?:{FOLDERS})/[\w./-]+)`")


def missing_paths(page: Path) -> list[str]:
    """Paths of the repository that a page names in code spans and that do not exist."""
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    return [path for path in CODE_PATH.findall(prose) if not (ROOT / path).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_pages_name_exist(page: Path) -> None:
    assert missing_paths(page) == []


def test_a_missing_path_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "`kafkats/errors.py` `kafkats/gone.py` `tests/real-logs/` `build/anything.py`\n"
    )
    assert missing_paths(page) == ["kafkats/gone.py"]


COMMAND = re.compile(r"kafkats ((?:[^`\n|#]|(?<=\S)\|(?=\S))*)")


def commands(page: Path) -> list[list[str]]:
    """The words after `kafkats` in code spans and code blocks of a page."""
    text = page.read_text(encoding="utf-8").replace("\\|", "|")
    code = [match[0] for match in FENCE.finditer(text)] + INLINE_CODE.findall(FENCE.sub("", text))
    return [match[1].split() for part in code for match in COMMAND.finditer(part)]


def unknown_options(words: list[str]) -> list[str]:
    """The options among `words` that the command they begin with does not have."""
    command, words = command_of(words)
    options = {
        name for parameter in command.params for name in parameter.opts + parameter.secondary_opts
    }
    options |= {"--help", "--version"}
    given = [word.strip("[]().,;:").partition("=")[0] for word in words]
    named = {
        name for name in given if name.startswith("--") and not isinstance(command, click.Group)
    }
    return sorted(named - options)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_have_the_options_that_pages_name(page: Path) -> None:
    wrong = {
        " ".join(words): unknown for words in commands(page) if (unknown := unknown_options(words))
    }
    assert wrong == {}


def test_unknown_options_are_found() -> None:
    assert unknown_options(["plan", "split", "LOG_DIR", "--where", "mixed", "-o", "PLAN"]) == []
    assert unknown_options(["plan", "split", "LOG_DIR", "--at", "mixed"]) == ["--at"]
    assert sum(len(commands(page)) for page in PAGES) > 100


MADE = {
    "docs/options.md",
    "docs/json.md",
    "docs/DAGs.md",
    "docs/crash-points.md",
    "docs/campaign.md",
}
"""Pages that programs make as a whole."""
MADE_PART = re.compile(r"<!-- begin: made by .*?<!-- end -->", re.DOTALL)
WORDS = 67_500


def test_the_pages_stay_short() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    written = [page for page in pages if str(page.relative_to(ROOT)) not in MADE]
    texts = [MADE_PART.sub("", page.read_text(encoding="utf-8")) for page in written]
    assert sum(len(text.split()) for text in texts) <= WORDS


def test_the_readme_is_one_screen() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 70
    assert "```console" not in readme


DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_a_decision_comes_first_and_its_figures_last(page: Path) -> None:
    before, *sections = re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert "**Decision: " in before
    assert not any(section.startswith("Measured") for section in sections[:-1])
