"""Numbers as sentences have them: with a noun, or as a size."""

from __future__ import annotations

from typing import Final

_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB")


def counted(number: int, noun: str) -> str:
    """Return `1 entry` or `2 entries`. Knows the regular plurals of English."""
    if number == 1:
        return f"1 {noun}"
    if noun.endswith(("ch", "s", "x")):
        return f"{number} {noun}es"
    if noun.endswith("y") and not noun.endswith("ay"):
        return f"{number} {noun[:-1]}ies"
    return f"{number} {noun}s"


def size_text(size: float) -> str:
    """Return bytes with a binary unit, such as 252 B or 1.5 GiB."""
    if abs(size) < 1024:
        return f"{size:.0f} B"
    unit = 0
    size /= 1024
    # 1023.95 would be written as 1024.0
    while abs(size) >= 1023.95 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.1f} {_UNITS[unit]}"
