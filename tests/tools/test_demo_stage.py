"""What the demos print."""

from __future__ import annotations

from pathlib import Path

import pytest


def test_what_a_reader_copies_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KAFKATS_DEMO", str(tmp_path))
    from tools import demo_stage

    command = f"undo    .venv/bin/kafkats undo {tmp_path}/{'a-long-folder/' * 20}plan.run"
    demo_stage.say_whole(command)
    assert capsys.readouterr().out == command + "\n"
