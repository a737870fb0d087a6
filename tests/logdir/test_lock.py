from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kafkats import paths
from kafkats.errors import Locked, NotPermitted, Refused, StorageFailed
from kafkats.logdir import lock
from kafkats.logdir.lock import hold_shared, lock_state
from kafkats.logdir.mounts import Mount, mount_of
from tests.builders.directories import open_below
from tests.builders.locks import other_process
from tests.golden import tree


def a_broker_could_start(root: Path) -> bool:
    """Try from another process what Java's tryLock does."""
    code = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    done = subprocess.run(
        [sys.executable, "-c", code, str(root / paths.LOCK)], capture_output=True, check=False
    )
    assert done.returncode == 0 or b"BlockingIOError" in done.stderr
    return done.returncode == 0


def hold_and_let_go(root: Path) -> None:
    with hold_shared(root):
        pass


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / paths.LOCK).touch()
    (tmp_path / paths.META_PROPERTIES).touch()
    return tmp_path


def test_states(root: Path) -> None:
    path = root / paths.LOCK
    assert lock_state(root).state == "free"
    with other_process(path, fcntl.LOCK_EX) as pid:
        state = lock_state(root)
        assert (state.state, state.pid, state.held) == ("held", pid, True)
        assert f"process {pid} (python" in state.why
    with other_process(path, fcntl.LOCK_SH) as pid:
        assert lock_state(root)[:2] == ("shared", pid)
        assert not lock_state(root).held
    path.unlink()
    before = tree(root)
    assert lock_state(root).state == "absent"
    assert tree(root) == before


def test_a_running_broker_keeps_us_out(root: Path) -> None:
    with other_process(root / paths.LOCK, fcntl.LOCK_EX) as pid:
        with (
            pytest.raises(
                Locked, match=f"process {pid} .*holds the lock: stop the broker"
            ) as raised,
            hold_shared(root),
        ):
            pytest.fail("got in")
        assert raised.value.retryable
        assert raised.value.path == str(root / paths.LOCK)
    with hold_shared(root):
        pass


def test_we_keep_a_broker_out_and_share_among_ourselves(root: Path) -> None:
    with other_process(root / paths.LOCK, fcntl.LOCK_SH), hold_shared(root):
        pass
    with hold_shared(root):
        assert not a_broker_could_start(root)
    assert a_broker_could_start(root)


def test_nothing_that_we_do_meanwhile_drops_the_lock(root: Path, tmp_path: Path) -> None:
    """Closing any descriptor of the file in the process would."""
    link = tmp_path.parent / f"{tmp_path.name}-link"
    link.symlink_to(root)
    with hold_shared(root):
        with hold_shared(link), hold_shared(root):
            pass
        thread = threading.Thread(target=hold_and_let_go, args=(root,))
        thread.start()
        thread.join()
        assert lock_state(root).state == "free"
        assert not a_broker_could_start(root)
    assert a_broker_could_start(root)
    assert lock._holds == {}


def test_a_forked_child_takes_its_own(root: Path) -> None:
    with hold_shared(root):
        child = os.fork()
        if child == 0:
            with hold_shared(root):
                pass
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert not a_broker_could_start(root)


def test_absent_is_created_as_the_owner_of_the_root_would(tmp_path: Path) -> None:
    (tmp_path / paths.META_PROPERTIES).touch()
    if os.geteuid() == 0:
        os.chown(tmp_path, 1234, 4321)
    owner = tmp_path.stat()
    with hold_shared(tmp_path):
        st = (tmp_path / paths.LOCK).stat()
        assert (st.st_uid, st.st_gid, st.st_mode & 0o7777) == (owner.st_uid, owner.st_gid, 0o644)
        assert not a_broker_could_start(tmp_path)
    assert (tmp_path / paths.LOCK).exists()


@pytest.mark.parametrize(
    "holds", ["", "notes.txt", paths.LEADER_EPOCH, "00000000000000000000.log", "orders-0/notes.txt"]
)
def test_absent_and_no_log_directory(tmp_path: Path, holds: str) -> None:
    """A plan may name any directory: nothing is made in one that is not Kafka's, nor in a partition's."""
    if holds:
        (tmp_path / holds).parent.mkdir(exist_ok=True)
        (tmp_path / holds).touch()
    with pytest.raises(Refused, match=r"no \.lock is made in it"), hold_shared(tmp_path):
        pytest.fail("got in")
    assert not (tmp_path / paths.LOCK).exists()


def test_absent_and_not_ours_to_create(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / paths.META_PROPERTIES).touch()
    monkeypatch.setattr(lock.os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(NotPermitted, match="keep a broker of user"), hold_shared(tmp_path):
        pytest.fail("got in")
    assert not (tmp_path / paths.LOCK).exists()


def test_no_write_access_is_needed(root: Path) -> None:
    (root / paths.LOCK).chmod(0o444)
    with hold_shared(root):
        pass


def test_a_file_deleted_between_opening_and_locking(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker of 3.9 that stops at that moment: the lock on the old inode would keep nobody out."""
    take = lock._lock
    deleted = []

    def racing(fd: int, path: Path, may_lack_locks: bool) -> None:
        if not deleted:
            path.unlink()
            deleted.append(path)
        take(fd, path, may_lack_locks)

    monkeypatch.setattr(lock, "_lock", racing)
    with hold_shared(root):
        assert deleted
        assert not a_broker_could_start(root)


def test_a_file_deleted_again_and_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "_same_file", lambda *_: False)
    with pytest.raises(Locked, match="deleted and created again"), hold_shared(root):
        pytest.fail("got in")
    assert open_below(root) == 0


def test_where_a_lock_proves_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "mount_of", lambda _: Mount("/data", "nfs4"))
    assert lock_state(root).state == "proves-nothing"
    with (
        pytest.raises(
            Refused, match=r"on nfs4 \(/data\) a free lock does not prove.*owner_stopped"
        ),
        hold_shared(root),
    ):
        pytest.fail("got in")
    with hold_shared(root, owner_stopped=True):
        pass
    with other_process(root / paths.LOCK, fcntl.LOCK_EX):
        assert lock_state(root).held
        with pytest.raises(Locked), hold_shared(root, owner_stopped=True):
            pytest.fail("got in")
    (root / paths.LOCK).unlink()
    assert lock_state(root).state == "proves-nothing"


def test_a_file_system_of_unknown_type(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "mount_of", lambda _: None)
    with pytest.raises(Refused, match="unknown"), hold_shared(root):
        pytest.fail("got in")


def test_a_file_system_without_locks(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(lock.fcntl, "lockf", no_locks)
    with pytest.raises(StorageFailed), hold_shared(root):
        pytest.fail("got in")
    monkeypatch.setattr(lock, "mount_of", lambda _: Mount("/data", "fuse.sshfs"))
    with hold_shared(root, owner_stopped=True):
        pass


def test_no_such_root(tmp_path: Path) -> None:
    with pytest.raises(StorageFailed), hold_shared(tmp_path / "gone"):
        pytest.fail("got in")


MOUNTINFO = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:25 / /data rw - nfs4 server:/export rw
31 30 254:1 / /data/local\\040disk rw shared:3 master:2 - xfs /dev/vdb rw
32 22 0:31 / /home rw - fuse.sshfs host: rw
33 22 254:2 / /over rw - cifs //x rw
34 22 254:3 / /over rw - btrfs /dev/vdc rw
35 22 254:0 /mnt/disk\\0401 /container rw - ext4 /dev/vda rw
36 22 254:4 / /mine ro - ext4 /dev/vdd rw
37 22 254:5 / /broken ro - ext4 /dev/vde ro,errors=remount-ro
38 22 254:6 / /newer rw - ext4 /dev/vdf rw,emergency_ro
nonsense
"""


@pytest.mark.parametrize(
    ("path", "kind", "network"),
    [
        ("/container/data", "ext4", False),
        ("/var/lib", "ext4", False),
        ("/data", "nfs4", True),
        ("/data/kafka", "nfs4", True),
        ("/database", "ext4", False),
        ("/data/local disk/kafka", "xfs", False),
        ("/home/u", "fuse.sshfs", True),
        ("/over/x", "btrfs", False),
    ],
)
def test_mounts(tmp_path: Path, path: str, kind: str, network: bool) -> None:
    (tmp_path / "mountinfo").write_text(MOUNTINFO)
    mount = mount_of(path, tmp_path / "mountinfo")
    assert mount is not None
    assert (mount.kind, mount.is_network) == (kind, network)
    assert mount.root == ("/mnt/disk 1" if path.startswith("/container") else "/")
    assert mount_of(path, tmp_path / "gone") is None


@pytest.mark.parametrize(
    ("path", "read_only"),
    [("/data", False), ("/mine", False), ("/broken/data", True), ("/newer", True)],
)
def test_a_file_system_that_is_read_only_for_a_broker_too(
    tmp_path: Path, path: str, read_only: bool
) -> None:
    (tmp_path / "mountinfo").write_text(MOUNTINFO)
    mount = mount_of(path, tmp_path / "mountinfo")
    assert mount is not None and mount.read_only == read_only
