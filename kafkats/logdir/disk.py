"""The interface between a changeset and the file system.

Every read and every effect of a changeset is one method call here, and each effect is one step in
the kernel. So tests can stop a run between any two effects, and can replace the file system by one
that loses effects that were not synced. Effects never follow a link. They overwrite an existing
file only by a rename.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from kafkats.errors import Locked, NotPermitted
from kafkats.execution.executor import FLUSHING_THREADS
from kafkats.hashes import hash_file
from kafkats.logdir.identity import Attributes, FileIdentity, identify, read_attributes
from kafkats.logdir.lock import hold_shared
from kafkats.logdir.mounts import mount_of

FULL: Final = (errno.ENOSPC, errno.EDQUOT)
"""The errors of a file system without free blocks or free inodes."""
_CHUNK: Final = 2**20
_FEW: Final = 32
"""So few files are synced in this thread."""
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_MOVE_WHOLE: Final = frozenset({"btrfs", "ext3", "ext4", "f2fs", "tmpfs", "xfs", "zfs"})
_NOT_PERMITTED: Final = (errno.EPERM, errno.EACCES, errno.ENOTSUP)


class Disk:
    """The real file system. Methods raise OSError, except where one of our errors says more."""

    # Reads

    def identify(self, path: Path) -> FileIdentity | None:
        return identify(path)

    def identities(self, directory: Path, names: Iterable[str]) -> dict[str, FileIdentity | None]:
        """Return the identities of files of one directory.

        A Path per name would cost more than the stat.
        """
        place = os.fspath(directory)
        return {name: identify(f"{place}/{name}") for name in names}

    def attributes(self, path: Path) -> Attributes:
        return read_attributes(path)

    def names(self, directory: Path) -> list[str]:
        """Return the sorted names in a directory, [] when there is no such directory."""
        try:
            with os.scandir(directory) as entries:
                return sorted(entry.name for entry in entries)
        except FileNotFoundError:
            return []

    def is_dir(self, path: Path) -> bool:
        try:
            return stat.S_ISDIR(path.lstat().st_mode)
        except FileNotFoundError:
            return False

    def inode(self, directory: Path) -> int:
        return directory.stat().st_ino

    def moves_whole(self, path: Path) -> bool:
        """Return whether a power failure leaves a rename between two directories done or undone."""
        mount = mount_of(path)
        return mount is not None and mount.kind in _MOVE_WHOLE

    def read(self, path: Path) -> bytes:
        return path.read_bytes()

    def links(self, path: Path) -> int:
        """Return the number of names (hard links) of a file."""
        return path.lstat().st_nlink

    def continues(self, path: Path, start: int, tail: Path) -> bool:
        """Return whether a file has, from byte `start` on, only bytes of `tail` or zeros."""
        with path.open("rb") as file, tail.open("rb") as expected:
            file.seek(start)
            while data := file.read(_CHUNK):
                wanted = expected.read(len(data)).ljust(len(data), b"\0")
                if data != wanted and any(
                    a not in (0, b) for a, b in zip(data, wanted, strict=True)
                ):
                    return False
        return True

    def hash(self, path: Path, algorithm: str) -> str:
        """Return the hash of a synced file as stored: cached pages are dropped if possible."""
        with path.open("rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            return hash_file(file, algorithm)

    # Effects

    def make_dir(self, path: Path) -> None:
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            if not self.is_dir(path):
                raise

    def write(self, path: Path, data: bytes) -> None:
        """Create a new file, readable by its owner only until its attributes are set."""
        with _opened(path, _NEW) as fd:
            write_all(fd, data)

    def copy_tail(self, path: Path, start: int, end: int, target: Path) -> str:
        """Copy bytes [start, end) but for zeros at the end to a new file. Return their SHA-256."""
        digest = hashlib.sha256()
        with _opened(path, os.O_RDONLY | os.O_NOFOLLOW) as source:
            end = _without_zeros(source, start, end)
            with _opened(target, _NEW) as fd:
                while start < end and (data := os.pread(source, min(end - start, _CHUNK), start)):
                    digest.update(data)
                    write_all(fd, data)
                    start += len(data)
        return digest.hexdigest()

    def truncate(self, path: Path, size: int) -> None:
        """Cut a file that is there. Its first `size` bytes stay."""
        with _opened(path, os.O_WRONLY | os.O_NOFOLLOW) as fd:
            os.ftruncate(fd, size)

    def restore_tail(self, path: Path, start: int, tail: Path, size: int) -> None:
        """Write `tail` at byte `start`, and zeros behind it up to `size`; both are not synced."""
        with _opened(path, os.O_WRONLY | os.O_NOFOLLOW) as fd, tail.open("rb") as saved:
            os.lseek(fd, start, os.SEEK_SET)
            while data := saved.read(_CHUNK):
                write_all(fd, data)
            os.ftruncate(fd, size)

    def own(self, path: Path, mode: int, uid: int, gid: int) -> None:
        """Give a file or directory its attributes: not where a link leads, nor a file of two names.

        Whoever may write to the directory can lay either in its place.
        """
        st = path.lstat()
        if (st.st_uid, st.st_gid, stat.S_IMODE(st.st_mode)) == (uid, gid, mode):
            return
        try:
            with _opened(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK) as fd:
                st = os.fstat(fd)
                if st.st_nlink > 1 and not stat.S_ISDIR(st.st_mode):
                    raise NotPermitted("it has another name, a hard link", path=path)
                if (st.st_uid, st.st_gid) != (uid, gid):
                    os.fchown(fd, uid, gid)
                os.fchmod(fd, mode)  # chown clears mode bits
        except PermissionError as e:
            raise NotPermitted(
                f"may not give user {uid}, group {gid}, mode {mode:o}", path=path
            ) from e

    def set_xattrs(self, path: Path, xattrs: tuple[tuple[str, bytes], ...]) -> None:
        """Make the extended attributes equal to `xattrs`, and remove all others."""
        have = dict(read_attributes(path).xattrs)
        want = dict(xattrs)
        try:
            for name in have.keys() - want.keys():
                os.removexattr(path, name, follow_symlinks=False)
            for name, value in want.items():
                if have.get(name) != value:
                    os.setxattr(path, name, value, follow_symlinks=False)
        except OSError as e:
            if e.errno not in _NOT_PERMITTED:
                raise
            raise NotPermitted(
                f"may not keep the extended attributes: {e.strerror}", path=path
            ) from e

    def set_mtime(self, path: Path, mtime_ns: int) -> None:
        os.utime(path, ns=(path.lstat().st_atime_ns, mtime_ns), follow_symlinks=False)

    def renew(self, path: Path) -> None:
        """Give a directory another ctime, so that it is no longer the one that a plan has seen."""
        Disk.set_mtime(self, path, path.lstat().st_mtime_ns)

    def link(self, source: Path, name: Path) -> None:
        os.link(source, name, follow_symlinks=False)

    def rename(self, source: Path, name: Path) -> None:
        source.rename(name)

    def unlink(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def remove_dir(self, path: Path) -> None:
        with suppress(FileNotFoundError):
            path.rmdir()

    def sync_file(self, path: Path) -> None:
        with _opened(path, os.O_RDONLY | os.O_NOFOLLOW) as fd:
            os.fsync(fd)

    def sync_files(self, files: Sequence[Path]) -> None:
        """Sync files, some at a time: a file system flushes for all that wait in one go."""
        if len(files) < _FEW:
            for path in files:
                self.sync_file(path)
            return
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(FLUSHING_THREADS, "sync") as pool:
            deque(pool.map(self.sync_file, files), maxlen=0)

    def sync_dir(self, path: Path) -> None:
        with _opened(path, os.O_RDONLY | os.O_DIRECTORY) as fd:
            os.fsync(fd)

    @contextmanager
    def hold_root(self, root: Path, owner_stopped: bool) -> Generator[None]:
        """Keep brokers from starting.

        Raises Locked, also when a lock held before is no longer valid.
        """
        with hold_shared(root, owner_stopped):
            yield

    @contextmanager
    def lock(self, path: Path) -> Generator[None]:
        """Hold `path` exclusively against threads and processes.

        The kernel releases it at process end. This is flock, not a POSIX record lock. A record lock
        does not separate two threads of a process, and is lost when anything in the process closes
        a descriptor of the file. Raises Locked.
        """
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as e:
            os.close(fd)
            raise Locked("another run is changing this partition", path=path) from e
        try:
            yield
        finally:
            fcntl.flock(fd, fcntl.LOCK_UN)  # also releases copies of fd, such as a forked child's
            os.close(fd)


def write_all(fd: int, data: bytes) -> None:
    """Write all of `data`: one call of the system may write less."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _without_zeros(fd: int, start: int, end: int) -> int:
    """Return where the zeros at the end of bytes [start, end) begin. Holes are not read."""
    while start < end:
        begin = max(start, end - _CHUNK)
        try:
            data_at = os.lseek(fd, begin, os.SEEK_DATA)
        except OSError as e:
            if e.errno != errno.ENXIO:
                raise
            data_at = end  # no data up to the file's end
        if data_at < end:
            kept = os.pread(fd, end - begin, begin).rstrip(b"\0")
            if kept:
                return begin + len(kept)
        end = begin
    return end


@contextmanager
def _opened(path: Path, flags: int) -> Generator[int]:
    """Open a file or directory; a new one is readable by its owner only."""
    fd = os.open(path, flags, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)


DISK = Disk()
