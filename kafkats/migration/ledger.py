"""The ledger of a migration: an append-only file of who did what to which broker, and when.

It has one JSON object per line. A line is synced before `append` returns:

    {"number": 3, "at": "2026-01-05T09:30:00.000+00:00", "event": "attest", "broker": "1",
     "phase": "phase-1", "by": "ops", "details": {...}, "before": "<digest of line 2>",
     "digest": "<sha256 of this line without it>"}

The digests form a chain that reveals edits: a line that was changed, removed, inserted or moved no
longer fits. The chain does not reveal lines cut off the end. To detect that, keep the last digest
elsewhere.

Bytes that a kill or a power failure left after the last whole line were never reported as written.
A read skips them and returns their size. The next append removes them.

Writers exclude each other with flock, which also separates threads of one process. Readers share
the lock, so that they never see a half-removed line. This module does not know the meaning and
order of events: `append` calls `check` while it holds the lock.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import stat
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from kafkats.errors import CorruptFile, Locked, Refused, UsageError, storage
from kafkats.logdir.disk import write_all
from kafkats.logdir.strict_json import Json
from kafkats.plans.files import make_folder

START: Final = "0" * 64
"""`before` of the first entry."""
MAX_LINE_BYTES: Final = 1 << 20

_MOST_LINE_BYTES: Final = 2 * MAX_LINE_BYTES + 3
"""More than an interrupted append leaves: an entry without its line end, and zeros for the next."""
_WAIT_SECONDS: Final = 30.0
_PAUSE_SECONDS: Final = 0.005
_FLAGS: Final = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # do not block on a FIFO in its place
_NO_LOCKS: Final = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
_UNFIT: Final = (ValueError, TypeError, RecursionError)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Entry(NamedTuple):
    """One line. `number` counts from 1. `at` is ISO 8601 in UTC.

    `broker` and `phase` are "" where they do not apply.
    """

    number: int
    at: str
    event: str
    broker: str
    phase: str
    by: str
    details: Mapping[str, Json]
    before: str
    digest: str


class Ledger(NamedTuple):
    """All entries, and the size in bytes of an interrupted append after them."""

    entries: tuple[Entry, ...]
    torn: int


Check = Callable[[Sequence[Entry], Entry], None]
"""A function that raises Refused when the entry may not follow these."""


def read(path: str | os.PathLike[str]) -> Ledger:
    """Read a ledger.

    Raises UsageError when there is none, CorruptFile with the position of an invalid line, Locked,
    StorageFailed.
    """
    real = Path(os.path.realpath(path))
    with storage(real, "reading the ledger"):
        if not real.exists():
            raise UsageError("there is no ledger here", path=path)
        with _held(real, os.O_RDONLY, fcntl.LOCK_SH) as fd:
            return _parse(real, fd)[0]


def append(
    path: str | os.PathLike[str],
    event: str,
    *,
    by: str,
    now_ms: int,
    broker: str = "",
    phase: str = "",
    details: Mapping[str, Json] | None = None,
    check: Check | None = None,
) -> Entry:
    """Append one entry. It is synced on return. A missing file and folder are created.

    `check` gets the entries before the new one, and no other writer can come in between. An
    exception from `check` passes through, and nothing is written. `details` may hold any JSON
    value.

    Raises UsageError in a log directory and for details that cannot be written, CorruptFile,
    Locked, StorageFailed.
    """
    real = Path(os.path.realpath(path))

    def draft(entries: Sequence[Entry]) -> Entry:
        entry = _seal(entries, now_ms, (event, broker, phase, by), details or {})
        if check is not None:
            check(entries, entry)
        return entry

    with storage(real, "looking for the ledger"):
        if not real.exists():
            draft(())  # a refused entry must not leave an empty file
    make_folder(real.parent, "the ledger")
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
    with storage(real, "writing the ledger"), _held(real, flags, fcntl.LOCK_EX) as fd:
        ledger, good = _parse(real, fd)
        entry = draft(ledger.entries)
        if not good + ledger.torn:
            # before the first line: a file with a line must have a durable name
            _sync_names(real.parent)
        elif ledger.torn:
            os.ftruncate(fd, good)
        cut = b"\n" if good and os.pread(fd, 1, good - 1) != b"\n" else b""
        _write(fd, good, cut + _line(entry) + b"\n")
    return entry


def _seal(
    entries: Sequence[Entry],
    now_ms: int,
    words: tuple[str, str, str, str],
    details: Mapping[str, Json],
) -> Entry:
    try:
        at = (_EPOCH + timedelta(milliseconds=now_ms)).isoformat(timespec="milliseconds")
        plain = json.loads(_json(details))  # as read back: keys are text, tuples are lists
        before = entries[-1].digest if entries else START
        entry = _digested(Entry(len(entries) + 1, at, *words, plain, before, ""))
        line = _line(entry)
        _entry(line, entries)  # check that it can be read: a broker given as a number could not
    except (ValueError, TypeError, OverflowError, RecursionError) as e:
        raise UsageError(f"cannot be written into a ledger: {e}") from e
    if len(line) > MAX_LINE_BYTES:
        raise UsageError(f"an entry of {len(line)} bytes; a ledger takes {MAX_LINE_BYTES}")
    return entry


def _digested(entry: Entry) -> Entry:
    body = entry._asdict()
    del body["digest"]
    return entry._replace(digest=hashlib.sha256(_json(body).encode()).hexdigest())


def _line(entry: Entry) -> bytes:
    return _json(entry._asdict()).encode()


def _json(content: Mapping[str, Json]) -> str:
    return json.dumps(content, ensure_ascii=False, allow_nan=False)


def _parse(path: Path, fd: int) -> tuple[Ledger, int]:
    """Return the entries, and the end of the last whole line. Raises CorruptFile."""
    entries: list[Entry] = []
    good, size = 0, os.fstat(fd).st_size
    with os.fdopen(os.dup(fd), "rb") as file:
        file.seek(0)
        while raw := file.readline(_MOST_LINE_BYTES):
            line, last = raw.removesuffix(b"\n"), good + len(raw) >= size
            try:
                entries.append(_entry(line, entries))
            except _UNFIT as e:
                # A last line without its end, or with a page that never reached the disk, was being
                # written.
                if last and (line == raw or b"\0" in line):
                    good += _before_zeros(line, entries)
                    break
                reason = f"line {len(entries) + 1} does not fit: {_reason(raw, e)}"
                raise CorruptFile(reason, path=path, position=good) from e
            good += len(raw)
    return Ledger(tuple(entries), size - good), good


def _reason(raw: bytes, error: Exception) -> str:
    what = "it is too long" if len(raw) == _MOST_LINE_BYTES else str(error)
    return f"{what}; the ledger was edited or damaged"


def _before_zeros(line: bytes, entries: list[Entry]) -> int:
    """Append the whole entry before the zeros, if any. Return its size in bytes, else 0.

    Such an entry had lost its line end before another line was written after it.
    """
    whole = line.split(b"\0")[0]
    with suppress(*_UNFIT):
        entries.append(_entry(whole, entries))
        return len(whole)
    return 0


def _entry(line: bytes, before: Sequence[Entry]) -> Entry:
    """Return the entry of a line.

    The line must be what `_line` writes for it, including the digest.
    """
    fields = json.loads(line)
    if not isinstance(fields, dict) or tuple(fields) != Entry._fields:
        raise ValueError("not the fields of an entry")
    entry = Entry(**fields)
    texts = (entry.at, entry.event, entry.broker, entry.phase, entry.by, entry.before, entry.digest)
    if (
        type(entry.number) is not int
        or not isinstance(entry.details, dict)
        or any(type(t) is not str for t in texts)
    ):
        raise ValueError("a value of the wrong type")
    if entry.number != len(before) + 1 or entry.before != (before[-1].digest if before else START):
        raise ValueError("it does not continue the line before")
    if entry != _digested(entry) or line != _line(entry):
        raise ValueError("its digest does not hold")
    return entry


@contextmanager
def _held(path: Path, flags: int, kind: int) -> Generator[int]:
    """Open the file at `path` locked.

    Raises Locked, Refused without file locks, UsageError, OSError.
    """
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        fd = os.open(path, flags | _FLAGS, 0o666)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise UsageError("is not a regular file", path=path)
            if _locked(fd, path, kind) and _names(path, fd):
                yield fd
                return
        finally:
            with suppress(OSError):
                # also releases copies of fd, such as a forked child's
                fcntl.flock(fd, fcntl.LOCK_UN)
            os.close(fd)
        if time.monotonic() > deadline:
            raise Locked("another process has held the ledger for too long", path=path)
        time.sleep(_PAUSE_SECONDS)


def _locked(fd: int, path: Path, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as e:
        if e.errno not in _NO_LOCKS:
            raise
        if kind == fcntl.LOCK_EX:
            raise Refused(
                "this file system has no locks; keep the ledger on another", path=path
            ) from e
    return True


def _names(path: Path, fd: int) -> bool:
    """Return whether the name still leads to this file: another may have replaced it meanwhile."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(fd), path.stat())
    return False


def _write(fd: int, good: int, data: bytes) -> None:
    """Write `data` and sync. If that fails, remove what was written, if the file system permits."""
    try:
        write_all(fd, data)
        os.fsync(fd)
    except BaseException:
        with suppress(OSError):
            os.ftruncate(fd, good)
        raise


def _sync_names(folder: Path) -> None:
    """Sync the names of a new file and of the folders above it, up to the file system's root."""
    device = folder.stat().st_dev
    for above in (folder, *folder.parents):
        if above.stat().st_dev != device:
            return
        with suppress(PermissionError):  # owned by others, so it existed before
            fd = os.open(above, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
