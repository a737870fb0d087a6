"""kill -9 while a partition is migrated, at its points and at any moment: apply, undo and purge, as the verbs call them.

Every STRIDE-th point is tried: KAFKATS_KILL_STRIDE=1 tries all (some minutes). What the
changeset does between them is tried at every point, with smaller files, in test_changeset_kill.py.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkats.cli import main
from tests.crash.migration import (
    INDEXES,
    SCENES,
    Files,
    apply,
    bytes_of,
    check_sound,
    check_undone,
    end,
    killed_at,
    look,
    make,
    unsynced,
    watched,
)
from tests.crash.real import fork
from tests.golden import Unpacked, partitions

pytestmark = pytest.mark.forks

scenes = pytest.mark.parametrize("name", SCENES)
STRIDE = int(os.environ.get("KAFKATS_KILL_STRIDE", "17"))
DICE = random.Random(4)
TURNS = max(6, 100 // STRIDE)


@pytest.fixture(scope="module")
def after(
    golden: Unpacked, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, bytes]]:
    """How each scene looks when it was applied without anybody killing it."""
    found = {}
    for name in SCENES:
        scene = make(golden, name, tmp_path_factory.mktemp(name))
        assert apply(scene) == {"done"}
        found[name] = bytes_of(look(scene.directory))
        assert end(scene, "undo")["outcome"] == "undone"
        check_undone(scene)
    return found


def points(act: Callable[[], object]) -> list[str]:
    """What is to be killed before, in order; `act` is done once for it."""
    found: list[str] = []
    with watched(
        lambda verb, *paths: found.append(f"{verb} {' -> '.join(Path(p).name for p in paths)}")
    ):
        act()
    return found


def some(every: list[str]) -> list[tuple[int, str]]:
    """Every STRIDE-th, with its number; -s prints what fails."""
    return list(enumerate(every))[DICE.randrange(STRIDE) :: STRIDE]


@pytest.mark.slow(14)
@scenes
def test_apply(
    golden: Unpacked, tmp_path: Path, after: dict[str, dict[str, bytes]], name: str
) -> None:
    every = points(lambda: apply(make(golden, name, tmp_path / "points")))
    assert any(point.startswith("write the rest of 0") for point in every)
    for n, point in some(every):
        print(f"{name}: apply killed before {point}")
        scene = make(golden, name, tmp_path / str(n), after[name])
        assert killed_at(n, lambda scene=scene: apply(scene))  # type: ignore[misc]
        check_sound(scene)
        if n % 2:  # the rerun finishes it; every other time undo takes it back at once
            assert apply(scene) <= {"done", "already"}
            assert bytes_of(look(scene.directory)) == scene.after
            assert not list(scene.run_folder.glob("staging-*"))
        assert end(scene, "undo")["error"] == ""
        check_undone(scene)


@scenes
def test_undo(
    golden: Unpacked, tmp_path: Path, after: dict[str, dict[str, bytes]], name: str
) -> None:
    first = make(golden, name, tmp_path / "points", after[name])
    apply(first)
    for n, point in some(points(lambda: end(first, "undo"))):
        print(f"{name}: undo killed before {point}")
        scene = make(golden, name, tmp_path / str(n), after[name])
        assert apply(scene) == {"done"}
        assert killed_at(n, lambda scene=scene: end(scene, "undo"))  # type: ignore[misc]
        check_sound(scene)
        said = (
            apply(scene) if n % 2 else set()
        )  # an apply in between finishes the undo, or finds all applied
        assert all(one == "already" or "was undone" in one for one in said)
        assert end(scene, "undo")["error"] == ""
        check_undone(scene)


@scenes
def test_purge(
    golden: Unpacked, tmp_path: Path, after: dict[str, dict[str, bytes]], name: str
) -> None:
    first = make(golden, name, tmp_path / "points", after[name])
    apply(first)
    for n, point in some(points(lambda: end(first, "purge"))):
        print(f"{name}: purge killed before {point}")
        scene = make(golden, name, tmp_path / str(n), after[name])
        apply(scene)
        applied = look(scene.directory)
        assert killed_at(n, lambda scene=scene: end(scene, "purge"))  # type: ignore[misc]
        assert look(scene.directory) == applied
        assert bytes_of(applied) == scene.after
        assert end(scene, "purge")["error"] == ""
        assert look(scene.directory) == applied
        assert os.listdir(scene.run_folder) == ["journal.purged"]
        assert apply(scene) == {"already"}
        assert "closed" in end(scene, "undo")["error"]


@scenes
def test_killed_while_it_builds_again_and_again(
    golden: Unpacked, tmp_path: Path, after: dict[str, dict[str, bytes]], name: str
) -> None:
    """A staged partition is as large as the live one: what killed attempts leave must not pile up."""
    every = points(lambda: apply(make(golden, name, tmp_path / "points")))
    last = max(n for n, point in enumerate(every) if point.startswith("close "))
    scene = make(golden, name, tmp_path / "scene", after[name])
    for attempt in range(1, 4):
        assert killed_at(last, lambda: apply(scene))
        check_sound(scene)
        assert [p.name for p in scene.run_folder.glob("staging-*")] == [f"staging-{attempt}"]
    if name == "up":
        assert apply(scene) == {"done"}
        assert os.listdir(scene.run_folder) != []
        assert end(scene, "undo")["outcome"] == "undone"
    else:
        assert end(scene, "undo")["outcome"] == "nothing"
    check_undone(scene)


def command(*words: object) -> int:
    """`kafkats ...` in a process of its own; the process id. It ends with the command's exit code."""

    def run() -> None:
        try:
            with unsynced():
                main([*map(str, words)])
        except SystemExit as e:
            sys.stdout.flush()
            os._exit(e.code if isinstance(e.code, int) else 1)

    return fork(run)


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.slow(3)
def test_at_any_moment_of_the_real_command(golden: Unpacked, tmp_path: Path) -> None:
    """Several partitions, the run's folder and its report; killed by the clock, finished or taken back by the next one."""
    root = tmp_path / "data"
    shutil.copytree(golden("upgrade-0.9-to-2.8", "data"), root)
    (root / ".lock").touch()
    before = {path: look(path) for path in partitions(root)}
    plan, run = tmp_path / "plan", tmp_path / "plan.run"

    def begin() -> int:
        shutil.rmtree(run, ignore_errors=True)
        for path in before:  # another ctime, another plan: that of a run that was undone is refused
            path.chmod(path.stat().st_mode)
        main_quietly("plan", "migrate", root, "--to-magic", 2, "-o", plan)
        return command("apply", plan, "--digest", "any")

    child, began = begin(), time.monotonic()
    assert ended(child) == 0
    seconds = time.monotonic() - began
    after = {path: bytes_of(look(path)) for path in before}
    assert all(before[path].keys() == after[path].keys() for path in before)
    assert ended(command("undo", run)) == 0
    killed = 0
    for turn in range(TURNS):
        child = begin()
        time.sleep(
            DICE.uniform(0, seconds) if turn else 0
        )  # one is killed, whatever the clock does
        os.kill(child, signal.SIGKILL)
        killed += ended(child) == -signal.SIGKILL
        for path in before:
            check_mixture(path, before[path], after[path])
        if turn % 2:
            assert ended(command("apply", plan, "--digest", "any")) == 0
            assert {path: bytes_of(look(path)) for path in before} == after
        if (run / "run.json").exists():
            child = command("undo", run)
            if turn % 3 == 0:
                time.sleep(DICE.uniform(0, seconds / 4))
                os.kill(child, signal.SIGKILL)
                ended(child)
                for path in before:
                    check_mixture(path, before[path], after[path])
                child = command("undo", run)
            assert ended(child) == 0
        else:  # killed before its folder: nothing was changed, but it may have reserved the log dir
            assert ended(command("release", root)) == 0
        assert {path: look(path) for path in before} == before
        assert {p.name for p in (tmp_path / ".kafkats").rglob("*") if p.is_file()} <= {
            "lock", "lease", "lease.new", "journal.undone", "journal.new",
            "reservation.lock", "reservation", "reservation.new", "writing.lock",
        }  # fmt: skip
    assert killed, "not once before it had ended"


def check_mixture(partition: Path, before: Files, after: dict[str, bytes]) -> None:
    """Old or new files, whole; only an index may be away; and none that is stale."""
    live = bytes_of(look(partition))
    old = bytes_of(before)
    for name in before:
        assert live.get(name) in (old[name], after[name]) or (
            name not in live and name.endswith(INDEXES)
        ), name
    for name in live:
        log = f"{name.partition('.')[0]}.log"
        if (
            name.endswith(INDEXES)
            and log in old
            and old[log] != after[log]
            and old[name] != after[name]
        ):
            assert (live[name] == after[name]) == (live[log] == after[log]), f"{name} is stale"


def main_quietly(*words: object) -> None:
    with pytest.raises(SystemExit) as end, contextlib.redirect_stdout(io.StringIO()):
        main([*map(str, words)])
    assert end.value.code == 0
