"""Files of the folder of all runs, from one machine to another: a compressed tar.

A parcel has regular files only, by their path in the folder. Whoever unpacks it says which paths
and contents it may have. Links, other kinds of files, other places and other contents are refused.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from kafkats.counts import counted, size_text
from kafkats.detached.messages import Files
from kafkats.errors import CorruptFile, Refused, storage
from kafkats.plans.files import make_folder, private

MOST_FILES: Final = 100_000
MOST_BYTES: Final = 4 * 1024**3
"""Bytes of all files of a parcel, before they are compressed."""
_PIECE: Final = 1 << 20
_HEADERS: Final = 256 * 1024
"""Bytes that may lie between two files of a parcel: tarfile keeps them in memory."""
_LEVEL: Final = 1
"""zlib's: reports and plans are Parquet, which is compressed already."""


def listed(folder: Path, paths: Iterable[Path]) -> Files:
    """Return the regular files at `paths` and below them. Links are not followed.

    Raises Refused for a path outside of `folder`, or for more than a parcel holds; StorageFailed.
    """
    found: Files = {}
    total = 0
    for path in dict.fromkeys(paths):
        check_inside(folder, path)
        for file in _files(path):
            with storage(file, "reading it"):
                total += file.stat().st_size
                if total > MOST_BYTES or len(found) >= MOST_FILES:
                    raise _too_large(path)
                found[str(file.relative_to(folder))] = _digest(file)
    return found


def names(folder: Path, paths: Iterable[Path]) -> list[str]:
    """Return the names of the files that `listed` reads. Raises Refused."""
    found: dict[str, None] = {}
    for path in dict.fromkeys(paths):
        check_inside(folder, path)
        found.update((str(file.relative_to(folder)), None) for file in _files(path))
    return list(found)


def pack(stream: IO[bytes], folder: Path, names: Iterable[str]) -> None:
    """Write a parcel of these files. Raises StorageFailed."""
    with (
        gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=_LEVEL) as zipped,
        tarfile.open(fileobj=zipped, mode="w|", format=tarfile.PAX_FORMAT) as parcel,
    ):
        for name in names:
            path = folder / name
            with storage(path, "sending it"), path.open("rb") as file:
                member = tarfile.TarInfo(name)
                seen = os.fstat(file.fileno())
                member.size, member.mode = seen.st_size, seen.st_mode & 0o666
                member.mtime = seen.st_mtime_ns / 1e9
                parcel.addfile(member, file)


def unpack(
    stream: IO[bytes],
    folder: Path,
    paths: Sequence[Path],
    files: Files,
    apart: Mapping[str, Path] | None = None,
) -> None:
    """Write the files of a parcel, each in one step. `files` are those that it may have, `apart`
    gives some of them another place.

    Raises Refused for a file outside of `paths`, CorruptFile for a parcel that is not whole or has
    other files, StorageFailed.
    """
    missing, total = dict(files), 0
    try:
        with (
            _Bounded(fileobj=stream) as bounded,
            tarfile.open(fileobj=bounded, mode="r|") as parcel,
        ):
            for member in parcel:
                vars(parcel)["members"] = []  # tarfile would keep each one
                digest = missing.pop(member.name, None)
                content = parcel.extractfile(member) if member.isreg() else None
                if digest is None or content is None:
                    raise CorruptFile(f"a parcel with {member.name[:200]!r} in it")
                total += member.size
                if total > MOST_BYTES:
                    raise _too_large(folder)
                _check_place(folder / member.name, folder, paths)
                place = (apart or {}).get(member.name, folder / member.name)
                bounded.left = member.size + _HEADERS
                _write(place, member, content, digest)
                bounded.left = _HEADERS
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError, OverflowError) as e:
        raise CorruptFile(f"the parcel is incomplete: {e}", path=folder) from e
    if missing:
        raise CorruptFile(
            f"the parcel lacks {counted(len(missing), 'file')}, such as {next(iter(missing))!r}",
            path=folder,
        )


class _Bounded(gzip.GzipFile):
    """A compressed stream of which `left` more bytes may be read."""

    left = _HEADERS

    def read(self, size: int | None = -1) -> bytes:
        """Read up to `size` bytes. Raises CorruptFile for more than is left, EOFError if the stream
        ends or breaks: whoever writes a file meanwhile would take an OSError for the disk's.
        """
        try:
            data = super().read(size)
        except OSError as e:
            raise EOFError(str(e) or "the connection was lost") from e
        self.left -= len(data)
        if self.left < 0:
            raise CorruptFile("a parcel with too long a header")
        return data


def remove(folder: Path, paths: Sequence[Path], names: Iterable[str]) -> None:
    """Remove these files, and the folders that are empty then. Raises Refused, StorageFailed."""
    above: set[Path] = set()
    for name in names:
        path = folder / name
        _check_place(path, folder, paths)
        with storage(path, "removing it"):
            path.unlink(missing_ok=True)
        above.update(one for one in path.parents if one.is_relative_to(folder) and one != folder)
    for one in sorted(above, key=lambda path: -len(path.parts)):
        try:
            one.rmdir()
        except OSError:
            continue


def check_inside(folder: Path, path: Path) -> None:
    """Raise Refused unless a path, with links followed, lies in the folder."""
    plain = path.is_absolute() and ".." not in path.parts and path != folder
    real = Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))
    if not (plain and path.is_relative_to(folder) and real):
        raise Refused(f"is not in the folder of all runs, {folder}", path=path)


def _check_place(path: Path, folder: Path, paths: Sequence[Path]) -> None:
    check_inside(folder, path)
    if not any(path.is_relative_to(one) for one in paths):
        raise Refused("is none of the files of this request", path=path)


def _write(path: Path, member: tarfile.TarInfo, content: IO[bytes], digest: str) -> None:
    """Write a file with its times, by which pages and tasks order the files of a run."""
    make_folder(path.parent, "a file of a run")
    seen = hashlib.sha256()
    with storage(path, "writing"), private(path) as new, new.open("wb") as file:
        while piece := content.read(_PIECE):
            seen.update(piece)
            file.write(piece)
        if seen.hexdigest() != digest:
            raise CorruptFile("has another content than the one announced", path=path)
        file.flush()
        os.fsync(file.fileno())
        new.chmod(member.mode & 0o664)  # another machine lets nobody write here
        os.utime(new, (member.mtime, member.mtime))
        new.replace(path)


def _files(path: Path) -> Iterator[Path]:
    if path.is_file() and not path.is_symlink():
        yield path
    elif path.is_dir() and not path.is_symlink():
        for above, _, names in os.walk(path):
            for name in sorted(names):
                file = Path(above, name)
                if file.is_file() and not file.is_symlink():
                    yield file


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _too_large(path: Path) -> Refused:
    return Refused(
        f"has more than {size_text(MOST_BYTES)} or {counted(MOST_FILES, 'file')}: that is not sent"
        " to another machine; let both mount the folder of all runs",
        path=path,
    )
