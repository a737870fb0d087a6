"""Lag by time: against the records that a broker's own consumer read of the same directory."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from kafkats.lookup.consumer_groups import Committed
from kafkats.lookup.lag import LAG, REASONS, lag, lag_by_table
from kafkats.lookup.partitions import lookup_partitions
from kafkats.search import PartitionUnit, Word
from kafkats.tables import build, read
from tests.answers import lookup
from tests.golden import Unpacked, case

NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    "name", ["timestamps-4.3.1", "rolling-4.3.1", "matrix-2.8.2-v1", "retention-4.1.0"]
)
def test_by_records(golden: Unpacked, name: str) -> None:
    """Every seventh offset of each partition, and those around its ends."""
    one = case(name)
    root = golden(one, one.states[-1])
    records: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for record in one.records():
        records[record["tp"]].append((record["offset"], record["timestamp"]))
    units = list(lookup_partitions([root]))
    asked, expected = [], []
    for unit in units:
        topic, _, number = unit.partition_dir.rpartition("-")
        there = [(o, t) for o, t in records[unit.partition_dir] if o >= unit.log_start_offset]
        if not there:
            continue
        end = there[-1][0] + 1
        for offset in sorted({*range(there[0][0], end, 7), end - 1, end}):
            left = [t for o, t in there if o >= offset]
            asked.append(Committed("g", topic, int(number), offset))
            expected.append((left[0] if left else -1, max(t for _, t in there), end))
    assert len(asked) > 50
    rows = lag(asked, units, now_ms=NOW).to_pylist()
    for one_asked, row, (next_time, newest, end) in zip(asked, rows, expected, strict=True):
        assert (row["topic"], row["partition"], row["offset"]) == one_asked[1:4]
        assert row["log_end_offset"] == end, row
        assert row["lag"] == end - one_asked.offset
        if one_asked.offset == end:
            assert (row["reason"], row["lag_ms"], row["age_ms"]) == ("caught-up", 0, 0)
        elif next_time != -1:
            assert (row["reason"], row["next_timestamp"]) == ("behind", next_time)
            assert row["newest_timestamp"] == newest
            assert row["lag_ms"] == newest - next_time
            assert row["age_ms"] == max(NOW - next_time, 0)
        else:
            assert (row["reason"], row["lag_ms"]) == ("no-timestamps", -1)


def first_unit(golden: Unpacked) -> PartitionUnit:
    one = case("retention-4.1.0")
    units = lookup_partitions([golden(one, one.states[-1])])
    return next(unit for unit in units if unit.partition_dir == "start-offset-0")


def asked(offset: int, unit: PartitionUnit, **changes: Any) -> dict[str, Any]:
    topic, _, number = unit.partition_dir.rpartition("-")
    committed = Committed("g", topic, int(number), offset)._replace(**changes)
    (row,) = lag([committed], [unit], now_ms=NOW).to_pylist()
    assert row["reason"] in REASONS
    return dict(row)


def test_what_is_no_plain_lag(golden: Unpacked) -> None:
    unit = first_unit(golden)
    start = unit.log_start_offset
    assert start > 0
    gone = asked(start - 1, unit)
    there = asked(start, unit)
    assert (gone["reason"], there["reason"]) == ("deleted", "behind")
    assert {**gone, "reason": "", "offset": 0} == {**there, "reason": "", "offset": 0}
    assert asked(there["log_end_offset"] + 1, unit)["reason"] == "beyond-end"
    assert (asked(-1, unit)["reason"], asked(-1, unit)["lag"]) == ("no-commit", -1)
    other = asked(3, unit, partition=99, log_end=10)
    assert (other["reason"], other["lag"], other["lag_ms"]) == ("no-partition", 7, -1)


def test_unreadable_is_a_row(golden: Unpacked, tmp_path: Path) -> None:
    partition = tmp_path / "t-0"
    partition.mkdir()
    (partition / f"{0:020d}.log").write_bytes(b"\xff" * 200)
    (unit,) = lookup_partitions([tmp_path / "t-0"])
    assert asked(0, unit)["reason"] == "unreadable"


def test_by_a_table(golden: Unpacked, tmp_path: Path) -> None:
    """What a table says is never less than the truth, and the truth where a cell leads to that very record."""
    one = case("rolling-4.3.1")
    root = golden(one, one.states[-1])
    units = [unit for unit in lookup_partitions([root]) if unit.partition_dir == "by-bytes-0"]
    (row,) = lookup([root], [Word.MAX_TIMESTAMP], topics="by-bytes").to_pylist()
    newest = row["timestamp"]
    step = 1000
    build(
        tmp_path / "table",
        units,
        newest // step * step - 600 * step,
        newest // step * step + 2 * step,
        step_ms=step,
    )
    view = read(tmp_path / "table")
    end = lag([Committed("g", "by-bytes", 0, 0)], units, now_ms=NOW).to_pylist()[0][
        "log_end_offset"
    ]
    committed = [Committed("g", "by-bytes", 0, offset) for offset in range(-1, end + 2)]
    exact = lag(committed, units, now_ms=NOW).to_pylist()
    told = lag_by_table(committed, view, now_ms=NOW)
    assert told.schema == LAG
    rows = told.to_pylist()
    itself = 0
    for true, said in zip(exact, rows, strict=True):
        if said["reason"] == "not-covered":
            continue
        assert (said["reason"], said["lag"], said["newest_timestamp"]) == (
            true["reason"],
            true["lag"],
            newest,
        )
        assert said["lag_ms"] >= true["lag_ms"]
        if said["evidence"] == "its own timestamp":
            itself += 1
            assert said["next_timestamp"] == true["next_timestamp"]
    assert itself > 0
    assert {row["reason"] for row in rows} >= {"behind", "caught-up", "beyond-end", "no-commit"}
    (absent,) = lag_by_table([Committed("g", "elsewhere", 0, 5)], view, now_ms=NOW).to_pylist()
    assert absent["reason"] == "no-partition"
