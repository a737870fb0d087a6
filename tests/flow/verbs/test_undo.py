"""An undo by request, alone and with a certificate of what lies there then."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from kafkats.plans.run import read_run
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


NOTES = {"undo": "undone.json", "purge": "purge.json"}


def placed(place: Path) -> dict[str, Any]:
    place.mkdir()
    return {"options": {"WorkArea": {"place": place}, "Apply": {"prove": False}}}


@pytest.mark.parametrize("verb", NOTES)
@pytest.mark.parametrize("reported", [False, True])
def test_a_run_whose_work_area_is_not_mounted(
    scene: Scene, tmp_path: Path, verb: str, *, reported: bool
) -> None:
    place = tmp_path / "place"
    scene.apply(**placed(place))
    if not reported:
        scene.lose_report()
    place.rename(tmp_path / "away")
    place.mkdir()
    result = scene.ask(verb, runs=[{"folder": scene.ran}])
    assert (result.exit_code, "is its disk mounted?" in result.runs[0].errors[0]) == (2, True)
    assert not (scene.ran / NOTES[verb]).exists() and not os.listdir(place)
    place.rmdir()
    (tmp_path / "away").rename(place)
    result = scene.ask(verb, runs=[{"folder": scene.ran}])
    assert (result.exit_code, result.runs[0].files) == (0, 1)
    assert (scene.ran / NOTES[verb]).exists()


def test_the_work_area_is_there_before_a_change(scene: Scene, tmp_path: Path) -> None:
    shutil.rmtree(scene.lost.parent)  # nothing is claimed
    (scene.root / ".lock").unlink(missing_ok=True)
    assert scene.apply(**placed(tmp_path / "place")).exit_code
    result = scene.ask("undo", runs=[{"folder": scene.ran}])
    assert (result.exit_code, result.runs[0].files) == (0, 0)


@pytest.mark.parametrize("verb", NOTES)
def test_a_run_without_journals_and_a_readable_report(scene: Scene, verb: str) -> None:
    scene.apply()
    scene.lose_journals()
    (scene.ran / "report.parquet").write_bytes(b"PAR1")
    result = scene.ask(verb, runs=[{"folder": scene.ran}])
    assert (result.exit_code, "material is gone" in result.runs[0].errors[0]) == (2, True)
    assert not (scene.ran / NOTES[verb]).exists()


def test_the_approval_of_another_plan(scene: Scene) -> None:
    scene.apply()
    scene.change_run(digest="1" * 64)
    result = scene.ask("undo", runs=[{"folder": scene.ran}])
    assert result.error is not None and result.error.kind == "CorruptPlan"
    assert scene.lost.exists() and not result.runs


@pytest.mark.parametrize("verb", NOTES)
def test_a_directory_that_the_run_does_not_name(scene: Scene, verb: str) -> None:
    scene.apply()
    directories = read_run(scene.ran).directories
    scene.change_run(directories={log_dir: ["other-0"] for log_dir in directories})
    scene.lose_report()
    result = scene.ask(verb, runs=[{"folder": scene.ran}])
    assert (result.exit_code, "run.json lacks" in result.runs[0].errors[0]) == (2, True)
    assert not (scene.ran / NOTES[verb]).exists() and scene.lost.exists()


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
