"""Times before 1970, on every way that leads to a time: by brute force over records that may be of any."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafkats import search, tables
from kafkats.compression import Codec
from kafkats.errors import BadInput, UsageError
from kafkats.lookup.exports import export
from kafkats.lookup.marks import Mark, marks_of, read_marks
from kafkats.records.piece import read_piece
from kafkats.records.plan import ReadOptions, plan_read
from kafkats.search import PartitionUnit
from kafkats.search.sweep import sweep
from kafkats.segment.arrow import COLUMNS
from tests.answers import lookup
from tests.builders.partitions import NONE, Made, batch, made

LOWEST, HIGHEST = -(2**63), 2**63 - 1
NEAR = st.integers(-12, 12)
TIMES = st.one_of(
    NEAR, NEAR.map(lambda n: n * 1000), st.sampled_from([LOWEST + 1, -(2**40), 2**40])
)


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[bytes], list[int]]:
    """Up to three segments of batches with records of any time, -1 (none) included."""
    parts, bases, offset = [], [], 0
    for _ in range(draw(st.integers(1, 3))):
        bases.append(offset)
        part = b""
        for _ in range(draw(st.integers(1, 4))):
            times = draw(st.lists(TIMES, min_size=1, max_size=4))
            magic = draw(st.sampled_from([1, 2, 2, 2]))
            codec = draw(st.sampled_from([Codec.NONE, Codec.GZIP]))
            if magic == 2:
                times = [max(time, max(times) - 2**62, min(times)) for time in times]
            part += batch(offset, *times, magic=magic, codec=codec)
            offset += len(times)
        parts.append(part)
    return parts, bases


def largest(one: Made) -> tuple[int, int]:
    """The first record of the largest timestamp; -1 is none."""
    timed = [r for r in one.records if r.timestamp != -1]
    newest = max((r.timestamp for r in timed), default=None)
    return next(((r.offset, r.timestamp) for r in timed if r.timestamp == newest), NONE)


@pytest.mark.slow(2)
@settings(deadline=None, max_examples=150)
@given(logs(), st.booleans())
@example(([batch(0, -5000, -3000, -4000)], [0]), True)
@example(([batch(0, -1, -5000)], [0]), True)
@example(([batch(0, LOWEST)], [0]), True)
def test_search_and_sweep(parts: tuple[list[bytes], list[int]], clean: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        one = made(Path(folder), *parts, 0)
        targets = one.targets()
        with one.open(clean=clean) as partition:
            for depth in search.DEPTHS:
                for target in targets:
                    ours = search.find_exact(partition, target, depth=depth)
                    assert (ours.offset, ours.timestamp) == one.first(target), (target, depth, ours)
                    if ours.offset < 0:
                        assert ours.reason == (
                            "past-end" if largest(one) != NONE else "no-timestamps"
                        )
                ours = search.find_exact(partition, search.Word.MAX_TIMESTAMP, depth=depth)
                assert (ours.offset, ours.timestamp) == largest(one), (depth, ours)
            for depth in ("tail", "full"):
                found = sweep(partition, np.array(targets, np.int64), depth=depth)
                both = list(zip(found.offset.tolist(), found.timestamp.tolist(), strict=True))
                assert both == [one.first(target) for target in targets]


@pytest.mark.slow(2)
@settings(deadline=None, max_examples=50)
@given(logs(), st.integers(-15, 5), st.integers(1, 20))
def test_tables_and_time_ranges(
    parts: tuple[list[bytes], list[int]], begin: int, length: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        one = made(Path(folder), *parts, 0)
        begins, ends = begin * 1000, (begin + length) * 1000
        unit = PartitionUnit(folder, "made-0", clean=True)
        tables.build(Path(folder, "table"), [unit], begins, ends, step_ms=1000)
        rows = tables.read(Path(folder, "table")).rows.to_pylist()
        for row in rows:
            assert (row["offset"], row["record_timestamp"]) == one.first(row["timestamp"])
        assert [row["timestamp"] for row in rows] == list(range(begins, ends, 1000))
        for at in (begins, begins + 1, ends - 1):
            (mark,) = read_marks(Path(folder, "table"), at)[0]
            assert mark.offset == one.first(at // 1000 * 1000)[0]

        options = ReadOptions(starting_timestamp=begins, ending_timestamp=ends)
        offsets = [
            n
            for piece in plan_read([one.path], options)
            for c in read_piece(piece, pa.schema([COLUMNS.field("offset")]))
            for n in c["offset"].to_pylist()
        ]
        first, last = one.first(begins)[0], one.first(ends)[0]
        wanted = [
            r.offset
            for r in one.records
            if 0 <= first <= r.offset and (last < 0 or r.offset < last)
        ]
        assert offsets == wanted


def test_what_a_broker_cannot_be_asked_for(tmp_path: Path) -> None:
    one = made(tmp_path, [batch(0, -9000, -3, 40)], [0], 0)
    with one.open() as partition:
        for instant in range(-6, 0):
            for rule in ("3.8", "3.0", "0.11", "0.10.1", "0.8", "kip33"):
                kafka = search.find(partition, instant, rule)
                assert (kafka.offset, kafka.reason) == (-1, "taken-for-a-word")
                assert "word" in kafka.evidence
        assert search.find(partition, -7).reason != "taken-for-a-word"
        assert search.find(partition, search.Word.LATEST).offset == 3


def test_exports_take_the_exact_answer(tmp_path: Path) -> None:
    one = made(tmp_path, [batch(0, -9000, -3, 40)], [0], 0)
    for at, offset, time in (
        (-6, 1, None),
        (-2, 2, 40),
        (-1, 2, 40),
        (-9000, 0, None),
        (-8000, 1, None),
        (41, -1, 41),
    ):
        marks = marks_of(lookup([one.path], [at, search.Word.LATEST, search.Word.EARLIEST]), at)
        assert [(m.target_ms, m.word, m.offset) for m in marks] == [(at, "", offset)]
        wanted = 3 if offset < 0 else offset
        assert json.loads(
            json.loads(export(marks, to="spark-offsets").text)["startingOffsets"]
        ) == {"made": {"0": wanted}}
        assert export(marks, to="group-csv").text == f"made,0,{wanted}\n"
        if time is None:
            with pytest.raises(BadInput, match="before 1970"):
                export(marks, to="spark-by-timestamp")
        else:
            said = json.loads(export(marks, to="spark-by-timestamp").text)[
                "startingOffsetsByTimestamp"
            ]
            assert json.loads(said) == {"made": {"0": time}}
    (mark,) = marks_of(lookup([one.path], [-1, search.Word.LATEST]), search.Word.LATEST)
    assert (mark.offset, mark.word, mark.log_end) == (3, "latest", 3)
    with pytest.raises(UsageError, match="no times"):
        export([mark], to="spark-by-timestamp")


def test_ranges_before_1970() -> None:
    start: dict[str, Any] = {"topic": "t", "partition": 0, "offset": 1, "timestamp": -20}
    with pytest.raises(UsageError, match="before it begins"):
        export([Mark(**start, target_ms=-10)], [Mark(**start, target_ms=-20)], to="json")
    made = json.loads(
        export([Mark(**start, target_ms=-20)], [Mark(**start, target_ms=-1)], to="json").text
    )
    assert (made["at"], made["until"], made["partitions"][0]["start"]["timestamp"]) == (
        -20,
        -1,
        -20,
    )
