"""To which depth each segment was looked at, and what that does not show."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypedDict

import pyarrow as pa
import pyarrow.compute as pc

from kafkats.counts import counted, size_text

DEPTHS: Final = pa.schema([
    ("log_dir", pa.string()),
    ("partition_dir", pa.string()),
    ("base_offset", pa.int64()),
    ("depth", pa.string()),       # tail, full, deep; "" for a segment that could not be read
    ("reason", pa.string()),      # why it has not depth tail
    ("read_bytes", pa.int64()),   # of logs and indexes
])  # fmt: skip


class Looked(NamedTuple):
    """Facts (facts.SEGMENTS), the depth of each segment with its reason (DEPTHS), the bytes read.

    `read_bytes` are those of logs and indexes, `known` the segments that a report covers.
    """

    segments: pa.Table
    depths: pa.Table
    read_bytes: int
    known: int = 0


class DepthTotals(TypedDict):
    """The number of segments by depth, and of indexes that were not compared entry by entry."""

    depths: dict[str, int]
    indexes_not_compared: int


def depth_totals(segments: pa.Table) -> DepthTotals:
    """Count the segments of facts.SEGMENTS by depth; those that could not be read have none."""
    read = segments.filter(pc.greater_equal(segments["base_offset"], 0))["depth"].drop_null()
    tails = segments.filter(pc.equal(segments["depth"], "tail"))
    return {
        "depths": {row["values"]: row["counts"] for row in pc.value_counts(read).to_pylist()},
        "indexes_not_compared": sum(
            tails.num_rows - tails[name].null_count for name in ("index", "timeindex")
        ),
    }


class Reading(NamedTuple):
    """Numbers of a look: its segments, the bytes read, and the segments that a report covers."""

    segments: int
    read_bytes: int
    known: int = 0


def reading_of(looked: Looked) -> Reading:
    """Return the counts of a look."""
    return Reading(looked.depths.num_rows, looked.read_bytes, looked.known)


def looked_sentences(looked: Reading, report: Path | None = None) -> list[str]:
    """Return how many bytes were read, and how many segments a report covers."""
    sentences = [
        f"read {size_text(looked.read_bytes)} of logs and indexes to look at"
        f" {counted(looked.segments, 'segment')}"
    ]
    if report is not None:
        sentences.append(
            f"taken from {report}: {counted(looked.known, 'segment')}; not in it or changed"
            " since, and"
            f" therefore read whole: {looked.segments - looked.known}"
        )
    return sentences


def depth_sentences(depths: Mapping[str, int], not_compared: int) -> list[str]:
    """Return to which depth segments were looked at, and what that does not show."""
    tails = depths.get("tail", 0)
    whole = sum(depths.values()) - tails
    if not tails:
        return [f"looked at {counted(whole, 'segment')} whole"] if whole else []
    return [
        f"looked at {counted(tails, 'segment')} by their indexes and the end of their logs, at"
        f" {whole}"
        f" whole; {counted(not_compared, 'index')} not compared entry by entry, the rest of"
        " their logs not read: --depth full reads everything"
    ]
