"""lookup and export on the command line: what brokers do not give out, what they refuse to search, and bad input of every kind."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from kafkats import tables
from tests.builders.commands import objects, run
from tests.golden import Unpacked

TARGET = 1_600_000_000_000
FROM, UNTIL = 1_599_998_400_000, 1_600_002_000_000
"""The hour that most records of the case are of."""


@pytest.fixture
def root(golden: Unpacked, tmp_path: Path) -> Path:
    shutil.copytree(golden("timestamps-4.3.1", "data"), tmp_path / "data")
    return tmp_path / "data"


def set_back(root: Path, partition: str, offset: int) -> None:
    """As in a snapshot whose checkpoint was copied first, or what a broker leaves that was killed."""
    mark = root / "replication-offset-checkpoint"
    mark.write_text(re.sub(rf"(?m)^({partition}) \d+$", rf"\1 {offset}", mark.read_text()))


def table(root: Path, to: Path, *more: object) -> list[object]:
    return [
        "lookup",
        root,
        "--topics",
        "ts-falling",
        "--every",
        "1s",
        "--from",
        FROM,
        "--until",
        UNTIL,
        "-o",
        to,
        *more,
    ]


def test_a_high_watermark_that_was_left_behind(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("lookup", root, "--at", TARGET, "--topics", "ts-*")
    code, out, _ = run(capsys, *asked)
    assert code == 0 and "high watermark" not in out
    before = run(capsys, *asked, "--json")[1]
    set_back(root, "ts-falling 0", 0)
    code, out, _ = run(capsys, *asked)
    assert (
        code == 0 and "above the checkpointed high watermark: 70 offsets (ts-falling-0 70)" in out
    )
    *rows, summary = objects(run(capsys, *asked, "--json")[1])
    assert summary["summary"]["above_high_watermark"] == 70
    assert [
        row["partition_dir"] for row in rows if row["kafka_reason"] == "above-high-watermark"
    ] == ["ts-falling-0"]
    assert run(capsys, *asked, "--high-watermark", "log-end", "--json")[1] == before
    assert run(capsys, *asked, "--high-watermark", "ignore")[0] == 2


def test_a_table_leaves_open_what_lies_above_the_high_watermark(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, *table(root, tmp_path / "whole"))
    set_back(root, "ts-falling 0", 0)
    code, out, _ = run(capsys, *table(root, tmp_path / "table"))
    closed = tables.closed(tables.read(tmp_path / "whole").rows).sum()
    assert (
        code == 0
        and f"left open, as their records are above the checkpointed high watermark: {closed} cells"
        in out
    )
    words = set(tables.read(tmp_path / "table").rows["reason"].to_pylist())
    assert words == {"above-high-watermark"}
    to_group = ("export", tmp_path / "table", "--at", TARGET, "--to", "group-csv")
    code, out, err = run(capsys, *to_group)
    assert (code, out) == (2, "") and "ts-falling-0 (above-high-watermark" in err, (
        "the log end would pass over records"
    )
    code, out, _ = run(capsys, *table(root, tmp_path / "table", "--high-watermark", "log-end"))
    assert code == 0 and f"{closed} closed" in out
    whole, later = (tables.read(tmp_path / name).rows.to_pylist() for name in ("whole", "table"))
    assert later == whole
    assert run(capsys, *to_group)[:2] == (
        0,
        run(capsys, *to_group[:1], tmp_path / "whole", *to_group[2:])[1],
    )


def test_topics_that_brokers_refuse_to_search(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy, said = tmp_path / "policy.yaml", tmp_path / "topics.txt"
    said.write_text(
        "Configs for topic 'ts-falling' are message.format.version=0.9.0-IV1,retention.ms=86400000\n"
    )
    policy.write_text(
        "exports: [topics.txt]\ntopics:\n  ts-equal: {message.format.version: 0.8.2}\n"
    )
    asked = ("lookup", root, "--at", TARGET, "--topics", "ts-*", "--json")
    for more, refused in (
        (("--policy", policy), ["ts-equal-0", "ts-falling-0"]),
        (("--policy", policy, "--config", "message.format.version=1.0"), []),
        ((), []),
    ):
        code, out, _ = run(capsys, *asked, *more)
        *rows, _ = objects(out)
        assert code == 0
        assert [
            row["partition_dir"] for row in rows if row["differs"] == "message-format"
        ] == refused
        assert all(row["kafka_offset"] == -1 for row in rows if row["partition_dir"] in refused)
    to_spark = (
        "export",
        root,
        "--at",
        TARGET,
        "--to",
        "spark-by-timestamp",
        "--topics",
        "ts-equal",
    )
    assert run(capsys, *to_spark)[0] == 0
    code, _, err = run(capsys, *to_spark, "--policy", policy)
    assert code == 2 and "a broker finds nothing" in err
    assert run(capsys, *asked, "--config", "message.format.version=new")[0] == 2


def test_a_table_is_asked_as_a_directory_is(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, *table(root, tmp_path / "table"))
    for target in (FROM, TARGET, UNTIL - 1000):
        (ours, _), (theirs, _) = (
            objects(
                run(capsys, "lookup", place, "--at", target, "--topics", "ts-falling", "--json")[1]
            )
            for place in (tmp_path / "table", root)
        )
        same = ("topic", "partition", "target_ms", "offset", "timestamp", "reason")
        assert {name: ours[name] for name in same} == {name: theirs[name] for name in same}
    code, out, _ = run(capsys, "lookup", tmp_path / "table", "--at", UNTIL, "--at", TARGET)
    assert code == 1 and "not-covered" in out and "1 partition, 2 times: 1 could not be told" in out


def test_a_table_knows_what_is_gone(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, *table(root, tmp_path / "table"))
    start = root / "log-start-offset-checkpoint"
    start.write_text("0\n1\nts-falling 0 60\n")
    asked = ("lookup", tmp_path / "table", "--at", TARGET, "--json")
    (before, _), (now, summary) = (
        objects(run(capsys, *asked, *more)[1]) for more in ((), ("--logs", root))
    )
    assert 0 <= before["offset"] < 60 and before["reason"] != "deleted"
    assert (now["offset"], now["reason"], now["gone"]) == (60, "deleted", before["offset"])
    assert summary["summary"]["untold"] == 0
    to_group = ("export", tmp_path / "table", "--at", TARGET, "--to", "group-csv")
    assert run(capsys, *to_group)[:2] == (0, f"ts-falling,0,{before['offset']}\n")
    code, out, err = run(capsys, *to_group, "--logs", root)
    assert (code, out) == (
        2,
        "",
    ) and f"(deleted: offset {before['offset']} is gone: the log begins at 60)" in err
    code, out, err = run(capsys, *to_group, "--logs", root, "--missing", "all")
    assert (code, out) == (
        0,
        "ts-falling,0,60\n",
    ) and "ts-falling-0 has no start (deleted): offset 60" in err
    for words in (
        ("lookup", root, "--at", TARGET),
        ("export", root, "--at", TARGET, "--to", "json"),
    ):
        code, _, err = run(capsys, *words, "--logs", root)
        assert code == 2 and "--logs goes with a TABLE only" in err


WORDS = {
    -1: "latest",
    -2: "earliest",
    -3: "max-timestamp",
    -4: "earliest-local",
    -5: "latest-tiered",
}


@pytest.mark.parametrize("generation", ["3.8", "3.0", "0.11", "0.10.1"])
def test_words_have_names_and_some_generations_do_not_know_them(
    root: Path, generation: str, capsys: pytest.CaptureFixture[str]
) -> None:
    known = {"3.8": -5, "3.0": -4}.get(generation, -2)
    for number, word in WORDS.items():
        asked = ("lookup", root, "--topics", "ts-shuffled", "--generation", generation, "--json")
        (row, _) = objects(run(capsys, *asked, "--at", word)[1])
        assert (row["word"], row["target_ms"]) == (word, number)
        why = "no-such-word" if number < known else "last-of-batch"
        assert row["differs"] == ("" if row["offset"] == row["kafka_offset"] else why)
        assert row["offset"] == {-1: 70, -2: 0, -3: row["offset"], -4: 0, -5: -1}[number]
    assert f"\nts-shuffled-0  {word} " in run(capsys, *asked[:-1], "--at", word)[1]


@pytest.mark.parametrize("instant", range(-6, 0))
def test_an_instant_is_an_instant_also_where_a_broker_takes_it_for_a_word(
    root: Path, tmp_path: Path, instant: int, capsys: pytest.CaptureFixture[str]
) -> None:
    iso = f"1969-12-31T23:59:59.{1000 + instant}Z"
    for at in (instant, iso):
        code, out, _ = run(capsys, "lookup", root, "--topics", "ts-shuffled", "--json", "--at", at)
        (row, _) = objects(out)
        assert (code, row["target_ms"], row["word"]) == (0, instant, "")
        assert (row["offset"], row["reason"]) == (0, "before-start"), "all records came later"
        assert (row["kafka_offset"], row["kafka_reason"], row["differs"]) == (
            -1,
            *["taken-for-a-word"] * 2,
        )
        assert (
            f"\nts-shuffled-0  {iso} "
            in run(capsys, "lookup", root, "--topics", "ts-shuffled", "--at", at)[1]
        )
        exports = {}
        for to in ("group-csv", "spark-offsets", "spark-by-timestamp", "json"):
            code, exports[to], err = run(
                capsys, "export", root, "--topics", "ts-shuffled", "--at", at, "--to", to
            )
            assert code == 0, err
        assert exports["group-csv"] == "ts-shuffled,0,0\n", (
            "the group begins at the first record, not at the log end"
        )
        assert json.loads(json.loads(exports["spark-offsets"])["startingOffsets"]) == {
            "ts-shuffled": {"0": 0}
        }
        told = json.loads(exports["json"])
        assert (told["at"], told["partitions"][0]["start"]["offset"]) == (
            instant,
            0,
        ) and "at_word" not in told
        by_time = json.loads(
            json.loads(exports["spark-by-timestamp"])["startingOffsetsByTimestamp"]
        )
        assert by_time == {"ts-shuffled": {"0": row["timestamp"]}}, (
            "which leads to the same record, and can be asked for"
        )
    told = json.loads(
        run(capsys, "export", root, "--topics", "ts-shuffled", "--at", "latest", "--to", "json")[1]
    )
    assert (told["at"], told["at_word"], told["partitions"][0]["start"]["offset"]) == (
        -1,
        "latest",
        70,
    )


def test_words_that_lead_nowhere(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, *table(root, tmp_path / "table"))
    every = ("--every", "1s", "--from", FROM, "--until", UNTIL)
    of_brokers = (
        ("--kafka", "3.0"),
        ("--config", "index.interval.bytes=7"),
        ("--policy", tmp_path / "policy.yaml"),
        ("--now", TARGET),
    )
    for words, said in (
        ((root, "--at", 2**63), "no time that a record can have"),
        ((root, "--at", TARGET, "-o", tmp_path / "other"), "are for a table"),
        ((root, "--at", TARGET, "--until", UNTIL), "are for a table"),
        ((root, "--at", TARGET, "--margin", "1s"), "--margin is for"),
        ((root, *every, "-o", tmp_path / "other", "--how", "kafka"), "exact answers"),
        (
            (root, *every, "-o", tmp_path / "other", "--topics", "none"),
            "no partition to search that matches 'none'",
        ),
        (
            (root, "--every", "1s", "--from", UNTIL, "--until", FROM, "-o", tmp_path / "other"),
            "--from is later than --until",
        ),
        ((root, *every, "-o", root / "table"), "lies in the log directory"),
        ((tmp_path / "table", *every, "-o", tmp_path / "other"), "is built from log directories"),
        ((tmp_path / "table", "--at", "latest"), "a table knows times only"),
        ((tmp_path / "table", "--at", TARGET, "--margin", "1s"), "--margin goes with --how safe"),
        ((tmp_path / "table", root, "--at", TARGET), "not both"),
        (
            (root, *every, "-o", tmp_path / "other", "--depth", "deep"),
            "--depth deep is for --at: a table is built at depth tail or full",
        ),
        *(
            ((tmp_path / "table", "--at", TARGET, *words), f"{words[0]}: a table answers by its")
            for words in (
                ("--depth", "tail"),
                ("--high-watermark", "checkpoint"),
                *of_brokers,
            )
        ),
        *(
            (
                (root, *every, "-o", tmp_path / "other", *words),
                f"{words[0]}: a table has the exact answers",
            )
            for words in of_brokers
        ),
        (
            (tmp_path / "table", "--at", TARGET, "--topics", "none"),
            "no topic in the table matches 'none'",
        ),
    ):
        code, out, err = run(capsys, "lookup", *words)
        assert (code, out) == (2, "") and said in err, words
    assert not (tmp_path / "other").exists()


def test_an_export_of_a_table_refuses_what_it_would_not_read(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, *table(root, tmp_path / "table"))
    export = ("export", tmp_path / "table", "--at", TARGET, "--to", "json")
    assert run(capsys, *export)[0] == 0
    for words in (("--config", "index.interval.bytes=7"), ("--high-watermark", "log-end")):
        code, out, err = run(capsys, *export, *words)
        assert (code, out) == (2, "") and f"{words[0]}: a table answers by its" in err


def test_an_unreadable_checkpoint_is_no_partition(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("lookup", root, "--at", TARGET)
    partitions = objects(run(capsys, *asked, "--json")[1])[-1]["summary"]["partitions"]
    (root / "recovery-point-offset-checkpoint").write_text("x\n")
    code, out, _ = run(capsys, *asked)
    told = "recovery-point-offset-checkpoint: line 1: 'x' is not a number from 0 to 2147483647"
    assert code == 1 and f"\n{partitions} partitions, 1 time;" in out
    assert f"could not be told: 0\nnot read: {root}: {told}\n" in out
    summary = objects(run(capsys, *asked, "--json")[1])[-1]["summary"]
    assert (summary["partitions"], summary["unreadable"]) == (partitions, 1)
    assert f"\nnot read: {root}: {told}\n" in run(capsys, *table(root, tmp_path / "table"))[1]
