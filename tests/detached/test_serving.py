"""A host: a request runs once, whoever asks again; its files come back, and nothing else."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from kafkats.detached import parcels
from kafkats.detached.jobs import members
from kafkats.detached.messages import Answer, read_message
from kafkats.detached.serving import main, serve
from kafkats.errors import Unattended
from kafkats.execution.local import LocalExecutor
from kafkats.flow import run
from kafkats.request import made_of
from kafkats.result import Result, write_result
from tests.detached.asking import Host, packed, plan_of, pretended, until

LATER: dict[str, Any] = {
    "made_ms": 1_795_500_060_000,
    "reservation": {"holder": "airflow night run 1", "until_ms": 1_795_600_060_000},
}
EARLIER: dict[str, Any] = {
    "reservation": {"holder": "airflow night run 1", "until_ms": 1_795_600_000_000}
}


def left_in(folder: Path) -> list[str]:
    """Return the files below a folder, without the locks of the host."""
    return [path.name for path in folder.rglob("*") if path.is_file() and "lock-" not in path.name]


@pytest.mark.long(4)
def test_a_request_runs_in_a_process_of_its_own_and_its_files_come_back(
    host: Host, root: Path, tmp_path: Path
) -> None:
    into = host.runs / "night" / "plan"
    begun, _ = host.ask("begin", request=plan_of(root, into), paths=[into])
    assert begun.state == "running"
    until(lambda: host.ask("look")[0].state != "running")
    answer, parcel = host.ask("collect")
    assert answer.state == "ended", answer.told
    result = Result.model_validate(answer.result)
    here = run(made_of(plan_of(root, tmp_path / "here")), LocalExecutor(1))
    assert result.plan
    assert here.plan
    assert result.plan.digest == here.plan.digest
    assert result.plan.totals["files"] == 1
    assert host.ask("forget")[0].state == "none"
    assert left_in(host.runs) == []
    parcels.unpack(parcel, host.runs, [into], answer.files)
    assert Path(result.plan.folder, "plan.json").is_file()
    assert answer.progress
    assert answer.progress["state"] == "ended"


def test_a_later_try_attaches_and_starts_no_second(
    host: Host, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pretended(monkeypatch) as started:
        asked = plan_of(root, host.runs / "p")
        assert host.ask("begin", request=asked | EARLIER)[0].state == "running"
        assert host.ask("begin", request=asked | LATER)[0].state == "running"
        assert host.ask("start", request=asked | LATER)[0].state == "running"
        assert len(started) == 1


def test_a_result_that_nobody_collected_is_that_of_the_next_try(
    host: Host, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pretended(monkeypatch, "true") as started:
        asked = plan_of(root, host.runs / "p") | EARLIER
        host.ask("begin", request=asked)
        started[0].wait()
        assert host.ask("look")[0].state == "lost"
        write_result(host.job().result, Result(request=asked["id"], verb="plan"))
        assert host.ask("begin", request=asked | LATER)[0].state == "ended"
        assert len(started) == 1


@pytest.mark.parametrize("left", ["nothing", "an error"])
def test_work_that_failed_is_done_again(
    host: Host, root: Path, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    with pretended(monkeypatch, "true") as started:
        asked = plan_of(root, host.runs / "p")
        host.ask("begin", request=asked)
        started[0].wait()
        if left == "an error":
            result = Result(request=asked["id"], verb="plan")
            result.fail(Unattended("stopped"))
            write_result(host.job().result, result)
        host.ask("begin", request=asked)
        assert len(started) == 2


def test_another_request_of_the_same_id_ends_the_earlier_one(
    host: Host, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pretended(monkeypatch) as started:
        host.ask("begin", request=plan_of(root, host.runs / "p"))
        other = plan_of(root, host.runs / "p", options={"Topics": {"topics": "orders"}})
        assert host.ask("begin", request=other)[0].state == "running"
        assert started[0].wait() == -9
        assert started[1].poll() is None


def test_a_cancel_ends_every_process_of_the_work(
    host: Host, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pretended(monkeypatch, "sh", "-c", "sleep 600 & sleep 600") as started:
        host.ask("begin", request=plan_of(root, host.runs / "p"))
        until(lambda: len(members(started[0].pid)) == 3)
        assert host.ask("cancel")[0].state == "lost"
        assert members(started[0].pid) == []


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"format": 2}, "format"),
        ({"of_a_later_version": 1}, "of_a_later_version"),
        ({"options": {"Rebuild": {"of_a_later_version": 1}}}, "of_a_later_version"),
        ({"id": "another"}, "another"),
    ],
)
def test_a_request_that_is_not_understood_is_refused_before_anything_is_written(
    host: Host, root: Path, changed: dict[str, Any], why: str
) -> None:
    answer, _ = host.ask("start", request=plan_of(root, host.runs / "p") | changed)
    assert answer.error
    assert answer.error.kind == "UsageError"
    assert why in answer.error.reason
    assert answer.kafkats
    assert list(host.runs.iterdir()) == []


@pytest.mark.parametrize(
    "line", [b"", b"{}\n", b"[]\n", b'{"protocol": 2, "do": "look", "id": "x", "folder": "/r"}\n']
)
def test_a_message_that_is_none_is_answered_in_words(host: Host, line: bytes) -> None:
    told = io.BytesIO()
    assert serve(io.BytesIO(line), told) == 2
    told.seek(0)
    error = read_message(told, Answer).error
    assert error
    assert error.kind == "UsageError"


def test_only_what_is_missing_or_other_is_sent(
    host: Host, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Host(tmp_path / "worker")
    for place, names in ((worker.runs, "abc"), (host.runs, "bc")):
        (place / "p").mkdir(parents=True)
        for name in names:
            text = "here" if (place, name) == (host.runs, "c") else name
            (place / "p" / name).write_text(text)
    files = parcels.listed(worker.runs, [worker.runs / "p"])
    about = {"request": plan_of(root, host.runs / "p"), "paths": [host.runs / "p"], "files": files}
    with pretended(monkeypatch, "true") as started:
        wanted, _ = host.ask("begin", **about)
        assert sorted(wanted.wants) == ["p/a", "p/c"]
        assert not started
        sent = packed(worker.runs, {name: files[name] for name in wanted.wants})
        host.ask("start", sent, **about)
        started[0].wait()
    assert [(host.runs / "p" / name).read_text() for name in "abc"] == ["a", "b", "c"]
    (host.runs / "p" / "a").unlink()
    (host.runs / "p" / "b").write_text("new")
    (host.runs / "elsewhere").write_text("of others")
    answer, _ = host.ask("collect")
    assert list(answer.files) == ["p/b"]
    assert answer.gone == ("p/a",)
    host.ask("forget")
    assert left_in(host.runs) == ["elsewhere"]


def test_a_shared_folder_sends_nothing_and_keeps_its_files(
    host: Host, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (host.runs / ".kafkats-folder-1").touch()
    (host.runs / "p").mkdir()
    (host.runs / "p" / "a").write_text("a")
    with pretended(monkeypatch, "true") as started:
        about = {"request": plan_of(root, host.runs / "p"), "mark": ".kafkats-folder-1"}
        paths, files = [host.runs / "p"], {"p/a": "another digest"}
        answer, _ = host.ask("begin", **about, paths=paths, files=files)
        assert (answer.error, answer.wants) == (None, ())
        started[0].wait()
    assert host.ask("collect")[0].files == {}
    host.ask("forget", mark=".kafkats-folder-1")
    assert (host.runs / "p" / "a").exists()


@pytest.mark.parametrize("named", ["/etc", "../..", "p/../../x", "link/x", ""])
def test_files_lie_in_the_folder_of_all_runs(host: Host, root: Path, named: str) -> None:
    (host.runs / "link").symlink_to("/etc")
    path = host.runs / named
    asked = plan_of(root, host.runs / "p")
    answer, _ = host.ask("begin", request=asked, paths=[path])
    assert answer.error
    assert answer.error.kind == "Refused"
    assert left_in(host.runs) == []


def test_another_folder_than_that_of_the_host_is_refused(host: Host, root: Path) -> None:
    answer, _ = host.ask("begin", request=plan_of(root, host.runs), folder="/srv/other")
    assert answer.error
    assert "not in the folder of all runs" in answer.error.reason


@pytest.mark.parametrize("mark", ["..", ".", "", "a/b", "token"])
def test_only_a_token_says_that_both_share_the_folder(
    host: Host, root: Path, monkeypatch: pytest.MonkeyPatch, mark: str
) -> None:
    (host.runs / "token").touch()
    with pretended(monkeypatch):
        asked = plan_of(root, host.runs / "p")
        answer, _ = host.ask("begin", request=asked, mark=mark, files={"p/a": "d"})
        assert answer.wants == (() if mark == "token" else ("p/a",))


@pytest.mark.parametrize("words", [["|", "touch", "x"], ["x"], ["-1"], ["1", "2"]])
def test_words_that_are_no_number_of_bytes_are_one_sentence(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["kafkats-host", *words])
    assert main() == 2
    said = f"kafkats-host: not a number of bytes: {' '.join(words)}\n"
    assert capsys.readouterr() == ("", said)


def test_help_says_who_calls_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["kafkats-host", "--help"])
    assert main() == 0
    assert capsys.readouterr().out.startswith("kafkats-host [BYTES]: answers one request")
