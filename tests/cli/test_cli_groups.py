"""lag, latency, diff and failover on the command line: from a file of committed offsets to a file that Kafka's tool reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafkats import tables
from kafkats.lookup.partitions import lookup_partitions
from kafkats.search import Word
from kafkats.tables import build
from tests.answers import lookup
from tests.builders.commands import run
from tests.golden import Unpacked, case


@pytest.fixture
def root(golden: Unpacked) -> Path:
    one = case("rolling-4.3.1")
    return golden(one, one.states[-1])


@pytest.fixture
def table(root: Path, tmp_path: Path) -> Path:
    (row,) = lookup([root], [Word.MAX_TIMESTAMP], topics="by-bytes").to_pylist()
    end = row["timestamp"] // 1000 * 1000 + 2000
    units = [unit for unit in lookup_partitions([root]) if unit.partition_dir == "by-bytes-0"]
    build(tmp_path / "table", units, end - 600_000, end, step_ms=1000)
    return tmp_path / "table"


def test_lag(root: Path, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "committed.csv"
    (end,) = (row["offset"] for row in lookup([root], [Word.LATEST], topics="by-bytes").to_pylist())
    file.write_text(f"by-bytes,0,{end - 1}\n")
    for where in (root, table):
        code, out, _ = run(capsys, "lag", where, "--committed", file, "--group", "g", "--json")
        row, summary = map(json.loads, out.splitlines())
        assert (code, row["group"], row["lag"], row["reason"]) == (0, "g", 1, "behind")
        assert summary["summary"]["most_ms"] == row["lag_ms"] >= 0
    file.write_text("elsewhere,0,3\n")
    assert run(capsys, "lag", root, "--committed", file)[0] == 1
    assert run(capsys, "lag", root, table, "--committed", file)[0] == 2
    file.write_text("no offsets at all\n")
    code, _, err = run(capsys, "lag", root, "--committed", file)
    assert (code, "committed.csv: line 1 is not" in err) == (2, True)
    assert run(capsys, "lag", root, "--committed", tmp_path / "nothing")[0] == 2


def test_latency(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "latency", root, "--topics", "by-lat", "--json")
    row, summary = map(json.loads, out.splitlines())
    assert (code, row["source"], summary["summary"]["append_time_ms"]) == (
        0,
        "append-time",
        row["most_ms"],
    )
    assert run(capsys, "latency", root, "--topics", "nothing")[0] == 2


def test_diff(root: Path, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a cluster and one that has a minute less of the same."""
    whole = tables.read(table)
    (begin, end) = whole.covered[0]
    units = [unit for unit in lookup_partitions([root]) if unit.partition_dir == "by-bytes-0"]
    less = tmp_path / "less"
    build(less, units, begin, end - 60_000, step_ms=1000)
    code, out, _ = run(capsys, "diff", table, table, "--margin", "5s", "--json")
    row, summary = map(json.loads, out.splitlines())
    assert (code, row["topic"], row["times"]) == (0, "by-bytes", 600)
    assert (row["both"], row["least_shift"], row["most_shift"]) == (
        int(tables.closed(whole.rows).sum()),
        0,
        0,
    )
    assert summary["summary"]["most_again"] == row["most_again"] > 0
    code, out, _ = run(capsys, "diff", table, less, "--by", "time", "--json")
    *rows, summary = map(json.loads, out.splitlines())
    assert (code, len(rows)) == (1, 600)
    lost = [row for row in rows if row["outcome"] == "only-first"]
    assert len(lost) == summary["summary"]["only_first"] > 0
    assert {(row["second_reason"], row["target_ms"] >= end - 60_000) for row in lost} == {
        ("not-covered", True)
    }
    narrow = ("--from", begin, "--until", end - 60_000)
    code, out, _ = run(capsys, "diff", table, less, *narrow, "--margin", "5s")
    assert code == 0 and "540 times" in out, "nor are the rows that the margin needs counted"
    assert "nothing-like" in run(capsys, "diff", table, less, "--topics", "nothing-like")[2]
    build(tmp_path / "minutes", units, begin, end, step_ms=60_000)
    code, _, err = run(capsys, "diff", table, tmp_path / "minutes")
    assert (code, "different steps (1000 ms, 60000 ms)" in err) == (2, True)
    assert run(capsys, "diff", table, tmp_path / "nothing")[0] == 2


def test_failover(
    root: Path, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """To a cluster that has the same: with the margin, no later than where the group stands."""
    committed, csv = tmp_path / "committed.csv", tmp_path / "reset.csv"
    (end,) = (row["offset"] for row in lookup([root], [Word.LATEST], topics="by-bytes").to_pylist())
    committed.write_text(f"by-bytes,0,{end}\n")
    found = []
    for margin in ("0s", "20s"):
        code, _, err = run(
            capsys,
            "failover",
            table,
            table,
            "--committed",
            committed,
            "--margin",
            margin,
            "-o",
            csv,
        )
        assert (code, "1 partition" in err) == (0, True)
        topic, number, offset = csv.read_text().strip().split(",")
        assert (topic, number) == ("by-bytes", "0")
        found.append(int(offset))
    assert found[1] < found[0] <= end
    committed.write_text("by-bytes,0,3\nother,0,3\n")
    code, _, err = run(capsys, "failover", table, table, "--committed", committed, "--margin", "0s")
    assert (code, "other-0 (not-covered" in err) == (2, True)


@pytest.mark.parametrize(
    "words", [("lag", "LOGS", "--committed"), ("preflight", "LOGS", "--kafka", "4.3", "--describe")]
)
def test_a_file_that_does_not_exist_is_bad_usage(
    words: tuple[str, ...], root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """To try again does not help: it is not a file that a broker deletes meanwhile."""
    missing = tmp_path / "missing.txt"
    code, _, err = run(capsys, *(root if word == "LOGS" else word for word in words), missing)
    assert (code, err) == (2, f"kafkats: {missing}: there is no such file\n")
