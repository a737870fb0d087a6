"""A verify by request: findings are counted, and a run is proved."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kafkats.plans.plan import read_plan
from tests.builders.commands import objects
from tests.builders.commands import run as command
from tests.flow.conftest import Scene


@pytest.mark.parametrize("depth", ["tail", "full"])
def test_it_finds_what_the_command_finds(
    scene: Scene, depth: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"VerifyDepth": {"depth": depth}, "Report": {"report": tmp_path / "r"}}
    result = scene.ask("verify", log_dirs=[{"path": scene.root}], options=options)
    assert (result.error, result.ended) == (None, "findings")
    words = (scene.root, "--depth", depth, "--report", tmp_path / "w", "--json")
    code, out, _ = command(capsys, "verify", *words)
    theirs = objects(out)[-1]["summary"]
    assert code == 1 and result.summary() == theirs | {"report": str(tmp_path / "r")}
    assert (tmp_path / "r" / "segments.parquet").is_file()
    assert result.log_dirs[0].identity is not None


def test_a_run_is_proved_until_its_file_has_changed(scene: Scene) -> None:
    scene.apply(options={"Apply": {"prove": False}})
    asked = {
        "log_dirs": [{"path": scene.root}],
        "options": {"ProofOptions": {"of_run": [scene.ran]}},
    }
    proved = scene.ask("verify", **asked)
    assert proved.proof is not None and (proved.proof.files, proved.proof.equal) == (1, 1)
    summary = proved.summary()
    assert (proved.exit_code, summary["runs"], summary["equal"]) == (0, [str(scene.ran)], 1)
    scene.lost.write_bytes(b"\0" * 12)
    wrong = scene.ask("verify", **asked)
    assert wrong.exit_code == 1 and wrong.proof is not None and wrong.proof.not_equal
    of_plan = scene.ask(
        "verify", log_dirs=asked["log_dirs"], options={"ProofOptions": {"of_plan": scene.plan}}
    )
    assert of_plan.exit_code == 1 and read_plan(scene.plan).digest == scene.digest


def test_a_run_is_not_proved_before_it_has_reached_all(scene: Scene) -> None:
    """As after a kill before the first change, until it is undone."""
    scene.apply(options={"Apply": {"prove": False}})
    scene.lost.unlink()
    scene.lose_report()
    scene.lose_journals()
    asked = {
        "log_dirs": [{"path": scene.root}],
        "options": {"ProofOptions": {"of_run": [scene.ran]}},
    }
    half = scene.ask("verify", **asked)
    assert half.exit_code == 1 and half.proof is not None
    assert half.proof.not_equal == [
        "plan.run: 1 file in 1 directory not done; apply it again, or undo it"
    ]
    assert not (scene.ran / "proof.json").exists()
    scene.ask("undo", runs=[{"folder": scene.ran}])
    assert scene.ask("verify", **asked).exit_code == 0


@pytest.mark.parametrize("lost", ["work area", "directory in run.json"])
def test_a_run_of_which_not_all_is_known_is_not_proved(scene: Scene, lost: str) -> None:
    scene.apply(options={"Apply": {"prove": False}})
    scene.lose_report()
    if lost == "work area":
        shutil.rmtree(scene.root.parent / ".kafkats")
    else:
        scene.change_run(directories={str(scene.root): []})
    result = scene.ask(
        "verify",
        log_dirs=[{"path": scene.root}],
        options={"ProofOptions": {"of_run": [scene.ran]}},
    )
    assert result.exit_code == 2 and not (scene.ran / "proof.json").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"Deep": {"deep": True}, "VerifyDepth": {"depth": "tail"}}, "--depth tail does not read"),
        ({"Step": {"phase": "phase-1"}}, "name all of them, or none"),
        ({"Topics": {"topics": "none-such"}}, "no topic matches"),
    ],
)
def test_options_that_do_not_go_together(
    scene: Scene, options: dict[str, object], said: str
) -> None:
    result = scene.ask("verify", log_dirs=[{"path": scene.root}], options=options)
    assert result.error is not None and said in result.error.reason and result.exit_code == 2
    fine = scene.ask(
        "verify",
        log_dirs=[{"path": scene.root}],
        options={"Topics": {"topics": "none-such"}},
        no_topic_is_fine=True,
    )
    assert fine.exit_code == 0
