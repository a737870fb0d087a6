"""purge and undo begin with no block and no inode free, killed at every effect, as root and as the log dir's owner."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from kafkats.cli import main
from kafkats.errors import KafkatsError, Refused
from kafkats.logdir.changeset import Outcome, commit, purge, resume, undo
from kafkats.logdir.disk import DISK, Disk
from kafkats.logdir.journal import read_journal, write_journal
from kafkats.logdir.workarea import Site, WorkArea, work_area
from tests.crash.commands import fill, kafkats, room, small_disk
from tests.crash.killed import killed_at
from tests.crash.migration import contents, good, log_dir
from tests.crash.real import become, make_area
from tests.crash.scene import (
    PARTITION,
    RUN,
    SCENES,
    begin,
    change,
    check_never_stale,
    check_nothing_lost,
    look,
)

NOBODY = 65534
LINKED = [scene for scene in SCENES if scene != "copied"]

pytestmark = [pytest.mark.root("mounts a file system"), pytest.mark.forks]
users = pytest.mark.parametrize(
    ("uid", "older"), [(0, False), (NOBODY, False), (NOBODY, True)], ids=["root", "nobody", "older"]
)
either = pytest.mark.parametrize("uid", [0, NOBODY], ids=["root", "nobody"])


@contextmanager
def disk_of(uid: int, size: str = "256k", inodes: int = 120) -> Generator[Path]:
    """pytest's own directories are closed to other users."""
    with TemporaryDirectory() as base:
        os.chmod(base, 0o755)
        with small_disk(Path(base, "disk"), size, inodes, uid) as disk:
            yield disk


@contextmanager
def being(uid: int) -> Generator[None]:
    """This process belongs to the user meanwhile: a copy of it costs 20 ms, and only what is killed needs one."""
    groups = os.getgroups()
    os.setgroups([])
    os.setresgid(uid, uid, 0)
    os.setresuid(uid, uid, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)
        os.setgroups(groups)


def area_of(disk: Path, scene: str) -> WorkArea:
    return work_area(disk / "kafka-logs")._replace(linked=scene != "copied")


def run_of(area: WorkArea) -> Site:
    return Site(area, PARTITION, RUN)


def committed(disk: Path, scene: str, older: bool = False) -> None:
    """The disk with a partition that was changed and nothing free."""
    make_area(disk, scene, xattrs=False)
    area = area_of(disk, scene)
    change(scene, area, DISK)
    if older:  # a kafkats that had one file for all phases
        journal = read_journal(run_of(area), DISK)
        assert journal
        write_journal(run_of(area), journal, DISK)
        (run_of(area).run / "journal.done").unlink()
    fill(disk)


def clear(disk: Path) -> None:
    for path in disk.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def until_not_killed(disk: Path) -> Iterator[tuple[int, Callable[[int], None]]]:
    """Numbers of effects, and what is to be told how each ended; the disk is empty each time."""
    ended: list[int] = []
    for n in itertools.count():
        clear(disk)
        yield n, ended.append
        assert ended[n] in (0, -signal.SIGKILL)
        if not ended[n]:
            return


@pytest.mark.examples(5)
@users
@pytest.mark.parametrize("scene", SCENES)
def test_purge(scene: str, older: bool, uid: int) -> None:
    with disk_of(uid) as disk:
        for n, tell in until_not_killed(disk):
            with being(uid):
                committed(disk, scene, older)
            area = area_of(disk, scene)
            after, kept = look(area, DISK), set(os.listdir(run_of(area).undo))
            assert room(disk) == (0, 0)
            tell(killed_at(n, purge, area, PARTITION, RUN, uid=uid))
            journal = read_journal(run_of(area), DISK)
            ended = journal is not None and journal.phase == "purged"
            assert ended or set(os.listdir(run_of(area).undo)) == kept, (
                "what can be undone is all there"
            )
            assert look(area, DISK) == after
            with being(uid):
                purge(area, PARTITION, RUN)
            assert look(area, DISK) == after
            assert os.listdir(run_of(area).run) == ["journal.purged"]
            assert min(room(disk)) > 0
            with pytest.raises(Refused, match="closed"):
                undo(area, PARTITION, RUN)
    assert n > len(kept), "at least the files were removed one by one"


@pytest.mark.examples(3)
@users
@pytest.mark.parametrize("scene", LINKED)
def test_undo(scene: str, older: bool, uid: int) -> None:
    with disk_of(uid) as disk:
        with being(uid):
            make_area(disk, scene, xattrs=False)
        before = look(area_of(disk, scene), DISK)
        for n, tell in until_not_killed(disk):
            with being(uid):
                committed(disk, scene, older)
            area = area_of(disk, scene)
            tell(killed_at(n, undo, area, PARTITION, RUN, uid=uid))
            check_never_stale(scene, area, DISK)
            check_nothing_lost(scene, area, DISK)
            if n % 2:
                with being(uid):
                    resume(area, PARTITION, RUN)
            with being(uid):
                undo(area, PARTITION, RUN)
            assert look(area, DISK) == before
            assert os.listdir(run_of(area).run) == ["journal.undone"]
    assert n > len(SCENES[scene])


@pytest.mark.slow(1)
@pytest.mark.examples(2)
@either
@pytest.mark.parametrize("scene", LINKED)
def test_a_commit_that_was_killed_is_undone_or_abandoned(scene: str, uid: int) -> None:
    """Wherever it was, and then the disk filled up."""
    with disk_of(uid) as disk:
        for n, tell in until_not_killed(disk):
            with being(uid):
                make_area(disk, scene, xattrs=False)
            area = area_of(disk, scene)
            before = look(area, DISK)
            tell(killed_at(n, change, scene, area, uid=uid))
            now = look(area, DISK)
            with being(uid):
                fill(disk)
            if read_journal(run_of(area), DISK) is None:
                assert now == before, "nothing was changed: there is nothing to be undone"
            elif n % 2:
                with being(uid):
                    purge(area, PARTITION, RUN, abandon=True)
                assert look(area, DISK) == now
            else:
                with being(uid):
                    undo(area, PARTITION, RUN)
                assert look(area, DISK) == before
    assert n > 30


class WithoutRoom(Disk):
    """Room for no new file, whatever is removed: somebody else takes it at once."""

    def write(self, path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("end", [undo, purge])
def test_an_attempt_that_was_undone_without_room_for_a_lease_changes_nothing(
    scene: str, end: Callable[..., Outcome], tmp_path: Path
) -> None:
    make_area(tmp_path, scene, xattrs=False)
    area = area_of(tmp_path, scene)
    before = look(area, DISK)
    changes, unchanged, lease = begin(scene, area, DISK)
    for _ in range(2):
        assert end(area, PARTITION, RUN, disk=WithoutRoom()).state == "nothing"
    with pytest.raises(KafkatsError):
        commit(area.root / PARTITION, changes, unchanged, lease)
    assert look(area, DISK) == before
    change(scene, area, DISK)
    assert look(area, DISK) != before


# The commands


@pytest.fixture(scope="module")
def _loaded(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Have every module here already: the commands are copies of this process, of a user who may not read ours."""
    base = tmp_path_factory.mktemp("loaded")
    root, plan = log_dir(base / "data", {"t-0": [(0, good(0))]}), base / "plan"
    for words in (
        ("plan", "migrate", root, "--to-magic", 2, "-o", plan), ("apply", plan, "--digest", "any"),
        ("undo", f"{plan}.run"), ("purge", f"{plan}.run"),
    ):  # fmt: skip
        with (
            pytest.raises(SystemExit) as end,
            redirect_stdout(StringIO()),
            redirect_stderr(StringIO()),
        ):
            main([*map(str, words)])
        assert end.value.code == 0, words


@pytest.mark.examples(1)
@either
@pytest.mark.usefixtures("_loaded")
@pytest.mark.parametrize("verb", ["purge", "undo"])
def test_the_command(verb: str, uid: int) -> None:
    """The run's own folder lies on the full disk as well."""
    with disk_of(uid, "4m", 400) as disk:
        me = become(uid)
        root = log_dir(
            disk / "data", {f"t-{n}": [(base, good(base)) for base in (0, 22)] for n in range(3)}
        )
        for path in (root, *root.rglob("*")):
            os.chown(path, uid, uid)
        before, plan = contents(root), disk / "plan"
        assert kafkats("plan", "migrate", root, "--to-magic", 2, "-o", plan, first=me).code == 0
        assert kafkats("apply", plan, "--digest", "any", first=me).code == 0
        after = contents(root)
        assert after != before
        with being(uid):
            fill(disk)
        ended = kafkats(verb, f"{plan}.run", first=me)
        assert ended.code == 0, ended.said
        assert contents(root) == (after if verb == "purge" else before)
        blocks, inodes = room(disk)
        assert blocks > 0 and inodes > 0
        assert kafkats(verb, f"{plan}.run", first=me).code == 0
        if verb == "purge":
            assert (disk / "plan.run" / "purge.json").exists()


@either
@pytest.mark.usefixtures("_loaded")
def test_purge_of_a_run_that_keeps_nothing(uid: int) -> None:
    """It frees nothing, so purge.json cannot be written: it says so, and that is no failure."""
    with disk_of(uid, "4m", 400) as disk:
        me = become(uid)
        root, plan = log_dir(disk / "data", {"t-0": [(0, good(0))]}), disk / "plan"
        for path in (root, *root.rglob("*")):
            os.chown(path, uid, uid)
        assert kafkats("plan", "migrate", root, "--to-magic", 2, "-o", plan, first=me).code == 0
        assert kafkats("apply", plan, "--digest", "any", first=me).code == 0
        assert kafkats("undo", f"{plan}.run", first=me).code == 0
        with being(uid):
            fill(disk)
        ended = kafkats("purge", f"{plan}.run", first=me)
        assert ended.code == 0 and "purge.json" in ended.said and "No space left" in ended.said, (
            ended.said
        )
