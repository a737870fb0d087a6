"""Exports: what the readers of each format get, and that no partition goes missing on the way."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafkats.errors import BadInput, UsageError
from kafkats.lookup.exports import (
    FORMATS,
    MISSING,
    Note,
    export,
)
from kafkats.lookup.marks import (
    Mark,
    find_marks,
    marks_in,
    marks_of,
    read_marks,
    with_margin,
)
from kafkats.lookup.partitions import LookupOptions, limits, lookup_partitions
from kafkats.search import Word
from kafkats.tables import build, read
from tests.answers import lookup
from tests.builders.commands import run
from tests.builders.partitions import HOUR, T0, grown
from tests.golden import Unpacked, case

FOUND = Mark("orders", 0, 1000, 17, 1003, "first-after", "tail", 5, 40)
LATE = Mark("orders", 10, 1000, -1, -1, "past-end", "tail", 2, 30, broker=False)
BARE = Mark("old", 0, 1000, -1, -1, "no-timestamps", "tail", 3, 9, broker=False)
BROKEN = Mark("old", 1, 1000, -1, -1, "unreadable", "bad-crc", broker=False)


def options(text: str) -> dict[str, Any]:
    """Spark's option values are JSON in JSON: both are read."""
    return {
        name: value if name.endswith("Strategy") else json.loads(value)
        for name, value in json.loads(text).items()
    }


def test_spark_offsets() -> None:
    made = export(
        [LATE, FOUND],
        [FOUND._replace(target_ms=2000, offset=22), LATE._replace(target_ms=2000)],
        to="spark-offsets",
    )
    assert options(made.text) == {
        "assign": {"orders": [0, 10]},
        "startingOffsets": {"orders": {"0": 17, "10": 30}},
        "endingOffsets": {"orders": {"0": 22, "10": 30}},
    }
    assert made.notes == [
        Note("orders", 10, "start", "past-end", 30),
        Note("orders", 10, "end", "past-end", 30),
    ]
    assert "endingOffsets" not in options(export([FOUND], to="spark-offsets").text)


def test_spark_words_stand_where_the_ends_are_not_known() -> None:
    late = LATE._replace(log_end=-1)
    assert options(export([late], to="spark-offsets").text)["startingOffsets"] == {
        "orders": {"10": -1}
    }
    made = export([BROKEN], [BROKEN], to="spark-offsets", missing="all")
    assert (options(made.text)["startingOffsets"], options(made.text)["endingOffsets"]) == (
        {"old": {"1": -2}},
        {"old": {"1": -1}},
    )


@pytest.mark.parametrize(("missing", "start", "end"), [("all", 3, 9), ("none", 9, 9)])
def test_partitions_without_an_answer(missing: str, start: int, end: int) -> None:
    made = export([BARE], [BARE], to="spark-offsets", missing=missing)
    assert options(made.text)["startingOffsets"] == {"old": {"0": start}}
    assert options(made.text)["endingOffsets"] == {"old": {"0": end}}
    assert [note.wrote for note in made.notes] == [start, end]


@pytest.mark.parametrize("to", ["spark-offsets", "spark-by-timestamp", "group-csv"])
def test_no_answer_is_refused_by_name(to: str) -> None:
    with pytest.raises(
        BadInput, match=r"old-0 \(no-timestamps: tail\), old-1 \(unreadable: bad-crc\)"
    ):
        export([FOUND, BARE, BROKEN], to=to)


def test_spark_by_timestamp() -> None:
    made = export(
        [FOUND, LATE],
        [FOUND._replace(target_ms=2000), LATE._replace(target_ms=2000)],
        to="spark-by-timestamp",
    )
    assert options(made.text) == {
        "assign": {"orders": [0, 10]},
        "startingOffsetsByTimestamp": {"orders": {"0": 1000, "10": 1000}},
        "startingOffsetsByTimestampStrategy": "latest",
        "endingOffsetsByTimestamp": {"orders": {"0": 2000, "10": 2000}},
    }
    assert "startingOffsetsByTimestampStrategy" not in options(
        export([FOUND], to="spark-by-timestamp").text
    )


def test_a_broker_that_finds_nothing_where_there_is_something() -> None:
    blind = FOUND._replace(broker=False)
    with pytest.raises(BadInput, match="a broker finds nothing"):
        export([blind], to="spark-by-timestamp")
    made = export([blind], to="spark-by-timestamp", missing="none")
    assert options(made.text)["startingOffsetsByTimestampStrategy"] == "latest"
    assert made.notes


def test_group_csv() -> None:
    made = export([FOUND, LATE], to="group-csv")
    assert made.text == "orders,0,17\norders,10,30\n"
    made = export([FOUND, BARE], to="group-csv", missing="leave", group="g")
    assert list(csv.reader(io.StringIO(made.text))) == [["g", "orders", "0", "17"]]
    assert made.notes == [Note("old", 0, "start", "no-timestamps", None)]
    assert made.partitions == 1


@pytest.mark.parametrize("topic", ["a,0,1\n__consumer_offsets", "a,b", 'a"b', "a\rb"])
def test_a_topic_adds_no_line_to_the_group_csv(topic: str) -> None:
    """Kafka's tool knows no quotes: the name would reset a partition of another topic."""
    with pytest.raises(UsageError, match="no way to write the topic"):
        export([FOUND, FOUND._replace(topic=topic)], to="group-csv")


def test_group_csv_never_has_a_word_for_an_offset() -> None:
    for mark, missing in ((LATE._replace(log_end=-1), "fail"), (BROKEN, "all"), (BROKEN, "none")):
        with pytest.raises(BadInput, match="no offset to write"):
            export([mark], to="group-csv", missing=missing)


def test_json_tells_what_was_found() -> None:
    made = export(
        [FOUND, LATE, BARE, BROKEN], [FOUND._replace(target_ms=2000, offset=22)], to="json"
    )
    told = json.loads(made.text)
    assert (told["version"], told["at"], told["until"]) == (1, 1000, 2000)
    rows = {(row["topic"], row["partition"]): row for row in told["partitions"]}
    assert rows["orders", 0]["start"] == {
        "target_ms": 1000, "offset": 17, "timestamp": 1003, "reason": "first-after", "evidence": "tail",
    }  # fmt: skip
    assert rows["orders", 0]["end"]["offset"] == 22
    assert (rows["orders", 0]["log_start_offset"], rows["orders", 0]["log_end_offset"]) == (5, 40)
    assert (rows["old", 1]["start"]["offset"], rows["old", 1]["start"]["reason"]) == (
        None,
        "unreadable",
    )
    assert rows["old", 1]["end"]["reason"] == "not-covered"
    assert {(note.topic, note.partition, note.side) for note in made.notes} >= {
        ("old", 1, "start"),
        ("old", 1, "end"),
    }


def test_what_a_format_cannot_say() -> None:
    for to, missing, group in (
        ("yaml", "fail", ""),
        ("json", "drop", ""),
        ("spark-offsets", "leave", ""),
        ("spark-by-timestamp", "all", ""),
        ("group-csv", "fail", 'a"b'),
    ):
        with pytest.raises(UsageError):
            export([FOUND], to=to, missing=missing, group=group)
    with pytest.raises(UsageError, match="end of a range"):
        export([FOUND], [FOUND], to="group-csv")
    with pytest.raises(UsageError, match="no times"):
        export([FOUND._replace(target_ms=-2, word="earliest")], to="spark-by-timestamp")
    with pytest.raises(UsageError, match="no partition"):
        export([], to="json")


def test_ranges_that_are_none() -> None:
    with pytest.raises(UsageError, match="before it begins"):
        export([FOUND], [FOUND._replace(target_ms=999)], to="json")
    with pytest.raises(BadInput, match="ends before it begins: orders-0"):
        export([FOUND], [FOUND._replace(offset=0)], to="spark-offsets")
    with pytest.raises(BadInput, match="no start for old-0"):
        export([FOUND], [FOUND, BARE], to="spark-offsets")


def test_two_copies_of_a_partition() -> None:
    assert export([FOUND, FOUND], to="group-csv").text == "orders,0,17\n"
    with pytest.raises(
        BadInput, match="two log directories that differ: offset 17 of 40, and 18 of 40"
    ):
        export([FOUND, FOUND._replace(offset=18)], to="group-csv")
    with pytest.raises(BadInput, match="TOPIC-N"):
        export([FOUND._replace(topic="", partition=-1)], to="json")
    torn = FOUND._replace(topic="", partition=-1, reason="unreadable", evidence="x: torn")
    with pytest.raises(BadInput, match="x: torn"):
        export([torn], to="json")


def test_every_partition_of_a_directory(golden: Unpacked) -> None:
    """In each format, whatever the reason: all, or named."""
    one = case("timestamps-4.3.1")
    root = golden(one, one.states[-1])
    at = 1_600_000_000_000
    rows = lookup([root], [at, at + 100_000, Word.LATEST, Word.EARLIEST], LookupOptions())
    there = {(row["topic"], row["partition"]) for row in rows.to_pylist()}
    starts, ends = marks_of(rows, at), marks_of(rows, at + 100_000)
    assert len({mark.reason for mark in starts}) > 2
    for to in set(FORMATS) - {"group-csv"}:
        made = export(starts, ends, to=to, missing="none")
        if to == "json":
            assert {
                (row["topic"], row["partition"]) for row in json.loads(made.text)["partitions"]
            } == there
        else:
            for name, value in options(made.text).items():
                if name == "assign":
                    value = {
                        topic: dict.fromkeys(map(str, numbers)) for topic, numbers in value.items()
                    }
                if not name.endswith("Strategy"):
                    assert {
                        (topic, int(n)) for topic, numbers in value.items() for n in numbers
                    } == there
    for missing in MISSING:
        try:
            made = export(starts, to="group-csv", missing=missing)
        except BadInput as e:
            assert missing == "fail", e
            continue
        written = {(topic, int(number)) for topic, number, _ in csv.reader(io.StringIO(made.text))}
        assert written | {(n.topic, n.partition) for n in made.notes if n.wrote is None} == there


def test_nothing_looked_up() -> None:
    with pytest.raises(UsageError, match="nothing was looked up"):
        marks_of(pa.table({"target_ms": [1]}), 2)


def test_a_table_answers_as_its_directory(golden: Unpacked, tmp_path: Path) -> None:
    one = case("retention-4.1.0")
    root = golden(one, one.states[-1])
    newest = max(row["timestamp"] for row in lookup([root], [Word.MAX_TIMESTAMP]).to_pylist())
    step = 60_000
    begin, end = newest // step * step - 20 * step, newest // step * step + 3 * step
    build(tmp_path / "table", lookup_partitions([root]), begin, end, step_ms=step)
    view = read(tmp_path / "table")
    for target in range(begin, end, 5 * step):
        exact = {
            (m.topic, m.partition): m
            for m in marks_of(lookup([root], [target, Word.LATEST, Word.EARLIEST]), target)
        }
        for mark in marks_in(view, target):
            other = exact[mark.topic, mark.partition]
            assert (mark.offset, mark.timestamp, mark.log_start, mark.log_end) == (
                other.offset, other.timestamp, other.log_start, other.log_end
            )  # fmt: skip
    between = begin + step // 2
    starts, ends = marks_in(view, between), marks_in(view, between, end=True)
    assert [m.offset for m in starts] == [m.offset for m in marks_in(view, begin)]
    assert [m.offset for m in ends] == [m.offset for m in marks_in(view, begin + step)]
    assert all(m.reason == "not-covered" for m in marks_in(view, begin - 1))
    with pytest.raises(BadInput, match="not-covered"):
        export(marks_in(view, begin - 1), to="spark-offsets")
    with pytest.raises(UsageError, match="times only"):
        marks_in(view, Word.EARLIEST)


def test_what_is_gone_since_a_table_was_built(tmp_path: Path) -> None:
    """By the newest rows of the table, or by the logs themselves: no offset below the log start is given out as an answer."""
    one, table = grown(tmp_path / "data", "orders-3"), tmp_path / "table"
    for hour in range(3):
        one.append(T0 + hour * HOUR, T0 + hour * HOUR + 600_000, roll=True)
    root = tmp_path / "data"
    build(table, lookup_partitions([root]), T0, T0 + 2 * HOUR)
    [there], _ = read_marks(table, T0)
    assert (there.offset, there.reason, there.gone) == (0, "exact", -1)
    for path in one.path.glob(f"{0:020d}.*"):
        path.unlink()
    assert read_marks(table, T0)[0] == [there], "the table's own rows know nothing of it yet"
    now = limits(lookup_partitions([root]))
    assert now == {("orders", 3): (2, 6)}
    [gone], [end] = read_marks(table, T0, T0 + 60_000, limits=now)  # type: ignore[misc]
    assert (gone.offset, gone.timestamp, gone.reason, gone.gone) == (2, -1, "deleted", 0)
    assert gone.evidence == "offset 0 is gone: the log begins at 2"
    assert read_marks(table, T0 + HOUR, limits=now)[0][0].reason == "exact", (
        "and what is there stays an answer"
    )
    build(table, lookup_partitions([root]), T0 + 2 * HOUR, T0 + 3 * HOUR)
    assert read_marks(table, T0)[0][0]._replace(log_end=-1) == gone._replace(log_end=-1), (
        "a later run's rows know it"
    )

    with pytest.raises(
        BadInput, match=r"orders-3 \(deleted: offset 0 is gone: the log begins at 2\)"
    ):
        export([gone], to="group-csv")
    for missing, first, last in (("all", 2, 2), ("none", 6, 6)):
        made = export([gone], [end], to="spark-offsets", missing=missing)
        said = options(made.text)
        assert (said["startingOffsets"], said["endingOffsets"]) == (
            {"orders": {"3": first}},
            {"orders": {"3": last}},
        )
        assert [note[2:] for note in made.notes] == [
            ("start", "deleted", first),
            ("end", "deleted", last),
        ]
    assert export([gone], to="group-csv", missing="leave").text == ""
    made = export([gone], to="json")
    [told] = json.loads(made.text)["partitions"]
    assert (told["start"]["offset"], told["start"]["reason"]) == (2, "deleted")
    assert made.notes == [Note("orders", 3, "start", "deleted", 2)]


def test_a_log_that_ends_before_what_its_table_says(tmp_path: Path) -> None:
    one, table = grown(tmp_path / "data", "orders-3"), tmp_path / "table"
    for minute in range(9):
        one.append(T0 + minute * 60_000)
    build(table, lookup_partitions([tmp_path / "data"]), T0, T0 + HOUR)
    other = grown(tmp_path / "anew", "orders-3")
    other.append(T0 + HOUR)
    now = limits(lookup_partitions([tmp_path / "anew"]))
    [mark], _ = read_marks(table, T0 + 300_000, limits=now)
    assert (mark.offset, mark.reason, mark.broker) == (-1, "beyond-end", False)
    with pytest.raises(BadInput, match="the log ends at 1: recreated or truncated"):
        export([mark], to="spark-by-timestamp")


def test_limits_of_what_cannot_be_read(tmp_path: Path) -> None:
    one = grown(tmp_path, "orders-3")
    one.append(T0)
    [log] = one.path.glob("*.log")
    log.write_bytes(log.read_bytes()[:-1] + b"?")
    assert limits(lookup_partitions([tmp_path])) == {("orders", 3): (0, -1)}


def test_margins_stay_within_time() -> None:
    largest = 2**63 - 1
    assert with_margin(1000, 2000, 300) == (700, 2300)
    assert with_margin(1000, largest - 5, 3000) == (-2000, largest), "records may be of before 1970"
    assert with_margin(Word.EARLIEST, Word.LATEST, 300) == (Word.EARLIEST, Word.LATEST)
    assert with_margin(5, None, 1) == (4, None)


def test_marks_of_directories_need_no_limits(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="goes with a TABLE only"):
        find_marks([tmp_path], 1, None, lambda targets: pa.table({}), limits={})


def test_a_partition_that_came_later_is_not_forgotten(golden: Unpacked, tmp_path: Path) -> None:
    one = case("retention-4.1.0")
    root = golden(one, one.states[-1])
    units = list(lookup_partitions([root]))
    step, begin = 60_000, 1_599_999_960_000
    build(tmp_path / "table", units[:1], begin, begin + 5 * step, step_ms=step)
    build(tmp_path / "table", units, begin + 5 * step, begin + 9 * step, step_ms=step)
    starts, ends = read_marks(tmp_path / "table", begin + 7, begin + 8 * step)
    assert ends is not None
    assert len(starts) == len(ends) == len(units)
    assert [mark.reason == "not-covered" for mark in starts].count(False) == 1
    assert all(mark.log_end >= 0 for mark in starts)
    some, none = read_marks(tmp_path / "table", begin, topics=starts[0].topic)
    assert {mark.topic for mark in some} == {starts[0].topic}
    assert none is None
    with pytest.raises(UsageError, match="no topic in the table matches"):
        read_marks(tmp_path / "table", begin, topics="nothing")


def test_the_command(golden: Unpacked, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On a directory with no timestamp at all."""
    one = case("matrix-2.8.2-v0")
    root = golden(one, one.states[-1])
    at = 1_600_100_000_000
    rows = lookup([root], [at, Word.LATEST, Word.EARLIEST])
    code, out, err = run(
        capsys, "export", root, "--at", at, "--to", "spark-offsets", "--missing", "all"
    )
    assert (code, out) == (0, export(marks_of(rows, at), to="spark-offsets", missing="all").text)
    assert f"{rows.num_rows // 3} partitions" in err
    file = tmp_path / "made" / "starts.csv"
    code, out, err = run(
        capsys, "export", root, "--at", at, "--to", "group-csv", "--missing", "leave", "-o", file
    )
    assert (code, out, file.read_text()) == (
        0,
        "",
        export(marks_of(rows, at), to="group-csv", missing="leave").text,
    )
    assert "no start (no-timestamps): no answer" in err
    code, _, err = run(capsys, "export", root, "--at", at, "--to", "group-csv")
    assert (code, "no-timestamps" in err) == (2, True)
    assert run(capsys, "export", root, "--at", at, "--to", "json")[0] == 1
    code, _, err = run(capsys, "export", root, "--at", at, "--to", "json", "-o", root / "here.json")
    assert (code, "lies in the log directory" in err) == (2, True)
    assert run(capsys, "export", root, "--at", "noon", "--to", "json")[0] == 2
    assert run(capsys, "export", root, "--at", 2**63, "--to", "json")[0] == 2
    assert (
        run(
            capsys,
            "export",
            root,
            "--at",
            at,
            "--until",
            2**63 - 1,
            "--margin",
            "1d",
            "--to",
            "spark-offsets",
            "--missing",
            "all",
        )[0]
        == 0
    )
    assert run(capsys, "export", root, "--at", at, "--to", "json", "--topics", "nothing")[0] == 2
    assert run(capsys, "export", root, "--at", at, "--to", "json", "--group", "g")[0] == 2


def test_the_command_s_margin(golden: Unpacked, capsys: pytest.CaptureFixture[str]) -> None:
    """A range grows by it on both sides."""
    one = case("timestamps-4.3.1")
    root = golden(one, one.states[-1])
    at = 1_600_000_050_000
    words = (root, "--to", "json", "--missing", "leave")
    wide = run(capsys, "export", *words, "--at", at, "--until", at + 1, "--margin", "20s")[1]
    assert wide == run(capsys, "export", *words, "--at", at - 20_000, "--until", at + 20_001)[1]
    assert wide != run(capsys, "export", *words, "--at", at, "--until", at + 1)[1]


def test_the_command_on_a_table(
    golden: Unpacked, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = case("retention-4.1.0")
    root = golden(one, one.states[-1])
    step, begin = 60_000, 1_599_999_960_000
    build(tmp_path / "table", lookup_partitions([root]), begin, begin + 9 * step, step_ms=step)
    words = (
        "--at",
        begin + step,
        "--until",
        begin + 3 * step,
        "--to",
        "spark-offsets",
        "--missing",
        "all",
    )
    assert (
        run(capsys, "export", tmp_path / "table", *words)[:2]
        == run(capsys, "export", root, *words)[:2]
    )
    code, _, err = run(capsys, "export", tmp_path / "table", root, *words)
    assert (code, "not both" in err) == (2, True)
