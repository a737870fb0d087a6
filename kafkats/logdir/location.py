"""Tell whether a path is a `log.dirs` root, a partition directory or a segment."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, NamedTuple

from kafkats import errors, paths
from kafkats.errors import BadInput, UsageError

_ROOT_SIGNS: Final = (*paths.OFFSET_CHECKPOINTS, paths.META_PROPERTIES, paths.CLEAN_SHUTDOWN)
_LOST_AND_FOUND: Final = "lost+found"
_PARTITION_SIGNS: Final = (paths.LEADER_EPOCH, paths.PARTITION_METADATA)


class Place(NamedTuple):
    """`path` as given, and the directories around it.

    `root` is the log.dirs root: the path itself, or the directory above a partition if that
    directory has a root's files. It is None for a partition that was copied elsewhere. `partition`
    is None for a root. `base_offset` is set for a segment only.
    """

    kind: Literal["root", "partition", "segment"]
    path: Path
    root: Path | None
    partition: Path | None
    base_offset: int | None


def locate(path: str | os.PathLike[str]) -> Place:
    """Classify `path` by its contents. Its name decides nothing: a root may be called `kafka-1`.

    Raises UsageError for any other path, with what was looked for, BadInput for an empty directory,
    StorageFailed when the directory cannot be listed.
    """
    where = Path(path)
    with errors.storage(where, "looking for the folder in which this runs"):
        whole = where.absolute()
    try:
        os.fsencode(whole).decode()
    except UnicodeDecodeError:
        shown = os.fsencode(where).decode(errors="backslashreplace")
        raise UsageError(
            "the path's bytes are not UTF-8: plans and reports could not name it", path=shown
        ) from None
    if paths.CLUSTER_METADATA in {where.name, whole.parent.name}:
        raise UsageError("belongs to KRaft's controllers, kafkats leaves it alone", path=where)
    with errors.storage(where, "looking at it"):
        if where.is_dir():
            return _directory(where)
        if not os.path.lexists(where):
            raise UsageError("does not exist", path=where)
        return _segment(where)


def log_dir_above(path: str | os.PathLike[str], *, by_partitions: bool = False) -> Path | None:
    """Return the log directory that `path` is or lies in, links followed; None if there is none.

    It has a root's files. With `by_partitions` a directory with nothing but partitions counts, too,
    as does a partition that was copied elsewhere. Raises StorageFailed.
    """
    with errors.storage(path, "looking for a log directory above it"):
        real = Path(os.path.realpath(path))  # resolve() raises RuntimeError for a loop
        for above in (real, *real.parents):
            if any((above / name).exists() for name in _ROOT_SIGNS):
                return above
            if by_partitions and (_only_partitions(above) or _is_partition(above)):
                return _root_above(above) or above
    return None


def _only_partitions(where: Path) -> bool:
    """Return whether a directory has partitions, and nothing else. It may not be readable."""
    found = False
    with suppress(OSError), os.scandir(where) as entries:
        for entry in entries:
            if entry.name in (paths.LOCK, _LOST_AND_FOUND):
                continue
            if not _is_partition(where / entry.name):
                return False
            found = True
    return found


def is_empty_root(path: str | os.PathLike[str]) -> bool:
    """Return whether `path` is a directory without files, as the mount point of a new disk is.

    Raises StorageFailed when it cannot be listed.
    """
    where = Path(path)
    with errors.storage(where, "looking at it"):
        return where.is_dir() and {entry.name for entry in where.iterdir()} <= {_LOST_AND_FOUND}


def _directory(where: Path) -> Place:
    names = {entry.name for entry in where.iterdir()}
    if names <= {_LOST_AND_FOUND}:
        raise BadInput(
            "is an empty directory: a log directory has directories such as topic-0; is its disk"
            " mounted?",
            path=where,
        )
    if any(_is_segment(name) for name in names) or names & set(_PARTITION_SIGNS):
        return Place("partition", where, _root_above(where), where, None)
    if names & set(_ROOT_SIGNS) or any(_is_partition(where / name) for name in names):
        return Place("root", where, where, None, None)
    raise UsageError(
        "is neither a log.dirs root (no checkpoint file, no meta.properties, no"
        " topic-partition directory with Kafka's "
        "files) nor a partition directory (no 00000000000000000000.log)",
        path=where,
    )


def _segment(where: Path) -> Place:
    parsed = paths.parse_segment_file(where.name)
    if (
        not where.is_file()
        or parsed is None
        or where.name != paths.segment_file(parsed.base_offset)
    ):
        raise UsageError(
            "is neither a directory nor a segment (a file named like 00000000000000000000.log); "
            "`kafkats dump` reads the other files of a log directory",
            path=where,
        )
    return Place("segment", where, _root_above(where.parent), where.parent, parsed.base_offset)


def _root_above(partition: Path) -> Path | None:
    above = partition.absolute().parent
    return above if any((above / name).exists() for name in _ROOT_SIGNS) else None


def _is_segment(name: str) -> bool:
    parsed = paths.parse_segment_file(name)
    return parsed is not None and not parsed.suffix and parsed.kind != paths.SNAPSHOT


def _is_partition(where: Path) -> bool:
    """Return whether it is named like a partition and contains files of Kafka."""
    if paths.parse_partition(where.name) is None or not where.is_dir():
        return False
    try:
        names = [entry.name for entry in where.iterdir()]
    except OSError:
        return False
    return any(_is_segment(name) or name in _PARTITION_SIGNS for name in names)
