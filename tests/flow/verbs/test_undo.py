"""An undo by request, alone and with a certificate of what lies there then."""

from __future__ import annotations

from pathlib import Path

from tests.flow.conftest import Scene


def test_a_run_is_undone(scene: Scene) -> None:
    scene.apply()
    result = scene.ask("undo", runs=[{"folder": scene.ran, "digest": scene.digest}], by="ada")
    assert (result.ended, [run.files for run in result.runs]) == ("fine", [1])
    assert not scene.lost.exists()
    assert result.summary() == {
        "runs": [str(scene.ran)],
        "files": 1,
        "errors": [],
        "remarks": result.remarks,
    }


def test_the_run_of_another_plan(scene: Scene) -> None:
    scene.apply()
    result = scene.ask("undo", runs=[{"folder": scene.ran, "digest": "1" * 64}])
    assert result.error is not None and result.error.kind == "Changed"
    assert scene.lost.exists() and not result.runs


def test_a_certificate(scene: Scene, tmp_path: Path) -> None:
    scene.apply()
    certify = {"certified": [scene.root], "max_magic": 2, "output": tmp_path / "c"}
    options = {"UndoCertify": certify | {"report": tmp_path / "after"}}
    result = scene.ask("undo", runs=[{"folder": scene.ran}], options=options)
    assert result.error is None and result.certificate is not None
    assert result.certificate.certified and (tmp_path / "c").is_dir()
    summary = result.summary()
    assert summary["certificate"] == str(tmp_path / "c")
    assert summary["certificate_digest"] == result.certificate.digest
    assert summary["census"]["report"] == summary["report"] == str(tmp_path / "after")
    assert summary["log_dirs"] == [str(scene.root)]
    alone = scene.ask("undo", runs=[], options={"UndoCertify": {"max_magic": 2}})
    assert alone.error is not None and alone.error.kind == "UsageError"
