"""The console sessions of the pages: their commands, and what a terminal of 100 columns shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import Final

from kafkats.cli import main

ROOT: Final = Path(__file__).parents[2]
COLUMNS: Final = 100
COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
TERMINAL: Final = {"COLUMNS": str(COLUMNS), "NO_COLOR": "1"}
HOME: Final = "/home/me/kafkats/"
"""The reader's clone."""
SESSION: Final = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND: Final = re.compile(r"^\$ ((?:.*\\\n)*.*)\n", re.MULTILINE)
"""One command; a line that ends with a backslash continues in the next."""


def pages() -> list[Path]:
    """The pages that have a session."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in found if SESSION.search(page.read_text())]


def commands(session: str) -> Iterator[tuple[str, str]]:
    """(command, what it prints) of a session."""
    parts = COMMAND.split(session)[1:]
    return zip(parts[::2], parts[1::2], strict=True)


class _Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def in_process(command: str) -> str:
    """What a terminal shows of `kafkats ...`, without another Python and without progress bars."""
    out = _Terminal()
    with suppress(SystemExit), redirect_stdout(out), redirect_stderr(StringIO()):
        main(shlex.split(command)[1:])
    return out.getvalue()


def in_shell(command: str, env: dict[str, str]) -> str:
    """What a terminal shows of any command."""
    reading, terminal = os.openpty()
    with subprocess.Popen(command, shell=True, env=env, stdin=subprocess.DEVNULL, stdout=terminal):
        os.close(terminal)
        shown = b""
        with suppress(OSError):  # the terminal is closed at the end of the command
            while part := os.read(reading, 1 << 16):
                shown += part
        os.close(reading)
    return shown.decode().replace("\r\n", "\n")


def environment(folder: Path) -> dict[str, str]:
    """The environment of a reader in this folder, with this kafkats on the PATH."""
    (folder / "tests").symlink_to(ROOT / "tests")
    program = folder / "bin" / "kafkats"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kafkats "$@"\n')
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), **TERMINAL}


def answered(command: str, folder: Path, env: dict[str, str], *, program: bool) -> str:
    """What the command prints in this folder, named as the reader's; `program` starts kafkats itself.

    A command that ends with `cd` changes the working directory for those that follow.
    """
    plain = command.replace("\\\n", "")
    if changes := re.fullmatch(r"(?:(.*) && )?cd (\S+)", plain):
        in_shell(changes[1] or "true", env)
        os.chdir(changes[2])
        return ""
    inside = command.startswith("kafkats ") and "|" not in command and not program
    said = in_process(plain) if inside else in_shell(plain, env)
    return COLOUR.sub("", said).replace(f"{folder}/", HOME)
