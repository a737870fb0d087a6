"""Requests of one host that name the same files: none is replaced or removed under another one, and no entry of a ledger is lost."""

from __future__ import annotations

import fcntl
import io
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kafkats import clock
from kafkats.detached import files, parcels
from kafkats.detached.jobs import Job
from kafkats.detached.messages import Answer, Ask, write_message
from kafkats.detached.serving import serve
from kafkats.logdir.flocks import is_flocked
from kafkats.migration import ledger
from tests.detached.asking import Host, packed, plan_of, pretended

LEDGER = "ledger.jsonl"


class Worker(NamedTuple):
    """A worker that does not share its folder with the host."""

    host: Host
    runs: Path
    root: Path

    def ask(self, do: str, name: str, *, ledgers: bool = True, **fields: Any) -> Answer:
        """Ask for a request that names the ledger and the RUN."""
        paths = [self.runs / LEDGER, self.runs / "run-1"]
        listed = parcels.listed(self.runs, paths)
        there = [self.host.runs / one.name for one in paths]
        about = {"request": plan_of(self.root, self.host.runs / name, id=name), "id": name}
        given = {"paths": there, "files": listed, "ledgers": there[:1] if ledgers else []}
        if do not in {"begin", "start"}:
            return self.host.ask(do, id=name)[0]
        answer, _ = self.host.ask("begin", **about | given | fields)
        if answer.wants:
            sent = packed(self.runs, {one: listed[one] for one in answer.wants})
            answer, _ = self.host.ask("start", sent, **about | given | fields)
        return answer

    def events(self) -> list[str]:
        return [one.event for one in ledger.read(self.host.runs / LEDGER).entries]


def grown(path: Path, event: str) -> None:
    ledger.append(path, event, by="ops", now_ms=1_795_500_000_001, broker="1", phase="phase-1")


@pytest.fixture
def worker(host: Host, root: Path, tmp_path: Path) -> Worker:
    runs = tmp_path / "worker"
    grown(runs / LEDGER, "begun")
    (runs / "run-1").mkdir()
    (runs / "run-1" / "run.json").write_text("{}")
    return Worker(host, runs, root)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    with pretended(monkeypatch) as started:
        yield started


def test_a_ledger_stays_until_the_last_request_that_names_it_is_forgotten(
    worker: Worker, started: list[Any]
) -> None:
    for name in ("a", "b"):
        assert worker.ask("begin", name).state == "running"
    for name in ("a", "b"):
        assert worker.events() == ["begun"]
        assert (worker.host.runs / "run-1" / "run.json").exists()
        worker.ask("cancel", name)
        assert worker.ask("collect", name).gone == ()
        assert worker.ask("forget", name).error is None
    assert not (worker.host.runs / LEDGER).exists()
    assert not (worker.host.runs / "run-1").exists()


def test_a_request_that_begins_later_takes_no_entry_from_a_ledger_in_use(
    worker: Worker, started: list[Any]
) -> None:
    worker.ask("begin", "a")
    grown(worker.host.runs / LEDGER, "started-a")
    grown(worker.runs / LEDGER, "approved")  # on the worker meanwhile
    assert worker.ask("begin", "b").state == "running"
    assert worker.events() == ["begun", "started-a", "approved"]
    worker.ask("cancel", "a")
    assert list(worker.ask("collect", "a").files) == [LEDGER]


def test_a_ledger_that_no_other_request_names_is_that_of_the_worker(
    worker: Worker, started: list[Any]
) -> None:
    grown(worker.host.runs / LEDGER, "of an earlier migration")
    worker.ask("begin", "a")
    assert worker.events() == ["begun"]


@pytest.mark.parametrize("name", [LEDGER, "run-1/run.json"])
def test_a_file_that_running_work_uses_is_not_replaced(
    worker: Worker, started: list[Any], name: str
) -> None:
    worker.ask("begin", "a")
    (worker.host.runs / name).write_text("by a")
    error = worker.ask("begin", "b", ledgers=False).error  # as a worker of an earlier version
    assert error
    assert (error.kind, error.retryable) == ("Locked", True)
    assert (worker.host.runs / name).read_text() == "by a"
    worker.ask("cancel", "a")
    assert worker.ask("begin", "b", ledgers=False).state == "running"


def test_a_slow_sender_keeps_nobody_waiting(worker: Worker, started: list[Any]) -> None:
    """The parcel is read before any lock is taken."""
    seen: list[bool] = []

    class Slow(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            locks = (worker.host.runs / ".jobs").glob("lock-*")
            seen.append(any(is_flocked(one, fcntl.LOCK_EX) for one in locks))
            return super().read(size)

    listed = parcels.listed(worker.runs, [worker.runs / LEDGER])
    request = plan_of(worker.root, worker.host.runs / "a", id="a")
    there = worker.host.runs / LEDGER
    write_message(
        asked := Slow(),
        Ask(
            do="start",
            id="a",
            request=request,
            folder=worker.host.runs,
            paths=(there,),
            files=listed,
        ),
    )
    asked.write(packed(worker.runs, listed))
    asked.seek(0)
    assert serve(asked, io.BytesIO()) == 0
    assert worker.events() == ["begun"]
    assert seen
    assert not any(seen)


def aged(job: Job) -> None:
    then = (clock.now_ms() - files.KEPT_MS) / 1000 - 60
    os.utime(job.folder, (then, then))


def test_of_what_nobody_collected_only_the_work_s_own_files_are_kept(
    worker: Worker, started: list[Any]
) -> None:
    (worker.runs / "run-1" / "other.json").write_text("{}")
    worker.ask("begin", "a")
    worker.ask("cancel", "a")
    old = Job.of(worker.host.runs, "a")
    (worker.host.runs / "run-1" / "run.json").write_text("by a")
    (worker.host.runs / "run-1" / "made.json").write_text("by a")
    aged(old)
    files.remove_old(worker.host.runs, clock.now_ms())
    assert not old.folder.exists()
    left = [one.name for one in worker.host.runs.rglob("*") if one.is_file()]
    assert sorted(one for one in left if "lock-" not in one) == ["made.json", "run.json"]


def test_what_another_request_names_is_kept_when_an_old_one_is_removed(
    worker: Worker, started: list[Any]
) -> None:
    for name in ("a", "b"):
        worker.ask("begin", name)
    worker.ask("cancel", "a")
    aged(Job.of(worker.host.runs, "a"))
    aged(Job.of(worker.host.runs, "b"))  # it runs
    files.remove_old(worker.host.runs, clock.now_ms())
    assert worker.events() == ["begun"]
    assert [one.poll() for one in started] == [-9, None]
