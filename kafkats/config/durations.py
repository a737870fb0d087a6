"""Durations as text, such as "3 d 4 h": their two largest units, rounded down."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

_UNITS: Final = {
    "y": 31_536_000_000,
    "d": 86_400_000,
    "h": 3_600_000,
    "min": 60_000,
    "s": 1000,
    "ms": 1,
}
"""Units in ms, the largest first. A year has 365 days."""


def span_text(ms: int) -> str:
    """Return `ms`, 0 or more, as text."""
    for (unit, size), (smaller, part) in pairwise(_UNITS.items()):
        if ms >= size:
            rest = ms % size // part
            return f"{ms // size} {unit} {rest} {smaller}" if rest else f"{ms // size} {unit}"
    return f"{ms} ms"


def setting_text(ms: int) -> str:
    """Return a setting in milliseconds, with the duration as text from one second on."""
    return f"{ms} ({span_text(ms)})" if ms >= _UNITS["s"] else str(ms)


def rounded(ms: NDArray[np.int64]) -> NDArray[np.int64]:
    """Round to what `span_text` shows: the same texts from fewer different numbers."""
    sizes = list(_UNITS.values())
    steps: NDArray[np.int64] = np.select([ms >= size for size in sizes[:-1]], sizes[1:], 1)
    return ms - ms % steps
