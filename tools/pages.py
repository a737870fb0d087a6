"""Shared by the programs that make pages of docs/."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path


def write_or_compare(pages: Mapping[Path, str], otherwise: str) -> int:
    """Write each file; with --check on the command line compare instead. Return the exit code.

    `otherwise` is printed if a file differs; `{stale}` stands for the names of these files.
    """
    if "--check" not in sys.argv[1:]:
        for path, text in pages.items():
            path.write_text(text, encoding="utf-8")
        return 0
    stale = [
        path.name
        for path, text in pages.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    if stale:
        print(otherwise.format(stale=" and ".join(stale)), file=sys.stderr)
    return bool(stale)
