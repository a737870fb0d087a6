"""A run's folder is removed whole or not at all, whatever happens meanwhile."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from kafkats_airflow.tasks.removal import REMOVED, REMOVING, give_back, remove, resume, tree_of

from kafkats.errors import Changed, KafkatsError, Refused

EFFECTS = ("rename", "unlink", "rmdir")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A folder with what a run leaves, a link out of it, and a file beside it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "precious").write_text("kept")
    folder = tmp_path / "dag" / "run"
    (folder / "spark" / "plan-1").mkdir(parents=True)
    (folder / "report.json").write_text("{}")
    (folder / "spark" / "plan-1" / "plan.json").write_text("{}")
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / "spark" / "file-link").symlink_to(tmp_path / "outside" / "precious")
    return folder


def outside(run: Path) -> str:
    return (run.parents[1] / "outside" / "precious").read_text()


def test_a_link_goes_and_its_target_stays(run: Path) -> None:
    tree = tree_of(run)
    assert {str(path) for path in tree.files} == {"report.json", "spark/plan-1/plan.json"}
    assert tree.bytes == 4
    remove(run, tree.digest)
    assert (list(run.parent.iterdir()), outside(run)) == ([], "kept")


def test_a_link_in_place_of_the_folder(run: Path) -> None:
    digest = tree_of(run).digest
    run.rename(run.with_name("moved"))
    run.symlink_to(run.with_name("moved"))
    with pytest.raises(Refused, match="a link"):
        remove(run, digest)
    assert tree_of(run.with_name("moved")).digest == digest


def written(run: Path) -> None:
    (run / "spark" / "new").write_text("by a run that was cleared")


def rewritten(run: Path) -> None:
    (run / "report.json").write_text("[]")


def replaced(run: Path) -> None:
    (run / "link").unlink()
    (run / "link").mkdir()


@pytest.mark.parametrize("change", [written, rewritten, replaced])
def test_what_has_changed_stays_under_its_name(run: Path, change: Any) -> None:
    digest = tree_of(run).digest
    change(run)
    now = tree_of(run).digest
    with pytest.raises(Changed, match="is kept"):
        remove(run, digest)
    assert tree_of(run).digest == now
    assert os.listdir(run.parent) == ["run"]


def killed(run: Path, digest: str, effect: int) -> bool:
    """Remove in a process that is killed before its effect of this number; whether it was."""
    pid = os.fork()
    if not pid:
        left = [effect]

        def counted(do: Any) -> Any:
            def effect_or_death(*args: Any, **more: Any) -> Any:
                if not left[0]:
                    os.kill(os.getpid(), signal.SIGKILL)
                left[0] -= 1
                return do(*args, **more)

            return effect_or_death

        for name in EFFECTS:
            setattr(os, name, counted(getattr(os, name)))
        try:
            remove(run, digest)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


@pytest.mark.forks
def test_a_kill_at_any_effect(tmp_path: Path, run: Path) -> None:
    """The next run leaves the folder as it was under its name, or nothing of it."""
    digest, ends = tree_of(run).digest, []
    for effect in range(100):
        if not killed(run, digest, effect):
            break
        resume(run.parent)
        assert [name for name in os.listdir(run.parent) if name.startswith(".")] == []
        assert outside(run) == "kept"
        ends.append(run.exists())
        if run.exists():
            assert tree_of(run).digest == digest
        else:
            os.makedirs(run / "spark" / "plan-1")
            (run / "report.json").write_text("{}")
            (run / "spark" / "plan-1" / "plan.json").write_text("{}")
            (run / "link").symlink_to(tmp_path / "outside")
            (run / "spark" / "file-link").symlink_to(tmp_path / "outside" / "precious")
            digest = tree_of(run).digest
    # before both renames it is whole; then four files and links, and three folders, go
    assert ends[:2] == [True, True] and not any(ends[2:])
    assert len(ends) == 2 + 4 + 3
    assert not run.exists()


def test_a_name_that_was_taken_meanwhile(run: Path) -> None:
    aside = run.rename(run.with_name(REMOVING + "run"))
    run.mkdir()
    with pytest.raises(Refused, match="began anew"):
        give_back(aside)
    with pytest.raises(Refused):
        resume(run.parent)
    assert (aside / "report.json").exists() and not any(run.iterdir())


def test_only_folders_are_resumed(run: Path) -> None:
    (run.parent / f"{REMOVED}link").symlink_to(run)
    (run.parent / f"{REMOVING}file").write_text("somebody's")
    assert resume(run.parent) == []
    assert sorted(os.listdir(run.parent)) == [f"{REMOVED}link", f"{REMOVING}file", "run"]


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(KafkatsError, match="looking at a run's folder"):
        remove(tmp_path / "gone", "")


@pytest.mark.root("mounts a file system")
def test_another_file_system_in_it(run: Path) -> None:
    import subprocess

    (run / "mounted").mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "none", run / "mounted"], check=False).returncode:
        pytest.skip("mount is not allowed here")
    try:
        tree = tree_of(run)
        assert tree.foreign == str(run / "mounted")
        with pytest.raises(Changed):
            remove(run, tree.digest)
        assert run.exists()
    finally:
        subprocess.run(["umount", run / "mounted"], check=True)
