"""The list of what a first command reads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from pathlib import Path
from tools.read_ahead import lines
import numpy
print(*lines(Path(sys.argv[1])), sep="\\n")
"""


def test_lists_touched_parts_of_libraries_and_bytecode() -> None:
    home = Path(sys.prefix).resolve()
    words = [sys.executable, "-c", PROGRAM, str(home)]
    listed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    parts = [line.split(" ", 2) for line in listed.splitlines()]
    names = [name for _, _, name in parts]
    assert any("/numpy/" in name and name.endswith(".pyc") for name in names)
    library = next(name for name in names if "_multiarray_umath" in name)
    read = sum(int(length) for _, length, name in parts if name == library)
    assert 0 < read < (home / library).stat().st_size
    for offset, length, name in parts:
        assert int(offset) + int(length) <= (home / name).stat().st_size + 4096, name
