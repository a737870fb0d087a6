"""The errors that kafkats raises.

KafkatsError                where, reason, holders, numbers, exit code, retryable
├── UsageError              wrong arguments, settings or policy                     exit 2
├── BadInput                invalid bytes or files                                  exit 2
│   ├── CorruptBatch        a batch, wrapper or record
│   ├── CorruptIndex        an .index, .timeindex or .txnindex
│   ├── CorruptFile         a checkpoint, snapshot, meta.properties, journal
│   ├── CorruptPlan         a plan or run folder
│   └── NotConvertible      valid bytes that the target format cannot express
├── Refused                 refused for safety until the situation changes          exit 3
│   ├── Locked              a broker, or another writer, holds the directory        retryable
│   ├── Reserved            another plan has reserved the directory
│   ├── Changed             a file is not as the plan or the run left it
│   ├── OtherVolume         another disk than the listed one is at a path
│   ├── Fenced              a newer attempt has taken over
│   ├── NotEqual            the new files do not equal their source
│   └── NotPermitted        owner, group, mode or xattrs could not be kept
├── WorkerLost              a worker process died, or its memory ran out   exit 2, retryable
├── Unattended              nobody waits for the work any more             exit 2, retryable
└── StorageFailed           the file system refused a read or write                 exit 2
    ├── Vanished            a file was deleted meanwhile, as by a live broker       retryable
    ├── DiskFull                                                                    retryable
    └── ReadOnly
"""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from kafkats.text import Flag, Part, Text


@dataclass(frozen=True)
class Holder:
    """A reservation: who has reserved `log_dir`, and until when (epoch milliseconds)."""

    log_dir: str
    holder: str
    until_ms: int


class KafkatsError(Exception):
    """An error with path, position, reason, and whether a retry can help.

    The reason is given as the words and names of its sentence, in order (kafkats.text).
    `position` is a byte in the file at `path`. `base_offset` is the segment's. `holders` and
    `numbers` repeat parts of the reason for programs: reservations of others, and amounts by name,
    such as `needed_bytes`. No program reads the sentence.
    """

    exit_code = 2
    retryable = False

    def __init__(
        self,
        *reason: Part,
        path: str | os.PathLike[str] | None = None,
        position: int | None = None,
        base_offset: int | None = None,
        holders: Sequence[Holder] = (),
        numbers: Mapping[str, int] | None = None,
    ) -> None:
        self.reason = Text(*reason)
        super().__init__(self.reason)
        self.path = None if path is None else os.fspath(path)
        self.position = position
        self.base_offset = base_offset
        self.holders = tuple(holders)
        self.numbers = dict(numbers or {})

    def __str__(self) -> str:
        return str.__str__(self.text)

    @property
    def text(self) -> Text:
        """The sentence, with the names of options and commands in it."""
        where = self.path or ""
        if self.position is not None:
            where += f" at byte {self.position}"
        return Text(f"{where.strip()}: " if where else "", self.reason)

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process borders in Spark tasks. The default pickling loses keyword arguments.
        return _restore, (type(self), self.reason, self.where_and_what())

    def where_and_what(self) -> dict[str, Any]:
        """Return the arguments by name, without the reason."""
        return {
            "path": self.path,
            "position": self.position,
            "base_offset": self.base_offset,
            "holders": self.holders,
            "numbers": self.numbers,
        }

    def as_fields(self) -> dict[str, Any]:
        """Return the error as JSON fields: `error` (the sentence), `kind` (the class), `retryable`,
        and of the other fields those that it has.
        """
        more = self.where_and_what() | {"holders": [asdict(one) for one in self.holders]}
        return {
            "error": str(self),
            "kind": type(self).__name__,
            "retryable": self.retryable,
            **{name: value for name, value in more.items() if value not in (None, [], {})},
        }


def _restore(
    kind: type[KafkatsError], reason: str, where_and_what: Mapping[str, Any]
) -> KafkatsError:
    return kind(reason, **where_and_what)


class UsageError(KafkatsError):
    """Wrong arguments on the command line, wrong settings, or a wrong policy."""


class BadInput(KafkatsError):
    """Bytes or files that are not what their name or place requires."""


class CorruptBatch(BadInput):
    """A batch, wrapper or record that Kafka's own reader rejects."""


class OversizedBatch(CorruptBatch):
    """A batch or wrapper that decompresses to more than the limit."""


class CorruptIndex(BadInput):
    """An index file whose entries cannot be read."""


class CorruptFile(BadInput):
    """A checkpoint, producer snapshot, properties file or journal that cannot be read."""


class CorruptPlan(BadInput):
    """A plan or run folder that is incomplete or was edited."""


class NotConvertible(BadInput):
    """A valid batch or segment that the target format cannot express. It is left unchanged."""


class Refused(KafkatsError):
    """Refused for safety. Nothing was changed."""

    exit_code = 3


class Locked(Refused):
    """A broker or another writer holds the directory."""

    retryable = True


class Reserved(Refused):
    """Another holder has reserved the log directory."""


class Changed(Refused):
    """A file is not as the plan saw it or as the run left it."""


class OtherVolume(Refused):
    """Another volume than the listed one is at a path. Nothing was read or locked there."""


class Fenced(Refused):
    """A newer attempt of the same work has taken over."""


class NotEqual(Refused):
    """The new files do not equal their source. Nothing was changed, and the run stops."""


class NotPermitted(Refused):
    """Mode, owner, group or extended attributes of a file could not be kept."""


class WorkerLost(KafkatsError):
    """A worker process was killed, or memory ran out, before its unit was done."""

    retryable = True


class Unattended(KafkatsError):
    """The work stopped at a safe point, since whoever started it gave no sign of life."""

    retryable = True


class StorageFailed(KafkatsError):
    """The file system refused a read or a write."""


class Vanished(StorageFailed):
    """A file or directory was deleted meanwhile."""

    retryable = True


class DiskFull(StorageFailed):
    """No free space, inodes or quota."""

    retryable = True


class ReadOnly(StorageFailed):
    """The file system or the file does not allow the read or write."""


def disk_full(path: str, needed_bytes: int, free_bytes: int) -> DiskFull:
    """Return the error of work that does not fit, before it is begun."""
    return DiskFull(
        f"{needed_bytes} bytes needed, {free_bytes} free: nothing was begun",
        path=path,
        numbers={"needed_bytes": needed_bytes, "free_bytes": free_bytes},
    )


_KINDS: dict[int, type[StorageFailed]] = {
    errno.ENOENT: Vanished,
    errno.ESTALE: Vanished,
    errno.ENOSPC: DiskFull,
    errno.EDQUOT: DiskFull,
    errno.EROFS: ReadOnly,
    errno.EACCES: ReadOnly,
    errno.EPERM: ReadOnly,
}


_MEMORY_ENDED: Final = (
    "failed to map segment from shared object",
    "cannot allocate memory",
    "can't start new thread",
    "error return without exception set",
)
"""Parts of messages: of the loader of libraries, of the system, of Python, and of C code that
failed without the memory to say why."""


def memory_ran_out() -> KafkatsError:
    """Return the error of work for which the memory of this process was too small."""
    return KafkatsError("memory ran out: fewer ", Flag("--jobs"), " need less")


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out, also while a library was loaded or a thread was started.

    Under a limit on the address space (`ulimit -v`) our own modules can fail to load, too.
    """
    at: BaseException | None = error
    while at is not None:
        said = str(at).lower()
        if isinstance(at, MemoryError) or any(part in said for part in _MEMORY_ENDED):
            return True
        if isinstance(at, ImportError) and _limited() and "kafkats" in said:
            return True
        at = at.__cause__ or at.__context__
    return False


def _limited() -> bool:
    """Return whether this process may not have all of its address space."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return soft != resource.RLIM_INFINITY


class storage:  # noqa: N801  # used like a function; a generator takes thrice as long
    """Convert an OSError raised in the body into ours, with `path` and the action `doing`.

    Raises StorageFailed or one of its subclasses.
    """

    __slots__ = ("doing", "path")

    def __init__(self, path: str | os.PathLike[str], doing: str) -> None:
        self.path, self.doing = path, doing

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, _kind: type[BaseException] | None, e: BaseException | None, _trace: object
    ) -> None:
        if isinstance(e, OSError):
            kind = _KINDS.get(e.errno or 0, StorageFailed)
            path = e.filename or self.path
            raise kind(f"{self.doing}: {e.strerror or e}", path=path) from e


def exists(path: str | os.PathLike[str], doing: str) -> bool:
    """Return whether there is something at `path`. Links are followed. Raises StorageFailed."""
    with storage(path, doing):
        return Path(path).exists()


def is_file(path: str | os.PathLike[str], doing: str) -> bool:
    """Return whether there is a regular file at `path`. Links are followed.

    Raises StorageFailed.
    """
    with storage(path, doing):
        return Path(path).is_file()
