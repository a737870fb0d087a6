"""Removes the folder of a DAG run, without following a link, so that a kill leaves it or nothing.

    NAME -> .removing-NAME    it has another name: nobody begins to write in it any more
    looked at again           if it has changed since it was chosen, it gets its name back
    -> .removed-NAME          from here on it is only deleted

`resume` ends what a kill has interrupted: a folder that was not looked at again gets its name back,
one that was is deleted.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from kafkats.errors import Changed, Refused, storage

REMOVING: Final = ".removing-"
REMOVED: Final = ".removed-"
DEEPEST: Final = 100
"""Folders of ours are 3 deep. Python deletes no tree that is much deeper than this."""


class Tree(NamedTuple):
    """Everything in a folder. `files` are relative paths of plain files; `newest_ns` is the latest
    time at which anything changed; `foreign` is a path on another file system, "" if there is none.
    """

    files: tuple[Path, ...]
    bytes: int
    newest_ns: int
    foreign: str
    digest: str


def tree_of(folder: Path) -> Tree:
    """Return what is in a folder. Links are not followed. Raises StorageFailed, Refused for a tree
    deeper than DEEPEST.
    """
    files, size, foreign = [], 0, ""
    digest = hashlib.sha256()
    with storage(folder, "looking at a run's folder"):
        top = folder.lstat()
        newest = top.st_mtime_ns
        for path, state in _walk(folder, folder):
            newest = max(newest, state.st_mtime_ns)
            name = path.relative_to(folder)
            if state.st_dev != top.st_dev:
                foreign = foreign or str(path)
            if stat.S_ISREG(state.st_mode):
                files.append(name)
                size += state.st_size
            facts = (os.fspath(name), state.st_mode, state.st_size, state.st_mtime_ns, state.st_ino)
            digest.update(repr(facts).encode(errors="surrogatepass"))
    return Tree(tuple(files), size, newest, foreign, digest.hexdigest())


def _walk(folder: Path, top: Path) -> Iterator[tuple[Path, os.stat_result]]:
    if len(folder.parts) - len(top.parts) > DEEPEST:
        raise Refused(f"nested more than {DEEPEST} folders deep: remove it by hand", path=top)
    with os.scandir(folder) as listed:
        for one in sorted(listed, key=lambda one: one.name):
            state = one.stat(follow_symlinks=False)
            yield Path(one.path), state
            if stat.S_ISDIR(state.st_mode):
                yield from _walk(Path(one.path), top)


def remove(folder: Path, digest: str) -> None:
    """Remove a folder whose tree has this digest.

    Raises Changed if it has another one now, Refused if it is a link or on another file system,
    StorageFailed.
    """
    _check_plain(folder)
    with storage(folder, "removing a run's folder"):
        aside = folder.rename(folder.with_name(REMOVING + folder.name))
    seen = tree_of(aside)
    if seen.digest != digest or seen.foreign:
        give_back(aside)
        raise Changed("has changed since it was chosen, and is kept", path=folder)
    with storage(folder, "removing a run's folder"):
        gone = aside.rename(folder.with_name(REMOVED + folder.name))
        _sync(folder.parent)
        shutil.rmtree(gone)
        _sync(folder.parent)


def resume(above: Path) -> list[Path]:
    """End what was interrupted in the folder `above`. Returns the folders that got their name back.

    Raises Refused if that name is taken, StorageFailed.
    """
    back = []
    with storage(above, "listing the folders of runs"), os.scandir(above) as listed:
        left = sorted(one.name for one in listed if one.is_dir(follow_symlinks=False))
    for name in left:
        if name.startswith(REMOVED):
            with storage(above / name, "removing a run's folder"):
                shutil.rmtree(above / name)
        elif name.startswith(REMOVING):
            back.append(give_back(above / name))
    return back


def give_back(aside: Path) -> Path:
    """Give a folder its name back. Raises Refused if something has that name, StorageFailed."""
    folder = aside.with_name(aside.name.removeprefix(REMOVING))
    if os.path.lexists(folder):
        raise Refused(
            f"is the folder of a run that began anew meanwhile, at {folder}: move what is in it"
            " there",
            path=aside,
        )
    with storage(aside, "giving a run's folder its name back"):
        return aside.rename(folder)


def _check_plain(folder: Path) -> None:
    with storage(folder, "looking at a run's folder"):
        state, above = folder.lstat(), folder.parent.stat()
    if not stat.S_ISDIR(state.st_mode) or state.st_dev != above.st_dev:
        raise Refused("a link, or another file system: only plain folders go", path=folder)


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
