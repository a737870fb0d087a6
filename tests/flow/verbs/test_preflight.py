"""A preflight by request: whether the broker starts is a field apart from what it loses."""

from __future__ import annotations

from pathlib import Path

from tests.flow.conftest import Scene
from tests.golden import Unpacked


def test_a_start_and_a_loss_are_two_answers(scene: Scene, golden: Unpacked, tmp_path: Path) -> None:
    whole = golden("adopt-4.3.1-unclean", "before")
    options = {"Preflight": {"kafka": "4.3"}, "Report": {"report": tmp_path / "r"}}
    fine = scene.ask("preflight", log_dirs=[{"path": whole}], options=options)
    assert (fine.start, fine.ended, fine.error) == ("yes", "fine", None)
    assert fine.reports == {"report": str(tmp_path / "r")}
    assert {one.name for one in (tmp_path / "r").iterdir()} == {"report.json", "starts.parquet"}
    torn = golden("crash-4.3.1", "before")
    loses = scene.ask("preflight", log_dirs=[{"path": torn}], options=options)
    assert (loses.start, loses.ended) == ("yes", "findings")
    assert loses.summary()["lost_offsets"] + loses.summary()["cut_bytes"] > 0
    go_on = {"Preflight": {"kafka": "4.3", "go_on": True}}
    assert scene.ask("preflight", log_dirs=[{"path": torn}], options=go_on).exit_code == 0


def test_a_broker_that_does_not_start(scene: Scene) -> None:
    options = {"Preflight": {"kafka": "4.3", "cluster_id": "another"}}
    result = scene.ask("preflight", log_dirs=[{"path": scene.root}], options=options)
    assert (result.start, result.ended) == ("no", "findings")
    assert result.found is not None and "another" in " ".join(result.found["words"])


def test_a_release_must_be_named_and_its_files_be_there(scene: Scene, tmp_path: Path) -> None:
    log_dirs = [{"path": scene.root}]
    nameless = scene.ask("preflight", log_dirs=log_dirs)
    assert nameless.error is not None and "kafka: is missing" in nameless.error.reason
    missing = {"Preflight": {"kafka": "4.3", "describe": tmp_path / "none"}}
    result = scene.ask("preflight", log_dirs=log_dirs, options=missing)
    assert result.exit_code == 2 and result.found is None
    assert result.error is not None and result.error.path == str(tmp_path / "none")
