"""Simulated rolling by topic, and by topic and day, from the rows of simulate.SIMULATED."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import TypedDict  # pydantic reads these; on 3.11 it takes no others

from kafkats import paths
from kafkats.plans.rows import grouped
from kafkats.rolling.simulate import SimulatedRow

TOPIC_DAYS: Final = pa.schema([
    ("topic", pa.string()),
    ("day_ms", pa.int64()),     # midnight UTC
    ("segments", pa.int64()),   # actual segments that began on that day, of all partitions
    ("simulated", pa.int64()),
])  # fmt: skip
"""One row per topic and day on which a segment began."""


class TopicRow(TypedDict):
    """Sums over the partitions of a topic that have batches.

    `rolled_by` counts the reasons for which simulated segments end. `longest_kept_ms` is None where
    no segment is ever deleted by time. The settings are those of the simulation.
    """

    topic: str
    partitions: int
    segments: int
    simulated: int
    open_files: int
    simulated_open_files: int
    largest_bytes: int
    longest_kept_ms: int | None
    rolled_by: dict[str, int]
    segment_ms: int
    segment_bytes: int
    segment_jitter_ms: int


class UnreadRow(TypedDict):
    """A partition that could not be simulated, and why."""

    log_dir: str
    partition_dir: str
    error: str


class Sums(TypedDict):
    """The simulation by topic. `empty` counts partitions without batches: they are in no sum."""

    topics: list[TopicRow]
    empty: int
    unread: list[UnreadRow]


def by_topic(simulated: pa.Table) -> Sums:
    """Return the sums of SIMULATED by topic, those first whose number of segments differs most."""
    topics: dict[str, TopicRow] = {}
    empty, unread = 0, []
    rows: list[SimulatedRow] = simulated.drop_columns(["days"]).to_pylist()
    for row in rows:
        log_dir, partition_dir, error = row["log_dir"], row["partition_dir"], row["error"]
        if error:
            unread.append(UnreadRow(log_dir=log_dir, partition_dir=partition_dir, error=error))
        elif not row["batches"]:
            empty += 1
        else:
            topic = paths.partition_name(partition_dir).topic
            _add(topics.setdefault(topic, _nothing(topic, row)), row)
    ordered = sorted(
        topics.values(), key=lambda one: (-abs(one["simulated"] - one["segments"]), one["topic"])
    )
    return {"topics": ordered, "empty": empty, "unread": unread}


def by_day(simulated: pa.Table) -> pa.Table:
    """Return TOPIC_DAYS of SIMULATED, in order of topic and day."""
    days = simulated["days"].combine_chunks()
    flat = days.flatten()
    names = [paths.partition_name(one).topic for one in simulated["partition_dir"].to_pylist()]
    table = pa.table({
        "topic": pa.array(names, pa.string()).take(pc.list_parent_indices(days)),
        **{name: flat.field(name) for name in TOPIC_DAYS.names[1:]},
    })
    sums = grouped(table, ["topic", "day_ms"], [("segments", "sum"), ("simulated", "sum")])
    named = sums.select(["topic", "day_ms", "segments_sum", "simulated_sum"])
    ordered = named.sort_by([("topic", "ascending"), ("day_ms", "ascending")])
    return ordered.rename_columns(TOPIC_DAYS.names).cast(TOPIC_DAYS)


def _nothing(topic: str, row: SimulatedRow) -> TopicRow:
    return {
        "topic": topic,
        "partitions": 0,
        "segments": 0,
        "simulated": 0,
        "open_files": 0,
        "simulated_open_files": 0,
        "largest_bytes": 0,
        "longest_kept_ms": None,
        "rolled_by": {},
        "segment_ms": row["segment_ms"],
        "segment_bytes": row["segment_bytes"],
        "segment_jitter_ms": row["segment_jitter_ms"],
    }


def _add(sums: TopicRow, row: SimulatedRow) -> None:
    sums["partitions"] += 1
    sums["segments"] += row["segments"]
    sums["simulated"] += row["simulated"]
    sums["open_files"] += row["open_files"]
    sums["simulated_open_files"] += row["simulated_open_files"]
    sums["largest_bytes"] = max(sums["largest_bytes"], row["largest_bytes"])
    kept = [ms for ms in (sums["longest_kept_ms"], row["longest_kept_ms"]) if ms is not None]
    sums["longest_kept_ms"] = max(kept, default=None)
    for counted in filter(None, row["rolled_by"].split(", ")):
        reason, count = counted.rsplit(" ", 1)
        sums["rolled_by"][reason] = sums["rolled_by"].get(reason, 0) + int(count)
