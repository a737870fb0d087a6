"""A job's words as those of the command."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fanout
import pytest

from kafkats.cli import performing
from kafkats.clock import now_ms
from kafkats.errors import DiskFull
from kafkats.execution.local import LocalExecutor
from kafkats.logdir import strict_json
from kafkats.logdir.reservation import reservation_area, reserve
from kafkats.plans.files import read_document
from kafkats.progress import Progress
from kafkats.request import Request
from kafkats.result import Result
from tests.golden import case


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--reserve", "night", "-o", "p"], ["--holder", "night", "-o", "p"]),
        (["--reserve=night"], ["--holder=night"]),
        (["--reserve", ""], ["--holder", ""]),
        (["--reserve", "--reserve-for", "1h"], ["--reserve", "--reserve-for", "1h"]),
        (["-o", "p", "--reserve"], ["-o", "p", "--reserve"]),
    ],
)
def test_a_holder_may_be_named_by_its_old_name(given: list[str], words: list[str]) -> None:
    assert fanout.words_of(["plan"], given) == ["plan", *words]
    assert fanout.words_of(["apply"], given) == ["apply", *given]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A log directory that somebody has reserved."""
    (root := tmp_path / "disk" / "data").mkdir(parents=True)
    case("matrix-4.3.1-v2").unpack("data", root)
    reserve(reservation_area(root), "ada@host plan", now_ms() + 3_600_000, now_ms=now_ms())
    return root


def run_job(monkeypatch: pytest.MonkeyPatch, script: str, *words: object) -> int:
    """Run a job with its words in this process; its stages too."""

    @contextmanager
    def here(*_: object) -> Generator[LocalExecutor]:
        yield LocalExecutor(1)

    monkeypatch.setattr(fanout, "started", here)
    monkeypatch.setattr(fanout, "end_with_the_jvm", lambda: None)
    monkeypatch.setattr(sys, "argv", [script, *map(str, words)])
    return fanout.run_job(script)


def marked(text: str) -> dict[str, Any]:
    """Return the result line of a job."""
    last = text.splitlines()[-1]
    assert last.startswith(f"{fanout.RESULT} ")
    return dict(json.loads(last.removeprefix(fanout.RESULT)))


def test_a_request_in_a_file_does_what_the_words_do(
    monkeypatch: pytest.MonkeyPatch,
    root: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked, told = tmp_path / "request.json", tmp_path / "result.json"
    request = Request.model_validate({
        "verb": "release",
        "made_ms": 0,
        "log_dirs": [{"path": root}],
        "reservation": {"holder": "bob"},
    })
    asked.write_text(request.model_dump_json(exclude_defaults=True))
    assert run_job(monkeypatch, "release", root, "--holder", "bob") == 0
    by_words = marked(capsys.readouterr().out)
    assert run_job(monkeypatch, "release", "--request", asked, "--result", told) == 0
    assert marked(capsys.readouterr().out) == by_words and by_words["kept"]
    result = Result.model_validate_json(told.read_text())
    summary = {name: value for name, value in result.summary().items() if name != "exit_code"}
    assert summary | {"rates": {}} == by_words
    assert stat.S_IMODE(told.stat().st_mode) == 0o600


def test_with_a_file_for_the_progress_nothing_is_printed_for_programs(
    monkeypatch: pytest.MonkeyPatch,
    root: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    paths = [tmp_path / f"{name}.json" for name in ("request", "result", "progress")]
    paths[0].write_text(rebuild(root, str(tmp_path / "plan")))
    words = zip(("--request", "--result", "--progress"), paths, strict=True)
    assert run_job(monkeypatch, "plan", *(word for pair in words for word in pair)) == 0
    assert "KAFKATS_" not in capsys.readouterr().out
    found, told = read_document(paths[2], Progress), read_document(paths[1], Result)
    assert found is not None and (found.state, found.verb) == ("ended", "plan")
    assert told is not None and told.plan is not None


@pytest.mark.parametrize(
    ("verb", "options", "words"),
    [
        ("inventory", {"Inventory": {"by": "topic"}}, ("--by", "topic")),
        ("census", {"Census": {"by": "topic"}}, ("--by", "topic")),
        ("certify", {"Certify": {"max_magic": 1}}, ("--max-magic", 1)),
        ("preflight", {"Preflight": {"kafka": "4.3"}}, ("--kafka", "4.3")),
        ("lookup", {"Times": {"times": ["latest", "0"]}}, ("--at", "latest", "--at", 0)),
        ("export", {"Export": {"at": "0", "to": "json"}}, ("--at", 0, "--to", "json")),
    ],
)
def test_a_job_that_reads_gives_the_same_by_file_and_by_words(
    monkeypatch: pytest.MonkeyPatch,
    root: Path,
    tmp_path: Path,
    verb: str,
    options: dict[str, Any],
    words: tuple[object, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked, told = tmp_path / "request.json", tmp_path / "result.json"
    fields = {"verb": verb, "made_ms": 0, "log_dirs": [{"path": str(root)}], "options": options}
    asked.write_text(json.dumps(fields))
    code = run_job(monkeypatch, verb, root, *words)
    by_words = marked(capsys.readouterr().out)
    assert run_job(monkeypatch, verb, "--request", asked, "--result", told) == code
    assert marked(capsys.readouterr().out) == by_words and len(by_words) > 2
    assert Result.model_validate_json(told.read_text()).exit_code == code


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"verb": "release", "made_ms": 0}', "is a request to release, not to purge"),
        ('{"verb": "purge", "made_ms": 0, "force": true}', "force"),
        ("", "no request"),
    ],
)
def test_a_request_that_is_none_of_the_jobs(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    content: str,
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked, told = tmp_path / "request.json", tmp_path / "result.json"
    asked.write_text(content)
    assert run_job(monkeypatch, "purge", "--request", asked, "--result", told) == 2
    result = Result.model_validate_json(told.read_text())
    assert result.error is not None
    assert said in f"{result.error.path}: {result.error.reason}"
    line = marked(capsys.readouterr().out)
    assert line["kind"] == result.error.kind == "UsageError"


def rebuild(root: Path, folder: str) -> str:
    """Return a request for a plan in a folder, as JSON."""
    return json.dumps({
        "verb": "plan",
        "operation": "rebuild",
        "made_ms": 0,
        "log_dirs": [{"path": str(root)}],
        "options": {"PlanFolder": {"output": folder}},
    })


@pytest.mark.parametrize("where", ["disk/data/result.json", "disk", "plain/result.json"])
def test_nothing_is_done_where_the_result_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch,
    root: Path,
    tmp_path: Path,
    where: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked, plan = tmp_path / "request.json", tmp_path / "plan"
    asked.write_text(rebuild(root, str(plan)))
    (tmp_path / "plain").write_text("")
    before = sorted(root.iterdir())
    code = run_job(monkeypatch, "plan", "--request", asked, "--result", tmp_path / where)
    assert code == 2 and marked(capsys.readouterr().out)["error"]
    assert not plan.exists() and sorted(root.iterdir()) == before


def test_a_result_that_cannot_be_written_any_more_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
    root: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def full(path: Path, _result: Result) -> None:
        raise DiskFull("no room", path=path)

    asked, told, plan = (tmp_path / name for name in ("request.json", "result.json", "plan"))
    asked.write_text(rebuild(root, str(plan)))
    monkeypatch.setattr(performing, "write_result", full)
    assert run_job(monkeypatch, "plan", "--request", asked, "--result", told) == 2
    line = marked(capsys.readouterr().out)
    assert line["kind"] == "DiskFull" and line["plan"] == str(plan) and plan.is_dir()


def test_a_result_names_paths_that_are_not_utf_8_and_follows_no_link(
    monkeypatch: pytest.MonkeyPatch, root: Path, tmp_path: Path
) -> None:
    asked, told = tmp_path / "request.json", tmp_path / "result.json"
    plan, other = tmp_path / os.fsdecode(b"plan-\xff"), tmp_path / "other"
    asked.write_text(rebuild(root, str(plan)))
    other.write_text("kept")
    (tmp_path / f"result.json.{os.getpid()}.tmp").symlink_to(other)
    assert run_job(monkeypatch, "plan", "--request", asked, "--result", told) == 0
    assert strict_json.loads(told.read_bytes())["plan"]["folder"] == str(plan)
    assert other.read_text() == "kept" and stat.S_IMODE(told.stat().st_mode) == 0o600
    assert sorted(tmp_path.glob("result.json*")) == [told]
