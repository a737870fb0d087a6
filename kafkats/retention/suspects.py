"""Look into segments that pin a partition by an implausible timestamp: their batches by unit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from kafkats import paths
from kafkats.errors import KafkatsError
from kafkats.retention.implausible_timestamps import SUSPECT, unit_shares
from kafkats.segment.headers import batch_headers
from kafkats.segment.reader import open_source

SHARES: Final = pa.schema([
    ("log_dir", pa.string()),
    ("partition_dir", pa.string()),
    ("base_offset", pa.int64()),
    # such as "97 % of its batches in ms, 3 % in us", or why it was not read
    ("shares", pa.string()),
])  # fmt: skip
"""One row per suspect."""
_WORDS: Final = {
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


def suspects(rows: Iterable[Mapping[str, Any]]) -> list[Suspect]:
    """Return the segments to look into, from rows of `board`."""
    return [
        Suspect(r["log_dir"], r["partition_dir"], r["kept_by"], r["kept_bytes"])
        for r in rows
        if r["unit"] in SUSPECT
    ]


def look_into(suspect: Suspect) -> pa.RecordBatch:
    """Return a row of SHARES, from one pass over the batch headers, which reads the whole .log."""
    from kafkats.kernels import headers as k

    path = Path(
        suspect.log_dir, suspect.partition_dir, paths.segment_file(suspect.base_offset, paths.LOG)
    )
    try:
        with open_source(path) as source:
            largest = [
                rows[:, k.MAX_TIMESTAMP].copy() for rows in batch_headers(source, quiet_zeros=True)
            ]
            found = unit_shares(np.concatenate([np.zeros(0, np.int64), *largest]), source.mtime_ms)
    except KafkatsError as e:
        said = f"not looked into: {e}"
    else:
        said = shares_text(found)
    return pa.RecordBatch.from_pylist([suspect._asdict() | {"shares": said}], schema=SHARES)


def shares_text(shares: Mapping[str, float]) -> str:
    """Return `shares` (bogus.unit_shares) as text."""
    said = [
        f"{_percent(share)} {_WORDS.get(unit) or f'in {unit}'}" for unit, share in shares.items()
    ]
    return ", ".join(said).replace(" %", " % of its batches", 1)


def _percent(share: float) -> str:
    if 0.995 <= share < 1:
        return "more than 99 %"
    return "less than 1 %" if share < 0.005 else f"{100 * share:.0f} %"


def with_shares(rows: Iterable[Mapping[str, Any]], shares: pa.Table) -> list[dict[str, Any]]:
    """Return rows of `board`, with the result (SHARES) of the pinning segment added to `why`."""
    seen = {
        (r["log_dir"], r["partition_dir"], r["base_offset"]): r["shares"]
        for r in shares.to_pylist()
    }
    places = (((r["log_dir"], r["partition_dir"], r["kept_by"]), dict(r)) for r in rows)
    return [
        row | ({"why": f"{row['why']}: {seen[where]}"} if where in seen else {})
        for where, row in places
    ]
