"""Work that nobody waits for stops between two units, and the next try finishes it."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kafkats.detached import working
from kafkats.detached.jobs import Job, Process, Sent
from kafkats.errors import StorageFailed
from kafkats.execution.local import LocalExecutor
from kafkats.flow import apply, run
from kafkats.plans.files import write_document
from kafkats.request import made_of, write_request
from tests.detached.asking import plan_of


def job_of(folder: Path, content: dict[str, Any], silence_seconds: float = 0) -> Job:
    folder.mkdir()
    write_request(folder / "request.json", made_of(content))
    job = Job(folder)
    job.touch()
    return job


def test_a_look_takes_no_other_look_for_the_work(tmp_path: Path, root: Path) -> None:
    job = job_of(tmp_path / "job", plan_of(root, tmp_path / "p"))
    with (job.folder / "lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        assert job.state() == "lost"
        fcntl.flock(other, fcntl.LOCK_EX)
        assert job.state() == "running"


def test_no_process_of_another_machine_s_number_is_killed(tmp_path: Path, root: Path) -> None:
    job = job_of(tmp_path / "job", plan_of(root, tmp_path / "p"))
    with (
        (job.folder / "lock").open("w") as other,
        subprocess.Popen(["sleep", "60"], start_new_session=True) as bystander,
    ):
        fcntl.flock(other, fcntl.LOCK_EX)
        process = Process(pid=bystander.pid, machine="another 1")
        write_document(job.process, process.model_dump(), "noting the process")
        with pytest.raises(StorageFailed, match="run on another"):
            job.end()
        assert bystander.poll() is None
        bystander.kill()


def test_silence_stops_the_work_and_a_sign_of_life_does_not(tmp_path: Path, root: Path) -> None:
    job = job_of(tmp_path / "job", plan_of(root, tmp_path / "p"))
    look = working._watch(job, Sent(alike="", silence_seconds=60))
    look()
    assert not job.stop.exists()
    os.utime(job.alive, (1, 1))
    working._watch(job, Sent(alike="", silence_seconds=0))()
    assert not job.stop.exists()
    look()
    assert "nobody has asked for it" in job.stop.read_text()


def test_a_storage_that_does_not_answer_once_ends_no_watch(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_of(tmp_path / "job", plan_of(root, tmp_path / "p"))
    os.utime(job.alive, (1, 1))
    look = working._watch(job, Sent(alike="", silence_seconds=60))
    with monkeypatch.context() as patch:
        patch.setattr(working, "write_text", fails(StorageFailed("no room", path=job.stop)))
        look()
        patch.setattr(working.time, "time", fails(OSError(errno.ESTALE, "Stale file handle")))
        look()
    assert not job.stop.exists()
    look()
    assert job.stop.exists()


def fails(error: Exception) -> Any:
    def fail(*_: Any) -> Any:
        raise error

    return fail


def test_an_apply_stops_between_partitions_and_the_next_try_finishes_it(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "gzip-ct-0" / "00000000000000000000.timeindex").unlink()
    plan = run(made_of(plan_of(root, tmp_path / "p")), LocalExecutor(1)).plan
    assert plan
    assert plan.totals["files"] == 2
    asked = {
        "verb": "apply", "id": "a", "made_ms": 1, "options": {"Apply": {"run_folder": str(tmp_path / "run")}},
        "plan": {"folder": plan.folder, "digest": plan.digest},
    }  # fmt: skip
    job = job_of(tmp_path / "job", asked)
    monkeypatch.setattr(working, "LocalExecutor", lambda display: LocalExecutor(1, display=display))
    done = []

    def one(work: Any) -> Any:
        done.append(work.partition_dir)
        job.stop.write_text("stopped between two units of work")
        return apply.apply_partition(work)

    monkeypatch.setattr("kafkats.flow.applying.apply_partition", one)
    stopped = working.work(job)
    assert stopped.error
    assert (stopped.error.kind, stopped.error.retryable) == ("Unattended", True)
    assert len(done) == 1
    again = working.work(job_of(tmp_path / "again", asked))
    assert again.ended == "fine"
    assert again.runs[0].outcomes == {"already": 1, "done": 1}


def test_what_is_no_request_has_a_result_that_says_so(tmp_path: Path) -> None:
    (folder := tmp_path / "job").mkdir()
    (folder / "request.json").write_text('{"format": 2}')
    result = working.work(Job(folder))
    assert result.error
    assert result.error.kind == "UsageError"
    assert Job(folder).document(Job(folder).progress)
