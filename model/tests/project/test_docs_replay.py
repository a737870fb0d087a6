"""The commands of model/docs/replay.md run as they stand there, and print what the page shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.builders.commands import run

PAGE = (Path(__file__).parents[2] / "docs" / "replay.md").read_text()
BLOCK = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def untimed(table: str) -> list[str]:
    return [re.sub(r" +\d+$", "", line) for line in table.splitlines()]


def test_the_replay_prints_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the last column: CPU time differs from run to run."""
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(PAGE)
    (script,) = (block for block in blocks if '"do": "broker"' in block)
    (command,) = re.findall(r"^(?:\$ )?kafkats (replay .*)$", "".join(blocks), re.MULTILINE)
    (expected,) = (block for block in blocks if block.startswith("line  do"))
    Path("phase-2.jsonl").write_text(script)
    code, out, err = run(capsys, *command.replace("/tmp/", "").split())
    assert code == 0, err
    assert untimed(out) == untimed(expected.replace("/tmp/", ""))
