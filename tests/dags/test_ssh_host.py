"""A host by SSH that cannot be trusted, lost, full, of another version, or another host than the one of the plan."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import pytest
from airflow.sdk.exceptions import AirflowTaskTimeout, TaskDeferred
from kafkats_airflow.jobs import host_home, providers, ssh_host, waiting
from kafkats_airflow.jobs import hosts as job_hosts
from kafkats_airflow.jobs.hosts import Host, Program, Unreached
from kafkats_airflow.jobs.waiting import HostTrigger

from kafkats import __version__
from kafkats.detached.jobs import Job, members
from kafkats.detached.messages import Answer, Ask, write_message
from kafkats.errors import DiskFull, Refused, StorageFailed, UsageError
from kafkats.logdir.strict_json import loads
from kafkats.result import Failure
from tests import loops
from tests.dags import hosts
from tests.dags.hosts import WRONG, Asked, asked, damaged
from tests.sshd import COMMAND, Sshd, apart, sshd

pytestmark = pytest.mark.slow(5)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return damaged(tmp_path / "disk" / "data")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    (runs := tmp_path / "runs").mkdir()
    return runs


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """Units wait as long as this file is there."""
    return tmp_path / "gate"


@pytest.fixture
def server(
    tmp_path: Path, runs: Path, gate: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Sshd]:
    """A host that shares the folder of all runs; its work waits at the gate."""
    (site := tmp_path / "site").mkdir()
    (site / "sitecustomize.py").write_text(hosts.GATE.format(gate=str(gate)))
    paths = f"{site}:{os.getcwd()}"
    with sshd(tmp_path / "sshd", {"KAFKATS_FOLDER": str(runs), "PYTHONPATH": paths}) as one:
        monkeypatch.setenv("AIRFLOW_CONN_HOST", one.connection())
        yield one


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker waits itself, also on a busy machine."""
    monkeypatch.setattr(host_home, "PATIENCE_SECONDS", 3600.0)


@pytest.fixture
def impatient(patient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_home, "PATIENCE_SECONDS", 0.0)


def job_of(one: Asked) -> Job:
    return Job.of(one.task.folder, one.task.request.id)


def pid_of(one: Asked) -> int:
    while (found := job_of(one).document(job_of(one).process)) is None:
        time.sleep(0.05)
    return int(found["pid"])


def test_a_connection_cut_in_mid_apply_ends_no_work(
    server: Sshd, root: Path, runs: Path, gate: Path
) -> None:
    planned = asked(runs, "host", **hosts.plan(root, runs)).run()
    gate.touch()
    one = asked(runs, "host", **hosts.apply(planned, runs))
    done: list[Any] = []
    thread = threading.Thread(target=lambda: done.append(one.run()))
    thread.start()
    pid = pid_of(one)
    for _ in range(5):
        server.cut()
        time.sleep(0.2)
    assert members(pid)
    gate.unlink()
    thread.join()
    [result] = done
    assert result.runs[0].outcomes == {"done": 1}
    assert (root / WRONG).exists()


@pytest.mark.full(5)
def test_the_next_try_attaches(
    server: Sshd, root: Path, runs: Path, gate: Path, impatient: None
) -> None:
    gate.touch()
    first, second = (asked(runs, "host", **hosts.plan(root, runs)) for _ in range(2))
    with pytest.raises(TaskDeferred):
        first.run()
    pid = pid_of(first)
    with pytest.raises(TaskDeferred) as waits:
        second.run()
    assert pid_of(second) == pid
    assert members(pid)
    gate.unlink()
    event_of(waits.value.trigger)
    assert second.resumed().plan
    assert not members(pid)
    assert not job_of(second).folder.exists()


def held_up(root: Path, runs: Path, gate: Path) -> tuple[Asked, HostTrigger]:
    """Ask for a plan that a gate holds up on the host. Return it, and the trigger that waits for it."""
    gate.touch()
    one = asked(runs, "host", **hosts.plan(root, runs))
    with pytest.raises(TaskDeferred) as waits:
        one.run()
    trigger = waits.value.trigger
    assert isinstance(trigger, HostTrigger)
    return one, trigger


@pytest.mark.full(5)
def test_a_task_that_a_person_ends_while_it_waits_ends_the_work(
    server: Sshd, root: Path, runs: Path, gate: Path, impatient: None
) -> None:
    one, trigger = held_up(root, runs, gate)
    pid = pid_of(one)
    loops.run(trigger.on_kill())
    assert members(pid) == []
    assert job_of(one).state() == "lost"


def waits_for(conn_id: str) -> HostTrigger:
    ask = Ask(do="look", id="d/r", folder=Path("/r")).model_dump(mode="json")
    return HostTrigger(kind="ssh", conn_id=conn_id, ask=ask, until_ms=2**62, live="")


@pytest.mark.parametrize("slow", ["host_at", "ask"])
def test_a_wait_that_is_cancelled_tells_why(monkeypatch: pytest.MonkeyPatch, slow: str) -> None:
    """Airflow calls `on_kill` only then, at whatever moment of a question a person ends the task."""
    asks = threading.Event()

    def asking(*_: Any) -> Any:
        asks.set()
        time.sleep(0.2)
        return Answering(__version__)

    if slow == "host_at":
        monkeypatch.setattr(waiting, "host_at", asking)
    else:
        monkeypatch.setattr(waiting, "host_at", lambda *_: Answering(__version__))
        monkeypatch.setattr(Answering, "ask", asking)

    async def cancelled() -> Any:
        task = asyncio.ensure_future(anext(waits_for("h").run()))
        while not asks.is_set():
            await asyncio.sleep(0.01)
        task.cancel("a person")
        with pytest.raises(asyncio.CancelledError) as why:
            await task
        return why.value.args

    assert loops.run(cancelled()) == ("a person",)


def test_the_end_of_the_work_is_asked_for_though_airflow_cancels_that_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Airflow 3.3 cancels `on_kill` a second after it has called it."""
    begun, asks = threading.Event(), threading.Event()

    def reading(*_: Any) -> Any:
        begun.set()
        time.sleep(0.2)
        return Answering(__version__)

    monkeypatch.setattr(waiting, "host_at", reading)
    monkeypatch.setattr(Answering, "ask", lambda *_: asks.set())

    async def cancelled() -> bool:
        task = asyncio.ensure_future(waits_for("h").on_kill())
        await asyncio.to_thread(begun.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await asyncio.to_thread(asks.wait, 20)

    assert loops.run(cancelled())


def test_the_end_of_the_work_is_asked_for_again_after_a_lost_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asks: list[str] = []

    def lost(_: Any, ask: Ask, *_more: Any) -> Any:
        asks.append(ask.do)
        if len(asks) < 3:
            raise Unreached("the connection was lost")

    monkeypatch.setattr(job_hosts, "PAUSES", (0.0,) * 3)
    monkeypatch.setattr(Answering, "ask", lost)
    monkeypatch.setattr(waiting, "host_at", lambda *_: Answering(__version__))
    loops.run(waits_for("h").on_kill())
    assert asks == ["cancel"] * 3


def test_hosts_that_do_not_answer_hold_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look waits for all others: that ends if each has a thread."""
    together = threading.Barrier(40, timeout=120)

    def ask(*_: Any) -> Answer:
        together.wait()
        return Answer(kafkats=__version__, state="ended")

    monkeypatch.setattr(Answering, "ask", ask)
    monkeypatch.setattr(waiting, "host_at", lambda *_: Answering(__version__))

    async def looks() -> list[Any]:
        return await asyncio.gather(*(anext(waits_for("h").run()) for _ in range(40)))

    assert {str(one.payload) for one in loops.run(looks())} == {"{'why': 'ended'}"}


@pytest.mark.parametrize(
    ("do", "seconds"),
    [("look", job_hosts.LOOKS_SECONDS), ("cancel", job_hosts.LOOKS_SECONDS), ("begin", 600.0)],
)
def test_only_a_message_that_reads_files_may_take_long(do: Any, seconds: float) -> None:
    host = Answering(__version__)
    with pytest.raises(UsageError):
        host.ask(Ask(do=do, id="d/r", folder=Path("/r")))
    assert host.waits == seconds


def test_a_task_that_is_resumed_ends_its_work_whatever_can_be_read_of_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks: list[Ask] = []
    monkeypatch.setattr(Answering, "ask", lambda _, ask, *_more: asks.append(ask))
    one = asked(tmp_path, "h", verb="census", options={"Report": {"report": str(tmp_path / "r")}})
    one.home._host = Answering(__version__)
    with pytest.raises(AirflowTaskTimeout):
        one.resumed("timeout")
    assert not asks  # the operator catches it, and ends the work once
    unreadable = StorageFailed("Stale file handle", path=tmp_path)
    monkeypatch.setattr(host_home, "parcel_of", lambda *_: raises(unreadable))
    with pytest.raises(StorageFailed):
        one.resumed()
    one.home.end()
    assert [(ask.do, ask.id, ask.folder) for ask in asks] == [
        ("cancel", one.task.request.id, tmp_path)
    ]


def raises(error: Exception) -> Any:
    raise error


@pytest.mark.full(5)
def test_after_the_time_limit_the_work_is_ended(
    server: Sshd, root: Path, runs: Path, gate: Path, impatient: None
) -> None:
    one, trigger = held_up(root, runs, gate)
    pid = pid_of(one)
    _, given = trigger.serialize()
    assert event_of(HostTrigger(**given | {"until_ms": 1})) == {"why": "timeout"}
    with pytest.raises(AirflowTaskTimeout):
        one.resumed("timeout")
    one.home.end()  # as the operator does
    assert members(pid) == []


@pytest.mark.full(5)
def test_the_wait_ends_with_the_work_and_each_look_is_a_sign_of_life(
    server: Sshd, root: Path, runs: Path, gate: Path, impatient: None
) -> None:
    one, trigger = held_up(root, runs, gate)
    os.utime(job_of(one).alive, (1, 1))
    gate.unlink()
    assert event_of(trigger) == {"why": "ended"}
    assert job_of(one).alive.stat().st_mtime > 1
    assert one.resumed().plan


def event_of(trigger: Any) -> Any:
    async def first() -> Any:
        return await anext(trigger.run())

    return loops.run(first()).payload


@pytest.mark.full(5)
def test_work_that_was_killed_is_finished_by_the_next_try(
    server: Sshd, root: Path, runs: Path, gate: Path
) -> None:
    planned = asked(runs, "host", **hosts.plan(root, runs)).run()
    gate.touch()
    one = asked(runs, "host", **hosts.apply(planned, runs))
    thread = threading.Thread(target=lambda: one.home.run(one.task))
    thread.start()
    for pid in members(pid_of(one)):
        os.kill(pid, 9)
    thread.join()
    assert not one.task.files.result.exists()
    gate.unlink()
    again = asked(runs, "host", **hosts.apply(planned, runs)).run()
    assert again.runs[0].outcomes == {"done": 1}


@pytest.mark.full(5)
@pytest.mark.parametrize(
    ("extra", "error", "why"),
    [
        ({"host_key": None}, UsageError, "its host key is not known"),
        ({"host_key": "another"}, UsageError, "its host key differs"),
        ({"key_file": "/nowhere/key"}, UsageError, "No such file"),
        ({"kafkats_host": "/nowhere/kafkats-host"}, UsageError, "gives no answer"),
        ({"kafkats_host": "echo {}"}, UsageError, "gives no answer"),
        ({"kafkats_host": "true; touch TRAP"}, UsageError, "gives no answer"),
        ({"kafkats_host": "$(touch TRAP)"}, UsageError, "gives no answer"),
        ({"kafkats_host": f"{COMMAND} | touch TRAP"}, UsageError, "not a number of bytes: . touch"),
    ],
)
def test_a_host_that_is_not_the_one_that_was_meant_gets_nothing(
    server: Sshd, root: Path, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    extra: dict[str, Any], error: type[Exception], why: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("HOME", str(tmp_path))
    trap = tmp_path / "trap"
    given = {
        name: one.replace("TRAP", str(trap)) if isinstance(one, str) else one
        for name, one in extra.items()
    }
    if extra.get("host_key") == "another":
        given["host_key"] = " ".join((server.folder / "key.pub").read_text().split()[:2])
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", server.connection(**given))
    with pytest.raises(error, match=why):
        asked(runs, "other", **hosts.plan(root, runs)).run()
    assert not list(runs.glob(".jobs/*/*"))
    assert not trap.exists()


@pytest.mark.full(5)
def test_host_keys_are_not_checked_if_the_connection_says_so(
    server: Sshd, root: Path, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(
        "AIRFLOW_CONN_OTHER", server.connection(host_key=None, no_host_key_check=True)
    )
    assert asked(runs, "other", **hosts.plan(root, runs)).run().plan


PROXY = """
import os, select, socket, sys
there = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
ends = {0: there.fileno(), there.fileno(): 1}
while True:
    for one in select.select([*ends], [], [])[0]:
        piece = os.read(one, 65536)
        if not piece:
            sys.exit()
        os.write(ends[one], piece)
"""
"""What `nc HOST PORT` does."""


def test_each_message_has_a_proxy_command_of_its_own(
    server: Sshd, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (proxy := tmp_path / "proxy.py").write_text(PROXY)
    (tmp_path / ".ssh").mkdir()
    command = f"{sys.executable} {proxy} {server.port}"
    (tmp_path / ".ssh" / "config").write_text(f"Host 127.0.0.1\n  ProxyCommand {command}\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    made = ssh_host.SshHost("host")
    for _ in range(2):
        assert made.ask(Ask(do="look", id="d/r", folder=runs)).state == "none"


@pytest.mark.full(5)
def test_a_host_that_is_off_may_be_tried_again(
    runs: Path, root: Path, server: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = loads(server.connection()) | {"port": 1}
    monkeypatch.setenv("AIRFLOW_CONN_OFF", json.dumps(content))
    with pytest.raises(Unreached) as lost:
        asked(runs, "off", **hosts.plan(root, runs)).run()
    assert lost.value.retryable


@pytest.mark.parametrize("seconds", [-1, "nan", "inf", "soon"])
def test_a_time_that_is_none_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, seconds: float | str
) -> None:
    content = {"conn_type": "ssh", "host": "h", "extra": {"kafkats_silence_seconds": seconds}}
    monkeypatch.setenv("AIRFLOW_CONN_OFF", json.dumps(content))
    with pytest.raises(UsageError, match=f"the connection 'off': .*{seconds}"):
        ssh_host.SshHost("off")


class Answering(Host):
    """A host whose kafkats is of this version, and refuses everything."""

    name, remedy = "h", ""

    def __init__(self, version: str) -> None:
        error = Failure.of(UsageError("options.of_tomorrow: unknown key"))
        self.answer = Answer(kafkats=version, error=error)

    @contextmanager
    def started(self, message: IO[bytes], size: int, seconds: float) -> Generator[Program]:
        self.waits = seconds
        write_message(stream := io.BytesIO(), self.answer)
        stream.seek(0)
        yield Program(stream, str)


@pytest.mark.parametrize(
    ("version", "named"), [("0.0.1", "h, with kafkats 0.0.1"), (__version__, "h")]
)
def test_a_refusal_names_the_version_of_the_host_if_it_is_another(version: str, named: str) -> None:
    with pytest.raises(UsageError) as refused:
        Answering(version).ask(Ask(do="look", id="d/r", folder=Path("/r")))
    assert str(refused.value) == f"{named}: options.of_tomorrow: unknown key"


def test_a_missing_provider_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "airflow.providers.ssh.hooks.ssh", None)
    with pytest.raises(UsageError, match=r"pip install 'kafkats\[ssh\]'"):
        providers.hook_class("ssh")


def test_hostile_names_of_paths_and_topics_reach_no_shell(
    server: Sshd, tmp_path: Path, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = tmp_path / "trap"
    hostile = damaged(tmp_path / f"a'b\"c $(touch {trap.name}); `id` | é" / "data")
    monkeypatch.chdir(tmp_path)
    fields = hosts.plan(hostile, runs)
    fields["options"]["Topics"] = {"topics": "lz4-ct*"}
    fields["options"]["PlanFolder"]["into"] = str(runs / "d" / "it's $(touch trap); g")
    result = asked(runs, "host", **fields).run()
    assert result.plan
    assert result.plan.totals["files"] == 1
    assert not trap.exists()
    assert "trap" not in server.log()


@pytest.mark.full(5)
def test_nothing_secret_is_on_a_command_line_or_in_a_message(
    server: Sshd,
    root: Path,
    runs: Path,
    gate: Path,
    impatient: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = loads(server.connection()) | {"password": "planted-secret"}
    monkeypatch.setenv("AIRFLOW_CONN_HOST", json.dumps(content))
    one, trigger = held_up(root, runs, gate)
    told = repr(trigger.serialize()) + server.log()
    for path in [*Path("/proc").glob("[0-9]*/cmdline"), *runs.rglob("*")]:
        try:
            told += path.read_bytes().decode(errors="replace") if path.is_file() else ""
        except OSError:
            continue
    assert "planted-secret" not in told
    one.home.end()


@pytest.fixture
def fleet(
    tmp_path: Path, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str, Path], None]]:
    """Starts a host of its own with a disk at `disk` and a folder of runs of its own."""
    (tmp_path / "disk").mkdir()
    with ExitStack() as stack:

        def start(name: str, disk: Path) -> None:
            (own := tmp_path / name / "runs").mkdir(parents=True)
            inside = apart(name, (disk, tmp_path / "disk"), (own, runs))
            server = sshd(tmp_path / name / "sshd", {"KAFKATS_FOLDER": str(runs)}, inside)
            conn = stack.enter_context(server).connection()
            monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", conn)

        yield start


@pytest.mark.full(5)
@pytest.mark.root("makes hosts in namespaces")
def test_a_plan_of_another_disk_is_refused(
    fleet: Callable[[str, Path], None], tmp_path: Path, runs: Path
) -> None:
    for name in ("one", "two"):
        own = damaged(tmp_path / f"disk-{name}" / "data")
        if name == "two":
            meta = own / "meta.properties"
            meta.write_text(meta.read_text().replace("node.id=1", "node.id=2"))
        fleet(name, own.parent)
    planned = asked(runs, "one", **hosts.plan(tmp_path / "disk" / "data", runs)).run()
    applied = asked(runs, "two", **hosts.apply(planned, runs)).run()
    assert applied.error
    assert issubclass(type(applied.error.as_error()), Refused)
    assert not list((tmp_path / "disk-two").rglob(WRONG))
    assert asked(runs, "one", **hosts.apply(planned, runs)).run().ended == "fine"
    assert list((tmp_path / "disk-one").rglob(WRONG))


@pytest.mark.full(5)
@pytest.mark.root("makes hosts in namespaces")
def test_a_disk_without_room_is_named_and_left_as_it_is(
    fleet: Callable[[str, Path], None], tmp_path: Path, runs: Path
) -> None:
    (small := tmp_path / "small").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", small], check=True)
    try:
        own = damaged(small / "data")
        fleet("one", small)
        planned = asked(runs, "one", **hosts.plan(tmp_path / "disk" / "data", runs)).run()
        with (
            (small / "filler").open("wb", buffering=0) as filler,
            pytest.raises(OSError, match="No space"),
        ):
            while True:
                filler.write(bytes(4096))
        applied = asked(runs, "one", **hosts.apply(planned, runs)).run()
        assert applied.ended == "failed"
        told = repr(applied.runs) + repr(applied.error)
        assert DiskFull.__name__ in told
        assert not (own / WRONG).exists()
        (small / "filler").unlink()
        assert asked(runs, "one", **hosts.apply(planned, runs)).run().ended == "fine"
        assert (own / WRONG).exists()
    finally:
        subprocess.run(["umount", "-l", small], check=True)
