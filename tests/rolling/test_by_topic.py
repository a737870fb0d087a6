"""Rolling by topic and by day: the sums are those of the partitions, and a day has the segments that begin on it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa

from kafkats.config.policy import Policy
from kafkats.plans.units import list_units
from kafkats.rolling.by_topic import TOPIC_DAYS, by_day, by_topic
from kafkats.rolling.replay import began
from kafkats.rolling.rules import Batch
from kafkats.rolling.simulate import (
    DAY_MS,
    SIMULATED_NOW,
    SimulateOptions,
    partitions,
    simulate_partition,
)
from tests.builders.partitions import batch, write_indexes

FIRST_MS = 18_500 * DAY_MS
LATER_MS = FIRST_MS + 30 * DAY_MS


def written(path: Path, *segments: list[int], mtime_ms: int = LATER_MS) -> None:
    """A partition directory with one record per timestamp."""
    path.mkdir(parents=True)
    offset = 0
    for times in segments:
        log = path / f"{offset:020}.log"
        log.write_bytes(b"".join(batch(offset + n, time) for n, time in enumerate(times)))
        write_indexes(log)
        os.utime(log, ns=(mtime_ms * 10**6,) * 2)
        offset += len(times)


def simulated(root: Path, **settings: Any) -> pa.Table:
    policy = Policy.model_validate({"topics": {"*": settings}})
    some = partitions(list(list_units([root])))
    rows = [simulate_partition(units, policy, SimulateOptions(LATER_MS)) for units in some]
    return pa.Table.from_batches(rows, SIMULATED_NOW)


def days(table: pa.Table, topic: str) -> list[tuple[int, int, int]]:
    return [
        ((row["day_ms"] - FIRST_MS) // DAY_MS, row["segments"], row["simulated"])
        for row in by_day(table).to_pylist()
        if row["topic"] == topic
    ]


def test_segments_of_one_day_each_where_two_days_were_one_segment(tmp_path: Path) -> None:
    daily = [FIRST_MS + n * DAY_MS // 2 for n in range(8)]  # two records a day for four days
    written(tmp_path / "a-0", daily[:4], daily[4:])
    written(tmp_path / "a-1", daily)
    table = simulated(tmp_path, **{"segment.ms": DAY_MS - 1})
    assert days(table, "a") == [(0, 2, 2), (1, 0, 2), (2, 1, 2), (3, 0, 2)]
    [topic] = by_topic(table)["topics"]
    assert (topic["partitions"], topic["segments"], topic["simulated"]) == (2, 3, 8)
    assert topic["rolled_by"] == {"time": 6}
    assert (topic["segment_ms"], topic["segment_bytes"]) == (DAY_MS - 1, 2**30)
    assert by_day(table).schema == TOPIC_DAYS


def test_every_segment_begins_on_one_day(tmp_path: Path) -> None:
    """Also where a segment has no batch, no timestamps, or some of the future."""
    written(tmp_path / "odd-0", [FIRST_MS, 2**60], [-1], [FIRST_MS], [])
    written(tmp_path / "empty-0", [])
    table = simulated(tmp_path, **{"segment.bytes": 100})
    found = by_topic(table)
    [topic] = found["topics"]
    assert (found["empty"], found["unread"]) == (1, [])
    rows = by_day(table).to_pylist()
    assert sum(row["segments"] for row in rows) == topic["segments"] == 4
    assert sum(row["simulated"] for row in rows) == topic["simulated"]
    assert {row["day_ms"] for row in rows} == {FIRST_MS, LATER_MS}, "none after the files' mtime"


def test_a_partition_that_cannot_be_read_is_named_and_in_no_sum(tmp_path: Path) -> None:
    written(tmp_path / "a-0", [FIRST_MS])
    written(tmp_path / "b-0", [FIRST_MS])
    log = next((tmp_path / "b-0").glob("*.log"))
    content = bytearray(log.read_bytes())
    content[16] = 9  # the magic
    log.write_bytes(content)
    found = by_topic(simulated(tmp_path))
    assert [one["topic"] for one in found["topics"]] == ["a"]
    assert [one["partition_dir"] for one in found["unread"]] == ["b-0"]
    assert days(simulated(tmp_path), "b") == []


def test_a_topic_whose_segments_change_most_comes_first(tmp_path: Path) -> None:
    for name, count in (("a-0", 2), ("b-0", 5)):
        written(tmp_path / name, [FIRST_MS + n for n in range(count)])
    found = by_topic(simulated(tmp_path, **{"segment.bytes": 50}))
    assert [(one["topic"], one["simulated"]) for one in found["topics"]] == [("b", 5), ("a", 2)]


def test_segments_begin_at_the_times_at_which_the_simulation_appends() -> None:
    stored = [([Batch(0, 0, 9, 50), Batch(1, 1, 9, 20)], 40), ([], 30), ([Batch(2, 2, 9, 10)], 90)]
    assert list(began(stored)) == [40, 40, 40]
    assert list(began([([], 7), ([Batch(0, 0, 9, -1)], 3)])) == [7, 3]
