"""Folders and small files of plans, runs and reports, written whole or not at all.

This module imports no pyarrow, which takes 0.2 s: a ledger and an approval need none.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from kafkats.config.faults import faults
from kafkats.errors import CorruptFile, CorruptPlan, UsageError, is_file, storage
from kafkats.logdir import strict_json
from kafkats.logdir.disk import DISK
from kafkats.logdir.outputs import refuse_inside
from kafkats.logdir.strict_json import Json
from kafkats.logdir.text import read_small

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")
_MOST: Final = 5
"""Wrong fields that an error names."""


def make_folder(folder: Path, what: str) -> None:
    """Create a folder to write `what` into.

    Raises UsageError for a file, and inside a log directory, where a foreign directory keeps a
    broker from starting; StorageFailed.
    """
    refuse_inside(folder)
    with storage(folder, f"writing {what}"):
        if folder.is_file():
            raise UsageError(f"is a file: name a folder for {what}", path=folder)
        made = [one for one in (folder, *folder.parents) if not one.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for one in made:
            _sync_names(one.parent)


def _sync_names(folder: Path) -> None:
    """Make the names in a folder durable, where this user and its file system can."""
    try:
        DISK.sync_dir(folder)
    except OSError as e:
        if e.errno not in (errno.EACCES, errno.EPERM, errno.EINVAL, errno.ENOTSUP):
            raise


def write_json(path: Path, content: Mapping[str, object]) -> None:
    """Write one JSON object, indented, atomically. Raises StorageFailed."""
    with whole(path) as file:
        file.write(json.dumps(content, indent=2, sort_keys=True).encode() + b"\n")


def write_text(path: Path, text: str) -> None:
    """Write a text as UTF-8 atomically. Raises StorageFailed."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file atomically. Raises StorageFailed."""
    with whole(path) as file:
        file.write(data)


@contextmanager
def whole(path: Path) -> Generator[IO[bytes], None, None]:
    """Open a file that gets its name after a sync.

    A killed process leaves the old file, or none. A device, a pipe and whatever else is named below
    /dev is written as it is: a new file in its place would remove it for all programs.
    """
    with storage(path, "writing"):
        if path.is_dir():  # `.` and `/` have no name to put a suffix to
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if _is_kept(path):
            with open(path, "wb", opener=_open_kept) as file:
                yield file
            return
        # two applies of one run may write at the same time
        new = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        new.unlink(missing_ok=True)
        try:
            with new.open("xb") as file:  # follows no link that another process left there
                yield file
                file.flush()
                os.fsync(file.fileno())
            new.replace(path)
            _sync_names(path.parent)
        finally:
            new.unlink(missing_ok=True)


def typed(content: object, kind: TypeAdapter[T], path: Path) -> T:
    """Return the JSON that was read from a file as a type. Raises CorruptPlan for other JSON."""
    try:
        return kind.validate_python(content)
    except ValidationError as e:
        raise CorruptPlan(f"has wrong fields: {'; '.join(faults(e)[:_MOST])}", path=path) from e


def read_document(path: Path, model: type[M]) -> M | None:
    """Read a document, None if there is none. Raises CorruptFile, StorageFailed."""
    if not path.exists():
        return None
    try:
        return model.model_validate(strict_json.loads(read_small(path)))
    except ValueError as e:
        raise CorruptFile(f"is no {model.__name__.lower()}: {e}", path=path) from e


def write_document(path: Path, content: object, doing: str, *, synced: bool = True) -> None:
    """Write a document in one step, readable by this user alone. Raises StorageFailed.

    Without `synced` a power loss may leave the file empty. The text is ASCII: bytes of a path that
    are not UTF-8 become half surrogate pairs, which strict_json reads back.
    """
    text = json.dumps(content, separators=(",", ":"))
    with storage(path, doing), private(path) as new, new.open("w", encoding="ascii") as file:
        file.write(text + "\n")
        file.flush()
        if synced:
            os.fsync(file.fileno())
        new.replace(path)


def check_place(path: Path, what: str) -> None:
    """Raise the error with which a document could not be written, before anything is done.

    Raises UsageError for a place inside a log directory, StorageFailed.
    """
    make_folder(path.parent, what)
    with storage(path, f"writing {what}"):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with private(path):
            pass


@contextmanager
def private(path: Path) -> Generator[Path]:
    """Yield a new file beside `path` that only this user can read; it is gone in the end.

    A link that another process left at its name is not followed.
    """
    new = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    new.unlink(missing_ok=True)
    os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        yield new
    finally:
        new.unlink(missing_ok=True)


def _is_kept(path: Path) -> bool:
    parts = path.absolute().parts
    of_system = parts[1:2] == ("dev",) and parts[2:3] != ("shm",)
    return path.exists() and (of_system or not path.is_file())


def _open_kept(path: str, flags: int) -> int:
    """Open a pipe without waiting for a reader. Raises UsageError if there is none."""
    try:
        fd = os.open(path, flags & ~os.O_CREAT | os.O_NONBLOCK)
    except OSError as e:
        if e.errno != errno.ENXIO:
            raise
        raise UsageError("a pipe that nobody reads, or a socket", path=path) from None
    os.set_blocking(fd, True)
    return fd


def taken_for(folder: Path) -> str:
    """Return what a folder is that was named as a run or as a plan, "" if it is neither.

    The words go behind those about the file that is missing. Raises StorageFailed.
    """
    name = folder.name.removesuffix(".run")
    if is_file(folder / "run.json", "looking for a run"):
        plan = folder.with_name(name)
        return "; this is a run" + (f": its plan is {plan}" if plan != folder else "")
    if not is_file(folder / "plan.json", "looking for a plan"):
        return ""
    run = folder.with_name(f"{name}.run")
    applied = is_file(run / "run.json", "looking for its run")
    return f"; this is a plan; its run is {run}" if applied else "; this is a plan that has no run"


def read_json(path: Path) -> dict[str, Json]:
    """Read one JSON object. Raises CorruptPlan for other content, StorageFailed."""
    try:
        content: Json = strict_json.loads(read_small(path))
    except CorruptFile as e:
        raise CorruptPlan(e.reason, path=path) from e
    except ValueError as e:
        raise CorruptPlan(f"not JSON: {e}", path=path) from e
    if not isinstance(content, dict):
        raise CorruptPlan("not a JSON object", path=path)
    return content
