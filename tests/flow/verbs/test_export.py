"""An export by request: of log directories and of a table, into a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.builders.commands import run as command
from tests.flow.conftest import Scene


@pytest.mark.parametrize("to", ["spark-offsets", "group-csv", "json"])
def test_it_writes_what_the_command_writes(
    scene: Scene, to: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"Export": {"at": "earliest", "to": to, "output": tmp_path / "in" / "ours"}}
    result = scene.ask("export", log_dirs=[{"path": scene.root}], options=options)
    assert (result.error, result.ended) == (None, "fine")
    code, out, err = command(
        capsys, "export", scene.root, "--at", "earliest", "--to", to, "-o", tmp_path / "theirs"
    )
    assert (code, out) == (0, "") and f"in {tmp_path / 'theirs'}" in err
    assert (tmp_path / "in" / "ours").read_bytes() == (tmp_path / "theirs").read_bytes() != b""
    summary = result.summary()
    assert summary["export"] == str(tmp_path / "in" / "ours") and summary["partitions"] > 0
    assert (summary["without"], summary["named"]) == (0, [])


def table_of(scene: Scene, folder: Path) -> dict[str, Any]:
    """A request's part that names a table of two minutes."""
    cells = {"every": 60_000, "begins": 0, "until": 120_000, "output": folder}
    logs = [{"path": scene.root}]
    assert scene.ask("lookup", log_dirs=logs, options={"Table": cells}).error is None
    return {"log_dirs": [{"path": folder}]}


def test_partitions_without_an_answer_are_refused_or_named(scene: Scene, tmp_path: Path) -> None:
    table = table_of(scene, tmp_path / "t")
    late = {"at": "2100-01-01T00:00:00Z", "output": tmp_path / "out"}
    refused = scene.ask("export", **table, options={"Export": late | {"to": "group-csv"}})
    assert refused.exit_code == 2 and not (tmp_path / "out").exists()
    left = {"Export": late | {"to": "group-csv", "missing": "leave"}}
    result = scene.ask("export", **table, options=left)
    assert result.exit_code == 0 and result.found is not None
    assert result.found["without"] > 0 and "no start (not-covered)" in result.found["named"][0]
    told = scene.ask("export", **table, options={"Export": late | {"to": "json"}})
    assert told.ended == "findings" and told.error is None


def test_a_table_answers_by_its_cells_alone(scene: Scene, tmp_path: Path) -> None:
    table = table_of(scene, tmp_path / "t")
    export = {
        "at": "1970-01-01T00:01:00.001Z",
        "to": "spark-offsets",
        "missing": "all",
        "output": tmp_path / "out",
    }
    made = scene.ask("export", **table, options={"Export": export})
    assert made.error is None and (tmp_path / "out").is_file()
    assert ["a cell of the table covers" in remark for remark in made.remarks] == [True]
    more: dict[str, Any]
    for more in (
        {"options": {"Export": export, "Search": {"high_watermark": "log-end"}}},
        {"options": {"Export": export}, "policy": {"defaults": {"retention.ms": 5}}},
    ):
        refused = scene.ask("export", **table, **more)
        assert refused.error is not None and "answers by its cells alone" in refused.error.reason


def test_a_group_is_for_a_groups_file(scene: Scene) -> None:
    options = {"Export": {"at": "0", "to": "json", "group": "g"}}
    result = scene.ask("export", log_dirs=[{"path": scene.root}], options=options)
    assert result.error is not None and "--group is for group-csv" in result.error.reason
    nothing = {"Export": {"at": "0", "to": "json"}, "Topics": {"topics": "none-such"}}
    result = scene.ask("export", log_dirs=[{"path": scene.root}], options=nothing)
    assert result.error is not None and "no partition to export" in result.error.reason
