"""Where a command's stages run, and what a job tells of it."""

from __future__ import annotations

import importlib
import json
import logging
import shutil
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafkats.cli import JOB, LazyExecutor, Session, main, run
from kafkats.errors import CorruptPlan, Refused, UsageError
from kafkats.execution.executor import U, Work
from kafkats.execution.local import LocalExecutor
from kafkats.plans.approval import Approval, write_approval
from kafkats.plans.plan import read_plan
from tests.builders.directories import another_volume
from tests.golden import case

GOLDEN = case("matrix-4.3.1-v2")
LOST = "none-ct-0/00000000000000000043.timeindex"


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A directory of a stopped broker in which an index file is missing."""
    root = tmp_path / "data"
    root.mkdir()
    GOLDEN.unpack("data", root)
    (root / LOST).unlink()
    return root


class Counting(LocalExecutor):
    """Does the stages in this process, and remembers them."""

    def __init__(self) -> None:
        super().__init__(1)
        self.stages: list[str] = []

    def run(self, stage: str, work: Work[U]) -> pa.Table:
        self.stages.append(stage)
        return super().run(stage, work)


def scheduled(*words: object) -> Session:
    """What a job of these words ends with."""
    session = Session(Counting(), JOB)
    run([str(word) for word in words], session)
    return session


def summary(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    """The last word of the command in a shell."""
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main([*map(str, words), "--json"])
    return dict(json.loads(capsys.readouterr().out.splitlines()[-1])["summary"])


def test_stages_run_in_the_executor_of_the_session(volume: Path) -> None:
    executor = Counting()
    session = Session(executor, JOB)
    assert run(["verify", str(volume)], session) == 1
    assert executor.stages == ["verify"]
    assert run(["verify", str(volume), "--jobs", "2"], session) == 2
    assert isinstance(session.error, UsageError) and "--jobs" in str(session.error)


def test_the_result_of_a_job_is_the_summary_of_the_command(
    volume: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (
        ("inventory", volume),
        ("census", volume, "--by", "topic"),
        ("verify", volume),
        ("certify", volume, "--min-magic", 2),
        ("lookup", volume, "--at", "latest"),
        ("latency", volume),
        ("release", volume),
        ("plan", "rebuild", volume, "-o", tmp_path / "plan"),
        (
            "plan",
            "split",
            volume,
            "--where",
            "rolled",
            "--segment-bytes",
            2000,
            "--latest",
            2_000_000_000_000,
            "-o",
            tmp_path / "s",
        ),
    ):
        told = dict(scheduled(*words).result())
        theirs = summary(capsys, *words)
        theirs.pop("exit_code", None)
        assert told == theirs != {}, words


def test_a_log_has_the_first_rows_alone(volume: Path, capsys: pytest.CaptureFixture[str]) -> None:
    many = [volume.with_name(f"data-{n}") for n in range(12)]
    for number, root in enumerate(many):
        shutil.copytree(volume, root)
        another_volume(root, number)
    scheduled("inventory", *many, "--by", "segment")
    lines = capsys.readouterr().out.splitlines()
    rows = [line for line in lines if line.startswith("{")]
    assert len(rows) == 200
    assert f"... and {12 * 24 - 200} more" in lines


def test_an_error_is_the_result(tmp_path: Path) -> None:
    found = scheduled("apply", tmp_path / "nothing", "--digest", "12345678")
    assert isinstance(found.error, CorruptPlan)
    assert found.result()["kind"] == "CorruptPlan" and not found.result()["retryable"]
    found = scheduled("apply", tmp_path, "--digit", "1")
    assert found.result()["kind"] == "UsageError" and "--digit" in found.result()["error"]


def test_an_executor_is_opened_by_its_first_stage_and_closed(volume: Path) -> None:
    told: list[str] = []

    @contextmanager
    def opened() -> Generator[LocalExecutor]:
        told.append("opened")
        try:
            yield LocalExecutor(1)
        finally:
            told.append("closed")

    with LazyExecutor(opened) as executor:
        assert run(["verify", str(volume), "--generation", "wrong"], Session(executor)) == 2
        assert run(["release", str(volume)], Session(executor)) == 0
        assert told == []
        assert run(["verify", str(volume)], Session(executor)) == 1
        assert run(["inventory", str(volume)], Session(executor)) == 0
        assert told == ["opened"]
    assert told == ["opened", "closed"]


def test_approvers_are_asked_for_where_a_scheduler_runs(
    volume: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = scheduled("plan", "rebuild", volume, "-o", tmp_path / "plan").result()
    words = ("apply", made["plan"], "--digest", made["digest"], "--owner-stopped")
    monkeypatch.setenv("KAFKATS_APPROVERS", "alice")
    assert isinstance(scheduled(*words).error, Refused)
    record = tmp_path / "approval.json"
    for by, refused in (("mallory", True), ("alice", False)):
        write_approval(
            record, Approval("Approve", (read_plan(tmp_path / "plan").digest,), by, "", 1)
        )
        found = scheduled(*words, "--approval", record)
        assert isinstance(found.error, Refused) == refused
    assert (volume / LOST).exists()


def test_a_shell_needs_the_yes_of_the_record_it_names(volume: Path, tmp_path: Path) -> None:
    assert run(["plan", "rebuild", str(volume), "-o", str(tmp_path / "plan")], Session()) == 0
    record = tmp_path / "approval.json"
    write_approval(record, Approval("Reject", (), "alice", "", 1))
    words = ["apply", str(tmp_path / "plan"), "--digest", "any", "--owner-stopped"]
    assert run([*words, "--approval", str(record)], Session()) == 3
    assert not (volume / LOST).exists()
    assert run(words, Session()) == 0


def test_several_runs_are_undone_from_the_latest_and_purged(
    volume: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = []
    for name in ("first", "second"):
        (volume / LOST).unlink(missing_ok=True)
        made = scheduled("plan", "rebuild", volume, "-o", tmp_path / name).result()
        words = ("apply", made["plan"], "--digest", made["digest"], "--owner-stopped")
        runs.insert(0, scheduled(*words).result()["run"])
    assert summary(capsys, "purge", *runs, "--older-than", "1h") == {
        "runs": [], "not_due": runs, "files": 0, "freed_bytes": 0, "errors": [], "exit_code": 0,
    }  # fmt: skip
    undone = summary(capsys, "undo", *runs[:1], "--certify", volume, "--max-magic", 2)
    assert (undone["runs"], undone["files"], undone["certified"]) == (runs[:1], 1, True)
    assert summary(capsys, "purge", *runs)["runs"] == runs


def test_options_that_take_several_values(volume: Path, tmp_path: Path) -> None:
    found = scheduled(
        "undo", tmp_path / "no-run", "--certify", volume, volume.parent, "--max-magic", 2
    )
    assert isinstance(found.error, CorruptPlan), "not an unknown word"


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "rebuild", "@"),
        ("plan", "rebuild", "@", "-o", "p", "--into", "q"),
        ("plan", "rebuild", "@", "-o", "p", "--skip-reserved"),
        (
            "plan",
            "rebuild",
            "@",
            "-o",
            "p",
            "--reserve",
            "--reserve-for",
            "1h",
            "--reserve-until",
            "9",
        ),
        ("plan", "migrate", "@", "-o", "p", "--to-magic", "2", "--certify", "c"),
        ("undo", "r", "--max-magic", "2"),
        ("lookup", "@", "--at", "0", "--around", "1s"),
        ("inventory", "@", "--by", "format", "--report", "r"),
        ("--spark", "", "verify", "@"),
        ("--spark", "local[1]", "show", "p"),
        ("--spark", "local[1]", "ledger", "show", "l"),
        ("--spark", "local[1]", "verify", "@", "--jobs", "2"),
    ],
    ids=" ".join,
)
def test_words_that_do_not_go_together(
    volume: Path, monkeypatch: pytest.MonkeyPatch, words: Sequence[str]
) -> None:
    monkeypatch.chdir(volume.parent)
    session = Session()
    assert run([word.replace("@", str(volume)) for word in words], session) == 2
    assert isinstance(session.error, UsageError)
    assert {path.name for path in volume.parent.iterdir()} == {volume.name}


def test_without_pyspark_spark_is_a_plain_message(
    volume: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lacking(name: str) -> Any:
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")

    monkeypatch.setattr(importlib, "import_module", lacking)
    assert run(["--spark", "local[1]", "verify", str(volume)], Session()) == 2
    said = capsys.readouterr().err
    assert "pip install 'kafkats[spark]'" in said and "Traceback" not in said


def test_what_py4j_logs_of_ctrl_c_is_not_shown(
    volume: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Interrupted:
        @staticmethod
        def open_executor(*_: str, **__: object) -> None:
            for stop in (OSError, KeyboardInterrupt):
                try:
                    raise stop
                except stop:
                    logging.exception("%s while sending command.", stop.__name__)
            raise KeyboardInterrupt

    monkeypatch.setattr(importlib, "import_module", lambda _: Interrupted)
    monkeypatch.setattr(logging.getLogger(), "filters", [])
    assert run(["--spark", "local[1]", "verify", str(volume)], Session()) == 130
    assert capsys.readouterr().err.endswith("\nkafkats: interrupted\n")
    assert caplog.messages == ["OSError while sending command."]


@pytest.mark.slow(6)
def test_the_same_plan_on_spark_from_a_shell(
    java: dict[str, str], volume: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import subprocess

    words = ("plan", "rebuild", volume, "-o", tmp_path / "spark", "--json")
    command = [sys.executable, "-m", "kafkats", "--spark", "local[2]", *map(str, words)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=java)
    assert ran.returncode == 0, ran.stderr
    ours = json.loads(ran.stdout.splitlines()[-1])["summary"]
    theirs = summary(capsys, "plan", "rebuild", volume, "-o", tmp_path / "local")
    assert ours["digest"] == theirs["digest"]
