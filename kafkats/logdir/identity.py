"""The identity of a file, and its attributes besides its bytes."""

from __future__ import annotations

import errno
import os
import pwd
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple, TypedDict

from kafkats import paths
from kafkats.errors import (
    BadInput,
    KafkatsError,
    NotPermitted,
    ReadOnly,
    UsageError,
    storage,
)
from kafkats.logdir.mounts import refuse_read_only
from kafkats.logdir.partition import FileFacts

# Hashes and signatures of the content are valid for the old bytes only, so they are not copied.
_OF_THE_CONTENT: Final = {"security.ima", "security.evm"}


class FileIdentity(NamedTuple):
    """The four values by which a plan recognises a file. An untouched file keeps all of them."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    def same_file(self, other: FileIdentity | None) -> bool:
        """Return whether both are the same inode with the same bytes.

        A new hard link changes only the ctime.
        """
        return other is not None and self._replace(ctime_ns=0) == other._replace(ctime_ns=0)


def identity_of(file: FileRow | None) -> FileIdentity | None:
    """Return the identity in a plan's or report's column (facts.FILE), None for an absent file."""
    return FileIdentity(**file) if file else None


class FileRow(TypedDict):
    """A FileIdentity in a plan's or report's column (facts.FILE)."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


def file_row(file: FileIdentity | None) -> FileRow | None:
    """Return the identity as a column's value, None for an absent file."""
    return None if file is None else listed_row(file)


def listed_row(file: FileIdentity | FileFacts) -> FileRow:
    """Return the identity of a file that is there as a column's value."""
    return {
        "size": file.size,
        "mtime_ns": file.mtime_ns,
        "ctime_ns": file.ctime_ns,
        "inode": file.inode,
    }


class Attributes(NamedTuple):
    """The attributes that a new file inherits from the file it replaces.

    `mode` is the permission bits. `xattrs` include POSIX ACLs and security labels.
    """

    mode: int
    uid: int
    gid: int
    xattrs: tuple[tuple[str, bytes], ...]


def identify(path: str | os.PathLike[str]) -> FileIdentity | None:
    """Return the identity of the file at `path`, or None when there is none.

    Links are not followed. Raises BadInput for anything but a regular file, StorageFailed.
    """
    with storage(path, "look at the file"):
        try:
            st = os.lstat(path)
        except FileNotFoundError:
            return None
    if not stat.S_ISREG(st.st_mode):
        raise BadInput("not a regular file", path=path)
    return FileIdentity(st.st_size, st.st_mtime_ns, st.st_ctime_ns, st.st_ino)


def read_attributes(path: str | os.PathLike[str]) -> Attributes:
    """Return mode, owner, group and extended attributes of the file at `path`.

    Raises StorageFailed.
    """
    with storage(path, "read the attributes"):
        st = os.lstat(path)
        return Attributes(stat.S_IMODE(st.st_mode), st.st_uid, st.st_gid, tuple(_xattrs(path)))


def _xattrs(path: str | os.PathLike[str]) -> Iterable[tuple[str, bytes]]:
    try:
        names = sorted(set(os.listxattr(path, follow_symlinks=False)) - _OF_THE_CONTENT)
    except OSError as e:
        if e.errno != errno.ENOTSUP:
            raise
        return
    for name in names:
        yield name, os.getxattr(path, name, follow_symlinks=False)


def model_of(directory: Path, name: str, existing: set[str]) -> str:
    """Return the name of the file whose attributes a new file `name` of `directory` gets.

    This is the file that it replaces, else its segment's .log, else the last .log, else the last
    .log.swap; in a log directory meta.properties, else a checkpoint. Raises UsageError when none of
    them exists.
    """
    segment = paths.parse_segment_file(name)
    for own in (name, paths.segment_file(segment.base_offset) if segment else ""):
        if own in existing:
            return own
    for ending in (paths.LOG, f"{paths.LOG}.swap", paths.META_PROPERTIES, "-checkpoint"):
        if last := max((other for other in existing if other.endswith(ending)), default=""):
            return last
    raise UsageError(
        "cannot add this file: its directory holds no file whose mode, owner and group it could"
        " take",
        path=directory / name,
    )


def permitted(directory: Path, names: Iterable[str]) -> None:
    """Check at plan time that this user may replace or add the files `names`, with all attributes.

    Raises ReadOnly, NotPermitted, UsageError, StorageFailed.
    """
    with storage(directory, "list the directory"):
        existing = {path.name for path in directory.iterdir()}
    if not os.access(directory, os.W_OK | os.X_OK, effective_ids=True):
        refuse_read_only(directory)
        remedy = _run_as(directory.stat().st_uid)
        raise NotPermitted(f"this user may not write to the directory{remedy}", path=directory)
    for name in names:
        model = directory / model_of(directory, name, existing)
        wanted = read_attributes(model)
        if not _may_give(wanted):
            who = f"user {os.geteuid()}"
            raise NotPermitted(
                f"{who} may not create files of user {wanted.uid} and group {wanted.gid}"
                + _run_as(wanted.uid),
                path=model,
            )


def refuse_unread(error: KafkatsError, root: Path) -> None:
    """Raise NotPermitted for a read in the log directory `root` that only this user may not do.

    Its owner and root read as a broker does: what fails for them, fails for the broker.
    """
    owner = root.stat().st_uid
    if isinstance(error, ReadOnly) and os.geteuid() not in (0, owner):
        raise NotPermitted(error.reason + _run_as(owner), path=error.path) from error


def _run_as(owner: int) -> str:
    """Return what helps another user than the owner: a plan is refused where an apply would be."""
    try:
        name = pwd.getpwuid(owner).pw_name
    except KeyError:
        name = str(owner)
    mine = owner == os.geteuid()
    return "" if mine else f": run the command as user {name}, the owner, or as root"


def _may_give(wanted: Attributes) -> bool:
    me = os.geteuid()
    return me == 0 or (wanted.uid == me and wanted.gid in {os.getegid(), *os.getgroups()})
