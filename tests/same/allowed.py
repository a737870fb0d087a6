"""Differences between two commits that are wanted, each with its reason. Empty means: no rule and no byte changed."""

from __future__ import annotations

from typing import Final

RENAMED: Final[dict[str, str]] = {}
"""JSON keys and whole values, old -> new. A key that is renamed needs an alias where it is read."""

ALLOWED: Final[list[tuple[str, str]]] = []
"""(pattern of `STATE: STEP: PLACE: ONE != OTHER`, why): shell globs; the first that matches counts."""
