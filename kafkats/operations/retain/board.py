"""The board of a retention: per partition what goes, when, and what keeps the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

DAY_MS: Final = 86_400_000
_LOOKS: Final = {
    "s": "in seconds, it seems",
    "us": "in microseconds, it seems",
    "ns": "in nanoseconds, it seems",
    "future": "in the future",
    "negative": "negative",
}


def board(verdicts: pa.Table, now_ms: int) -> list[dict[str, Any]]:
    """Per partition: bytes that go now, within a day and a week, and the segment that pins the rest: why, and until when.

    `pinned_bytes` are those of segments behind it that have expired by themselves.
    """
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    columns = (
        "log_dir",
        "partition_dir",
        "topic",
        "base_offset",
        "unit",
        "bytes",
        "deletes",
        "reason",
        "veto",
        "deletable_from_ms",
        "blocked_by",
    )
    for one in verdicts.select(list(columns)).to_pylist():
        row = rows.setdefault((one["log_dir"], one["partition_dir"]), _empty_row(one))
        row["segments"] += 1
        row["bytes"] += one["bytes"]
        goes = one["deletes"] and not one["veto"]
        since = one["deletable_from_ms"]
        row["now_bytes"] += one["bytes"] if goes else 0
        for name, later in (("day_bytes", DAY_MS), ("week_bytes", 7 * DAY_MS)):
            row[name] += one["bytes"] if goes or (since is not None and since <= now_ms + later) else 0
        row["vetoed_bytes"] += one["bytes"] if one["veto"] else 0
        row["pinned_bytes"] += one["bytes"] if one["blocked_by"] is not None else 0
        if not goes and row["kept_by"] is None:
            why = one["veto"] or one["reason"]
            why += f"; its largest timestamp is {_LOOKS[one['unit']]}" if one["unit"] in _LOOKS else ""
            row |= {"kept_by": one["base_offset"], "why": why, "until_ms": since, "unit": one["unit"]}
    return list(rows.values())


def _empty_row(one: Mapping[str, Any]) -> dict[str, Any]:
    names = ("segments", "bytes", "now_bytes", "day_bytes", "week_bytes", "vetoed_bytes", "pinned_bytes")
    where = {name: one[name] for name in ("log_dir", "partition_dir", "topic")}
    return where | dict.fromkeys(names, 0) | {"kept_by": None, "why": "", "until_ms": None, "unit": ""}
