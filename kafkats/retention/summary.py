"""The board of a retention: per partition what is deleted, when, and what keeps the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

DAY_MS: Final = 86_400_000
_LARGEST: Final = 2**63 - 1
_WHERE: Final = ("log_dir", "partition_dir", "topic")
_SUMS: Final = (
    "segments",
    "bytes",
    "now_bytes",
    "day_bytes",
    "week_bytes",
    "vetoed_bytes",
    "pinned_bytes",
)
_LOOKS: Final = {
    "s": "in seconds, it seems",
    "us": "in microseconds, it seems",
    "ns": "in nanoseconds, it seems",
    "future": "in the future",
    "negative": "negative",
}


def by_topic(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Sum up the rows of `board` by topic: partitions, segments and bytes."""
    found: dict[str, Counter[str]] = {}
    for row in rows:
        found.setdefault(row["topic"], Counter()).update(
            {name: row[name] for name in _SUMS} | {"partitions": 1}
        )
    return [
        {"topic": topic} | {name: sums[name] for name in ("partitions", *_SUMS)}
        for topic, sums in found.items()
    ]


def board(verdicts: pa.Table, now_ms: int) -> list[dict[str, Any]]:
    """Return, per partition, the bytes deleted now, in a day, in a week, and what pins the rest.

    For the pinning segment a row has the reason, the offset of the batch responsible, and until
    when it pins. `pinned_bytes` are those of later segments that have expired themselves.
    """
    goes = pc.and_(verdicts["deletes"], pc.equal(verdicts["veto"], ""))
    day_ms, week_ms = (min(now_ms + days * DAY_MS, _LARGEST) for days in (1, 7))
    since = pc.if_else(pc.equal(verdicts["lasting"], ""), verdicts["deletable_from_ms"], None)
    counted = {
        "bytes": pc.is_valid(goes),
        "now_bytes": goes,
        "day_bytes": pc.or_(goes, pc.fill_null(pc.less_equal(since, day_ms), False)),
        "week_bytes": pc.or_(goes, pc.fill_null(pc.less_equal(since, week_ms), False)),
        "vetoed_bytes": pc.not_equal(verdicts["veto"], ""),
        "pinned_bytes": pc.is_valid(verdicts["blocked_by"]),
    }
    columns = {name: verdicts[name] for name in _WHERE} | {"row": np.arange(len(verdicts))}
    columns |= {name: pc.if_else(flags, verdicts["bytes"], 0) for name, flags in counted.items()}
    table = pa.table(columns)
    wanted = [("row", "min"), ("row", "count"), *((name, "sum") for name in counted)]
    # groups come in any order
    sums = table.group_by(list(_WHERE)).aggregate(wanted).sort_by("row_min").to_pylist()
    first = (
        table.filter(pc.invert(goes)).group_by(list(_WHERE)).aggregate([("row", "min")])["row_min"]
    )
    kept = {
        tuple(one[name] for name in _WHERE): _kept(one) for one in verdicts.take(first).to_pylist()
    }
    nothing = {
        "kept_by": None,
        "kept_offset": None,
        "kept_bytes": 0,
        "why": "",
        "until_ms": None,
        "unit": "",
    }
    rows = []
    for one in sums:
        where = {name: one[name] for name in _WHERE}
        sizes = {name: one[f"{name}_sum"] for name in counted}
        rows.append(
            where
            | {"segments": one["row_count"]}
            | sizes
            | kept.get(tuple(where.values()), nothing)
        )
    return rows


def _kept(one: dict[str, Any]) -> dict[str, Any]:
    """Return the columns about the first kept segment."""
    why = one["veto"] or "; ".join(filter(None, (one["reason"], one["lasting"])))
    by_time = one["evidence"] == "timestamp" and not one["veto"] and not one["lasting"]
    offset = one["largest_offset"] if by_time and one["largest_offset"] != -1 else None
    record = "" if offset is None else f", in the batch of offset {offset},"
    why += (
        f"; its largest timestamp{record} is {_LOOKS[one['unit']]}" if one["unit"] in _LOOKS else ""
    )
    kept = {
        "kept_by": one["base_offset"],
        "kept_offset": offset,
        "kept_bytes": one["bytes"],
        "why": why,
    }
    return kept | {
        "until_ms": None if one["lasting"] else one["deletable_from_ms"],
        "unit": one["unit"],
    }
