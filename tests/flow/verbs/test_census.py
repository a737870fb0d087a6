"""A census by request: bytes and batches by format, with a report of all rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.commands import objects
from tests.builders.commands import run as command
from tests.flow.conftest import Scene


def test_it_counts_what_the_command_counts(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"Census": {"by": "topic", "deep": True}, "Report": {"report": tmp_path / "r"}}
    result = scene.ask("census", log_dirs=[{"path": scene.root}], options=options)
    assert (result.error, result.ended) == (None, "fine")
    words = (scene.root, "--by", "topic", "--deep", "--report", tmp_path / "r", "--json")
    _, out, _ = command(capsys, "census", *words)
    assert result.summary() == objects(out)[-1]["summary"]
    assert result.summary()["magic_batches"][2] > 0 == result.summary()["magic_batches"][0]
    assert result.reports == {"report": str(tmp_path / "r")}
    names = {"census.parquet", "zero-copy.json"}
    assert names <= {one.name for one in (tmp_path / "r").iterdir()}


def test_without_a_report_nothing_is_written(scene: Scene, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    result = scene.ask("census", log_dirs=[{"path": scene.root}])
    summary = result.summary()
    assert summary["log_dirs"] == [str(scene.root)] and "report" not in summary
    assert summary["census"]["magic_bytes"] == summary["magic_bytes"]
    assert sorted(tmp_path.rglob("*")) == before
