"""A rebuild's plan by depth and from a report, on the command line: what is found, read and said."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kafkats.cli import main
from kafkats.plans.plan import read_plan
from tests.golden import case

PARTITION = "none-ct-0"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A log directory of a broker that was stopped cleanly."""
    (tmp_path / "broker").mkdir()
    return case("matrix-4.3.1-v2").unpack("data", tmp_path / "broker")


@pytest.fixture
def index(root: Path) -> Path:
    """A .timeindex with several entries."""
    found = sorted(root.glob("*/*.timeindex"), key=lambda path: path.stat().st_size)
    assert found[-1].stat().st_size >= 48
    return found[-1]


def mislead(index: Path) -> None:
    """Give an entry inside the offset of the next one: only a comparison with the log finds it."""
    data = bytearray(index.read_bytes())
    assert data[20:24] < data[32:36]
    data[20:24] = data[32:36]
    index.write_bytes(data)


def run(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, Any, str]:
    """Return the exit code, the summary of a command with --json, and all that it printed."""
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    out = capsys.readouterr().out
    summary = json.loads(out.splitlines()[-1])["summary"] if "--json" in words else None
    return int(end.value.code or 0), summary, out


def files(folder: Path) -> list[tuple[str, str, str]]:
    return [
        (row["file"], row["action"], row["after_sha256"])
        for row in read_plan(folder).items.to_pylist()
    ]


def test_by_default_only_segments_in_doubt_are_read_whole(
    root: Path, index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index.unlink()
    code, summary, _ = run(capsys, "plan", "rebuild", root, "-o", tmp_path / "tail", "--json")
    assert code == 0
    whole = run(
        capsys, "plan", "rebuild", root, "--depth", "full", "-o", tmp_path / "full", "--json"
    )
    assert files(tmp_path / "tail") == files(tmp_path / "full") and summary["files"] == 1
    assert summary["depths"] == {"tail": 23, "full": 1}
    assert whole[1]["depths"] == {"full": 24} and whole[1]["indexes_not_compared"] == 0
    assert summary["indexes_not_compared"] > 40
    logs = sum(path.stat().st_size for path in root.glob("*/*.log"))
    assert summary["looked_bytes"] < whole[1]["looked_bytes"] and whole[1]["looked_bytes"] > logs
    table = pq.read_table(tmp_path / "tail" / "depths.parquet").to_pylist()
    assert [row["reason"] for row in table if row["depth"] == "full"] == [
        "the .timeindex is missing"
    ]
    assert sum(row["read_bytes"] for row in table) == summary["looked_bytes"]


def test_the_plan_says_what_its_depth_does_not_show(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, _, out = run(capsys, "plan", "rebuild", root, "-o", tmp_path / "plan")
    assert "looked at 24 segments by their indexes and the end of their logs, at 0 whole" in out
    assert "indexes not compared entry by entry" in out and "healthy" not in out
    assert " of logs and indexes to look at 24 segments" in out
    _, _, shown = run(capsys, "show", tmp_path / "plan")
    assert "indexes not compared entry by entry" in shown


def test_all_reads_everything(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, summary, _ = run(capsys, "plan", "rebuild", root, "--all", "-o", tmp_path / "p", "--json")
    assert summary["depths"] == {"full": 24}


@pytest.mark.parametrize("word", ["--all", "--from=report"])
def test_the_tail_is_refused_where_it_is_not_enough(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], word: str
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["plan", "rebuild", str(root), "-o", str(tmp_path / "p"), "--depth", "tail", word])
    assert end.value.code == 2
    assert "--depth tail goes neither with" in capsys.readouterr().err


def test_what_a_full_verify_found_is_taken_from_its_report(
    root: Path, index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mislead(index)
    report = tmp_path / "report"
    _, summary, _ = run(capsys, "plan", "rebuild", root, "-o", tmp_path / "tail", "--json")
    assert summary["files"] == 0  # in order, and wrong inside: the ends do not show it
    code, _, out = run(capsys, "verify", root, "--report", report)
    assert code == 1 and f"next: kafkats plan rebuild {root} --from {report} -o PLAN" in out
    code, summary, out = run(
        capsys, "plan", "rebuild", root, "--from", report, "-o", tmp_path / "known", "--json"
    )
    assert (code, summary["files"], summary["known_segments"]) == (0, 1, 24)
    assert summary["looked_bytes"] < 2000  # what other files state, no log
    run(capsys, "plan", "rebuild", root, "--depth", "full", "-o", tmp_path / "full", "--json")
    assert files(tmp_path / "known") == files(tmp_path / "full")
    code, _, out = run(capsys, "apply", tmp_path / "known", "--digest", "any")
    assert code == 0 and "proved: 1 of 1 file as planned" in out
    assert run(capsys, "verify", root)[0] == 0


def test_without_a_report_the_next_command_reads_everything(
    root: Path, index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mislead(index)
    _, _, out = run(capsys, "verify", root)
    assert f"next: kafkats plan rebuild {root} --depth full -o PLAN" in out
    _, _, out = run(
        capsys, "verify", root, "--topics", "z*", "--config", "index.interval.bytes=512"
    )
    more = "--depth full --topics 'z*' --config index.interval.bytes=512"
    assert f"next: kafkats plan rebuild {root} {more} -o PLAN" in out


def test_a_segment_that_changed_since_the_report_is_read_again(
    root: Path, index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "verify", root, "--report", tmp_path / "report")
    good = index.read_bytes()
    mislead(index)
    words = ("plan", "rebuild", root, "--from", tmp_path / "report", "-o", tmp_path / "p", "--json")
    _, summary, _ = run(capsys, *words)
    assert (summary["known_segments"], summary["files"]) == (23, 1)
    # The same bytes at another time are another file: only the identity binds the report.
    index.write_bytes(good)
    _, summary, _ = run(capsys, *words)
    assert (summary["known_segments"], summary["files"]) == (23, 0)
    (root / ".kafka_cleanshutdown").unlink()
    _, summary, _ = run(capsys, *words)
    assert summary["known_segments"] == 0


@pytest.mark.parametrize(
    ("made", "asked"),
    [
        (("--config", "index.interval.bytes=512"), ()),
        ((), ("--config", "index.interval.bytes=512")),
        ((), ("--config", "segment.index.bytes=1000000")),
        (("--config", "segment.index.bytes=1000000"), ()),
        ((), ("--generation", "first-offset")),
        (("--depth", "tail"), ()),
    ],
)
def test_a_report_by_other_settings_tells_nothing(
    root: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    made: tuple[str, ...],
    asked: tuple[str, ...],
) -> None:
    run(capsys, "verify", root, "--report", tmp_path / "report", *made)
    _, summary, _ = run(
        capsys, "plan", "rebuild", root, "--from", tmp_path / "report", "-o", tmp_path / "p",
        "--json", *asked,
    )  # fmt: skip
    assert (summary["known_segments"], summary["depths"]) == (0, {"full": 24})


def test_what_other_files_state_is_looked_at_again(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "verify", root, "--report", tmp_path / "report")
    checkpoint = root / "recovery-point-offset-checkpoint"
    lines = [
        f"{PARTITION.rpartition('-')[0]} 0 100000" if line.startswith("none-ct 0 ") else line
        for line in checkpoint.read_text().splitlines()
    ]
    checkpoint.write_text("\n".join(lines) + "\n")
    code, summary, _ = run(
        capsys,
        "plan",
        "rebuild",
        root,
        "--from",
        tmp_path / "report",
        "-o",
        tmp_path / "p",
        "--json",
    )
    assert (code, summary["known_segments"], summary["blocked"]) == (1, 24, 1)
    (reason,) = {row["reason"] for row in read_plan(tmp_path / "p").items.to_pylist()}
    assert reason.startswith("records are missing")


def test_a_folder_without_a_report_is_refused(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["plan", "rebuild", str(root), "--from", str(tmp_path), "-o", str(tmp_path / "p")])
    assert end.value.code == 2
    assert "no report here" in capsys.readouterr().err


def test_verify_to_the_tail_finds_what_it_can_and_records_nothing(
    root: Path, index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, summary, _ = run(capsys, "verify", root, "--depth", "tail", "--json")
    assert (code, summary["depths"]) == (0, {"tail": 24})
    os.truncate(index, index.stat().st_size - 12)
    code, _, out = run(capsys, "verify", root, "--depth", "tail")
    assert code == 1 and "below-maximum" in out and "not compared entry by entry" in out
    assert f"next: kafkats plan rebuild {root} -o PLAN" in out
    for word in ("--deep", "--of-plan=x"):
        with pytest.raises(SystemExit) as end:
            main(["verify", str(root), "--depth", "tail", word])
        assert end.value.code == 2
        assert "--depth full" in capsys.readouterr().err


def test_a_plan_of_earlier_versions_has_no_depths(
    root: Path, index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from kafkats.plans.plan import make_plan, write_plan

    index.unlink()
    run(capsys, "plan", "rebuild", root, "-o", tmp_path / "now")
    now = read_plan(tmp_path / "now")
    totals = {
        name: value
        for name, value in now.header["totals"].items()
        if name not in ("depths", "indexes_not_compared")
    }
    write_plan(make_plan("rebuild", now.header["options"], totals, now.items), tmp_path / "old")  # type: ignore[arg-type]
    _, _, out = run(capsys, "show", tmp_path / "old")
    assert "1 file to change" in out and "looked at" not in out
    wrong = {**now.header["totals"], "depths": ["tail"]}
    shutil.rmtree(tmp_path / "old")
    write_plan(make_plan("rebuild", now.header["options"], wrong, now.items), tmp_path / "old")  # type: ignore[arg-type]
    with pytest.raises(SystemExit) as end:
        main(["show", str(tmp_path / "old")])
    assert end.value.code == 2
