"""As root, act as the owner of log directories: nobody then lays links that only root may follow.

Whoever may write to a folder can put links and foreign folders in place of ours, also while we
work in it. As the folder's owner we do with them what that user can do himself. Reading stays
root's, if root has the capability: the tool's own files may be root's alone.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import stat
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from kafkats.errors import KafkatsError, NotPermitted, Refused
from kafkats.logdir.disk import DISK
from kafkats.logdir.reservation import reservation_area
from kafkats.logdir.workarea import WorkArea, existing, make_folder, work_area

_CAPABILITIES_VERSION: Final = 0x20080522
_READ_SEARCH: Final = 1 << 2
"""CAP_DAC_READ_SEARCH."""
_PR_SET_PDEATHSIG: Final = 1
_PR_GET_PDEATHSIG: Final = 2


@contextmanager
def as_owner(log_dirs: Iterable[str], place: Path | None) -> Generator[None]:
    """Act as the owner of log directories while the body runs, if this user is root.

    Their work areas are made before, where only root may. One that cannot be looked at counts for
    nothing. Raises Refused if they have several owners, NotPermitted.
    """
    if os.geteuid() != 0:
        yield
        return
    owners: dict[int, int] = {}
    for log_dir in log_dirs:
        try:
            st = Path(os.path.realpath(log_dir)).lstat()
        except OSError:
            continue
        owners.setdefault(st.st_uid, st.st_gid)
        if len(owners) > 1:
            raise Refused("belongs to another user than the other log directories", path=log_dir)
        for area_of in (reservation_area, work_area) if st.st_uid != 0 else ():
            with suppress(KafkatsError, OSError):  # whoever needs it tells why there is none
                make_for_owner(area_of(log_dir, place))
    with acting_as(*next(iter(owners.items()), (0, 0))):
        yield


@contextmanager
def as_owner_of(folder: Path, area: WorkArea) -> Generator[WorkArea]:
    """Act as the owner of a folder, or of the nearest one above it that is there, if this is root.

    Yields the work area with this owner, unless it is root. Raises OSError, NotPermitted.
    """
    above = existing(folder)
    st = above.lstat()
    if stat.S_ISLNK(st.st_mode) and st.st_uid == 0:
        st = above.stat()
    if os.geteuid() == 0 and st.st_uid != 0:
        area = area._replace(uid=st.st_uid, gid=st.st_gid)
    with acting_as(st.st_uid, st.st_gid):
        yield area


def make_for_owner(area: WorkArea) -> None:
    """As root, make the folders of a work area that its owner may not make. Raises OSError."""
    for folder in (area.path.parent, area.path) if os.geteuid() == 0 else ():
        above = folder.parent.lstat()
        if stat.S_ISDIR(above.st_mode) and above.st_uid == 0 and not DISK.is_dir(folder):
            make_folder(folder, area, DISK)


@contextmanager
def acting_as(uid: int, gid: int) -> Generator[None]:
    """Act as a user while the body runs, if this one is root. Raises NotPermitted."""
    if os.geteuid() != 0 or uid == 0:
        yield
        return
    before, groups = os.getegid(), os.getgroups()
    try:
        with _dying_as_before():
            os.setgroups(_groups(uid, gid))
            os.setegid(gid)
            os.seteuid(uid)
            _keep_reading()
    except PermissionError as e:
        _be_root(before, groups)
        raise NotPermitted(f"may not act as user {uid}, group {gid}") from e
    try:
        yield
    finally:
        with _dying_as_before():
            _be_root(before, groups)


def _be_root(gid: int, groups: list[int]) -> None:
    os.seteuid(0)
    os.setegid(gid)
    with suppress(PermissionError):
        os.setgroups(groups)


def _groups(uid: int, gid: int) -> list[int]:
    """Return all groups of a user."""
    try:
        return os.getgrouplist(pwd.getpwuid(uid).pw_name, gid)
    except KeyError:  # a container does not know the users of its volumes
        return [gid]


@contextmanager
def _dying_as_before() -> Generator[None]:
    """Keep the signal at the parent's end: the kernel forgets it when the user changes."""
    number = ctypes.c_int(0)
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_GET_PDEATHSIG, ctypes.byref(number), 0, 0, 0)
    try:
        yield
    finally:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number.value, 0, 0, 0)


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    """The capabilities of this thread, each in two halves: capget(2)."""

    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32),
                ("inheritable", ctypes.c_uint32))  # fmt: skip


def _keep_reading() -> None:
    """Let this thread, and those that it starts, read what root may read. Linux only."""
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        header, sets = _Header(_CAPABILITIES_VERSION, 0), (_Sets * 2)()
        if libc.capget(ctypes.byref(header), sets) == 0:
            sets[0].effective |= sets[0].permitted & _READ_SEARCH
            libc.capset(ctypes.byref(header), sets)
