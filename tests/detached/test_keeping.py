"""The main process of a container waits for the request, the work and the collection, and for nothing longer than it should."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kafkats.detached import keeping
from kafkats.detached.jobs import JOBS, Job, Sent, alike_of, digest_of
from kafkats.detached.keeping import KEPT_SECONDS, Keeper
from kafkats.detached.messages import Answer, Ask, read_message, write_message
from kafkats.detached.serving import Bounded, main
from kafkats.errors import StorageFailed
from kafkats.request import made_of
from tests.detached.asking import ID, Host, plan_of, until


def aged(job: Job, seconds: float) -> None:
    then = job.alive.stat().st_mtime - seconds
    os.utime(job.alive, (then, then))


def test_it_ends_when_nothing_is_asked(host: Host) -> None:
    keeper = Keeper(host.job(), 100)
    assert keeper._over() is None
    keeper._born -= 101
    assert keeper._over() == "nobody has asked for 101 s"
    assert Keeper(host.job(), 0)._over() is None


def test_it_ends_when_the_result_was_collected(host: Host, root: Path) -> None:
    request = made_of(plan_of(root, host.runs / "p"))
    job, keeper = host.job(), Keeper(host.job(), 100)
    job.start(request, Sent(alike=alike_of(request)))
    assert keeper._over() is None
    until(lambda: job.state() == "ended")
    assert keeper._over() is None
    keeper._born -= KEPT_SECONDS
    aged(job, 101)
    assert keeper._over() is None  # a result is kept longer than a wait for nothing
    assert host.ask("forget")[0].state == "none"
    assert keeper._over() == "the result was collected"


def test_a_result_that_nobody_collects_is_not_kept_for_ever(host: Host) -> None:
    job, keeper = host.job(), Keeper(host.job(), 100)
    job.folder.mkdir(parents=True)
    job.request.write_text("{}")
    job.touch()
    keeper._born -= 2 * KEPT_SECONDS
    assert keeper._over() is None
    aged(job, KEPT_SECONDS + 1)
    over = keeper._over()
    assert over
    assert over.startswith("nobody has asked for 3601")


def test_the_result_of_work_that_stopped_for_silence_is_not_kept(host: Host) -> None:
    job, keeper = host.job(), Keeper(host.job(), 100)
    job.folder.mkdir(parents=True)
    job.request.write_text("{}")
    job.touch()
    job.stop.write_text("nobody has asked for it")
    keeper._born -= KEPT_SECONDS
    assert keeper._over() is None
    aged(job, 101)
    assert keeper._over() == "nobody has asked for 101 s"


def test_work_stops_at_its_next_safe_point_when_the_container_is_to_end(host: Host) -> None:
    import fcntl

    job, keeper = host.job(), Keeper(host.job(), 100)
    job.folder.mkdir(parents=True)
    job.request.write_text("{}")
    with (job.folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        keeper.end()
        assert keeper._over() is None
        assert "its pod was told to end" in job.stop.read_text()
    assert keeper._over() == "told to end"


def test_the_program_waits_shows_what_the_work_prints_and_ends_by_a_signal(host: Host) -> None:
    job = host.job()
    job.folder.mkdir(parents=True)
    (job.folder / "log.txt").write_text("printed\n")
    words = [sys.executable, "-m", "kafkats.detached", "wait", digest_of(ID), "600"]
    with subprocess.Popen(words, stderr=subprocess.PIPE) as process:
        assert process.stderr
        assert process.stderr.readline() == b"printed\n"
        process.terminate()
        assert process.stderr.read() == b"told to end\n"
    assert process.returncode == 0


def test_a_result_that_nobody_has_yet_is_kept_when_the_container_is_to_end(host: Host) -> None:
    """An `emptyDir` ends with it, and the worker looks every 10 seconds."""
    job, keeper = host.job(), Keeper(host.job(), 100)
    job.folder.mkdir(parents=True)
    job.request.write_text("{}")
    job.result.write_text("{}")
    job.touch()
    keeper.end()
    assert keeper._over() is None
    host.ask("forget")
    assert keeper._over() == "told to end"


def test_a_storage_that_does_not_answer_once_ends_no_wait(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[Any] = [StorageFailed("Stale file handle"), StorageFailed("again"), "none"]

    def state(_: Job) -> Any:
        if isinstance(one := answers.pop(0), Exception):
            raise one
        return one

    monkeypatch.setattr(Job, "state", state)
    monkeypatch.setattr(keeping, "_LOOKS_SECONDS", 0.0)
    keeper = Keeper(host.job(), 100)
    keeper.end()
    assert keeper.wait() == "told to end"
    assert not answers


@pytest.mark.parametrize(
    "words", [[], ["../x", "1"], ["abc"], ["abc", "soon"], ["abc", "nan"], ["abc", "-1"]]
)
def test_other_words_are_refused_in_one_sentence(
    host: Host,
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["kafkats-host", "wait", *words])
    assert main() == 2
    assert capsys.readouterr() == ("", f"kafkats-host: wait JOB SECONDS, and not {words!r}\n")
    assert not (host.runs / JOBS).exists()


def test_an_input_that_does_not_end_is_read_as_far_as_it_was_announced() -> None:
    stream = io.BytesIO(b"message\nparcel, and what comes later")
    bounded = io.BufferedReader(Bounded(stream, 14))
    assert bounded.readline() == b"message\n"
    assert bounded.read() == b"parcel"
    assert stream.read().startswith(b", and")


def test_the_program_answers_without_an_end_of_its_input(host: Host) -> None:
    message = io.BytesIO()
    write_message(message, Ask(do="look", id=ID, folder=host.runs))
    words = [sys.executable, "-m", "kafkats.detached", str(message.tell())]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(message.getvalue())
        process.stdin.flush()
        assert read_message(process.stdout, Answer).state == "none"
    assert process.returncode == 0
