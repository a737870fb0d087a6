"""Every command in a code block of the docs runs as it stands there, on copies of real directories.

A Spark job is run as the command of its name: it has the same options. Console sessions are apart: they are
run with what they print (test_docs_sessions.py).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.commands import run
from tests.golden import case
from tests.project.sessions import SESSION

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"(?:\$ )?(?:kafkats|spark-submit spark_jobs/(\w+)\.py) (.*)")
NAMES = {
    "/data/kafka": "one",
    "/data/kafka-1": "one",
    "/data/kafka-2": "other",
    "LOG_DIR": "one",
    "LOG_DIR...": "one",
    "LOG_DIR...|TABLE": "one",
    "/backup/plan": "plan",
    "PLAN": "plan",
    "1f2e3d4c5b6a": "any",
}
"""What stands for a folder or a digest of the reader's, and what it is here."""
DAYS = {"2026-01-31T10:": "2020-09-13T12:", "2026-01-31T11:": "2020-09-13T13:"}
"""The records have other times than the pages."""
DESCRIBED = """\
GROUP    TOPIC     PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG  CONSUMER-ID  HOST  CLIENT-ID
billing  time-all  0          60              130             70   -            -     -
"""
HOURS = ("--from", "2020-09-13T12:00:00Z", "--until", "2020-09-13T13:00:00Z")
"""The hour for which the page of lookup tables builds one: other pages read that table."""
CLIENTS = "kafka: 2.8.2\ntopics: {'*': {produce: {1: 1}, fetch: {1: 1}}}\n"


def blocks(page: Path) -> list[str]:
    return BLOCK.findall(SESSION.sub("", page.read_text()))


def commands(page: Path) -> Iterator[list[str]]:
    """Yield the words of each command in the code blocks of a page."""
    for line in "\n".join(blocks(page)).splitlines():
        if found := COMMAND.fullmatch(line):
            words = shlex.split(" ".join(filter(None, found.groups())), comments=True)
            times = iter(HOURS[1::2])
            yield [next(times) if word == "T" else meant(word) for word in words]


def meant(word: str) -> str:
    """Return the word, with the times and folders of this test."""
    for page, here in DAYS.items():
        word = word.replace(page, here)
    return NAMES.get(word, word)


PAGES = {
    str(page.relative_to(DOCS)): page for page in sorted(DOCS.rglob("*.md")) if any(commands(page))
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the pages name: log directories, and files of the reader's."""
    for folder, name in (("one", "retention-4.3.1"), ("other", "crash-4.3.1")):
        (tmp_path / folder).mkdir()
        case(name).unpack("before", tmp_path / folder)
    (tmp_path / "described.txt").write_text(DESCRIBED)
    (tmp_path / "clients.yaml").write_text(CLIENTS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", PAGES)
def test_commands_run(name: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for table in {"TABLE", "FIRST_TABLE", "SECOND_TABLE", "FROM_TABLE", "TO_TABLE"}:
        made = run(capsys, "lookup", "one", "--every", "1m", *HOURS, "-o", table)
        assert made[0] == 0
    for words in commands(PAGES[name]):
        code, _, err = run(capsys, *words)
        assert code in (0, 1), (words, err)


def test_the_commands_are_found() -> None:
    assert {"clients.md", "depths.md", "exports.md", "lookup-tables.md"} <= set(PAGES)
    assert sum(len(list(commands(page))) for page in PAGES.values()) >= 16
