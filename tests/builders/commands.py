"""The command line, in this process or in a shell."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import pytest

from kafkats.cli import cli, main


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """Run a command: exit code, stdout, stderr."""
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    printed = capsys.readouterr()
    assert isinstance(end.value.code, int)
    return end.value.code, printed.out, printed.err


def command_of(words: Sequence[str]) -> tuple[click.Command, list[str]]:
    """Return the command that `words` begin with, also one of another distribution, and the rest of them."""
    command: click.Command = cli
    rest = list(words)
    while isinstance(command, click.Group) and rest:
        inner = command.get_command(click.Context(command), rest[0])
        if inner is None:
            break
        command, rest = inner, rest[1:]
    return command, rest


def run_mixed(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    """Run a command: exit code, and stdout followed by stderr."""
    code, out, err = run(capsys, *words)
    return code, out + err


def objects(text: str) -> list[dict[str, Any]]:
    """Return the JSON objects of a command's output, one in each line."""
    return [json.loads(line) for line in text.splitlines()]


def in_shell(root: Path, shell: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `shell` in bash, with $KAFKATS for the command and $ROOT for `root`."""
    words = {"KAFKATS": f"{sys.executable} -m kafkats", "ROOT": str(root), "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        ["bash", "-c", shell], env=words | environment, capture_output=True, text=True, check=False
    )
