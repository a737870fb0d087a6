"""Every console session of the pages is run, and a terminal shows what stands there.

A digest that a command names is the one of the plan before it: it covers paths. What differs from run to run
is masked: digests, the blanks that pad a table, the free space, where the clone
is, and where a sentence with its path is broken into lines.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.project.sessions import (
    COLUMNS,
    ROOT,
    SESSION,
    TERMINAL,
    answered,
    commands,
    environment,
    pages,
)

PAGES = {str(page.relative_to(ROOT)): page for page in pages()}


def masked(text: str) -> str:
    text = re.sub(r"\b[0-9a-f]{12}(?:[0-9a-f]{52})?\b", "DIGEST", text)
    text = re.sub(r"[0-9.]+ [KMGT]?i?B are free", "SPACE are free", text)
    text = re.sub(
        r"[0-9.]+ [KMGT]?i?B freed|(?<=^purged )(.*) \d+$", r"\1 SPACE", text, flags=re.MULTILINE
    )
    text = "\n".join(line.rstrip() for line in text.splitlines()).strip()
    return re.sub(r"\n +", " ", text)


@pytest.mark.parametrize("name", PAGES)
def test_sessions(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tutorial with the program itself, the other pages in this process."""
    env = environment(tmp_path)
    monkeypatch.chdir(tmp_path)
    for variable, value in TERMINAL.items():
        monkeypatch.setenv(variable, value)
    ran, digest = 0, "any"
    for session in SESSION.findall(PAGES[name].read_text()):
        for command, expected in commands(session):
            given = re.sub(r"--digest [0-9a-f]{12}", f"--digest {digest}", command)
            said = answered(given, tmp_path, env, program=name == "docs/tutorial.md")
            digest = [digest, *re.findall(r"\bdigest ([0-9a-f]{64})", said)][-1]
            assert masked(said) == masked(expected), f"$ {command}"
            ran += 1
    assert ran >= 3


@pytest.mark.parametrize("name", PAGES)
def test_sessions_fit_a_terminal(name: str) -> None:
    lines = "\n".join(SESSION.findall(PAGES[name].read_text())).splitlines()
    assert [line for line in lines if len(line) > COLUMNS] == []


def test_the_sessions_are_found() -> None:
    assert {"docs/tutorial.md", "docs/recover.md", "docs/migrate.md", "docs/retain.md"} <= set(
        PAGES
    )
    assert "docs/lookup-tables.md" in PAGES
