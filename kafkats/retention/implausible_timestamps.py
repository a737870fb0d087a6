"""Implausible timestamps: in another unit, from the future, or negative; and what to use instead.

One such record pins its segment and all later ones for years. A timestamp in seconds does the
opposite: the segment looks half a century old and is deleted at once. Kafka trusts every timestamp,
and so does the default policy `report`. A `.log` was last written at its mtime, so no correct
timestamp lies far after it, nor far after those of the next segment. Times are in epoch ms unless a
unit is named. Only `look_into` reads files: the segments that pin a partition.

    report  trusts the timestamp
    ignore  takes the largest other plausible timestamp, from the time index, else the mtime. An
            index holds only rising maxima, so records after this one may be younger than
            that: the segment may be deleted too early
    mtime   takes the file's mtime
    clamp   reads the timestamp in the unit that it seems to have, if that is not after the mtime

An mtime before 2000 is wrong itself and replaces nothing: the timestamp is then trusted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from kafkats import paths
from kafkats.clock import DAY_MS
from kafkats.errors import KafkatsError
from kafkats.kernels import headers_state as k
from kafkats.plans.columns import batch_of
from kafkats.plans.facts import DIRECTORY
from kafkats.retention.reasons import Ints
from kafkats.segment.headers import batch_headers
from kafkats.segment.reader import open_source

UNITS: Final = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}
"""Conversion to milliseconds: multiply by the first number, divide by the second."""
SUSPECT: Final = ("s", "us", "ns", "future")
"""Results of `detect_units` on which the policies act."""
SEEMS: Final = ("", "ms", "negative", *SUSPECT)
"""All results of `detect_units`."""
SLACK_MS: Final = DAY_MS
"""The largest distance of a timestamp after the mtime, since clocks differ."""
EARLIEST_MS: Final = 946_684_800_000
"""The year 2000.

A timestamp before it that lies after it in another unit is taken to be in that unit.
"""
LATEST_MS: Final = 4_102_444_800_000
"""The year 2100: the latest plausible time where no mtime tells more."""


class Believed(NamedTuple):
    """The time from which to count a segment's age."""

    timestamp: int
    """-1: use the file's mtime."""
    evidence: str
    """timestamp (unchanged), entry (another one of the segment), converted, or mtime."""
    unit: str
    """The result of `detect_units` for the largest timestamp."""


def detect_units(timestamps: Ints, mtime_ms: Ints | int, neighbours: Ints | int) -> Ints:
    """Return the units in which timestamps are plausible, as indexes into SEEMS, shape (n,).

        s, us, ns   plausible in this unit, and not in milliseconds
        ms          plausible
        future      plausible in no unit
        negative    below -1
        ""          no timestamp (-1), or an old one about which nothing can be said

    `neighbours` are timestamps of records written after them, in any unit; -1: none. They replace
    an mtime that is wrong itself (before 2000). A timestamp as old as its neighbour is taken as
    milliseconds.
    """
    latest = _latest(mtime_ms, neighbours) + SLACK_MS
    cases = {
        "": timestamps == -1,
        "negative": timestamps < 0,
        "ms": (timestamps >= EARLIEST_MS) & (timestamps <= latest),
    }
    for unit in ("s", "us", "ns"):
        factor, divisor = UNITS[unit]
        in_ms = timestamps // divisor  # not multiplied by the factor: that could overflow
        cases[unit] = (in_ms >= -(-EARLIEST_MS // factor)) & (in_ms <= latest // factor)
    cases["future"] = timestamps > latest
    old = np.greater_equal(neighbours, 0) & np.less(neighbours, EARLIEST_MS)
    units: Ints = np.select(
        list(cases.values()), list(map(SEEMS.index, cases)), np.where(old, SEEMS.index("ms"), 0)
    )
    return units


def unit_shares(timestamps: Ints, mtime_ms: int) -> dict[str, float]:
    """Return the share of batches per result of `detect_units`, the largest share first.

    `timestamps` are the batches' largest timestamps. Shares add up to 1.
    """
    seen = detect_units(timestamps, mtime_ms, -1)
    counts = np.bincount(seen, minlength=len(SEEMS))
    return {
        SEEMS[n]: int(counts[n]) / len(timestamps)
        for n in np.argsort(-counts, kind="stable")
        if counts[n]
    }


def believe(
    largest_timestamp: int,
    mtime_ms: int,
    policy: str,
    *,
    entries: Sequence[int] = (),
    neighbour: int = -1,
) -> Believed:
    """Return the timestamp by which `policy`, report, ignore, mtime or clamp, decides on a segment.

    `entries` are other timestamps of the segment: those in its time index, or better those of all
    its batches. A segment without timestamps (negative) gets none: Kafka uses its mtime under every
    policy.
    """
    times = np.array([largest_timestamp, *entries], np.int64)
    unit, *units = (SEEMS[n] for n in detect_units(times, mtime_ms, neighbour))
    if policy == "report" or unit not in SUSPECT:
        return Believed(largest_timestamp, "timestamp" if largest_timestamp >= 0 else "mtime", unit)
    without = (
        Believed(-1, "mtime", unit)
        if mtime_ms >= EARLIEST_MS
        else Believed(largest_timestamp, "timestamp", unit)
    )
    if policy == "ignore":
        others = zip(entries, units, strict=True)
        best = max((time for time, seems in others if seems == "ms"), default=-1)
        return Believed(best, "entry", unit) if best >= 0 else without
    factor, divisor = UNITS.get(unit, (0, 1))
    converted = largest_timestamp * factor // divisor
    if policy == "clamp" and factor and converted <= int(_latest(mtime_ms, neighbour)):
        return Believed(converted, "converted", unit)
    return without


def _latest(mtime_ms: Ints | int, neighbours: Ints | int) -> Ints:
    """Return the latest plausible time of each."""
    plausible = np.greater_equal(neighbours, EARLIEST_MS) & np.less_equal(neighbours, LATEST_MS)
    otherwise = np.where(plausible, neighbours, LATEST_MS)
    latest: Ints = np.where(np.greater_equal(mtime_ms, EARLIEST_MS), mtime_ms, otherwise)
    return latest


SHARES: Final = pa.schema([
    *DIRECTORY,
    ("base_offset", pa.int64()),
    # such as "97 % of its batches in ms, 3 % in us", or why it was not read
    ("shares", pa.string()),
])  # fmt: skip
"""One row per suspect."""
_SHARE_WORDS: Final = {
    "future": "in the future",
    "negative": "negative",
    "": "old or without a timestamp",
}


class Suspect(NamedTuple):
    """A segment with an implausible timestamp."""

    log_dir: str
    partition_dir: str
    base_offset: int
    bytes: int
    """The size of its files."""


def look_into(suspect: Suspect) -> pa.RecordBatch:
    """Return a row of SHARES, from one pass over the batch headers, which reads the whole .log."""
    path = Path(suspect.log_dir, suspect.partition_dir, paths.segment_file(suspect.base_offset))
    try:
        with open_source(path) as source:
            largest = [
                rows[:, k.MAX_TIMESTAMP].copy() for rows in batch_headers(source, quiet_zeros=True)
            ]
            shares = unit_shares(np.concatenate([np.zeros(0, np.int64), *largest]), source.mtime_ms)
    except KafkatsError as e:
        text = f"not looked into: {e}"
    else:
        text = shares_text(shares)
    return batch_of([suspect._asdict() | {"shares": text}], SHARES)


def shares_text(shares: Mapping[str, float]) -> str:
    """Return `shares` (of `unit_shares`) as text."""
    parts = [
        f"{_percent(share)} {_SHARE_WORDS.get(unit) or f'in {unit}'}"
        for unit, share in shares.items()
    ]
    return ", ".join(parts).replace(" %", " % of its batches", 1)


def _percent(share: float) -> str:
    if 0.995 <= share < 1:
        return "more than 99 %"
    return "less than 1 %" if share < 0.005 else f"{100 * share:.0f} %"
