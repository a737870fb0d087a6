"""Two clusters by time: fail-over loses nothing, whatever came late, if the margin is as large as that."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkats import search
from kafkats.errors import BadInput, UsageError
from kafkats.lookup.cluster_diff import BY_PARTITION, DIFF, by_partition, diff, failover
from kafkats.lookup.consumer_groups import Committed
from kafkats.lookup.exports import export
from kafkats.tables import TABLE
from tests.answers import lookup
from tests.golden import Unpacked, case

STEP = 100


def table(logs: dict[str, list[int]], cells: range, start: int = 0) -> pa.Table:
    """A lookup table of partitions t-0 whose records have these times, by brute force."""
    rows: list[dict[str, Any]] = []
    for topic, times in logs.items():
        for cell in cells:
            found = next((n for n, time in enumerate(times) if time >= cell), -1)
            rows.append({
                "topic": topic, "partition": 0, "timestamp": cell, "offset": found,
                "reason": "past-end" if found < 0 else "first-after", "record_timestamp": -1 if found < 0 else times[found],
                "segment": -1, "leader_epoch": -1, "log_start_offset": start, "log_end_offset": len(times), "table_version": 1,
            })  # fmt: skip
    return pa.Table.from_pylist(rows, TABLE)


def test_diff() -> None:
    first = table({"both": [0, 150, 250], "mine": [50]}, range(0, 400, STEP))
    second = table({"both": [0, 10, 20, 150, 250], "theirs": [50]}, range(0, 400, STEP))
    found = diff(first, second, margin_ms=STEP)
    assert found.schema == DIFF
    rows = {(row["topic"], row["target_ms"]): row for row in found.to_pylist()}
    assert len(rows) == 12
    row = rows["both", 200]
    assert (row["first_offset"], row["second_offset"], row["shift"], row["outcome"]) == (
        2,
        4,
        2,
        "both",
    )
    assert (row["resume_offset"], row["again"]) == (3, 1)
    assert (rows["both", 0]["resume_reason"], rows["both", 0]["again"]) == ("not-covered", -1)
    assert (rows["both", 300]["outcome"], rows["both", 300]["resume_offset"]) == ("neither", 4)
    assert (rows["mine", 0]["outcome"], rows["mine", 0]["second_reason"]) == (
        "only-first",
        "not-covered",
    )
    assert rows["theirs", 0]["outcome"] == "only-second"
    assert diff(first, first).to_pylist() == [
        row
        | {
            "second_offset": row["first_offset"],
            "shift": 0,
            "again": 0 if row["first_offset"] >= 0 else -1,
        }
        for row in diff(first, first).to_pylist()
    ]


def test_what_the_second_has_deleted_is_nothing_to_go_on_with() -> None:
    """Its table keeps offsets longer than its log keeps records: its newest rows say where the log begins."""
    first = table({"t": [0, 150, 250, 350]}, range(0, 400, STEP))
    second = table({"t": [0, 150, 250, 350]}, range(0, 400, STEP)).slice(0, 3)
    second = pa.concat_tables([
        second,
        table({"t": [0, 150, 250, 350]}, range(300, 400, STEP), start=2),
    ])
    rows = {row["target_ms"]: row for row in diff(first, second, margin_ms=STEP).to_pylist()}
    told = {
        time: (row["resume_offset"], row["resume_reason"], row["again"])
        for time, row in rows.items()
        if time
    }
    assert told == {100: (2, "deleted", 0), 200: (2, "deleted", 0), 300: (2, "first-after", 1)}
    [mark] = failover([Committed("g", "t", 0, 1)], first, second, margin_ms=STEP)
    assert (mark.offset, mark.reason, mark.gone) == (2, "deleted", 0)
    with pytest.raises(BadInput, match=r"t-0 \(deleted: offset 0 is gone: the log begins at 2\)"):
        export([mark], to="group-csv")
    assert export([mark], to="group-csv", missing="all").text == "t,0,2\n"


def test_by_partition() -> None:
    first = table({"both": [0, 150, 250], "mine": [50]}, range(0, 400, STEP))
    second = table({"both": [0, 10, 20, 150, 250], "theirs": [50]}, range(0, 400, STEP))
    found = by_partition(diff(first, second, margin_ms=STEP))
    assert found.schema == BY_PARTITION
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        ("both", 0, 4, 3, 0, 0, 1, 0, 0, 2, 3),
        ("mine", 0, 4, 0, 1, 0, 3, 0, 0, 0, -1),
        ("theirs", 0, 4, 0, 0, 1, 3, 0, 0, 0, -1),
    ]
    assert by_partition(diff(first.slice(0, 0), second.slice(0, 0))).num_rows == 0


CELLS = st.dictionaries(st.sampled_from(range(0, 900, STEP)), st.integers(-1, 5), max_size=6)
SIDE = st.dictionaries(
    st.sampled_from([("a", 0), ("a", 10), ("a", 2), ("b", 0)]), CELLS, max_size=4
)


def rows_of(side: dict[tuple[str, int], dict[int, int]], random: Random) -> pa.Table:
    rows = [
        {
            "topic": topic,
            "partition": number,
            "timestamp": time,
            "offset": offset,
            "reason": f"r{offset}",
        }
        for (topic, number), cells in side.items()
        for time, offset in cells.items()
    ]
    random.shuffle(rows)
    schema = pa.schema([
        TABLE.field(name) for name in ("topic", "partition", "timestamp", "offset", "reason")
    ])
    return pa.Table.from_pylist(rows, schema)


@pytest.mark.slow(2)
@settings(max_examples=200, deadline=None)
@given(
    first=SIDE,
    second=SIDE,
    margin=st.sampled_from([0, 50, 100, 250]),
    random=st.randoms(use_true_random=False),
)
def test_diff_by_brute_force(
    first: dict[tuple[str, int], dict[int, int]],
    second: dict[tuple[str, int], dict[int, int]],
    margin: int,
    random: Random,
) -> None:
    """Rows in any order, any gaps, partitions that one of them has."""
    expected = []
    for key in sorted(first.keys() | second.keys()):
        one, other = first.get(key, {}), second.get(key, {})
        for time in sorted(one.keys() | other.keys()):
            before = [then for then in other if then <= time - margin]
            resume = other[max(before)] if before else None
            sides = [
                (-1, "not-covered") if time not in side else (side[time], f"r{side[time]}")
                for side in (one, other)
            ]
            expected.append((
                *key,
                time,
                *sides[0],
                *sides[1],
                *((resume, f"r{resume}") if before else (-1, "not-covered")),
            ))
    found = diff(rows_of(first, random), rows_of(second, random), margin_ms=margin).to_pylist()
    names = ("topic", "partition", "target_ms", "first_offset", "first_reason", "second_offset", "second_reason",
             "resume_offset", "resume_reason")  # fmt: skip
    assert [tuple(row[name] for name in names) for row in found] == expected


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10**9),
    most_late=st.sampled_from([0, 30, 150, 400]),
    count=st.integers(1, 40),
)
def test_nothing_is_lost(seed: int, most_late: int, count: int) -> None:
    """The same records reach both clusters, each by its own delays up to `most_late`; a group stands anywhere in the first."""
    random = Random(seed)
    created = sorted(random.sample(range(0, 2000), count))
    arrived = [
        sorted(created, key=lambda time: (time + random.randint(0, most_late), random.random()))
        for _ in range(2)
    ]
    cells = range(0, 2400, STEP)
    first, second = table({"t": arrived[0]}, cells), table({"t": arrived[1]}, cells)
    committed = random.randint(0, count)
    (mark,) = failover([Committed("g", "t", 0, committed)], first, second, margin_ms=most_late)
    left = set(arrived[0][committed:])
    if mark.reason == "not-covered":  # before the first cell: all of it, to be safe
        made = export([mark], to="group-csv", missing="all")
    else:
        made = export([mark], to="group-csv")
    resume = int(made.text.split(",")[2])
    assert left <= set(arrived[1][resume:])


def test_without_a_margin_a_late_record_is_lost() -> None:
    """KIP-33's case: m1 is created before m2, and only one cluster gets them in that order."""
    cells = range(0, 2000, STEP)
    first = table({"t": [1000, 1100, 1050]}, cells)  # the last came late
    second = table({"t": [1000, 1050, 1100]}, cells)
    left = Committed("g", "t", 0, 2)
    (hasty,) = failover([left], first, second, margin_ms=0)
    (careful,) = failover([left], first, second, margin_ms=50)
    assert (hasty.offset, careful.offset) == (2, 0)


def test_failover_names_what_it_cannot_tell() -> None:
    cells = range(500, 1000, STEP)
    first, second = (
        table({"t": [100, 600, 700], "u": [600]}, cells),
        table({"t": [600, 700]}, cells, start=0),
    )
    (early, absent, new, none) = failover(
        [Committed("g", "t", 0, 0), Committed("g", "u", 0, 0), Committed("g", "v", 0, 0), Committed("g", "t", 1, -1)],
        first, second, margin_ms=0,
    )  # fmt: skip
    assert (early.reason, early.offset, early.log_start, early.log_end) == ("not-covered", -1, 0, 2)
    assert (absent.reason, "second cluster" in absent.evidence) == ("not-covered", True)
    assert (new.reason, "first cluster" in new.evidence) == ("not-covered", True)
    assert none.reason == "no-commit"
    with pytest.raises(BadInput, match=r"t-0 \(not-covered"):
        export([early], to="group-csv")
    (past,) = failover(
        [Committed("g", "t", 0, 3)], table({"t": [100, 600, 950]}, cells), second, margin_ms=0
    )
    assert (past.reason, export([past], to="group-csv").text) == ("past-end", "t,0,2\n")


def test_rows_of_a_lookup(golden: Unpacked) -> None:
    """Two directories of the same topics, by the same times: the same cluster against itself is no difference."""
    one = case("rolling-4.3.1")
    root = golden(one, one.states[-1])
    (row,) = lookup([root], [search.Word.MAX_TIMESTAMP], topics="by-bytes").to_pylist()
    times = [row["timestamp"] - 1000 * n for n in range(20)]
    rows = lookup([root], [*times, search.Word.LATEST, search.Word.EARLIEST], topics="by-*")
    found = diff(rows, rows)
    assert found.num_rows == 20 * len({(r["topic"], r["partition"]) for r in rows.to_pylist()})
    assert all((r["shift"], r["again"]) in ((0, 0), (0, -1)) for r in found.to_pylist())
    (mark,) = failover([Committed("g", "by-bytes", 0, 10**6)], rows, rows, margin_ms=0)
    assert mark.offset == row["offset"]
    assert mark.log_end > mark.offset > mark.log_start >= 0


def test_wrong_words() -> None:
    rows = table({"t": [1]}, range(0, 100, STEP))
    with pytest.raises(UsageError, match="must not be negative"):
        diff(rows, rows, margin_ms=-1)
    with pytest.raises(UsageError, match="several groups"):
        failover([Committed("g", "t", 0, 0), Committed("h", "t", 0, 0)], rows, rows, margin_ms=0)
    with pytest.raises(BadInput, match="no lookup and no table"):
        diff(pa.table({"topic": ["t"]}), rows)
    with pytest.raises(BadInput, match="two answers for one time"):
        diff(pa.concat_tables([rows, rows]), rows)
