"""Every console session of the README is run, and says what stands there.

What differs from run to run is masked: digests, and the blanks that pad a table.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent
SESSION = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(session: str) -> list[tuple[str, str]]:
    """(command, what it prints) of a session."""
    parts = re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in parts]


def masked(text: str) -> str:
    text = re.sub(r"\b[0-9a-f]{12}(?:[0-9a-f]{52})?\b", "DIGEST", text)
    return "\n".join(line.rstrip() for line in text.splitlines()).strip()


def test_sessions(tmp_path: Path) -> None:
    (tmp_path / "tests").symlink_to(REPOSITORY / "tests")
    here = tmp_path / "bin"
    here.mkdir()
    (here / "kafkats").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kafkats "$@"\n')
    (here / "kafkats").chmod(0o755)
    env = {**os.environ, "PATH": f"{here}:{os.environ['PATH']}", "PYTHONPATH": str(REPOSITORY)}
    ran = 0
    for session in SESSION.findall((REPOSITORY / "README.md").read_text()):
        for command, expected in commands(session):
            done = subprocess.run(
                command, shell=True, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
            )
            assert masked(done.stdout) == masked(expected), f"$ {command}\n{done.stderr}"
            ran += 1
    shutil.rmtree(tmp_path / "build")
    assert ran >= 8
