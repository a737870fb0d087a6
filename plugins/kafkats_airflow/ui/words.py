"""Sizes, times, counts and shares in words. Sizes are binary, times are UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from kafkats.counts import size_text

_SPANS: Final = ((1, 60, "s"), (60, 120, "min"), (3_600, 72, "h"))
"""Seconds of a unit, and the most of it that are shown; longer spans are days."""
_SPACE: Final = "\u00a0"
"""No line ends between a number and its unit."""
_LATEST_MS: Final = 253_402_300_799_999
"""The end of the year 9999: Python has no later times."""


def of_bytes(size: int | None) -> str:
    """Return a size, such as 1.5 GiB; a dash where it is unknown."""
    if size is None:
        return "–"
    return size_text(size).replace(" ", _SPACE)


def of_count(count: int | None) -> str:
    """Return a number with thin spaces between thousands; a dash where it is unknown."""
    return "–" if count is None else f"{count:,}".replace(",", "\u202f")


def of_share(part: int, whole: int) -> str:
    """Return a percentage that says 0 % and 100 % only where they are exact."""
    if not whole:
        return "–"
    percent = 100 * part / whole
    if 0 < percent < 0.1:
        return f"<{_SPACE}0.1{_SPACE}%"
    if 99.9 < percent < 100:
        return f">{_SPACE}99.9{_SPACE}%"
    return f"{percent:.1f}{_SPACE}%" if percent % 1 else f"{percent:.0f}{_SPACE}%"


def of_duration(ms: int | None) -> str:
    """Return a span of time rounded to its unit: 59 s, 95 min, 39 h, 5.9 d; a dash where it is
    unknown. Below three days it is given in hours. `lasting` in static/page.js is its twin.
    """
    if ms is None:
        return "–"
    seconds = abs(ms) / 1000
    for length, most, unit in _SPANS:
        if (amount := int(seconds / length + 0.5)) <= most:
            return f"{amount}{_SPACE}{unit}"
    tenths = int(seconds / 8_640 + 0.5)
    days = f"{tenths / 10:.1f}".removesuffix(".0") if tenths < 100 else int(seconds / 86_400 + 0.5)
    return f"{days}{_SPACE}d"


def of_moment(ms: int | None) -> str:
    """Return a time in UTC to the minute; a dash where it is unknown."""
    if ms is None:
        return "–"
    if not 0 <= ms <= _LATEST_MS:
        return f"{ms} ms after 1970"
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"


def plural(count: int, one: str, more: str = "") -> str:
    """Return a count with its noun: 1 volume, 2 volumes."""
    return f"{of_count(count)} {one if count == 1 else more or f'{one}s'}"
