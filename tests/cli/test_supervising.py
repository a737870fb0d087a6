"""A child that does the work: its output, its end, and the end of its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kafkats.cli import supervising
from kafkats.cli.supervising import NOT_FOUND, NOT_RUN, become, in_a_child

SECONDS = 60


def gone(pid: int) -> bool:
    """Whether a process ends soon."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


def test_a_child_returns_what_its_work_returns() -> None:
    assert in_a_child(lambda: b"x" * 300_000, SECONDS) == (b"x" * 300_000, "")


def test_a_child_that_raises(capfd: pytest.CaptureFixture[str]) -> None:
    child = in_a_child(lambda: 1 // 0 * b"", SECONDS)
    assert (child.output, child.failure) == (b"", "its process ended with 1")
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_a_child_that_is_killed() -> None:
    def work() -> bytes:
        os.kill(os.getpid(), signal.SIGKILL)
        return b""

    assert in_a_child(work, SECONDS).failure == "its process was ended by signal 9"


def test_a_child_that_hangs_is_killed_with_what_it_started(tmp_path: Path) -> None:
    def work() -> bytes:
        started = subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({SECONDS})"])
        (tmp_path / "pid").write_text(str(started.pid))
        time.sleep(SECONDS)
        return b""

    for seconds in (1.0, 5.0, 25.0):  # a busy machine starts a process late
        assert in_a_child(work, seconds).failure == "the time was up"
        if (tmp_path / "pid").exists():
            break
    assert gone(int((tmp_path / "pid").read_text()))


def test_a_time_without_end() -> None:
    assert in_a_child(lambda: b"x", 1e9) == (b"x", "")


def test_a_child_ends_if_its_parent_cannot_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_reading: int, _until: float) -> tuple[bytes, bool]:
        raise OverflowError

    def work() -> bytes:
        time.sleep(SECONDS)
        return b""

    monkeypatch.setattr(supervising, "_read_until", fail)
    killed: list[int] = []
    kill = supervising._kill

    def noted(pid: int) -> None:
        killed.append(pid)
        kill(pid)

    monkeypatch.setattr(supervising, "_kill", noted)
    with pytest.raises(OverflowError):
        in_a_child(work, SECONDS)
    assert gone(killed[0])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_child_ends_with_its_parent(tmp_path: Path, number: int) -> None:
    program = f"""
import os, time
from pathlib import Path
from kafkats.cli import supervising
from kafkats.cli.supervising import in_a_child
def work():
    Path({str(tmp_path / "new")!r}).write_text(str(os.getpid()))
    os.rename({str(tmp_path / "new")!r}, {str(tmp_path / "pid")!r})
    time.sleep({SECONDS})
in_a_child(work, {SECONDS})
"""
    parent = subprocess.Popen([sys.executable, "-c", program])
    until = time.monotonic() + SECONDS
    while not (tmp_path / "pid").exists() and time.monotonic() < until:
        time.sleep(0.01)
    parent.send_signal(number)
    assert parent.wait(SECONDS) == (128 + number if number == signal.SIGTERM else -number)
    assert gone(int((tmp_path / "pid").read_text()))


def test_a_command_that_cannot_be_run(tmp_path: Path) -> None:
    assert become([str(tmp_path / "none")], {}) == NOT_FOUND
    (tmp_path / "plain").write_text("x")
    assert become([str(tmp_path / "plain")], {}) == NOT_RUN


def test_a_command_gets_the_signals_as_a_shell_gives_them() -> None:
    program = (
        "from kafkats.cli.supervising import become;"
        "become(['sh', '-c', 'grep SigIgn /proc/self/status'], {'PATH': '/bin:/usr/bin'})"
    )
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    ignored = int(done.stdout.split()[1], 16)
    assert not ignored & (1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1))


def run_python(program: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", program]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=SECONDS)


def test_a_signal_that_is_ignored_ends_neither_parent_nor_child() -> None:
    """As behind nohup: the terminal goes, and the broker has to start all the same."""
    done = run_python("""
import os, signal
from kafkats.cli.supervising import in_a_child
def work():
    os.kill(os.getpid(), signal.SIGHUP)
    os.kill(os.getppid(), signal.SIGHUP)
    return b"done"
signal.signal(signal.SIGHUP, signal.SIG_IGN)
print(in_a_child(work, 60).output)
""")
    assert (done.returncode, done.stdout) == (0, "b'done'\n"), done.stderr


def test_the_end_of_a_child_is_seen_where_children_are_ignored() -> None:
    """As behind `trap '' CHLD`: the command gets what this process got."""
    done = run_python("""
import signal
from kafkats.cli.supervising import become, in_a_child
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print(in_a_child(lambda: b"x", 60))
become(["grep", "SigIgn", "/proc/self/status"], {"PATH": "/bin:/usr/bin"})
""")
    child, ignored = done.stdout.splitlines()
    assert child == "Child(output=b'x', failure='')", done.stderr
    assert int(ignored.split()[1], 16) & 1 << (signal.SIGCHLD - 1)


@pytest.mark.parametrize(
    "moment",
    [
        "",
        "from kafkats.cli import supervising as where; name = '_reaped'",
        "from kafkats.cli import recovering as where; name = '_become'",
    ],
    ids=["importing", "the child has ended", "before the command"],
)
def test_a_signal_ends_the_recovery_at_any_moment(tmp_path: Path, moment: str) -> None:
    """The first process of a container gets no signal that it does not handle."""
    done = run_python(f"""
import os, signal, sys
from kafkats.__main__ import main
class Found:
    def find_spec(name, path, target=None):
        if name == "kafkats.cli.recovering":
            end()
def end(*_):
    handler = signal.getsignal(signal.SIGTERM)
    os.write(1, b"handled" if callable(handler) else b"dropped")
    os.kill(os.getpid(), signal.SIGTERM)
name = ""
{moment}
if name:
    setattr(where, name, end)
else:
    sys.meta_path.insert(0, Found)
sys.argv = ["kafkats", "recover", {str(tmp_path / "none")!r}, "--kafka", "4.3", "--", "echo"]
main()
""")
    assert (done.returncode, done.stdout) == (143, "handled"), done.stderr
