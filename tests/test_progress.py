"""The progress of a job, as a file that is replaced."""

from __future__ import annotations

import json
import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from kafkats import progress
from kafkats.errors import CorruptFile
from kafkats.plans.files import read_document
from kafkats.progress import Progress, telling
from kafkats.request import Request


def test_a_file_tells_who_runs_and_how_far_it_is(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    assert read_document(path, Progress) is None
    with telling(path) as teller:
        begun = read_document(path, Progress)
        assert begun is not None and (begun.state, begun.pid) == ("starting", os.getpid())
        assert begun.session == os.getsid(0) and begun.began_ms <= begun.written_ms
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        teller.begin(Request(verb="release", made_ms=1, id="a/b"))
        teller.tell({"stage": "plan", "units": 1, "of_units": 2, "seconds": 0.5})
        teller.write()
        found = read_document(path, Progress)
        assert found is not None
        assert (found.state, found.request, found.verb) == ("running", "a/b", "release")
        assert found.of_stage() == {
            "stage": "plan", "units": 1, "of_units": 2, "seconds": 0.5, "failed_tasks": 0, "ui": "",
        }  # fmt: skip
    ended = read_document(path, Progress)
    assert ended is not None and (ended.state, ended.units) == ("ended", 1)
    assert list(tmp_path.iterdir()) == [path]


def test_it_is_written_again_while_nothing_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "SECONDS", 0.01)
    path, seen = tmp_path / "progress.json", set[int]()

    def beats() -> bool:
        if found := read_document(path, Progress):
            seen.add(found.written_ms)
        return len(seen) > 2

    with telling(path):
        while not beats():
            time.sleep(0.01)


def test_a_file_that_cannot_be_written_ends_no_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with telling(tmp_path / "file" / "progress.json") as teller:
        teller.write()


@pytest.mark.parametrize("text", ["", "[]", '{"pid": 1}', '{"pid": "x", "pid": 1}'])
def test_what_is_no_progress(tmp_path: Path, text: str) -> None:
    (path := tmp_path / "progress.json").write_text(text)
    with pytest.raises(CorruptFile, match="is no progress"):
        read_document(path, Progress)


def test_a_newer_version_has_more_fields(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    with telling(path):
        pass
    content: dict[str, Any] = json.loads(path.read_text()) | {"mood": "fine"}
    path.write_text(json.dumps(content))
    assert read_document(path, Progress) is not None
