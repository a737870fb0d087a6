"""An inventory by request: the ends of files are counted, or the formats of every batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.commands import objects
from tests.builders.commands import run as command
from tests.flow.conftest import Scene


@pytest.mark.parametrize("by", ["partition", "format"])
def test_it_counts_what_the_command_counts(
    scene: Scene, by: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"Inventory": {"by": by}}
    result = scene.ask("inventory", log_dirs=[{"path": scene.root}], options=options)
    assert (result.error, result.ended) == (None, "fine")
    _, out, _ = command(capsys, "inventory", scene.root, "--by", by, "--json")
    assert result.summary() == objects(out)[-1]["summary"]
    assert result.summary()["groups"] > 0
    assert result.log_dirs[0].identity is not None


def test_a_report_is_of_the_ends(scene: Scene, tmp_path: Path) -> None:
    report = {"Report": {"report": tmp_path / "r"}}
    result = scene.ask("inventory", log_dirs=[{"path": scene.root}], options=report)
    assert result.summary()["report"] == str(tmp_path / "r")
    assert (tmp_path / "r" / "segments.parquet").is_file()
    refused = scene.ask(
        "inventory",
        log_dirs=[{"path": scene.root}],
        options=report | {"Inventory": {"by": "format"}},
    )
    assert refused.error is not None and "kafkats census writes" in refused.error.reason


def test_topics_that_are_not_there(scene: Scene) -> None:
    asked = {"log_dirs": [{"path": scene.root}], "options": {"Topics": {"topics": "none-such"}}}
    assert scene.ask("inventory", **asked).exit_code == 2
    fine = scene.ask("inventory", **asked, no_topic_is_fine=True)
    assert (fine.exit_code, fine.summary()["segments"]) == (0, 0)
