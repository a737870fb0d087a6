"""Differences between two commits that are wanted, each with its reason."""

from __future__ import annotations

from typing import Final

RENAMED: Final[dict[str, str]] = {}
"""JSON keys and whole values, old -> new. A key that is renamed needs an alias where it is read."""

ALLOWED: Final[list[tuple[str, str]]] = [
    ("*: printed*summary.*: new", "a command's summary is also the result of the job of its name"),
    ("*: undo *: printed: * rows", "undo takes several runs, and ends with a summary"),
    (
        "*: roll*: apply*: * 0 != 1*",
        "an apply ends with the proof, which finds a corrupt log before the segment that was rolled",
    ),
]
"""(pattern of `STATE: STEP: PLACE: ONE != OTHER`, why): shell globs; the first that matches counts."""
