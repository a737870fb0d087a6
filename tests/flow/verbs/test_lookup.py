"""A lookup by request: in log directories, into a table, and in a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkats.clock import utc_text
from tests.builders.commands import objects
from tests.builders.commands import run as command
from tests.flow.conftest import Scene

MINUTE = 60_000


def interval(table: Path, **more: Any) -> dict[str, Any]:
    cells = {"every": MINUTE, "begins": 0, "until": 10 * MINUTE, "output": table}
    return {"Table": cells} | more


def test_it_finds_what_the_command_finds(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {
        "Times": {"times": ["earliest", "1700000000000"]},
        "Lookup": {"report": tmp_path / "r", "around": 1000},
        "Search": {"high_watermark": "log-end"},
    }
    result = scene.ask("lookup", log_dirs=[{"path": scene.root}], options=options)
    assert (result.error, result.ended) == (None, "fine")
    words = ("--at", "earliest", "--at", "1700000000000", "--high-watermark", "log-end")
    report = ("--report", tmp_path / "w", "--around", "1s", "--json")
    code, out, err = command(capsys, "lookup", scene.root, *words, *report)
    theirs = objects(out)[-1]["summary"]
    assert code == 0, err
    assert result.summary() == theirs | {"report": str(tmp_path / "r")} and theirs["times"] == 2
    written = {one.name for one in (tmp_path / "r").iterdir()}
    assert written == {one.name for one in (tmp_path / "w").iterdir()} >= {"lookup.parquet"}


def test_a_table_is_filled_and_asked(scene: Scene, tmp_path: Path) -> None:
    logs = [{"path": scene.root}]
    filled = scene.ask("lookup", log_dirs=logs, options=interval(tmp_path / "t"))
    assert (filled.error, filled.ended) == (None, "fine")
    assert filled.summary()["added"] == 10 * filled.summary()["partitions"] > 0
    again = scene.ask("lookup", log_dirs=logs, options=interval(tmp_path / "t"))
    assert again.summary()["added"] == 0
    asked = {"Times": {"times": [utc_text(MINUTE + 1)]}, "Logs": {"logs": [scene.root]}}
    told = scene.ask("lookup", log_dirs=[{"path": tmp_path / "t"}], options=asked)
    assert told.summary()["times"] == 1 and told.error is None
    assert told.exit_code == int(told.summary()["untold"] > 0)
    assert any("a cell of the table covers" in remark for remark in told.remarks)


def test_what_cannot_be_searched_fails_unless_the_request_goes_on(
    scene: Scene, tmp_path: Path
) -> None:
    nothing = {"Topics": {"topics": "none-such"}}
    asked = {"log_dirs": [{"path": scene.root}]}
    for options in ({"Times": {"times": ["0"]}}, interval(tmp_path / "t")):
        failed = scene.ask("lookup", **asked, options=options | nothing)
        assert failed.error is not None and "no partition to search" in failed.error.reason
        go_on = options | nothing | {"Lookup": {"go_on": True}}
        assert scene.ask("lookup", **asked, options=go_on).exit_code == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "name times with --at"),
        ({"Times": {"times": ["0"]}, "Lookup": {"margin": 5}}, "--margin is for --how safe"),
        ({"Times": {"times": ["0"]}, "Lookup": {"around": 5}}, "--around goes with"),
        ({"Times": {"times": ["0"]}, "Logs": {"logs": ["/l"]}}, "--logs goes with a TABLE"),
        (interval(Path("/t"), Lookup={"rule": "0.8"}), "--kafka: a table has the exact"),
        (interval(Path("/t"), Lookup={"depth": "deep"}), "--depth deep is for --at"),
        (interval(Path("/t"), Dialect={"dialect": "enriched"}), "--dialect is for --at"),
    ],
)
def test_options_that_do_not_go_together(scene: Scene, options: dict[str, Any], said: str) -> None:
    result = scene.ask("lookup", log_dirs=[{"path": scene.root}], options=options)
    assert result.error is not None and said in result.error.reason and result.exit_code == 2


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({}, "--policy"),
        ({"overrides": {"segment.bytes": 5}}, "--config"),
        (
            {"defaults": {"segment.bytes": 5}, "overrides": {"segment.bytes": 6}},
            "--policy, --config",
        ),
    ],
)
def test_a_table_reads_no_policy(
    scene: Scene, tmp_path: Path, policy: dict[str, Any], words: str
) -> None:
    asked = {"log_dirs": [{"path": scene.root}], "policy": policy}
    result = scene.ask("lookup", **asked, options=interval(tmp_path / "t"))
    assert result.error is not None and result.error.reason.startswith(f"{words}: a table has")
    assert not (tmp_path / "t").exists()
