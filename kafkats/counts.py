"""A number with its noun, as sentences have it."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return `1 entry` or `2 entries`. Knows the regular plurals of English."""
    if number == 1:
        return f"1 {noun}"
    if noun.endswith(("ch", "s", "x")):
        return f"{number} {noun}es"
    if noun.endswith("y") and not noun.endswith("ay"):
        return f"{number} {noun[:-1]}ies"
    return f"{number} {noun}s"
