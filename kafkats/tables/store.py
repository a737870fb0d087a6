"""The folder of a table: Parquet files named by time and content, and a manifest that lists them.

    _table.json                                       the manifest
    cells-20260101T000000Z-20260102T000000Z-<12 hex digits>.parquet
    .lock                                             held by the writer

Readers of Parquet folders ignore names that begin with _ or a dot. A writer adds files under new
names, replaces the manifest atomically, then removes files that the new manifest does not list. A
reader that finds a file missing reads the manifest again. After any crash the manifest is that of
one run or of the next.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import stat
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import pyarrow as pa

from kafkats.counts import counted
from kafkats.errors import (
    BadInput,
    CorruptFile,
    KafkatsError,
    Locked,
    UsageError,
    Vanished,
    is_file,
    storage,
)
from kafkats.logdir import strict_json
from kafkats.logdir.disk import DISK
from kafkats.logdir.strict_json import int64
from kafkats.logdir.text import read_small
from kafkats.plans.files import make_folder
from kafkats.tables.files import decode, decode_open, encode
from kafkats.tables.runs import Run
from kafkats.tables.schema import TABLE_VERSION, OpenRun, ints
from kafkats.tables.spans import LEAST_STEP_MS, Span

MANIFEST: Final = "_table.json"
_LOCK: Final = ".lock"
_OTHER: Final = "not what the table's manifest says: damaged, or changed by somebody"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

T = TypeVar("T")


class Part(NamedTuple):
    """One file of a table."""

    name: str
    from_ms: int
    to_ms: int
    rows: int
    open: int
    """The number of open rows."""
    bytes: int
    sha256: str


def table_in(paths: Sequence[str | os.PathLike[str]]) -> Path | None:
    """Return the table if `paths` names one, None if it names no table.

    Raises UsageError for a table among several paths.
    """
    if not any(is_file(Path(path, MANIFEST), "looking for a table") for path in paths):
        return None
    if len(paths) > 1:
        raise UsageError("one table, or log directories: not both, not two")
    return Path(paths[0])


@dataclass(frozen=True)
class Manifest:
    """The content of a table: `parts` by time; `covered`, the built ranges in order, disjoint."""

    step_ms: int
    covered: tuple[Span, ...] = ()
    parts: tuple[Part, ...] = ()

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    def covers(self, span: Span) -> bool:
        """Return whether the whole span was built."""
        return any(a <= span[0] and span[1] <= b for a, b in self.covered)


def read_manifest(folder: str | os.PathLike[str]) -> Manifest:
    """Return the manifest of the table in `folder`.

    Raises UsageError without a table, BadInput for another version, CorruptFile for an inconsistent
    manifest, StorageFailed.
    """
    path = Path(folder, MANIFEST)
    if not is_file(path, "reading the table"):
        raise UsageError("there is no table here: _table.json is missing", path=folder)
    text = read_small(path)
    try:
        content = strict_json.loads(text)
        version = content["table_version"]
        if version != TABLE_VERSION:
            raise BadInput(
                f"a table of version {version}; this kafkats reads {TABLE_VERSION}", path=folder
            )
        covered = tuple((int64(a), int64(b)) for a, b in content["covered"])
        manifest = Manifest(
            int64(content["step_ms"]), covered, tuple(_part(**part) for part in content["files"])
        )
        _consistent(manifest, path)
    except (ValueError, TypeError, KeyError) as e:
        raise CorruptFile(f"no manifest of a table: {type(e).__name__}: {e}", path=path) from e
    return manifest


def _part(*, name: str, sha256: str, **numbers: int) -> Part:
    return Part(
        name=str(name),
        sha256=str(sha256),
        **{word: int64(number) for word, number in numbers.items()},
    )


def _consistent(manifest: Manifest, path: Path) -> None:
    spans = [(part.from_ms, part.to_ms) for part in manifest.parts]
    for what, listed in (("files", spans), ("covered ranges", manifest.covered)):
        ends = [0, *(end for _, end in listed)] if listed else []
        if any(begin >= end for begin, end in listed):
            raise CorruptFile(f"{what} of no length", path=path)
        if any(begin < before for (begin, _), before in zip(listed[1:], ends[1:], strict=False)):
            raise CorruptFile(f"{what} overlap", path=path)
    if any(Path(part.name).name != part.name for part in manifest.parts):
        raise CorruptFile("a file outside of the table", path=path)
    if manifest.step_ms < LEAST_STEP_MS:
        raise CorruptFile(f"a step of {manifest.step_ms} ms", path=path)


def read_part(folder: str | os.PathLike[str], part: Part, step_ms: int) -> Iterator[pa.Table]:
    """Yield the rows of one file in chunks, checked against the manifest.

    Raises Vanished (replaced meanwhile, or lost), CorruptFile, BadInput, StorageFailed.
    """
    path = Path(folder, part.name)
    _check_file(path, part)
    with storage(path, "reading the table"):
        data = path.read_bytes()
    if len(data) != part.bytes or hashlib.sha256(data).hexdigest() != part.sha256:
        raise CorruptFile(_OTHER, path=path)
    count = 0
    for rows in decode(pa.BufferReader(data), path):
        times = ints(rows, "timestamp")
        if ((times < part.from_ms) | (times >= part.to_ms) | (times % step_ms != 0)).any():
            raise CorruptFile("cells of other times than the manifest says", path=path)
        count += rows.num_rows
        yield rows
    if count != part.rows:
        raise CorruptFile(f"{counted(count, 'row')}, the manifest says {part.rows}", path=path)


def read_open(folder: str | os.PathLike[str], part: Part) -> list[OpenRun]:
    """Return the open cells of one file, from its footer.

    Raises Vanished, CorruptFile, BadInput, StorageFailed.
    """
    path = Path(folder, part.name)
    _check_file(path, part)
    with storage(path, "reading the table"), path.open("rb") as file:
        return decode_open(file, path)


def _check_file(path: Path, part: Part) -> None:
    """Check that a file has its size and is a plain one: who opens a pipe waits for its other end.

    Raises Vanished, CorruptFile, StorageFailed.
    """
    with storage(path, "reading the table"):
        state = path.stat()
    if not stat.S_ISREG(state.st_mode):
        raise CorruptFile("no plain file", path=path)
    if state.st_size != part.bytes:
        raise CorruptFile(_OTHER, path=path)


def read_parts(
    folder: str | os.PathLike[str], span: Span, wanted: Callable[[pa.Table], pa.Table]
) -> tuple[Manifest, list[pa.Table]]:
    """Return the manifest and the `wanted` rows of all files that overlap `span`.

    Reads again when a writer replaced files meanwhile. Beside the wanted rows only some rows of one
    file are in memory. Raises as read_part.
    """

    def read(manifest: Manifest) -> list[pa.Table]:
        return [
            some
            for part in manifest.parts
            if part.from_ms < span[1] and part.to_ms > span[0]
            for rows in read_part(folder, part, manifest.step_ms)
            if (some := wanted(rows))
        ]

    return read_again(folder, read)


def read_again(folder: str | os.PathLike[str], read: Callable[[Manifest], T]) -> tuple[Manifest, T]:
    """Return the manifest and what `read` makes of it, again if a writer replaced files meanwhile.

    Raises CorruptFile if a file is missing that the manifest still names.
    """
    for attempt in range(5):
        manifest = read_manifest(folder)
        try:
            return manifest, read(manifest)
        except Vanished as e:
            if attempt == 4 or read_manifest(folder) == manifest:
                raise CorruptFile(
                    "a file that the table's manifest names is missing", path=e.path
                ) from e
    raise AssertionError


def verify(folder: str | os.PathLike[str]) -> Manifest:
    """Read a whole table against its manifest. Raises as read_parts."""
    return read_parts(folder, (-(2**63), 2**63), lambda rows: rows.slice(0, 0))[0]


@contextmanager
def writing(folder: str | os.PathLike[str]) -> Generator[None, None, None]:
    """Be the table's only writer.

    Raises Locked, UsageError inside a log directory, StorageFailed.
    """
    place = Path(folder)
    make_folder(place, "a table")
    with storage(place, "locking the table"):
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        with os.fdopen(os.open(place / _LOCK, flags, 0o666), "r+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as e:
                reason = "somebody else writes this table; nothing was changed"
                raise Locked(reason, path=folder) from e
            try:
                yield
            finally:  # also releases copies of the descriptor, such as a forked child's
                fcntl.flock(file, fcntl.LOCK_UN)


def write_part(folder: str | os.PathLike[str], span: Span, rows: Run, step_ms: int) -> Part:
    """Write a file that no manifest lists yet. `rows` are sorted. Raises StorageFailed."""
    buffer = io.BytesIO()
    opened = encode(rows, buffer, step_ms)
    data = buffer.getbuffer()
    digest = hashlib.sha256(data).hexdigest()
    name = f"cells-{_stamp(span[0])}-{_stamp(span[1])}-{digest[:12]}.parquet"
    _put(Path(folder, name), data)
    return Part(name, *span, rows.rows, opened, len(data), digest)


def begun(folder: str | os.PathLike[str], step_ms: int) -> Manifest:
    """Return the manifest of the table without a killed run's files, or write an empty manifest.

    An empty manifest comes first so that files without a manifest always mean a lost manifest, and
    are never removed as leftovers. Files are not removed either if the manifest lists a missing
    file. Raises as read_manifest and commit.
    """
    place = Path(folder)
    if os.path.lexists(place / MANIFEST):
        manifest = read_manifest(folder)
        _all_there(place, manifest)
        tidy(folder, manifest)
        return manifest if manifest.parts or manifest.covered else Manifest(step_ms)
    with storage(place, "reading the table"):
        files = sorted(path.name for path in place.iterdir() if path.match("cells-*.parquet"))
    if files:
        reason = (
            f"a table's files ({files[0]}, ...) without its manifest: restore"
            f" {MANIFEST}, or take another folder"
        )
        raise CorruptFile(reason, path=folder)
    commit(folder, empty := Manifest(step_ms))
    return empty


def _all_there(place: Path, manifest: Manifest) -> None:
    for part in manifest.parts:
        path = place / part.name
        with storage(path, "reading the table"):
            size = path.stat().st_size if path.is_file() else -1
        if size != part.bytes:
            raise CorruptFile(
                "not what the table's manifest says: missing, damaged, or changed by somebody",
                path=path,
            )


def commit(folder: str | os.PathLike[str], manifest: Manifest) -> None:
    """Make `manifest` the table's, then `tidy`. Raises StorageFailed."""
    content = {
        "table_version": TABLE_VERSION,
        "step_ms": manifest.step_ms,
        "covered": [list(span) for span in manifest.covered],
        "files": [part._asdict() for part in manifest.parts],
    }
    _put(Path(folder, MANIFEST), json.dumps(content, indent=1).encode() + b"\n")
    tidy(folder, manifest)


def tidy(folder: str | os.PathLike[str], manifest: Manifest) -> None:
    """Remove files that `manifest` does not list: replaced ones, and those of a killed run.

    A tool that reads all Parquet files of the folder would otherwise read rows twice. Raises
    StorageFailed.
    """
    place = Path(folder)
    named = {part.name for part in manifest.parts}
    with storage(place, "removing files that were replaced"):
        for path in place.iterdir():
            ours = path.name.startswith(("cells-", ".cells-")) and path.suffix in (
                ".parquet",
                ".tmp",
            )
            if ours and path.name not in named:
                with suppress(FileNotFoundError):
                    path.unlink()


def give_room(folder: str | os.PathLike[str], before: Manifest) -> None:
    """Remove the files of a failed run if the manifest is still the one `before`.

    The next run removes what cannot be removed now.
    """
    with suppress(KafkatsError):
        if read_manifest(folder) == before:
            tidy(folder, before)


def _put(path: Path, data: bytes | memoryview) -> None:
    """Write a file atomically and sync it."""
    new = path.with_name(f".{path.name}.tmp")
    with storage(path, "writing the table"):
        with new.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        DISK.sync_dir(path.parent)


def _stamp(ms: int) -> str:
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).strftime("%Y%m%dT%H%M%SZ")
    except OverflowError:
        return str(ms)


def sorted_parts(parts: Sequence[Part]) -> tuple[Part, ...]:
    return tuple(sorted(parts, key=lambda part: part.from_ms))
