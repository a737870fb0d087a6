"""Timestamps that cannot be right: in another unit, from the future, negative; and what to count a segment's age from instead.

One such record pins its segment and all behind it for years (seconds do the opposite: the segment looks half a century old and
goes at once). Kafka believes every timestamp, so the default reports and believes, too. A `.log` was last written to at its mtime,
so no honest timestamp lies far behind that. Pure functions; times in epoch ms unless a unit is named.

    report  believe it all the same
    ignore  the largest other timestamp that is plausible: the next best entry of the time index, else the mtime. An index tells
            only rising maxima, so records behind the bogus one can be younger than that: the segment may go too early
    mtime   the file's mtime
    clamp   the timestamp read in the unit that it seems to be in, but nothing later than the mtime
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median_low
from typing import Final, NamedTuple

UNITS: Final = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}
"""To milliseconds: multiply by the first, divide by the second."""
SUSPECT: Final = ("s", "us", "ns", "future")
"""Verdicts for which the policies do something."""
POLICIES: Final = ("report", "ignore", "mtime", "clamp")
SLACK_MS: Final = 86_400_000
"""How far a timestamp may lie behind the mtime: clocks differ."""
EARLIEST_MS: Final = 946_684_800_000
"""The year 2000: what lies before it and would lie after it in another unit is in that unit."""
LATEST_MS: Final = 4_102_444_800_000
"""The year 2100: as late as an honest time is where no mtime says more."""


class Believed(NamedTuple):
    """What to count a segment's age from."""

    timestamp: int
    """-1: from the file's mtime."""
    evidence: str
    """timestamp (as it was), entry (another one of the segment), converted, or mtime."""
    unit: str
    """As of `detect_unit`, for the largest timestamp."""


def detect_unit(timestamp: int, mtime_ms: int, neighbours: Sequence[int] = (), *, slack_ms: int = SLACK_MS) -> str:
    """s, us, ns: in this unit it is plausible, in milliseconds not. ms: plausible. future: in no unit. negative: below -1.
    "": there is none (-1), or it is old and nothing can be said.

    `neighbours` are timestamps of segments or batches around it, in whatever unit. They stand in for an mtime that cannot be right
    itself (before 2000), and what is as old as they are is taken for what it says.
    """
    if timestamp < 0:
        return "negative" if timestamp < -1 else ""
    latest = _latest(mtime_ms, neighbours) + slack_ms
    if EARLIEST_MS <= timestamp <= latest:
        return "ms"
    for unit, (factor, divisor) in UNITS.items():
        if EARLIEST_MS <= timestamp * factor // divisor <= latest:
            return unit
    if timestamp > latest:
        return "future"
    return "ms" if any(0 <= other < EARLIEST_MS for other in neighbours) else ""


def unit_shares(
    timestamps: Iterable[int], mtime_ms: int, neighbours: Sequence[int] = (), *, slack_ms: int = SLACK_MS
) -> dict[str, float]:
    """Of the batches with these largest timestamps, which share is what; shares add up to 1, the largest first."""
    counts = Counter(detect_unit(each, mtime_ms, neighbours, slack_ms=slack_ms) for each in timestamps)
    return {unit: count / counts.total() for unit, count in counts.most_common()}


def believe(
    largest_timestamp: int,
    mtime_ms: int,
    policy: str,
    *,
    entries: Sequence[int] = (),
    neighbours: Sequence[int] = (),
    slack_ms: int = SLACK_MS,
) -> Believed:
    """The timestamp by which `policy`, one of POLICIES, decides over a segment.

    `entries` are other timestamps of the segment: those in its time index, or better those of all its batches. A segment without
    timestamps (negative) keeps none: Kafka goes by its mtime under every policy.
    """
    unit = detect_unit(largest_timestamp, mtime_ms, neighbours, slack_ms=slack_ms)
    if policy == "report" or unit not in SUSPECT:
        return Believed(largest_timestamp, "timestamp" if largest_timestamp >= 0 else "mtime", unit)
    if policy == "ignore":
        others = (each for each in entries if detect_unit(each, mtime_ms, neighbours, slack_ms=slack_ms) == "ms")
        best = max(others, default=-1)
        return Believed(best, "entry" if best >= 0 else "mtime", unit)
    factor, divisor = UNITS.get(unit, (0, 1))
    converted = largest_timestamp * factor // divisor
    if policy == "clamp" and factor and converted <= mtime_ms:
        return Believed(converted, "converted", unit)
    return Believed(-1, "mtime", unit)


def _latest(mtime_ms: int, neighbours: Sequence[int]) -> int:
    """The latest honest time there can be."""
    if mtime_ms >= EARLIEST_MS:
        return mtime_ms
    told = [other for other in neighbours if EARLIEST_MS <= other <= LATEST_MS]
    return median_low(told) if told else LATEST_MS
