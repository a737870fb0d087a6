"""Rows of segment.arrow.COLUMNS in the words of records.jsonl, to hold what we read against what a real broker's own consumer read."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection
from typing import Any, NamedTuple

import pyarrow as pa

from tests.golden import RECORDS_OF, Case

ASKED = [
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampMs",
    "timestampType",
    "leaderEpoch",
    "key",
    "value",
    "headers",
]
"""The columns that `differences` needs."""
Rows = dict[str, list[dict[str, Any]]]
_TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}
_MOST_MS = (2**63 - 1) // 1000


class View(NamedTuple):
    """A state, the records file that was read from it, and whether that consumer read what was committed only."""

    state: str
    label: str
    committed: bool


def views(one: Case) -> list[View]:
    """Everything that the case's consumers read of directories that are there."""
    found = [
        View(state, label, False)
        for state, label in RECORDS_OF.get(one.kind, {"data": "records"}).items()
    ]
    if (one.folder / "records-committed.jsonl.xz").exists():
        found.append(View(found[-1].state, "records-committed", True))
    return [view for view in found if view.state in one.states]


def theirs(one: Case, view: View) -> Rows:
    """By partition; with those of which there was nothing to read, without those that nobody read."""
    rows: Rows = {tp: [] for tp, labels in one.info["partitions"].items() if view.label in labels}
    for record in one.records(view.label):
        rows.setdefault(record.pop("tp"), []).append(record)
    return rows


def ended_in_error(one: Case, view: View) -> set[str]:
    """Partitions whose consumer came no further than what it has read."""
    labels = one.info["partitions"].items()
    return {
        tp
        for tp, of in labels
        if view.label in of and ("ERR" in (said := of[view.label]["consumer"]) or "gave up" in said)
    }


def ours(table: pa.Table) -> Rows:
    """The same of a table with the columns ASKED."""
    rows: Rows = defaultdict(list)
    table = table.set_column(
        ASKED.index("timestamp"), "timestamp", table["timestamp"].cast(pa.int64())
    )
    for row in table.to_pylist():
        ms = row["timestampMs"]
        assert row["timestamp"] == (ms * 1000 if -_MOST_MS <= ms <= _MOST_MS else None)
        told = {
            "offset": row["offset"],
            "timestamp": ms,
            "timestamp_type": _TYPES[row["timestampType"]],
        }
        told |= _bytes("key", row["key"]) | _bytes("value", row["value"])
        if row["leaderEpoch"] >= 0:
            told["leader_epoch"] = row["leaderEpoch"]
        if row["headers"] is not None:
            told["headers"] = [
                [h["key"], None if h["value"] is None else h["value"].hex()] for h in row["headers"]
            ]
        rows[f"{row['topic']}-{row['partition']}"].append(told)
    return rows


def differences(one: Case, view: View, table: pa.Table, skipped: Collection[str] = ()) -> list[str]:
    """What is not as the consumer read it, partition by partition; rows must come in the log's order.

    We read more than a broker that took the log for shorter after damage, or a consumer that failed. Of `skipped` partitions, where
    bytes were left out, what both have is compared: some old consumers do not look at a checksum.
    """
    found, failed = ours(table), ended_in_error(one, view)
    said = []
    for tp, expected in theirs(one, view).items():
        got = found.get(tp, [])
        if one.kind == "clean-start":
            behind = one.info["partitions"][tp][view.label]["log_end_offset"]
            got = [row for row in got if row["offset"] < behind]
        if tp in skipped:
            ours_too, theirs_too = (
                {row["offset"] for row in got},
                {row["offset"] for row in expected},
            )
            got = [row for row in got if row["offset"] in theirs_too]
            expected = [row for row in expected if row["offset"] in ours_too]
        if tp in failed:
            got = got[: len(expected)]
        got = [_as_told(row, like) for row, like in zip(got, expected, strict=False)] + got[
            len(expected) :
        ]
        if got != expected:
            at = next(
                (n for n, (a, b) in enumerate(zip(got, expected, strict=False)) if a != b), -1
            )
            pair = f"{got[at]} and not {expected[at]}" if at >= 0 else ""
            said.append(
                f"{one} {view.state} {tp}: {len(got)} records, {len(expected)} expected; {pair}"
            )
    return said


def _as_told(row: dict[str, Any], like: dict[str, Any]) -> dict[str, Any]:
    """Old consumers knew neither leader epochs nor timestamps."""
    unknown = {name: None for name in ("timestamp", "timestamp_type") if like[name] is None}
    return {
        name: value for name, value in row.items() if name != "leader_epoch" or name in like
    } | unknown


def _bytes(name: str, data: bytes | None) -> dict[str, Any]:
    if data is None or len(data) <= 40:
        return {name: data if data is None else data.hex()}
    return {f"{name}_sha256": hashlib.sha256(data).hexdigest()[:16], f"{name}_size": len(data)}
