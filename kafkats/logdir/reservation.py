"""The reservation of a log dir: who plans to change it, and until when.

A plan that waits for approval is valid only as long as nobody changes the files from which it was
made. So the planner reserves the log dir before it looks, and the run that applies the plan keeps
the reservation while it writes. Each log dir has one reservation, for plans of any of its
partitions: the file `reservation` in its work area, one JSON object, replaced atomically and
synced. A process that reads it in order to change it holds `reservation.lock`, so only one of two
planners succeeds.

A holder may enter its own reservation again, which extends it. An expired reservation may be taken
over, and so may that of a run which has ended, unless a process still writes for it: that holds a
lock on `writing.lock`. A reservation keeps planners apart. It does not protect bytes: the leases
and the comparison with the plan do.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Collection, Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from kafkats.errors import (
    BadInput,
    CorruptFile,
    Holder,
    KafkatsError,
    Locked,
    ReadOnly,
    Refused,
    Reserved,
    UsageError,
    storage,
)
from kafkats.logdir import strict_json
from kafkats.logdir.disk import DISK, Disk
from kafkats.logdir.flocks import is_flocked
from kafkats.logdir.workarea import WorkArea, make_area, work_area, write_durably
from kafkats.text import Command

_VERSION: Final = 1
_LONGEST_HOLDER: Final = 5000
_LAST_MS: Final = 253_402_300_799_999
"""The end of the year 9999."""
_LONGEST_MS: Final = 366 * 86_400_000
_WAIT_SECONDS: Final = 30.0
_PAUSE_SECONDS: Final = 0.005


class Reservation(NamedTuple):
    """A reservation.

    `log_dir` is the root's real path; `made_ms` and `until_ms` are epoch milliseconds. Each entry
    of the holder gets a new `token`. Only the last token releases the reservation.
    """

    log_dir: str
    holder: str
    made_ms: int
    until_ms: int
    token: str

    def expired(self, now_ms: int) -> bool:
        return self.until_ms <= now_ms

    @property
    def held(self) -> Holder:
        """The fields that errors and results report."""
        return Holder(self.log_dir, self.holder, self.until_ms)


class Entered(NamedTuple):
    """The result of `reserve`. `remark` names the reservation that was taken over, "" for none."""

    area: WorkArea
    reservation: Reservation
    remark: str


def reservation_area(log_dir: Path | str, place: Path | None = None) -> WorkArea:
    """Return the work area that holds the reservation of the root `log_dir`.

    This is the default one beside the log dir wherever possible, even when undo material goes to a
    `place`: planners who name different places must find the same reservation. Raises as
    `work_area`.
    """
    try:
        return work_area(log_dir)
    # ReadOnly: the owner of another log dir has created .kafkats for itself alone
    except (Refused, ReadOnly):
        if place is None:
            raise
    return work_area(log_dir, place)


def reserve(
    area: WorkArea,
    holder: str,
    until_ms: int,
    *,
    now_ms: int,
    known: Collection[str] = (),
    take_over: Collection[str] = (),
    disk: Disk = DISK,
) -> Entered:
    """Reserve a log dir for `holder`, or enter its reservation again. It is synced on return.

    `known` are further holders and tokens whose reservation this caller may enter; the holder then
    stays the same. Entering extends a reservation and never shortens it. `take_over` names holders
    that are known to have ended; while a process still writes for one, its reservation stands.

    Raises Reserved when another holder has it, UsageError for an invalid holder or time,
    CorruptFile, NotPermitted, Locked, StorageFailed.
    """
    check_words(holder, until_ms, now_ms)
    with storage(area.path, "reserving the log directory"):
        make_area(area, disk)
        with _exclusive(area, disk):
            standing = _read(area, disk)
            token = os.urandom(16).hex()
            if standing is None:
                mine, remark = Reservation(str(area.root), holder, now_ms, until_ms, token), ""
            elif standing.holder == holder or {standing.holder, standing.token} & set(known):
                mine, remark = (
                    standing._replace(until_ms=max(until_ms, standing.until_ms), token=token),
                    "",
                )
            elif standing.holder in take_over and _is_written(area):
                raise refusal(area, standing, ", and a process still writes for it")
            elif standing.expired(now_ms) or standing.holder in take_over:
                mine = Reservation(str(area.root), holder, now_ms, until_ms, token)
                why = "had expired" if standing.expired(now_ms) else "is over"
                remark = (
                    f"{area.root}: the reservation of {in_words(standing)} {why} and was taken over"
                )
            else:
                raise refusal(area, standing)
            _write(area, mine, disk)
    return Entered(area, mine, remark)


@contextmanager
def writing(area: WorkArea) -> Generator[None]:
    """Tell that this process changes the log dir while the body runs; others may do so, too.

    The kernel ends it with the process. Where no file can be created nothing is told: an undo works
    on a full disk.
    """
    fd = -1
    with suppress(OSError, KafkatsError):
        make_area(area, DISK)
        fd = os.open(_writing(area), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        DISK.own(_writing(area), area.mode & 0o666, area.uid, area.gid)
        fcntl.flock(fd, fcntl.LOCK_SH)
    try:
        yield
    finally:
        if fd >= 0:
            os.close(fd)


def _is_written(area: WorkArea) -> bool:
    """Return whether a process is in the body of `writing`."""
    return is_flocked(_writing(area), fcntl.LOCK_EX)


def extend(area: WorkArea, token: str, until_ms: int, *, disk: Disk = DISK) -> bool:
    """Extend the reservation with this token to `until_ms`, if that is later.

    False when it is gone. Raises CorruptFile, Locked, StorageFailed.
    """
    if not _has_area(area, disk, "extending the reservation"):
        return False
    with storage(area.path, "extending the reservation"), _exclusive(area, disk):
        standing = _read(area, disk)
        if standing is None or standing.token != token:
            return False
        if until_ms > standing.until_ms:
            _write(area, standing._replace(until_ms=until_ms), disk)
        return True


def release(
    area: WorkArea,
    *,
    holder: str | None = None,
    token: str | None = None,
    over: Collection[str] = (),
    disk: Disk = DISK,
) -> Reservation | None:
    """Remove the reservation and return it, None when there is none to remove.

    `holder` and `token` restrict this to a matching reservation. Without either, an unreadable one
    is removed too. `over` names holders that are known to have ended: theirs is removed, too.

    Raises Refused while a process still writes for one of `over`; CorruptFile, Locked,
    StorageFailed.
    """
    if not _has_area(area, disk, "releasing the log directory"):
        return None
    with storage(area.path, "releasing the log directory"), _exclusive(area, disk):
        try:
            standing = _read(area, disk)
        except CorruptFile:
            if holder is not None or token is not None:
                raise
            standing = Reservation(
                str(area.root), "somebody (the file could not be read)", 0, 0, ""
            )
        if standing is None:
            return None
        if standing.holder in over:
            if _is_written(area):
                raise Refused(
                    f"reserved by {in_words(standing)}, and a process still writes for it: wait for"
                    " its end",
                    path=area.root,
                )
        elif holder not in (None, standing.holder) or token not in (None, standing.token):
            return None
        disk.unlink(_path(area))
        disk.sync_dir(area.path)
    return standing


def _has_area(area: WorkArea, disk: Disk, doing: str) -> bool:
    with storage(area.path, doing):
        return disk.is_dir(area.path)


def read_reservation(area: WorkArea, *, disk: Disk = DISK) -> Reservation | None:
    """Return the current reservation, expired or not.

    Takes no lock. Raises CorruptFile, StorageFailed.
    """
    with storage(area.path, "reading the reservation"):
        try:
            return _read(area, disk)
        except FileNotFoundError:  # released between stat and read
            return None


def refusal(area: WorkArea, standing: Reservation, more: str = "") -> Reserved:
    """Return the error for everyone but the holder. `more` says more of the reservation."""
    return Reserved(
        f"reserved by {in_words(standing)}{more}: wait for its end or answer its question,"
        " or break the reservation: ",
        _how_to_release(area),
        path=area.root,
        holders=[Holder(str(area.root), standing.holder, standing.until_ms)],
    )


def in_words(one: Reservation) -> str:
    """Return `HOLDER until TIME`."""
    return f"{one.holder} until {time_in_words(one.until_ms)}"


def time_in_words(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, tz=UTC):%Y-%m-%d %H:%M:%S} UTC"


def check_words(holder: str, until_ms: int, now_ms: int) -> None:
    """Raise UsageError for an invalid holder or end time."""
    if not holder.strip() or not holder.isprintable() or len(holder) > _LONGEST_HOLDER:
        raise UsageError(
            f"a holder is a line of up to {_LONGEST_HOLDER} printable characters, not {holder!r}"
        )
    if not 0 <= now_ms < until_ms <= min(now_ms + _LONGEST_MS, _LAST_MS):
        raise UsageError(
            f"a reservation ends within a year from now, in epoch milliseconds; {until_ms}"
            f" does not (now is {now_ms})"
        )


def _path(area: WorkArea) -> Path:
    return area.path / "reservation"


def _writing(area: WorkArea) -> Path:
    return area.path / "writing.lock"


def _how_to_release(area: WorkArea) -> Command:
    where = () if area.beside else ("--work-area", str(area.path.parent))
    return Command("release", (str(area.root), *where))


def _write(area: WorkArea, one: Reservation, disk: Disk) -> None:
    text = json.dumps({"version": _VERSION, **one._asdict()}, indent=1) + "\n"
    write_durably(_path(area), text.encode(), area, disk)


def _read(area: WorkArea, disk: Disk) -> Reservation | None:
    path = _path(area)
    try:
        if disk.identify(path) is None:
            return None
        content = strict_json.loads(disk.read(path))
        if content.pop("version") != _VERSION:
            raise ValueError("of another version")
        one = Reservation(**content)
        texts, times = (one.log_dir, one.holder, one.token), (one.made_ms, one.until_ms)
        if any(type(text) is not str for text in texts) or any(type(ms) is not int for ms in times):
            raise ValueError("a value of the wrong type")
        if not all(0 <= ms <= _LAST_MS for ms in times) or not one.holder.isprintable():
            raise ValueError("a value that none can have")
    except (BadInput, ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        why = e.reason if isinstance(e, BadInput) else str(e)
        raise CorruptFile(
            f"not a reservation: {why}; if nobody is about to change {area.root}: ",
            _how_to_release(area),
            path=path,
        ) from e
    return one


@contextmanager
def _exclusive(area: WorkArea, disk: Disk) -> Generator[None]:
    """Hold the reservation's lock, which others hold only briefly. Raises Locked."""
    path = area.path / "reservation.lock"
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            with disk.lock(path):
                disk.own(path, area.mode & 0o666, area.uid, area.gid)
                yield
                return
        except Locked as e:
            if e.path != str(path):
                raise
            if time.monotonic() > deadline:
                raise Locked(
                    "another process has held the reservation's lock for too long", path=path
                ) from e
        time.sleep(_PAUSE_SECONDS)
