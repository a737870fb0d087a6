"""The `.lock` of a log.dirs root: ask who holds it, or hold it shared to keep brokers out.

A running broker locks the whole of `.lock` exclusively (Java's FileChannel.tryLock, on Linux a
POSIX record lock). `fcntl.lockf` sees these locks, flock(2) does not. Kafka 3.9 and later delete
the file at a clean stop; 0.8 to 2.8 leave it. Every writing process of kafkats holds a *shared*
lock: several processes may hold it, and no broker can start meanwhile.

A POSIX lock belongs to (process, inode). Closing *any* descriptor of that inode in the process
drops it. So each process keeps one counted descriptor per lock file, and no other part of kafkats
opens a `.lock`. A forked child holds nothing and takes its own lock.

On network file systems, and on a snapshot of a disk, a lock proves nothing: a broker may hold it
elsewhere.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

from kafkats import paths
from kafkats.errors import KafkatsError, Locked, NotPermitted, Refused, storage
from kafkats.logdir.location import locate
from kafkats.logdir.mounts import mount_of
from kafkats.text import Flag

_FLOCK: Final = struct.Struct("hhqqi4x")
"""struct flock of 64-bit Linux: type, whence, start, length, pid."""
_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
"""A shared lock needs no write access. O_NONBLOCK: a FIFO called `.lock` must not block."""
_BUSY: Final = (errno.EAGAIN, errno.EACCES)
_NO_LOCKS: Final = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
_TRIES: Final = 10


class LockState(NamedTuple):
    """The state of the `.lock` of a root.

        held            another process holds it exclusively: a broker runs
        shared          another process holds it shared: kafkats writes
        free            the file exists, nobody holds it
        absent          no file: no broker runs (3.9+ deletes it), or this is a copy
        proves-nothing  nobody holds it here, but the file system is a network's, or of unknown type

    `pid` is 0 when the system does not tell it (a process of another container). `why` explains the
    state.
    """

    state: Literal["held", "shared", "free", "absent", "proves-nothing"]
    pid: int
    why: str

    @property
    def held(self) -> bool:
        """Return whether a broker is seen to run.

        Where a lock proves nothing, False does not rule one out.
        """
        return self.state == "held"


@dataclass
class _Hold:
    fd: int
    count: int
    distrust: str
    """Why the lock proves nothing, "" when it does."""


_holds: dict[tuple[int, int, int], _Hold] = {}
"""Descriptors by (process, device, inode).

Locks do not survive a fork, so the process is in the key.
"""
_mutex = threading.Lock()


def lock_state(root: str | os.PathLike[str]) -> LockState:
    """Return who holds the lock of `root`. Takes no lock, creates no file. Raises StorageFailed."""
    path = Path(root) / paths.LOCK
    distrust = _distrust(root)
    with storage(path, "asking for the lock's holder"), _mutex:
        held = _own(path)
        try:
            fd = held.fd if held else os.open(path, _READ)
        except FileNotFoundError:
            return (
                LockState("proves-nothing", 0, distrust)
                if distrust
                else LockState("absent", 0, "there is no .lock")
            )
        try:
            kind, pid = _holder(fd)
        finally:
            if held is None:
                os.close(fd)
    if kind == fcntl.F_UNLCK:
        return (
            LockState("proves-nothing", 0, distrust)
            if distrust
            else LockState("free", 0, "nobody holds .lock")
        )
    if kind == fcntl.F_RDLCK:
        return LockState(
            "shared", pid, f"{_process(pid)} holds .lock shared, as kafkats does while it writes"
        )
    return LockState("held", pid, f"{_process(pid)} holds .lock, as a running broker does")


@contextmanager
def hold_shared(root: str | os.PathLike[str], owner_stopped: bool = False) -> Generator[None]:
    """Keep brokers from starting on `root` while the body runs.

    Other kafkats processes may do the same. A missing `.lock` is created for the owner of `root`,
    and is never removed: a broker may just have opened it. It is created in a log directory only,
    so a wrong path in a plan changes nothing. `owner_stopped` states that no broker runs where a
    lock cannot prove it. A lock that is seen to be held refuses all the same. Within a process this
    nests, also across threads.

    Raises Locked when a broker holds it. Raises Refused when a lock proves nothing there and
    `owner_stopped` is false, and when there is no `.lock` and `root` is no log directory. Raises
    NotPermitted when `.lock` would not belong to the owner of `root`, StorageFailed.
    """
    path = Path(root) / paths.LOCK
    with storage(path, "locking"), _mutex:
        held = _own(path)
    distrust = held.distrust if held else _distrust(root)
    if distrust and not owner_stopped:
        raise Refused(
            f"{distrust}; if its broker is stopped, say so: ",
            Flag("--owner-stopped", "owner_stopped"),
            path=root,
        )
    with storage(path, "locking"), _mutex:
        key = _take(path, distrust)
    try:
        yield
    finally:
        with _mutex:
            hold = _holds[key]
            hold.count -= 1
            if hold.count == 0:
                del _holds[key]
                os.close(hold.fd)


def _take(path: Path, distrust: str) -> tuple[int, int, int]:
    """Lock `path` shared, or count one more holder. Return the key in `_holds`."""
    for _ in range(_TRIES):
        held = _own(path)
        if held is not None:
            held.count += 1
            return _key(os.fstat(held.fd))
        fd = _open(path)
        if fd is None:
            continue
        try:
            _lock(fd, path, may_lack_locks=bool(distrust))
            key = _key(os.fstat(fd))
            # A broker that stopped in between has deleted the locked file.
            if _same_file(fd, path):
                _holds[key] = _Hold(fd, 1, distrust)
                fd = -1
                return key
        finally:
            if fd >= 0:
                os.close(fd)
    raise Locked(
        "the lock file is deleted and created again all the time: a broker is starting or stopping",
        path=path,
    )


def _open(path: Path) -> int | None:
    """Return a descriptor, creating the file if absent.

    None when another process created it first.
    """
    with suppress(FileNotFoundError):
        return os.open(path, _READ)
    owner = path.parent.stat()
    _refuse_elsewhere(path.parent)
    if os.geteuid() not in {0, owner.st_uid}:
        reason = (
            f"there is no .lock, and one made by user {os.geteuid()} would keep a"
            f" broker of user {owner.st_uid} out"
        )
        raise NotPermitted(reason, path=path)
    try:
        fd = os.open(path, _READ | os.O_CREAT | os.O_EXCL, 0o644)
    except FileExistsError:
        return None
    os.fchmod(fd, 0o644)
    with suppress(PermissionError):
        os.fchown(fd, owner.st_uid, owner.st_gid)
    if os.fstat(fd).st_uid != owner.st_uid:
        path.unlink()
        os.close(fd)
        raise NotPermitted(f"may not make a .lock that belongs to user {owner.st_uid}", path=path)
    return fd


def _refuse_elsewhere(root: Path) -> None:
    """Raise Refused unless `root` is a log.dirs root by its contents."""
    try:
        kind = locate(root).kind
    except KafkatsError as e:
        raise Refused(
            f"is no log directory, and no .lock is made in it: {e.reason}", path=root
        ) from e
    if kind != "root":
        raise Refused(f"is a {kind}, not a log.dirs root, and no .lock is made in it", path=root)


def _lock(fd: int, path: Path, may_lack_locks: bool) -> None:
    try:
        fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as e:
        if e.errno in _BUSY:
            _, pid = _holder(fd)
            raise Locked(
                f"{_process(pid)} holds the lock: stop the broker first", path=path
            ) from None
        if not (may_lack_locks and e.errno in _NO_LOCKS):
            raise


def _holder(fd: int) -> tuple[int, int]:
    """Return type (F_UNLCK, F_RDLCK, F_WRLCK) and pid of another process's conflicting lock."""
    query = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    try:
        kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, query))
    except OSError as e:
        if e.errno in _NO_LOCKS:
            return fcntl.F_UNLCK, 0
        raise
    return kind, max(pid, 0)


def _own(path: Path) -> _Hold | None:
    """Return this process's hold of the file now at `path`."""
    try:
        return _holds.get(_key(path.stat()))
    except FileNotFoundError:
        return None


def _key(st: os.stat_result) -> tuple[int, int, int]:
    return os.getpid(), st.st_dev, st.st_ino


def _same_file(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def _distrust(root: str | os.PathLike[str]) -> str:
    """Return why a lock on `root` proves nothing, "" when it does."""
    mount = mount_of(root)
    if mount is None:
        return "the file system's type is unknown: a free lock does not prove that no broker runs"
    if mount.is_network:
        return f"on {mount.kind} ({mount.point}) a free lock does not prove that no broker runs"
    return ""


def _process(pid: int) -> str:
    if pid == 0:
        return "a process that this machine or container does not show"
    try:
        name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return f"process {pid}"
    return f"process {pid} ({name})"
