"""Ctrl-C and a no: what is done, that every file is whole, and the commands that lead on."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from kafkats.flow import ending
from kafkats.flow.verbs import apply as applying
from kafkats.flow.verbs import purge as purging
from kafkats.flow.verbs import undo as undoing
from tests.builders.commands import run
from tests.golden import Unpacked


@pytest.fixture
def plan(golden: Unpacked, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    root = tmp_path / "data"
    shutil.copytree(golden("matrix-2.8.2-v1", "data"), root)
    for index in root.glob("*/*.timeindex"):
        index.unlink()
    assert run(capsys, "plan", "rebuild", root, "-o", tmp_path / "plan")[0] == 0
    return tmp_path / "plan"


def interrupted(done: Callable[..., Any] | None) -> Callable[..., Any]:
    """The work, and then a Ctrl-C; without work at once."""

    def work(*args: Any, **options: Any) -> None:
        if done:
            done(*args, **options)
        raise KeyboardInterrupt

    return work


def test_an_interrupted_apply_undo_and_purge(
    plan: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, asked = f"{plan}.run", ("apply", plan, "--digest", "any")
    with monkeypatch.context() as patch:
        patch.setattr(applying, "apply", interrupted(None))
        code, _, err = run(capsys, *asked)
        assert code == 130
        assert f"before any file was changed; kafkats apply {plan} --digest any does it" in err
    with monkeypatch.context() as patch:
        patch.setattr(applying, "apply", interrupted(applying.apply))
        code, _, err = run(capsys, *asked)
    count = ending.phases(Path(folder)).total()
    assert code == 130 and count > 1 and f"interrupted: {count} of {count} directories done" in err
    assert "every file is whole" in err and f"kafkats undo {folder} takes it back" in err
    for verb, module, phase in (("undo", undoing, "undone"), ("purge", purging, "purged")):
        assert run(capsys, *asked)[0] == 0
        with monkeypatch.context() as patch:
            patch.setattr(module, verb, interrupted(getattr(module, verb)))
            code, _, err = run(capsys, verb, folder)
        assert code == 130 and f"{count} of {count} directories {phase}" in err
        assert f"kafkats {verb} {folder} finishes it" in err and "takes it back" not in err
        if verb == "undo":
            assert ending.phases(Path(folder)) == {"undone": count}
            shutil.rmtree(folder)
            made = run(capsys, "plan", "rebuild", plan.parent / "data", "-o", plan)
            assert made[0] == 0


def test_directories_that_are_not_begun_or_half_way_are_counted(
    plan: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(capsys, "apply", plan, "--digest", "any")[0] == 0
    told = iter(["", "intent"])
    real = ending.phase_of
    monkeypatch.setattr(ending, "phase_of", lambda *where: next(told, None) or real(*where))
    found = ending.phases(Path(f"{plan}.run"))
    assert found["intent"] == 1 and found["done"] == found.total() - 1


def test_a_no_changes_nothing_and_says_how_to_apply_later(
    plan: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(click, "confirm", lambda *_, **__: False)
    code, _, err = run(capsys, "apply", plan)
    assert code == 130 and "not applied, and nothing was changed; kafkats apply " in err
    assert not Path(f"{plan}.run").exists()
