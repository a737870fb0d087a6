"""Intervals of time: their bounds, and the union of several."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafkats.errors import UsageError
from kafkats.text import Flag

LEAST_STEP_MS: Final = 1000
MOST_CELLS: Final = 50_000_000
"""The most cells of one interval for one partition: more than a year of seconds."""

Span = tuple[int, int]
"""The first ms and the end (ms, exclusive)."""


def check_interval(from_ms: int, to_ms: int, step_ms: int) -> None:
    """Raise UsageError for a step below a second, and for an empty or too large interval."""
    if step_ms < LEAST_STEP_MS:
        raise UsageError(f"a step of {step_ms} ms: a second is the least")
    if not from_ms < to_ms:
        order = " is the same as " if from_ms == to_ms else " is later than "
        raise UsageError(Flag("--from"), order, Flag("--until"))
    if (to_ms - from_ms) // step_ms > MOST_CELLS or from_ms < -(2**62) or to_ms >= 2**62:
        raise UsageError(
            f"an interval from {from_ms} to {to_ms} has more than {MOST_CELLS} cells: build"
            " it in pieces"
        )


def unite(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return the same time as the fewest ranges, in order."""
    united: list[Span] = []
    for begin, end in sorted(spans):
        if united and begin <= united[-1][1]:
            united[-1] = united[-1][0], max(end, united[-1][1])
        else:
            united.append((begin, end))
    return tuple(united)
