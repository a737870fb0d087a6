"""The summary of a retention: per partition what is deleted, when, and what keeps the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import TypedDict  # pydantic reads these; on 3.11 it takes no others

from kafkats.clock import DAY_MS
from kafkats.config.values import LONG_MAX
from kafkats.plans.rows import (
    PartitionKey,
    PartitionRow,
    SegmentKey,
    grouped,
    keys_of,
    partition_of,
)
from kafkats.retention.implausible_timestamps import SUSPECT, Suspect
from kafkats.retention.plan import VerdictRow

_WHERE: Final = (*PartitionKey._fields, "topic")
_LOOKS: Final = {
    "s": "in seconds, it seems",
    "us": "in microseconds, it seems",
    "ns": "in nanoseconds, it seems",
    "future": "in the future",
    "negative": "negative",
}


class Sums(TypedDict):
    """Segments, and their bytes by what becomes of them."""

    segments: int
    bytes: int
    now_bytes: int
    day_bytes: int
    week_bytes: int
    vetoed_bytes: int
    pinned_bytes: int


class TopicRow(Sums):
    """A row of `by_topic`."""

    topic: str
    partitions: int


class Kept(TypedDict):
    """The first segment that is kept: its base offset, size, and until when. None: unknown."""

    kept_by: int | None
    kept_offset: int | None
    kept_bytes: int
    why: str
    until_ms: int | None
    unit: str


class SummaryRow(PartitionRow, Sums, Kept):
    """A row of `summary_rows`."""

    topic: str


_NOTHING: Final[Kept] = {
    "kept_by": None,
    "kept_offset": None,
    "kept_bytes": 0,
    "why": "",
    "until_ms": None,
    "unit": "",
}


def by_topic(rows: Iterable[SummaryRow]) -> list[TopicRow]:
    """Sum up the rows of `summary_rows` by topic: partitions, segments and bytes."""
    topics: dict[str, list[SummaryRow]] = {}
    for row in rows:
        topics.setdefault(row["topic"], []).append(row)
    return [
        {"topic": topic, "partitions": len(of_topic), **sums_of(of_topic)}
        for topic, of_topic in topics.items()
    ]


def sums_of(rows: Sequence[Mapping[str, Any]]) -> Sums:
    """Return the sums over rows of `summary_rows`."""
    return cast("Sums", {name: sum(row[name] for row in rows) for name in Sums.__annotations__})


def summary_rows(verdicts: pa.Table, now_ms: int) -> list[SummaryRow]:
    """Return, per partition, the bytes deleted now, in a day, in a week, and what pins the rest.

    For the pinning segment a row has the reason, the offset of the batch responsible, and until
    when it pins. `pinned_bytes` are those of later segments that have expired themselves.
    """
    deleted = pc.and_(verdicts["deletes"], pc.equal(verdicts["veto"], ""))
    day_ms, week_ms = (min(now_ms + days * DAY_MS, LONG_MAX) for days in (1, 7))
    since = pc.if_else(pc.equal(verdicts["lasting"], ""), verdicts["deletable_from_ms"], None)
    counted = {
        "bytes": pc.is_valid(deleted),
        "now_bytes": deleted,
        "day_bytes": pc.or_(deleted, pc.fill_null(pc.less_equal(since, day_ms), False)),
        "week_bytes": pc.or_(deleted, pc.fill_null(pc.less_equal(since, week_ms), False)),
        "vetoed_bytes": pc.not_equal(verdicts["veto"], ""),
        "pinned_bytes": pc.is_valid(verdicts["blocked_by"]),
    }
    columns = {name: verdicts[name] for name in _WHERE} | {"row": np.arange(len(verdicts))}
    columns |= {name: pc.if_else(flags, verdicts["bytes"], 0) for name, flags in counted.items()}
    table = pa.table(columns)
    wanted = [("row", "min"), ("row", "count"), *((name, "sum") for name in counted)]
    # groups come in any order
    sums = grouped(table, _WHERE, wanted).sort_by("row_min").to_pylist()
    rest = grouped(table.filter(pc.invert(deleted)), _WHERE, [("row", "min")])
    first: list[VerdictRow] = verdicts.take(rest["row_min"]).to_pylist()
    kept = {partition_of(row): _kept(row) for row in first}
    return [
        {
            "log_dir": row["log_dir"],
            "partition_dir": row["partition_dir"],
            "topic": row["topic"],
            **cast("Sums", {"segments": row["row_count"], **{n: row[f"{n}_sum"] for n in counted}}),
            **kept.get(partition_of(row), _NOTHING),
        }
        for row in sums
    ]


def _kept(row: VerdictRow) -> Kept:
    why = row["veto"] or "; ".join(filter(None, (row["reason"], row["lasting"])))
    by_time = row["evidence"] == "timestamp" and not row["veto"] and not row["lasting"]
    offset = row["largest_offset"] if by_time and row["largest_offset"] != -1 else None
    record = "" if offset is None else f", in the batch of offset {offset},"
    if row["unit"] in _LOOKS:
        why += f"; its largest timestamp{record} is {_LOOKS[row['unit']]}"
    return {
        "kept_by": row["base_offset"],
        "kept_offset": offset,
        "kept_bytes": row["bytes"],
        "why": why,
        "until_ms": None if row["lasting"] else row["deletable_from_ms"],
        "unit": row["unit"],
    }


def deleted_by(verdicts: Iterable[pa.Table]) -> dict[str, dict[str, int]]:
    """Return {topic: {rule: bytes}} of what is deleted now, from pieces of RETENTION; the rules are
    those of RETENTION.by.
    """
    found: dict[str, Counter[str]] = {}
    for piece in verdicts:
        deleted = pc.and_(piece["deletes"], pc.equal(piece["veto"], ""))
        rows = grouped(piece.filter(deleted), ["topic", "by"], [("bytes", "sum")])
        for row in rows.to_pylist():
            found.setdefault(row["topic"], Counter())[row["by"]] += row["bytes_sum"]
    return {topic: dict(sorted(found[topic].items())) for topic in sorted(found)}


def suspects(rows: Iterable[SummaryRow]) -> list[Suspect]:
    """Return the segments that keep others by an implausible timestamp, of `summary_rows`."""
    return [
        Suspect(*partition_of(row), row["kept_by"], row["kept_bytes"])
        for row in rows
        if row["kept_by"] is not None and row["unit"] in SUSPECT
    ]


def with_shares(rows: Iterable[SummaryRow], shares: pa.Table) -> list[SummaryRow]:
    """Return rows of `summary_rows`, with the keeping segment's SHARES added to `why`."""
    texts = dict(zip(keys_of(shares), shares["shares"].to_pylist(), strict=True))

    def why(row: SummaryRow) -> str:
        kept_by = -1 if row["kept_by"] is None else row["kept_by"]
        text = texts.get(SegmentKey(*partition_of(row), kept_by))
        return row["why"] if text is None else f"{row['why']}: {text}"

    return [{**row, "why": why(row)} for row in rows]
