"""The result document: an error comes back as it was, and readers of another version can go on."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from kafkats.errors import BadInput, CorruptFile, Holder, KafkatsError, Reserved
from kafkats.plans.files import read_document
from kafkats.request import Request
from kafkats.result import Failure, Result, write_result
from tests.crash.real import fork


@pytest.mark.parametrize(
    "error",
    [
        Reserved("reserved", path="/a", holders=[Holder("/a", "ada", 5)]),
        CorruptFile("cut", path="/f", position=7, base_offset=3, numbers={"bytes": 1}),
        KafkatsError("memory ran out"),
    ],
)
def test_an_error_goes_through_json_and_back(error: KafkatsError) -> None:
    read = Failure.model_validate_json(Failure.of(error).model_dump_json()).as_error()
    assert type(read) is type(error) and str(read) == str(error)
    assert read.as_fields() == error.as_fields()


def test_a_class_of_a_newer_version_is_one_of_its_family() -> None:
    newer = Failure(kind="CorruptSomething", family="BadInput", reason="no")
    assert type(newer.as_error()) is BadInput
    assert type(Failure(kind="os", family="Path", reason="no").as_error()) is KafkatsError


def test_unknown_fields_of_a_newer_version_are_ignored() -> None:
    begun = Result.begun(Request(verb="release", made_ms=1, id="a/b"))
    newer = begun.model_dump(mode="json") | {"mood": {"outcome": "yes"}}
    newer["released"] = [{"log_dir": "/a", "outcome": "free", "colour": "red"}]
    read = Result.model_validate(newer)
    assert (read.request, read.summary()["free"]) == ("a/b", ["/a"])


def test_the_worst_end_counts() -> None:
    result = Result(verb="purge")
    for code, ended in ((0, "fine"), (1, "findings"), (0, "findings"), (3, "refused")):
        result.end_with(code)
        assert (result.ended, result.exit_code) == (ended, {"fine": 0, "findings": 1}.get(ended, 3))
    result.fail(BadInput("no"))
    assert result.exit_code == 2, "the error that ended it"


@pytest.mark.parametrize("renamed", [False, True])
def test_a_process_that_is_killed_leaves_a_whole_result_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, renamed: bool
) -> None:
    path, replace = tmp_path / "result.json", Path.replace

    def killed(new: Path, target: Any) -> Any:
        if renamed:
            replace(new, target)
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(Path, "replace", killed)
    child = fork(lambda: write_result(path, Result(verb="release", request="a/b")))
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    monkeypatch.undo()
    found = read_document(path, Result)
    assert ended == -signal.SIGKILL
    assert (found is not None and found.request == "a/b") is renamed


def test_what_is_no_result(tmp_path: Path) -> None:
    (path := tmp_path / "result.json").write_text('{"verb": "plan", "ended": "well"}')
    with pytest.raises(CorruptFile, match="is no result"):
        read_document(path, Result)
