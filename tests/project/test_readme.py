"""Every console session of the README is run, and says what stands there.

What differs from run to run is masked: digests, the blanks that pad a table, the free space, where the clone
is, and where a sentence with its path is broken into lines.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path

import pytest

from kafkats.cli import main

REPOSITORY = Path(__file__).parents[2]
SESSION = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(session: str) -> list[tuple[str, str]]:
    """(command, what it prints) of a session."""
    parts = re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in parts]


def masked(text: str) -> str:
    text = re.sub(r"\b[0-9a-f]{12}(?:[0-9a-f]{52})?\b", "DIGEST", text)
    text = re.sub(r"[0-9.]+ [KMGT]?i?B are free", "SPACE are free", text)
    text = "\n".join(line.rstrip() for line in text.splitlines()).strip()
    return re.sub(r"\n +", " ", text)


def in_process(command: str) -> str:
    """Standard output of `kafkats ...` without another Python; with `2>&1` the errors too."""
    words, out = shlex.split(command.removesuffix(" 2>&1")), StringIO()
    with (
        suppress(SystemExit),
        redirect_stdout(out),
        redirect_stderr(out if command.endswith(" 2>&1") else sys.stderr),
    ):
        main(words[1:])
    return out.getvalue()


def test_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one with the program itself, the others in this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "tests").symlink_to(REPOSITORY / "tests")
    here = tmp_path / "bin"
    here.mkdir()
    (here / "kafkats").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kafkats "$@"\n')
    (here / "kafkats").chmod(0o755)
    env = {**os.environ, "PATH": f"{here}:{os.environ['PATH']}", "PYTHONPATH": str(REPOSITORY)}
    ran = 0
    for n, session in enumerate(SESSION.findall((REPOSITORY / "README.md").read_text())):
        for command, expected in commands(session):
            if n and command.startswith("kafkats "):
                said = in_process(command)
            else:
                said = subprocess.run(
                    command, shell=True, env=env, stdout=subprocess.PIPE, text=True, check=False
                ).stdout
            said = said.replace(f"{tmp_path}/", "/home/me/kafkats/")
            assert masked(said) == masked(expected), f"$ {command}"
            ran += 1
    shutil.rmtree(tmp_path / "build")
    assert ran >= 8
