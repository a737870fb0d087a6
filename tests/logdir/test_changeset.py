from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from kafkats.errors import (
    BadInput,
    Changed,
    CorruptFile,
    Fenced,
    Locked,
    NotPermitted,
    Refused,
    StorageFailed,
    UsageError,
)
from kafkats.hashes import SHA256
from kafkats.logdir.changeset import commit, purge, resume, undo
from kafkats.logdir.disk import DISK, Disk
from kafkats.logdir.identity import FileIdentity, permitted
from kafkats.logdir.lease import claim
from kafkats.logdir.staging import Change, Remove, Replace, Truncate
from kafkats.logdir.workarea import ROOT, WorkArea, work_area
from tests.crash import memory
from tests.crash.real import fork, make_area
from tests.crash.scene import (
    CHANGE_LOGS,
    CUTS,
    LIVE,
    PARTITION,
    RUN,
    SCENES,
    A,
    B,
    begin,
    change,
    folder,
    look,
    new_bytes,
)

scenes = pytest.mark.parametrize("scene", SCENES)


def bytes_of(area: WorkArea) -> dict[str, bytes]:
    return {name: seen.data for name, seen in look(area, DISK).items()}


@scenes
def test_commit_undo_commit_purge(tmp_path: Path, scene: str) -> None:
    area = make_area(tmp_path, scene)
    before = look(area, DISK)
    inodes = {name: (folder(area) / name).stat().st_ino for name in before}

    assert change(scene, area, DISK).state == "committed"
    assert bytes_of(area) == new_bytes(scene)
    left = {name for name in os.listdir(folder(area)) if not area.linked and "~undo~" not in name}
    assert (left or set(os.listdir(folder(area)))) == set(new_bytes(scene)), (
        "something of ours was left in there"
    )

    assert undo(area, PARTITION, RUN).state == "undone"
    assert look(area, DISK) == before
    assert {name: (folder(area) / name).stat().st_ino for name in before} == inodes
    assert undo(area, PARTITION, RUN).state == "already"
    with pytest.raises(Refused, match="undone"):
        change(scene, area, DISK)
    assert look(area, DISK) == before


@scenes
def test_a_second_commit_and_a_resume_change_nothing(tmp_path: Path, scene: str) -> None:
    area = make_area(tmp_path, scene)
    changes, unchanged, lease = begin(scene, area, DISK)
    first = commit(folder(area), changes, unchanged, lease)
    inodes = {name: (folder(area) / name).stat().st_ino for name in new_bytes(scene)}
    assert first.state == "committed"
    kept = sum(len(LIVE[name]) for name in SCENES[scene] if name in LIVE)
    assert first.undo_bytes == kept - 8 * (scene in CUTS)

    again = commit(folder(area), changes, unchanged, lease)
    assert again == first._replace(state="already")
    assert resume(area, PARTITION, RUN).state == "already"
    assert {name: (folder(area) / name).stat().st_ino for name in new_bytes(scene)} == inodes


@scenes
def test_purge_frees_the_old_bytes_and_ends_undo(tmp_path: Path, scene: str) -> None:
    area = make_area(tmp_path, scene)
    change(scene, area, DISK)
    run = area.path / PARTITION / "runs" / RUN
    kept = run / "undo" if area.linked else folder(area)
    assert any(name.endswith((".index", ".index.tmp")) for name in os.listdir(kept))

    assert purge(area, PARTITION, RUN).state == "purged"
    assert os.listdir(run) == ["journal.purged"]
    assert sorted(os.listdir(folder(area))) == sorted(new_bytes(scene))
    assert purge(area, PARTITION, RUN).state == "already"
    with pytest.raises(Refused, match="closed"):
        undo(area, PARTITION, RUN)
    assert bytes_of(area) == new_bytes(scene)


def test_nothing_to_do_where_the_run_never_was(tmp_path: Path) -> None:
    area = make_area(tmp_path, "indexes")
    for call in (resume, undo, purge):
        assert call(area, PARTITION, RUN).state == "nothing"
    assert not area.path.exists(), "asking has made something"


@scenes
def test_new_files_take_the_attributes_of_the_old(tmp_path: Path, scene: str) -> None:
    area = make_area(tmp_path, scene)
    before = look(area, DISK)
    change(scene, area, DISK)
    after = look(area, DISK)
    for name in SCENES[scene].keys() & after.keys():
        log = name.replace(".timeindex", ".log")
        model = before.get(name) or before.get(log) or before[f"{B}.log"]
        assert after[name].attributes == model.attributes
    for name in after.keys() - SCENES[scene].keys():
        assert after[name] == before[name]


@pytest.mark.root("gives files away")
def test_the_owner_is_kept_and_the_work_area_is_the_log_dirs_owners(tmp_path: Path) -> None:
    area = make_area(tmp_path, "indexes")
    os.chown(area.root, 1234, 4321)
    os.chmod(area.root, 0o750)
    for name in LIVE:
        os.chown(folder(area) / name, 1234, 4321)
    area = area._replace(uid=1234, gid=4321, mode=0o750)
    change("indexes", area, DISK)
    for name in new_bytes("indexes"):
        st = (folder(area) / name).stat()
        assert (st.st_uid, st.st_gid) == (1234, 4321), name
    for path in [area.path.parent, area.path, *area.path.rglob("*")]:
        if path.parent.name != "undo":
            st = path.stat()
            assert (st.st_uid, st.st_gid, st.st_mode & 0o777) == (
                1234,
                4321,
                0o750 if path.is_dir() else 0o640,
            ), path


def test_mtime_is_given_where_it_is_data(tmp_path: Path) -> None:
    area = make_area(tmp_path, "indexes")
    changes, unchanged, lease = begin("indexes", area, DISK)
    dated = [c._replace(mtime_ns=10**18 + 7) if isinstance(c, Replace) else c for c in changes]
    commit(folder(area), dated, unchanged, lease)
    assert {(folder(area) / c.name).stat().st_mtime_ns for c in dated} == {10**18 + 7}


def test_files_of_the_log_dir_itself(tmp_path: Path) -> None:
    area = make_area(tmp_path, "indexes")
    checkpoint = area.root / "recovery-point-offset-checkpoint"
    checkpoint.write_bytes(b"0\n0\n")
    lease = claim(area, ROOT, RUN)
    digest = hashlib.sha256(b"other bytes").hexdigest()
    lease.staged(checkpoint.name).write_bytes(b"0\n1\ntopic 0 7\n")
    with pytest.raises(Changed, match="read back"):
        commit(
            area.root,
            [
                Replace(
                    checkpoint.name,
                    lease.staged(checkpoint.name),
                    DISK.identify(checkpoint),
                    digest,
                )
            ],
            {},
            lease,
        )
    assert checkpoint.read_bytes() == b"0\n0\n"
    assert os.listdir(lease.staged("x").parents[1]) == [], "what was refused is swept away"
    lease = claim(area, ROOT, RUN)
    lease.staged(checkpoint.name).write_bytes(b"0\n1\ntopic 0 7\n")
    digest = DISK.hash(lease.staged(checkpoint.name), SHA256)
    commit(
        area.root,
        [
            Replace(
                checkpoint.name, lease.staged(checkpoint.name), DISK.identify(checkpoint), digest
            )
        ],
        {},
        lease,
    )
    assert checkpoint.read_bytes() == b"0\n1\ntopic 0 7\n"
    assert undo(area, ROOT, RUN).state == "undone"
    assert checkpoint.read_bytes() == b"0\n0\n"


# What is refused, with nothing changed


@scenes
@pytest.mark.parametrize("name", [f"{A}.timeindex", f"{A}.log", f"{B}.timeindex", f"{B}.log"])
@pytest.mark.parametrize("how", ["touch", "append", "chmod", "replace"])
def test_a_file_that_changed_since_planning(
    tmp_path: Path, scene: str, name: str, how: str
) -> None:
    area = make_area(tmp_path, scene)
    changes, unchanged, lease = begin(scene, area, DISK)
    path = folder(area) / name
    if not path.exists() and scene in CHANGE_LOGS:
        pytest.skip("not part of it")
    meddle(path, how)
    meddled = look(area, DISK)
    with pytest.raises(Changed) as caught:
        commit(folder(area), changes, unchanged, lease)
    assert caught.value.path == str(path)
    assert look(area, DISK) == meddled


@scenes
@pytest.mark.parametrize("how", ["touch", "append", "chmod", "replace", "remove"])
def test_undo_refuses_what_is_not_as_the_run_left_it(tmp_path: Path, scene: str, how: str) -> None:
    area = make_area(tmp_path, scene)
    change(scene, area, DISK)
    name = f"{A}.timeindex"
    if how == "remove" and name not in new_bytes(scene):  # it went with the head
        name = min(name for name, data in SCENES[scene].items() if data is not None)
    meddle(folder(area) / name, how)
    meddled = look(area, DISK)
    with pytest.raises(Changed, match="not as the run left it"):
        undo(area, PARTITION, RUN)
    assert look(area, DISK) == meddled


def test_undo_refuses_old_indexes_beside_a_log_that_moved_on(tmp_path: Path) -> None:
    area = make_area(tmp_path, "indexes")
    change("indexes", area, DISK)
    meddle(folder(area) / f"{A}.log", "append")
    with pytest.raises(Changed, match="since the run"):
        undo(area, PARTITION, RUN)
    assert (folder(area) / f"{A}.index").read_bytes() == SCENES["indexes"][f"{A}.index"]


def test_a_backup_that_hard_links_does_not_hinder_undo(tmp_path: Path) -> None:
    area = make_area(tmp_path, "indexes")
    change("indexes", area, DISK)
    for name in list(new_bytes("indexes")):
        os.link(folder(area) / name, tmp_path / name)
    assert undo(area, PARTITION, RUN).state == "undone"


def meddle(path: Path, how: str) -> None:
    if how == "remove":
        path.unlink()
    elif how == "replace" or not path.exists():
        path.with_name("x.tmp").write_bytes(b"someone else's")
        path.with_name("x.tmp").rename(path)
    elif how == "touch":
        os.utime(path)
    elif how == "append":
        with open(path, "ab") as file:
            file.write(b"!")
    elif how == "chmod":
        os.chmod(path, 0o600)


def test_the_lock_of_another_writer(tmp_path: Path) -> None:
    area = make_area(tmp_path, "indexes")
    changes, unchanged, lease = begin("indexes", area, DISK)
    with DISK.lock(area.path / PARTITION / "lock"):
        for call in (
            lambda: commit(folder(area), changes, unchanged, lease),
            lambda: claim(area, PARTITION, "run-2"),
            lambda: resume(area, PARTITION, RUN),
            lambda: undo(area, PARTITION, RUN),
            lambda: purge(area, PARTITION, RUN),
        ):
            with pytest.raises(Locked) as caught:
                call()
            assert caught.value.retryable
    assert bytes_of(area) == LIVE


def test_a_newer_claim_fences_an_older(tmp_path: Path) -> None:
    area = make_area(tmp_path, "indexes")
    changes, unchanged, lease = begin("indexes", area, DISK)
    for newer in (RUN, "run-2"):
        claim(area, PARTITION, newer)
        with pytest.raises(Fenced):
            commit(folder(area), changes, unchanged, lease)
    assert bytes_of(area) == LIVE


def test_undo_and_purge_fence_too(tmp_path: Path) -> None:
    area = make_area(tmp_path, "indexes")
    for call in (undo, purge):
        changes, unchanged, lease = begin("indexes", area, DISK)
        call(area, PARTITION, RUN)
        with pytest.raises(Fenced):
            commit(folder(area), changes, unchanged, lease)


def test_a_zombie_wakes_after_its_successor_has_committed(tmp_path: Path) -> None:
    area = make_area(tmp_path, "indexes")
    changes, unchanged, zombie = begin("indexes", area, DISK)
    assert change("indexes", area, DISK).state == "committed"
    after = look(area, DISK)
    with pytest.raises(Fenced):
        commit(folder(area), changes, unchanged, zombie)
    assert look(area, DISK) == after
    assert undo(area, PARTITION, RUN).state == "undone"


def test_requests_that_make_no_sense(tmp_path: Path) -> None:
    area = make_area(tmp_path, "logs")
    changes, unchanged, lease = begin("logs", area, DISK)
    index = DISK.identify(folder(area) / f"{A}.index")
    log = DISK.identify(folder(area) / f"{A}.log")
    assert index and log
    elsewhere = tmp_path / "elsewhere"
    requests: list[tuple[list[Change], dict[str, FileIdentity], str]] = [
        ([], {}, "at least one"),
        ([*changes, *changes], unchanged, "once"),
        (changes, {**unchanged, f"{A}.index": index}, "once"),
        ([Remove(f"../{A}.index", index)], {}, "once"),
        ([Replace(f"{A}.index", elsewhere, index, "")], {}, "stages"),
        ([Remove(f"{A}.log", log)], {}, "index whose .log"),
    ]
    for asked, same, words in requests:
        with pytest.raises(UsageError, match=words):
            commit(folder(area), asked, same, lease)
    with pytest.raises(UsageError, match="the claim is for"):
        commit(tmp_path, changes, unchanged, lease)
    assert bytes_of(area) == LIVE


def test_a_log_with_a_second_name_is_not_cut(tmp_path: Path) -> None:
    """A backup of hard links would be cut with it."""
    area = make_area(tmp_path, "cut")
    log = folder(area) / f"{A}.log"
    os.link(log, tmp_path / "backup")
    changes, unchanged, lease = begin("cut", area, DISK)
    with pytest.raises(Changed, match="second name"):
        commit(folder(area), changes, unchanged, lease)
    assert bytes_of(area) == LIVE
    assert undo(area, PARTITION, RUN).state == "nothing"
    assert not [name for name in os.listdir(area.path / PARTITION / "runs" / RUN)]


@pytest.mark.parametrize("scene", CUTS)
def test_what_a_broker_appended_is_left_alone(tmp_path: Path, scene: str) -> None:
    area = make_area(tmp_path, scene)
    change(scene, area, DISK)
    with (folder(area) / f"{A}.log").open("ab") as log:
        log.write(b"new")
    with pytest.raises(Changed, match="not as the run left it"):
        undo(area, PARTITION, RUN)
    assert (folder(area) / f"{A}.log").read_bytes() == b"old log new"


@pytest.mark.parametrize("scene", CUTS)
def test_records_of_a_broker_in_the_place_of_a_tail(tmp_path: Path, scene: str) -> None:
    """A broker that starts on an interrupted undo cuts what came back, and appends."""
    area = make_area(tmp_path, scene)
    change(scene, area, DISK)
    log = folder(area) / f"{A}.log"

    class Full(Disk):
        def restore_tail(self, path: Path, start: int, tail: Path, size: int) -> None:
            raise OSError(errno.EIO, "no")

    with pytest.raises(StorageFailed):
        undo(area, PARTITION, RUN, disk=Full())
    with log.open("ab") as file:
        file.write(b"new")
    with pytest.raises(Changed, match="other bytes behind the cut"):
        undo(area, PARTITION, RUN)
    assert log.read_bytes() == b"old log new"


def test_zeros_at_the_end_of_a_tail_take_no_space(tmp_path: Path) -> None:
    area = make_area(tmp_path, "cut")
    log = folder(area) / f"{A}.log"
    with log.open("ab") as file:
        file.truncate(50_000_000)
    before = log.stat()
    lease = claim(area, PARTITION, RUN)
    identity = DISK.identify(log)
    assert identity
    beside = {
        name: found
        for name in LIVE
        if name.startswith(A)
        and not name.endswith(".log")
        and (found := DISK.identify(folder(area) / name))
    }
    commit(folder(area), [Truncate(log.name, identity, 8)], beside, lease)
    tail = area.path / PARTITION / "runs" / RUN / f"tail-{lease.epoch}" / log.name
    assert (log.read_bytes(), tail.read_bytes()) == (b"old log ", b"of a")
    undo(area, PARTITION, RUN)
    after = log.stat()
    assert (after.st_size, after.st_mtime_ns, after.st_ino) == (
        before.st_size,
        before.st_mtime_ns,
        before.st_ino,
    )
    assert log.read_bytes().rstrip(b"\0") == b"old log of a"
    assert 512 * after.st_blocks < 10_000_000


def test_a_link_or_a_directory_in_a_files_place(tmp_path: Path) -> None:
    area = make_area(tmp_path, "indexes")
    changes, unchanged, lease = begin("indexes", area, DISK)
    path = folder(area) / f"{A}.timeindex"
    path.unlink()
    path.symlink_to(folder(area) / f"{A}.index")
    with pytest.raises(BadInput, match="regular"):
        commit(folder(area), changes, unchanged, lease)
    assert path.is_symlink()


def test_a_run_id_is_used_for_one_changeset(tmp_path: Path) -> None:
    area = make_area(tmp_path, "indexes")
    change("indexes", area, DISK)
    changes, unchanged, lease = begin("indexes", area, DISK)
    with pytest.raises(Changed, match="other files or bytes"):
        commit(folder(area), changes[:1], unchanged, lease)


def test_a_damaged_journal_or_lease_is_named(tmp_path: Path) -> None:
    area = make_area(tmp_path, "indexes")
    change("indexes", area, DISK)
    journal = area.path / PARTITION / "runs" / RUN / "journal.done"
    good = journal.read_bytes()
    for i in range(0, len(good) - 1, 7):
        journal.write_bytes(good[:i] + bytes([good[i] ^ 1]) + good[i + 1 :])
        with pytest.raises(CorruptFile):
            resume(area, PARTITION, RUN)
    journal.write_bytes(good)
    (area.path / PARTITION / "lease").write_bytes(b"{}")
    with pytest.raises(CorruptFile):
        undo(area, PARTITION, RUN)


def test_an_interrupted_run_that_can_go_neither_way(tmp_path: Path) -> None:
    area = make_area(tmp_path, "logs")
    changes, unchanged, lease = begin("logs", area, DISK)

    class Interrupted(Disk):
        def rename(self, source: Path, name: Path) -> None:
            if name.name == f"{A}.log":
                raise OSError(errno.EIO, "no")
            super().rename(source, name)

    with pytest.raises(StorageFailed):
        commit(folder(area), changes, unchanged, lease, disk=Interrupted())
    index = folder(area) / f"{A}.index"
    assert not index.exists()
    index.write_bytes(b"rebuilt by a broker that was started in between")
    meddled = look(area, DISK)
    for call in (resume, undo):
        with pytest.raises(Changed, match="left alone"):
            call(area, PARTITION, RUN)
    with pytest.raises(Refused, match="interrupted"):
        purge(area, PARTITION, RUN)
    other = claim(area, PARTITION, "run-2")
    with pytest.raises(Refused, match="run-1 was interrupted here"):
        commit(folder(area), changes, unchanged, other)
    assert look(area, DISK) == meddled
    assert purge(area, PARTITION, RUN, abandon=True).state == "purged"
    assert look(area, DISK) == meddled


@pytest.mark.parametrize("verb", [resume, undo])
def test_an_interrupted_run_in_a_topic_made_anew(
    tmp_path: Path, verb: Callable[..., object]
) -> None:
    area = make_area(tmp_path, "logs")
    changes, unchanged, lease = begin("logs", area, DISK)

    class Interrupted(Disk):
        def unlink(self, path: Path) -> None:
            if path.parent == folder(area):
                raise OSError(errno.EIO, "no")
            super().unlink(path)

    metadata = folder(area) / "partition.metadata"
    metadata.write_text("version: 0\ntopic_id: one")
    with pytest.raises(StorageFailed):
        commit(folder(area), changes, unchanged, lease, disk=Interrupted())
    metadata.write_text("version: 0\ntopic_id: another")
    before = look(area, DISK)
    with pytest.raises(Changed, match="another directory of the same name"):
        verb(area, PARTITION, RUN)
    assert look(area, DISK) == before
    metadata.unlink()
    verb(area, PARTITION, RUN)


def test_no_way_back_beside_an_interrupted_run(tmp_path: Path) -> None:
    area = make_area(tmp_path, "indexes")
    change("indexes", area, DISK)
    extra = folder(area) / f"{A}.snapshot"
    extra.touch()
    gone = DISK.identify(extra)
    assert gone

    class Interrupted(Disk):
        def rename(self, source: Path, target: Path) -> None:
            super().rename(source, target)
            if target.name == "journal":
                raise OSError(errno.EIO, "no")

    other = claim(area, PARTITION, "run-2")
    with pytest.raises(StorageFailed):
        commit(folder(area), [Remove(extra.name, gone)], {}, other, disk=Interrupted())
    with pytest.raises(Refused, match="run-2 was interrupted here"):
        undo(area, PARTITION, RUN)
    resume(area, PARTITION, "run-2")
    assert undo(area, PARTITION, RUN).state == "undone"


def test_an_interrupted_run_beside_a_log_that_moved_on(tmp_path: Path) -> None:
    area = make_area(tmp_path, "indexes")
    changes, unchanged, lease = begin("indexes", area, DISK)

    class Interrupted(Disk):
        def rename(self, source: Path, name: Path) -> None:
            if name == folder(area) / f"{A}.index":
                raise OSError(errno.EIO, "no")
            super().rename(source, name)

    with pytest.raises(StorageFailed):
        commit(folder(area), changes, unchanged, lease, disk=Interrupted())
    meddle(folder(area) / f"{A}.log", "append")
    for call in (resume, undo):
        with pytest.raises(Changed, match="changed since"):
            call(area, PARTITION, RUN)
    assert (folder(area) / f"{A}.index").read_bytes() == LIVE[f"{A}.index"]


def test_unfit_names(tmp_path: Path) -> None:
    area = make_area(tmp_path, "indexes")
    for partition in ("..", "a/b-0", "topic", ""):
        with pytest.raises(UsageError):
            claim(area, partition, RUN)
    for run_id in ("", "..", "a/b", "a~b", "x" * 101, ".hidden"):
        with pytest.raises(UsageError):
            claim(area, PARTITION, run_id)
    claim(area, PARTITION, "manual__2026-11-21T12:00:00+00:00")


@pytest.mark.root("becomes another user")
def test_attributes_that_cannot_be_kept() -> None:
    with TemporaryDirectory() as base:  # pytest's own directories are closed to other users
        os.chown(base, 1234, 1234)
        area = make_area(Path(base), "indexes")
        for path in (area.root, folder(area)):
            os.chown(path, 1234, 1234)

        def as_another() -> None:
            mine = work_area(area.root)
            with pytest.raises(
                NotPermitted, match=r"may not create files of user 0.* run the command as user root"
            ):
                permitted(folder(mine), SCENES["indexes"])
            with pytest.raises(NotPermitted, match=r"may not write to .* as user root, the owner"):
                permitted(Path("/usr"), ())
            changes, unchanged, lease = begin("indexes", mine, DISK)
            with pytest.raises(NotPermitted, match="may not give user 0"):
                commit(folder(mine), changes, unchanged, lease)

        run_as(1234, as_another)
        assert bytes_of(area) == LIVE


def run_as(uid: int, what: Callable[[], None]) -> None:
    def become_and_do() -> None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        what()

    assert os.waitpid(fork(become_and_do), 0)[1] == 0


@pytest.mark.parametrize("scene", CHANGE_LOGS)
@pytest.mark.parametrize("act", ["commit", "undo"])
def test_a_directory_in_which_nothing_moved_is_not_synced(scene: str, act: str) -> None:
    disk, area = memory.make(scene)
    acts = memory.acts(scene, area)
    if act == "undo":
        acts["commit"](disk)
    live = [effect for effect in memory.effects(disk, acts[act]) if "live" in effect]
    assert live.count("sync dir live") >= 3
    if scene != "torn":  # where kept files lie beside the live ones, undo may find none to clear
        assert live[0] != "sync dir live"
    assert ("sync dir live",) * 2 not in pairwise(live)
