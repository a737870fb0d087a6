"""Files of reports, each parsed once per change.

A report may be corrupt, half-written, of another version, or too large. None of these is a failure
of the page: the file becomes an `Unreadable`, which says why.
"""

from __future__ import annotations

import gc
import json
import os
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial, wraps
from pathlib import Path
from typing import Final, NamedTuple, ParamSpec, TypeVar

from pydantic import BaseModel, ValidationError

from kafkats.config.faults import faults
from kafkats.errors import KafkatsError
from kafkats.logdir import strict_json

T = TypeVar("T")
P = ParamSpec("P")
M = TypeVar("M", bound=BaseModel)

KEPT: Final = 100_000
"""How many results are kept. A run has about four."""
KEPT_BYTES: Final = 64 * 1024**2
"""The size of all files that are kept parsed: a folder of large reports fills no memory."""
_UNUSED_S: Final = 600.0
"""Where there is no room, a result makes room for a new one that was not used for so long. Else the
new one is not kept: each page reads all reports, and would find none of them.
"""
_FROZEN_AT: Final = 5_000
"""Each time that so many more results are kept than ever before, the garbage collector is told to
leave what is there alone. With those of 10 000 runs it would stop every answer for a second, each
time a few pages were shown. A result in place of another one does not count: what is left alone
while it is garbage stays for ever.
"""
LARGEST_BYTES: Final = 16 * 1024**2
"""A JSON file above this is not read: no report of ours is that large."""


class Unreadable(NamedTuple):
    """A file that cannot be shown, and why, for people."""

    path: Path
    why: str


class State(NamedTuple):
    """The state of a file or folder. A rename into place changes the inode, a write the times: that
    of the ctime even if the old mtime is put back, as rsync and cp -a do.
    """

    mtime_ns: int
    ctime_ns: int
    size: int
    inode: int


@dataclass(slots=True)
class _Made:
    """A kept result, the state of the path from which it was made, the size of the file, and when
    it was used last (time.monotonic).
    """

    state: object
    made: object
    size: int
    used: float


_lock: Final = threading.Lock()
_parsed: Final[OrderedDict[tuple[str, str], _Made]] = OrderedDict()
_bytes: Final = [0]  # of the files in _parsed
_frozen: Final = [0]  # results at the last freeze


def model(path: Path | str, of: type[M]) -> M | Unreadable | None:
    """Return the JSON object in a file as a model, None where there is no file."""
    return cached(path, lambda file: of.model_validate(json_of(file)), of)


def parsed(path: Path, of: type[M]) -> M | Unreadable | None:
    """Return what `model` returns, and keep nothing: it becomes a part of what is kept."""
    state = state_of(path)
    if not isinstance(state, State):
        return state
    return _parse(path, lambda file: of.model_validate(json_of(file)))


def cached(
    path: Path | str, parse: Callable[[Path], T], of: type[T] | None = None
) -> T | Unreadable | None:
    """Return what `parse` makes of a file, None where there is no file.

    It is kept under the name of `of`, or of `parse`. `parse` may raise KafkatsError, OSError,
    ValueError (such as a ValidationError), KeyError or TypeError.
    """
    state = state_of(path)
    if not isinstance(state, State):
        return state
    by = of or parse
    name = f"{by.__module__}.{by.__qualname__}"
    made = partial(_parse, Path(path), parse)
    return remembered(path, name, state, made, lambda _: state.size)


def remembered(
    path: Path | str,
    name: str,
    state: object,
    make: Callable[[], T],
    size: Callable[[T], int] = lambda _: 0,
    lasts: Callable[[T], bool] = lambda _: True,
) -> T:
    """Return the kept result for a path, a name and this state; without one, call `make`.

    `size` returns the bytes of the files that the result holds, `lasts` whether it may be kept. An
    `Unreadable` is not: a file that can be read again has the state that it had.
    """
    key = (os.fspath(path), name)
    with _lock:
        found = _parsed.get(key)
        if found is not None and found.state == state:
            _parsed.move_to_end(key)
            found.used = time.monotonic()
            known: T = found.made  # type: ignore[assignment]  # of this `make`
            return known
    made = make()
    keep = not isinstance(made, Unreadable) and lasts(made)
    with _lock:
        if key in _parsed:
            _bytes[0] -= _parsed.pop(key).size
        if keep:
            _keep(key, _Made(state, made, size(made), time.monotonic()))
    return made


def _keep(key: tuple[str, str], new: _Made) -> None:
    """Keep a result if there is room, or results that nobody uses. The caller has the lock."""
    while _parsed and (len(_parsed) >= KEPT or _bytes[0] + new.size > KEPT_BYTES):
        oldest = next(iter(_parsed))
        if new.used - _parsed[oldest].used < _UNUSED_S:
            return
        _bytes[0] -= _parsed.pop(oldest).size
    _parsed[key] = new
    _bytes[0] += new.size
    if len(_parsed) >= _frozen[0] + _FROZEN_AT:
        _frozen[0] = len(_parsed)
        gc.freeze()


class _NotKept(Exception):
    """A result that is returned, and not kept."""

    def __init__(self, made: Unreadable) -> None:
        self.made = made


def lately(most: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Keep the last results of a function, as lru_cache does, except an `Unreadable`."""

    def of(make: Callable[P, T]) -> Callable[P, T]:
        @lru_cache(most)
        def kept(*args: P.args, **more: P.kwargs) -> T:
            made = make(*args, **more)
            if isinstance(made, Unreadable):
                raise _NotKept(made)
            return made

        @wraps(make)
        def asked(*args: P.args, **more: P.kwargs) -> T:
            try:
                return kept(*args, **more)  # type: ignore[arg-type]  # of hashable arguments
            except _NotKept as e:
                return e.made  # type: ignore[return-value]  # T has it

        return asked

    return of


def state_of(path: Path | str) -> State | Unreadable | None:
    """Return the state of a file, None where there is none. Links are not followed.

    A page asks about tens of thousands of files: to make a Path of each takes longer than to ask.
    """
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as e:
        return Unreadable(Path(path), _reason(e))
    if not stat.S_ISREG(found.st_mode):
        return Unreadable(Path(path), "it is no plain file")
    return state_in(found)


def state_in(about: os.stat_result) -> State:
    """Return the state of a file or folder, as its stat tells of it."""
    return State(about.st_mtime_ns, about.st_ctime_ns, about.st_size, about.st_ino)


def changed_ms(path: Path) -> int | None:
    """Return when a file changed last, epoch ms; None where there is none."""
    state = state_of(path)
    return state.mtime_ns // 1_000_000 if isinstance(state, State) else None


def too_large(found: int, most: int, what: str = "bytes") -> str:
    """Return the reason why a file with so many bytes or rows is not shown."""
    return f"too large to show: {found} {what}, and a page reads at most {most}"


def is_file(path: Path | str) -> bool:
    """Return whether a file is seen from here.

    Path.is_file raises where a folder above it may not be entered, such as a broker's log
    directory.
    """
    return os.path.isfile(path)  # noqa: PTH113


def is_dir(path: Path) -> bool:
    """Return whether a directory is seen from here. Never raises, unlike Path.is_dir."""
    return os.path.isdir(path)  # noqa: PTH112


def json_of(path: Path) -> dict[str, object]:
    """Return the JSON object in a file. Raises ValueError, OSError."""
    if (size := path.stat().st_size) > LARGEST_BYTES:
        raise ValueError(too_large(size, LARGEST_BYTES))
    with path.open("rb") as file:
        text = file.read(LARGEST_BYTES + 1)  # it may have grown since
    try:
        content = strict_json.loads(text)
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except ValueError as e:
        raise ValueError(f"corrupt: {e}") from e
    if not isinstance(content, dict):
        raise ValueError("it is no JSON object")
    return content


def listed(folder: Path, pattern: str) -> list[Path]:
    """Return the paths below a run's folder that match, sorted. No link is followed: it may lead
    into the folder of a DAG whose runs the person may not read.
    """
    found = []
    for path in sorted(folder.glob(pattern)):
        depth = len(path.relative_to(folder).parts) - 1
        if not any(above.is_symlink() for above in path.parents[:depth]):
            found.append(path)
    return found


def _parse(path: Path, parse: Callable[[Path], T]) -> T | Unreadable:
    try:
        return parse(path)
    except KafkatsError as e:
        return Unreadable(path, e.reason)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as e:
        return Unreadable(path, _reason(e))


def _reason(error: Exception) -> str:
    """Return one plain sentence for an error of Python, pydantic or the system."""
    if isinstance(error, ValidationError):
        return f"not as it was written: {faults(error)[0]}"
    if isinstance(error, OSError):
        return (error.strerror or type(error).__name__).lower()
    if isinstance(error, RecursionError):
        return "corrupt: it is nested too deeply"
    if isinstance(error, (json.JSONDecodeError, UnicodeDecodeError)):
        return "half-written or corrupt: it is not JSON"
    return str(error) or type(error).__name__
