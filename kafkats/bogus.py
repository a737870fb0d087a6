"""Timestamps that cannot be right: in another unit, from the future, negative; and what to count a segment's age from instead.

One such record pins its segment and all behind it for years (seconds do the opposite: the segment looks half a century old and
goes at once). Kafka believes every timestamp, so the default reports and believes, too. A `.log` was last written to at its mtime,
so no honest timestamp lies far behind that, nor far behind those of the segment after it. Pure functions; times in epoch ms unless a
unit is named.

    report  believe it all the same
    ignore  the largest other timestamp that is plausible: the next best entry of the time index, else the mtime. An index tells
            only rising maxima, so records behind the bogus one can be younger than that: the segment may go too early
    mtime   the file's mtime
    clamp   the timestamp read in the unit that it seems to be in, but nothing later than the mtime

An mtime before 2000 cannot be right itself, and stands in for nothing: then the timestamp stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_low
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

UNITS: Final = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}
"""To milliseconds: multiply by the first, divide by the second."""
SUSPECT: Final = ("s", "us", "ns", "future")
"""Verdicts for which the policies do something."""
SEEMS: Final = ("", "ms", "negative", *SUSPECT)
"""All of them."""
POLICIES: Final = ("report", "ignore", "mtime", "clamp")
SLACK_MS: Final = 86_400_000
"""How far a timestamp may lie behind the mtime: clocks differ."""
EARLIEST_MS: Final = 946_684_800_000
"""The year 2000: what lies before it and would lie after it in another unit is in that unit."""
_LARGEST: Final = 2**63 - 1
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


def detect_unit(timestamp: int, mtime_ms: int, neighbours: Sequence[int] = ()) -> str:
    """s, us, ns: in this unit it is plausible, in milliseconds not. ms: plausible. future: in no unit. negative: below -1.
    "": there is none (-1), or it is old and nothing can be said.

    `neighbours` are timestamps of what was written after it, in whatever unit. They stand in for an mtime that cannot be right itself
    (before 2000), and what is as old as they are is taken for what it says.
    """
    if timestamp < 0:
        return "negative" if timestamp < -1 else ""
    latest = _latest(mtime_ms, neighbours) + SLACK_MS
    if EARLIEST_MS <= timestamp <= latest:
        return "ms"
    for unit, (factor, divisor) in UNITS.items():
        if EARLIEST_MS <= timestamp * factor // divisor <= latest:
            return unit
    if timestamp > latest:
        return "future"
    return "ms" if any(0 <= other < EARLIEST_MS for other in neighbours) else ""


def detect_units(timestamps: Ints, mtime_ms: Ints, neighbours: Ints) -> Ints:
    """`detect_unit` of each row with its one neighbour: an index into SEEMS."""
    told = (neighbours >= EARLIEST_MS) & (neighbours <= LATEST_MS)
    latest = np.where(mtime_ms >= EARLIEST_MS, mtime_ms, np.where(told, neighbours, LATEST_MS)) + SLACK_MS
    latest = np.minimum(latest, _LARGEST // 1_000_000 - 1)
    cases = {
        "": timestamps == -1,
        "negative": timestamps < 0,
        "ms": (timestamps >= EARLIEST_MS) & (timestamps <= latest),
    }
    for unit in ("s", "us", "ns"):
        factor, divisor = UNITS[unit]
        begin, end = EARLIEST_MS * divisor // factor, -(-(latest + 1) * divisor // factor)
        cases[unit] = (timestamps >= begin) & (timestamps < end)
    cases["future"] = timestamps > latest
    old = (neighbours >= 0) & (neighbours < EARLIEST_MS)
    found: Ints = np.select(list(cases.values()), list(map(SEEMS.index, cases)), np.where(old, SEEMS.index("ms"), 0))
    return found


def unit_shares(timestamps: Ints, mtime_ms: int) -> dict[str, float]:
    """Of the batches with these largest timestamps, which share is what; shares add up to 1, the largest first."""
    seen = detect_units(timestamps, np.full(len(timestamps), mtime_ms), np.full(len(timestamps), -1))
    counts = np.bincount(seen, minlength=len(SEEMS))
    return {SEEMS[n]: int(counts[n]) / len(timestamps) for n in np.argsort(-counts, kind="stable") if counts[n]}


def believe(
    largest_timestamp: int,
    mtime_ms: int,
    policy: str,
    *,
    entries: Sequence[int] = (),
    neighbours: Sequence[int] = (),
) -> Believed:
    """The timestamp by which `policy`, one of POLICIES, decides over a segment.

    `entries` are other timestamps of the segment: those in its time index, or better those of all its batches. A segment without
    timestamps (negative) keeps none: Kafka goes by its mtime under every policy.
    """
    unit = detect_unit(largest_timestamp, mtime_ms, neighbours)
    if policy == "report" or unit not in SUSPECT:
        return Believed(largest_timestamp, "timestamp" if largest_timestamp >= 0 else "mtime", unit)
    without = Believed(-1, "mtime", unit) if mtime_ms >= EARLIEST_MS else Believed(largest_timestamp, "timestamp", unit)
    if policy == "ignore":
        others = (each for each in entries if detect_unit(each, mtime_ms, neighbours) == "ms")
        best = max(others, default=-1)
        return Believed(best, "entry", unit) if best >= 0 else without
    factor, divisor = UNITS.get(unit, (0, 1))
    converted = largest_timestamp * factor // divisor
    if policy == "clamp" and factor and converted <= _latest(mtime_ms, neighbours):
        return Believed(converted, "converted", unit)
    return without


def _latest(mtime_ms: int, neighbours: Sequence[int]) -> int:
    """The latest honest time there can be."""
    if mtime_ms >= EARLIEST_MS:
        return mtime_ms
    told = [other for other in neighbours if EARLIEST_MS <= other <= LATEST_MS]
    return median_low(told) if told else LATEST_MS
