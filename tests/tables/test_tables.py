"""Lookup tables: every cell against brute force, any order of runs, appends between runs, two writers, damage."""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkats import search, tables
from kafkats.compression import Codec
from kafkats.errors import BadInput, CorruptFile, KafkatsError, Locked, UsageError
from kafkats.lookup.partitions import lookup_partitions
from kafkats.tables import merge, store
from tests.builders.partitions import HOUR, T0, Grown, grown
from tests.builders.tables import files, rows_of, run
from tests.golden import Unpacked, cases, partitions, tree


def check(table: Path, some: Iterable[Grown]) -> None:
    """Every row against all records."""
    by_name = {(one.topic, one.number): one for one in some}
    rows = rows_of(table)
    assert rows
    for row in rows:
        one = by_name[row["topic"], row["partition"]]
        assert (row["offset"], row["record_timestamp"]) == one.first(row["timestamp"]), row


def opened(table: Path) -> set[tuple[str, int, int]]:
    """The open cells, one by one."""
    runs = tables.open_cells(table).items()
    return {
        (*key, time)
        for key, spans in runs
        for begin, end in spans
        for time in range(begin, end, 60_000)
    }


# ---------------------------------------------------------------- cells


@pytest.mark.slow(2)
@settings(deadline=None, max_examples=40)
@given(st.data())
def test_cells_are_those_of_brute_force(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        one = grown(Path(folder))
        for _ in range(data.draw(st.integers(0, 12))):
            times = data.draw(
                st.lists(st.integers(-1, 90_000) | st.just(-1), min_size=1, max_size=4)
            )
            codec = data.draw(st.sampled_from([Codec.NONE, Codec.LZ4]))
            one.append(*times, codec=codec, roll=data.draw(st.sampled_from([False, False, True])))
        step = data.draw(st.sampled_from([1000, 7000, 60_000]))
        cells = tables.grid(
            data.draw(st.integers(0, 30_000)), data.draw(st.integers(31_000, 95_000)), step
        )
        watermark = data.draw(st.none() | st.integers(0, one.end))
        for exact in (False, True):
            with search.Partition(one.path, high_watermark=watermark) as partition:
                found = tables.build_cells(partition, "grown", 0, cells, exact=exact).to_pylist()
            for cell, row in zip(cells.tolist(), found, strict=True):
                offset, timestamp = one.first(cell)
                if watermark is not None and offset >= watermark:
                    offset, timestamp = -1, -1
                assert (row["timestamp"], row["offset"], row["record_timestamp"]) == (
                    cell,
                    offset,
                    timestamp,
                )
                assert (row["reason"] in tables.OPEN) == (offset < 0)
                assert (row["log_start_offset"], row["log_end_offset"]) == (0, one.end)


@pytest.mark.slow(1)
def test_cells_of_real_partitions(golden: Unpacked) -> None:
    compared = 0
    for case in cases("timestamps", "retention", "transactions"):
        for path in partitions(golden(case, case.states[-1])):
            with search.Partition(path) as partition:
                try:
                    newest = search.find_exact(
                        partition, search.Word.MAX_TIMESTAMP, depth="full"
                    ).timestamp
                    first = partition.first_record
                except KafkatsError:
                    continue
                if first is None or not 0 <= max(first.timestamp, newest - HOUR) <= newest:
                    continue
                span = max(first.timestamp, newest - HOUR), newest + 5000
                cells = tables.grid(*span, max(1000, (span[1] - span[0]) // 50))
                for exact, depth in ((False, "tail"), (True, "full")):
                    rows = tables.build_cells(partition, "t", 0, cells, exact=exact).to_pylist()
                    for cell, row in zip(cells.tolist(), rows, strict=True):
                        alone = search.find_exact(partition, cell, depth=depth)
                        said = (
                            row["offset"],
                            row["record_timestamp"],
                            row["leader_epoch"],
                            row["reason"],
                            row["segment"],
                        )
                        assert said == (
                            alone.offset,
                            alone.timestamp,
                            alone.leader_epoch,
                            alone.reason,
                            alone.segment,
                        )
                        compared += 1
    assert compared > 500


def test_the_schema_is_that_of_the_rows(tmp_path: Path) -> None:
    one = grown(tmp_path)
    one.append(T0, T0 + 1)
    run(tmp_path / "t", [one], T0, T0 + HOUR)
    view = tables.read(tmp_path / "t")
    assert view.rows.schema.equals(tables.TABLE)
    assert set(view.rows["table_version"].to_pylist()) == {tables.TABLE_VERSION}


def test_the_page_has_every_column_and_reason() -> None:
    text = (Path(__file__).parents[2] / "docs" / "lookup-tables.md").read_text()
    rows = text.partition("## Rows")[2].partition("##")[0]
    for name in (
        *tables.TABLE.names,
        *tables.OPEN,
        "exact",
        "first-after",
        "before-start",
        "deleted",
    ):
        assert f"`{name}`" in rows
    assert f"at most {merge.MOST_ROWS:,} rows".replace(",", " ") in text


def test_a_partition_that_goes_away_is_left_for_the_next_run(tmp_path: Path) -> None:
    one, two, table = grown(tmp_path), grown(tmp_path, "gone-0"), tmp_path / "t"
    one.append(T0)
    two.path.rmdir()
    written = run(table, [one, two], T0, T0 + HOUR)
    assert (written.added, written.unreadable, written.open) == (120, 60, 119)


def test_nothing_is_written_beside_the_table(tmp_path: Path) -> None:
    one = grown(tmp_path)
    one.append(T0, T0 + 1)
    before = tree(one.path)
    run(tmp_path / "t", [one], T0, T0 + HOUR)
    assert tree(one.path) == before


# ---------------------------------------------------------------- runs


@pytest.mark.slow(1)
def test_later_runs_close_the_open_cells_and_nothing_else(tmp_path: Path) -> None:
    table, chance = tmp_path / "t", random.Random(7)
    quiet, busy = grown(tmp_path, "quiet-0"), grown(tmp_path, "busy-3")
    known: dict[tuple[str, int, int], dict[str, Any]] = {}
    for hour in range(5):
        begin = T0 + hour * HOUR
        busy.append(*sorted(begin + chance.randrange(HOUR) for _ in range(30)), roll=hour % 2 == 0)
        if hour in (1, 4):
            quiet.append(begin + 5 * 60_000)
        written = run(table, [quiet, busy], begin, begin + HOUR)
        check(table, [quiet, busy])
        now = {(r["topic"], r["partition"], r["timestamp"]): r for r in rows_of(table)}
        for key, row in known.items():
            if row["offset"] >= 0 or now[key]["offset"] < 0:
                assert now[key] == row, "neither closed nor still open cells change"
        closed = sum(row["offset"] < 0 <= now[key]["offset"] for key, row in known.items())
        assert written.closed == closed
        assert written.added == 120
        assert written.open == sum(row["offset"] < 0 for row in now.values())
        assert opened(table) == {key for key, row in now.items() if row["offset"] < 0}
        known = now
    assert written.closed > 60


def test_deleted_data_leaves_the_table_as_it_was(tmp_path: Path) -> None:
    one, table = grown(tmp_path), tmp_path / "t"
    for hour in range(3):
        one.append(T0 + hour * HOUR, T0 + hour * HOUR + 600_000, roll=True)
    run(table, [one], T0, T0 + 2 * HOUR)
    before = rows_of(table)
    for path in one.path.glob(f"{0:020d}.*"):
        path.unlink()
    again = run(table, [one], T0, T0 + 2 * HOUR)
    assert (again.added, again.closed, again.kept) == (0, 0, 120)
    assert rows_of(table) == before
    view, times = tables.read(table), [row["timestamp"] for row in before]
    seen = tables.lookup(view, 0, times, log_start={("grown", 0): 2})
    assert seen.words() == ["deleted" if row["offset"] < 2 else row["reason"] for row in before]
    assert seen.offset.tolist() == [row["offset"] for row in before]
    assert "deleted" in {*seen.words()} != {"deleted"}
    assert tables.read(table).rows.to_pylist() == before


def anew(one: Grown) -> None:
    """Delete the topic, and make it again."""
    for path in one.path.iterdir():
        path.unlink()


@pytest.mark.parametrize("more", [0, 6000])
def test_a_topic_made_anew_closes_no_cell_of_the_old_one(tmp_path: Path, more: int) -> None:
    """Also where the new log has more records by now than the old one ever had: `more`."""
    one, other, table = grown(tmp_path, "made-0"), grown(tmp_path, "same-0"), tmp_path / "t"
    for each in (one, other):
        each.append(T0, *[T0 + 1] * 4999)
        each.append(T0 + 61_000)
    run(table, [one, other], T0, T0 + 4 * 60_000)
    before = rows_of(table)
    assert [row["offset"] for row in before] == [0, 5000, -1, -1] * 2
    anew(one)
    one.append(T0 + 3 * 60_000, T0 + 4 * 60_000, *[T0 + 5 * 60_000] * more)
    other.append(T0 + 3 * 60_000, T0 + 4 * 60_000)
    for _ in range(2):
        written = run(table, [one, other], T0 + 4 * 60_000, T0 + 5 * 60_000)
        [said] = written.other_logs
        assert said.startswith("made-0: ") and "5000" in said
        offsets = {
            topic: [row["offset"] for row in rows_of(table) if row["topic"] == topic]
            for topic in ("made", "same")
        }
        assert offsets == {"made": [0, 5000, -1, -1, -1], "same": [0, 5000, 5001, 5001, 5002]}
    view = tables.read(table)
    assert tables.lookup(view, view.number("made", 0), [T0 + 4 * 60_000]).words() == ["other-log"]
    assert [row for row in rows_of(table) if row["topic"] == "made"][:4] == before[:4]
    run(tmp_path / "new", [one], T0, T0 + 5 * 60_000)
    check(tmp_path / "new", [one])


def test_a_topic_made_anew_and_empty_is_noticed(tmp_path: Path) -> None:
    one, table = grown(tmp_path), tmp_path / "t"
    one.append(T0, T0 + 60_000)
    run(table, [one], T0, T0 + 2 * 60_000)
    anew(one)
    (one.path / f"{0:020d}.log").write_bytes(b"")
    written = run(table, [one], T0 + 2 * 60_000, T0 + HOUR)
    assert written.other_logs == [
        "grown-0: its log ends at 0, and the table has offset 1 of an earlier one"
    ]
    assert {row["reason"] for row in rows_of(table)[2:]} == {"other-log"}


def test_a_replica_that_begins_again_is_believed_when_it_is_there(tmp_path: Path) -> None:
    one, table = grown(tmp_path), tmp_path / "t"
    one.append(T0, T0 + 60_000)
    whole = {path.name: path.read_bytes() for path in one.path.iterdir()}
    run(table, [one], T0, T0 + 2 * 60_000)
    anew(one)
    one.append(T0)
    assert run(table, [one], T0 + 2 * 60_000, T0 + 3 * 60_000).other_logs
    anew(one)
    for name, data in whole.items():
        (one.path / name).write_bytes(data)
    one.append(T0 + 2 * 60_000, T0 + HOUR)
    assert not run(table, [one], T0 + 3 * 60_000, T0 + 4 * 60_000).other_logs
    check(table, [one])


def test_hours_added_after_their_data_went_are_of_the_same_log(tmp_path: Path) -> None:
    one, table = grown(tmp_path), tmp_path / "t"
    for hour in range(6):
        one.append(T0 + hour * HOUR, T0 + hour * HOUR + 600_000, roll=True)
    run(table, [one], T0 + 2 * HOUR, T0 + 3 * HOUR)
    for base in (0, 2, 4, 6):
        for path in one.path.glob(f"{base:020d}.*"):
            path.unlink()
    for begin in (T0, T0 + 4 * HOUR, T0 + 2 * HOUR, T0 + 3 * HOUR):
        assert not run(table, [one], begin, begin + HOUR).other_logs


@pytest.mark.slow(8)
@settings(deadline=None, max_examples=10)
@given(st.data())
def test_any_order_of_runs_leaves_the_same_files(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        some = [grown(Path(folder), name) for name in ("a-0", "a-10", "b-2")]
        chance = random.Random(data.draw(st.integers(0, 99)))
        for one in some[:2]:
            for day in range(3):
                one.append(
                    *(T0 + day * 24 * HOUR + chance.randrange(24 * HOUR) for _ in range(20)),
                    roll=True,
                )
        some[2].append(-1)
        step = data.draw(st.sampled_from([600_000, 420_000, 2 * HOUR]))
        whole = Path(folder, "whole")
        run(whole, some, T0, T0 + 60 * HOUR, step)
        cuts = sorted({
            T0,
            T0 + 60 * HOUR,
            *data.draw(st.lists(st.integers(T0 + 1, T0 + 60 * HOUR - 1), max_size=6)),
        })
        spans = data.draw(st.permutations(list(pairwise(cuts))))
        again = data.draw(st.lists(st.sampled_from(spans), max_size=2))
        pieces = Path(folder, "pieces")
        for begin, end in [*spans, *again]:
            run(
                pieces,
                data.draw(st.permutations(some)),
                begin,
                end,
                step,
                exact=data.draw(st.booleans()),
            )
        assert files(pieces) == files(whole)
        check(pieces, some)
        before = tree(pieces)
        run(pieces, some, T0, T0 + 60 * HOUR, step)
        assert tree(pieces) == before


@pytest.mark.slow(9)
def test_files_grow_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, table = grown(tmp_path), tmp_path / "t"
    one.append(T0 + 40 * 24 * HOUR)
    for hour in range(30):
        run(table, [one], T0 + hour * HOUR, T0 + (hour + 1) * HOUR)
    lengths = [part.to_ms - part.from_ms for part in tables.read_manifest(table).parts]
    assert lengths == [24 * HOUR, *[HOUR] * 6]
    written = run(table, [one], T0, T0 + 31 * 24 * HOUR)
    lengths = [part.to_ms - part.from_ms for part in tables.read_manifest(table).parts]
    assert lengths == [30 * 24 * HOUR, 24 * HOUR]
    assert written.files == 2
    assert {path.suffix for path in table.iterdir()} == {".json", ".parquet", ""}
    assert len(files(table)) == 3
    monkeypatch.setattr(merge, "MOST_ROWS", 1440)
    run(table, [one], T0, T0 + 31 * 24 * HOUR)
    assert {p.to_ms - p.from_ms for p in tables.read_manifest(table).parts} == {24 * HOUR}
    check(table, [one])


def test_damaged_logs_leave_cells_open_until_they_are_repaired(tmp_path: Path) -> None:
    one, table = grown(tmp_path), tmp_path / "t"
    one.append(T0)
    one.append(T0 + 600_000)
    one.append(T0 + 1_200_000)
    log = next(one.path.glob("*.log"))
    sound = log.read_bytes()
    data = bytearray(sound)
    data[len(sound) // 3 + 40] ^= 1
    log.write_bytes(data)
    written = run(table, [one], T0, T0 + HOUR)
    rows = rows_of(table)
    assert written.unreadable == 19, "the last batch is found by its index entry"
    assert [row["reason"] for row in rows[:2]] == ["exact", "unreadable"]
    log.write_bytes(sound)
    run(table, [one], T0 + HOUR, T0 + 2 * HOUR)
    check(table, [one])
    assert "unreadable" not in {row["reason"] for row in rows_of(table)}


def test_of_what_a_broker_serves(golden: Unpacked, tmp_path: Path) -> None:
    case = next(one for one in cases("root") if one.name == "root-4.3.1")
    root = golden(case, "data")
    found = list(lookup_partitions({path.parent for path in root.rglob("meta.properties")}))
    begin = 1_600_000_000_000
    written = tables.build(tmp_path / "t", found, begin, begin + HOUR)
    assert written.added == 60 * len(found)


# ---------------------------------------------------------------- reading


def test_lookup_says_what_the_records_say(tmp_path: Path) -> None:
    some, table, chance = (
        [grown(tmp_path, f"x-{n}") for n in range(3)],
        tmp_path / "t",
        random.Random(3),
    )
    for one in some[:2]:
        one.append(*sorted(T0 + chance.randrange(3 * HOUR) for _ in range(50)))
    run(table, some, T0, T0 + HOUR)
    run(
        table, some[:1], T0 + 2 * HOUR, T0 + 3 * HOUR
    )  # a gap, and a partition that is not in all of it
    view = tables.read(table)
    assert view.partitions == [("x", 0), ("x", 1), ("x", 2)]
    times = np.array(
        [T0 + chance.randrange(-HOUR, 4 * HOUR) for _ in range(3000)]
        + [T0 + 60_000 * n for n in range(60)]
    )
    numbers = np.array([chance.randrange(-1, 3) for _ in times])
    found = tables.lookup(view, numbers, times)
    seen = set()
    for time, number, offset, timestamp, word in zip(
        times.tolist(),
        numbers.tolist(),
        *(c.tolist() for c in found[:2]),
        found.words(),
        strict=True,
    ):
        seen.add(word)
        hour = (time - T0) // HOUR
        if number < 0 or not (hour == 0 or (hour == 2 and number == 0)):
            assert (offset, word) == (-1, "not-covered")
            continue
        first = some[number].first(time)
        if word == "coarse":
            assert (offset, timestamp) == some[number].first(time // 60_000 * 60_000)
            assert offset < first[0] or first[0] < 0
        else:
            assert (offset, timestamp) == first
            assert (word == "exact") == (timestamp == time)
    assert seen >= {"coarse", "first-after", "past-end", "not-covered", "before-start"}
    deleted = tables.lookup(view, 0, times, log_start={("x", 0): 10})
    assert (deleted.offset == tables.lookup(view, 0, times).offset).all()
    assert ("deleted" in deleted.words()) and all(
        (o >= 10) or o < 0 or w == "deleted"
        for o, w in zip(deleted.offset, deleted.words(), strict=True)
    )


def test_lookup_where_cells_are_few_and_far(tmp_path: Path) -> None:
    one, table = grown(tmp_path), tmp_path / "t"
    one.append(10_000, T0 + 1, T0 + 120_000)
    run(table, [one], 0, HOUR, 1000)
    run(table, [one], T0, T0 + HOUR, 1000)
    times = np.array([0, 9000, 10_000, 10_001, HOUR, T0, T0 + 60_000, T0 + 121_000])
    found = tables.lookup(tables.read(table), 0, times)
    assert found.offset.tolist() == [0, 0, 0, 0, -1, 1, 2, -1]
    assert found.words() == [
        "before-start",
        "before-start",
        "exact",
        "coarse",
        "not-covered",
        "first-after",
        "first-after",
        "past-end",
    ]


def test_lookup_in_nothing(tmp_path: Path) -> None:
    run(tmp_path / "t", [], T0, T0 + HOUR)
    view = tables.read(tmp_path / "t")
    assert view.covered == ((T0, T0 + HOUR),)
    assert tables.lookup(view, 0, [T0, T0 + 1]).words() == ["not-covered", "not-covered"]


def test_a_part_of_a_table(tmp_path: Path) -> None:
    some, table = [grown(tmp_path, name) for name in ("a-0", "b-0")], tmp_path / "t"
    run(table, some, T0, T0 + 26 * HOUR)
    view = tables.read(table, from_ms=T0 + HOUR, to_ms=T0 + 25 * HOUR, topics=["b"])
    assert view.partitions == [("b", 0)]
    times = view.rows["timestamp"].to_pylist()
    assert times == list(range(T0 + HOUR, T0 + 25 * HOUR, 60_000))


def test_pandas_reads_the_files_as_they_are(tmp_path: Path) -> None:
    one, table = grown(tmp_path), tmp_path / "t"
    one.append(T0, T0 + 90_000)
    run(table, [one], T0, T0 + HOUR)
    (path,) = table.glob("*.parquet")
    for place in (path, table):
        assert pd.read_parquet(place).to_dict("records") == rows_of(table)


SPARK = """
import json, sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
rows = [row.asDict() for row in spark.read.parquet(sys.argv[1]).orderBy("timestamp").collect()]
open(sys.argv[2], "w").write(json.dumps(rows))
"""


@pytest.mark.slow(5)
def test_spark_reads_the_folder(tmp_path: Path) -> None:
    one, table, answer = grown(tmp_path), tmp_path / "t", tmp_path / "answer"
    one.append(*(T0 + 7_000 * n for n in range(300)))
    run(table, [one], T0, T0 + HOUR)
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    subprocess.run(
        [sys.executable, "-c", SPARK, table, answer],
        env=environment,
        check=True,
        capture_output=True,
    )
    assert json.loads(answer.read_text()) == rows_of(table)


# ---------------------------------------------------------------- two writers, and bad input


def test_the_second_writer_says_so(tmp_path: Path) -> None:
    one, table = grown(tmp_path), tmp_path / "t"
    one.append(T0)
    run(table, [one], T0, T0 + HOUR)
    before = tree(table)
    with (table / ".lock").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(Locked, match="somebody else"):
            run(table, [one], T0 + HOUR, T0 + 2 * HOUR)
        assert tables.read(table).rows.num_rows == 60, "readers are not kept out"
        assert tree(table) == before
    run(table, [one], T0 + HOUR, T0 + 2 * HOUR)


def test_of_two_writers_at_once_one_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, table = grown(tmp_path), tmp_path / "t"
    one.append(T0)
    real, refused = merge.write_part, []

    def slowly(*args: Any) -> Any:
        try:
            run(table, [one], T0 + HOUR, T0 + 2 * HOUR)
        except Locked as e:
            refused.append(e)
        return real(*args)

    monkeypatch.setattr(merge, "write_part", slowly)
    assert run(table, [one], T0, T0 + HOUR).added == 60
    assert [e.retryable for e in refused] == [True]
    assert tables.verify(table).covered == ((T0, T0 + HOUR),)


def test_an_interrupted_run_leaves_the_table_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, table = grown(tmp_path), tmp_path / "t"
    one.append(T0)
    run(table, [one], T0, T0 + HOUR)
    before = rows_of(table)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(store, "commit", killed)
        with pytest.raises(KeyboardInterrupt):
            run(table, [one], T0 + HOUR, T0 + 2 * HOUR)
    assert rows_of(table) == before
    assert len(files(table)) == 3
    run(table, [one], T0 + 2 * HOUR, T0 + 3 * HOUR)
    assert len(files(table)) == 3, "what the interrupted run left is gone"
    assert tables.read_manifest(table).covered == ((T0, T0 + HOUR), (T0 + 2 * HOUR, T0 + 3 * HOUR))


def test_a_reader_survives_a_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, table = grown(tmp_path), tmp_path / "t"
    one.append(T0)
    run(table, [one], T0, T0 + HOUR // 2)
    real, runs = store.read_part, []

    def late(folder: Path, part: Any, step_ms: int) -> pa.Table:
        if not runs:
            runs.append(1)
            monkeypatch.setattr(store, "read_part", real)
            run(table, [one], T0 + HOUR // 2, T0 + HOUR)
        return real(folder, part, step_ms)

    monkeypatch.setattr(store, "read_part", late)
    assert tables.read(table).rows.num_rows == 60


def edit(table: Path, **changes: Any) -> None:
    path = table / "_table.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_tables_that_cannot_be_read(tmp_path: Path) -> None:
    one, sound = grown(tmp_path), tmp_path / "sound"
    one.append(T0)
    run(sound, [one], T0, T0 + 2 * HOUR)

    def damaged(name: str) -> Path:
        return Path(shutil.copytree(sound, tmp_path / name))

    with pytest.raises(UsageError, match="no table"):
        tables.read(tmp_path)
    table = damaged("version")
    edit(table, table_version=99)
    with pytest.raises(BadInput, match="version 99"):
        tables.open_cells(table)
    with pytest.raises(BadInput, match="version 99; this kafkats reads 1"):
        tables.read(table)
    with pytest.raises(BadInput, match="version 99"):
        run(table, [one], T0, T0 + HOUR)
    table = damaged("missing")
    next(table.glob("*.parquet")).unlink()
    for use in (tables.read, tables.open_cells):
        with pytest.raises(CorruptFile, match="missing"):
            use(table)
    table = damaged("cut")
    path = next(table.glob("*.parquet"))
    path.write_bytes(path.read_bytes()[:-9])
    for use in (tables.read, tables.open_cells):
        with pytest.raises(CorruptFile, match="not what the table's manifest says"):
            use(table)
    path.write_bytes(b"x" * (path.stat().st_size + 9))
    with pytest.raises(BadInput, match="not a readable file"):
        tables.open_cells(table)
    table = damaged("changed")
    path = next(table.glob("*.parquet"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    for use in (tables.read, tables.verify):
        with pytest.raises(CorruptFile, match="not what the table's manifest says"):
            use(table)
    with pytest.raises(BadInput):
        run(table, [one], T0, T0 + HOUR)
    table = damaged("overlapping")
    listed = json.loads((table / "_table.json").read_text())["files"]
    edit(table, files=[*listed, listed[-1]])
    with pytest.raises(CorruptFile, match="overlap"):
        tables.read(table)
    part = '"from_ms": "x", "to_ms": 1, "rows": 1, "open": 0, "bytes": 1, "sha256": ""'
    listed_badly = (
        '{"table_version": 1, "step_ms": 1000, "covered": [], "files": [{"name": "a", '
        + part
        + "}]}"
    )
    numbers = (
        "Infinity",
        "-Infinity",
        "NaN",
        "1e999",
        str(2**63),
        str(-(2**63) - 1),
        "1" * 5000,
        "1.5",
        "true",
        '"1"',
    )
    for content in (
        *(listed_badly.replace('"x"', number) for number in numbers),
        *(
            f'{{"table_version": 1, "step_ms": {number}, "covered": [], "files": []}}'
            for number in numbers
        ),
        *(
            f'{{"table_version": 1, "step_ms": 1000, "covered": [[0, {n}]], "files": []}}'
            for n in numbers
        ),
        listed_badly.replace('"x"', "0").replace('"a"', '"a\\u0000b"'),
        "{",
        "[]",
        "{}",
        listed_badly,
        listed_badly.replace('"x"', "0").replace('"a"', '"../a"'),
        '{"table_version": 1, "step_ms": "x", "covered": [], "files": []}',
    ):
        (damaged_again := damaged(f"manifest-{abs(hash(content))}") / "_table.json").write_text(
            content
        )
        with pytest.raises(CorruptFile):
            tables.read(damaged_again.parent)
    assert tables.verify(sound).rows == 120


def test_what_is_asked_wrongly(tmp_path: Path) -> None:
    one, table = grown(tmp_path), tmp_path / "t"
    one.append(T0)
    run(table, [one], T0, T0 + HOUR)
    with pytest.raises(UsageError, match="a second is the least"):
        run(tmp_path / "u", [one], T0, T0 + HOUR, 999)
    with pytest.raises(UsageError, match="step of 60000 ms, not 1000"):
        run(table, [one], T0, T0 + HOUR, 1000)
    for begin, end in (
        (T0, T0),
        (-HOUR, -HOUR),
        (-(2**62) - 1, 0),
        (0, 2**61),
        (2**62, 2**62 + HOUR),
        (T0, 2**70),
    ):
        with pytest.raises(UsageError, match=r"interval|--from is the same as --until"):
            run(table, [one], begin, end)
    with pytest.raises(BadInput, match=r"two rows of one cell: grown-0"):
        run(table, [one, one], T0, T0 + HOUR)
    rows = tables.read(table).rows
    with pytest.raises(BadInput, match="outside of the interval"):
        tables.write(tmp_path / "v", [rows], T0 + HOUR, T0 + 2 * HOUR, step_ms=60_000)
    with pytest.raises(BadInput, match="multiple of the step"):
        tables.write(tmp_path / "v", [rows], T0, T0 + HOUR, step_ms=70_000)
    with pytest.raises(BadInput, match="no rows of a table"):
        tables.write(tmp_path / "v", [rows.drop_columns(["offset"])], T0, T0 + HOUR, step_ms=60_000)
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "meta.properties").write_text("")
    with pytest.raises(UsageError, match="log directory"):
        run(tmp_path / "root" / "t", [one], T0, T0 + HOUR)
    assert os.listdir(tmp_path / "root") == ["meta.properties"]
