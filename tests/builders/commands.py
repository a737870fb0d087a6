"""The command line, in this process."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkats.cli import main


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """Run a command: exit code, stdout, stderr."""
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    printed = capsys.readouterr()
    assert isinstance(end.value.code, int)
    return end.value.code, printed.out, printed.err


def run_mixed(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    """Run a command: exit code, and stdout followed by stderr."""
    code, out, err = run(capsys, *words)
    return code, out + err


def objects(text: str) -> list[dict[str, Any]]:
    """Return the JSON objects of a command's output, one in each line."""
    return [json.loads(line) for line in text.splitlines()]
