"""Recoveries of segments from facts that a plan has read, so that no log is read twice."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from kafkats.errors import KafkatsError
from kafkats.plans.rows import SegmentRow
from kafkats.recovery.decide import end_of, log_bytes, log_of, valid_bytes
from kafkats.recovery.reading import Recovery, Stops, recover

_OTHERWISE: Final = ("offsets-not-increasing", "offset-out-of-range")
"""Findings about a segment whose batches a broker reads in its own way."""


def recoveries(directory: Path, rows: Iterable[SegmentRow]) -> dict[int, Recovery]:
    """Return the recoveries by base offset, from facts.SEGMENTS of one partition.

    Of a damaged log the bytes behind its last good batch are read. A segment whose facts do not
    tell is left out. Epochs and the numbers of batches are not known.
    """
    found = {}
    for row in rows:
        if row["depth"] == "tail" or row["valid_bytes"] is None or row["blocked"]:
            continue
        if any(finding["kind"] in _OTHERWISE for finding in row["findings"]):
            continue
        base, end = row["base_offset"], end_of(row)
        if not row["stop"]:
            found[base] = Recovery(
                valid_bytes(row), end, log_bytes(row), -1, seen_to=end, producers_end=end
            )
            continue
        try:
            log = directory / log_of(row)
            found[base] = recover(log, base, start=valid_bytes(row), reached=end)
        except (Stops, KafkatsError):
            continue  # the prediction reads it, and tells the broker's words
    return found
