"""A file system in memory that keeps only what was synced, for asking what a power failure may leave.

The kernel's promises are taken at their weakest, POSIX plus atomic renames:

* Bytes and attributes of a file are safe once the file is synced. Until then a crash leaves the last synced state, an
  empty file, zeros, the first half, or all of it. Bytes in front of the first one written since then stay as they are.
* Names (made, renamed, removed) are safe once their directory is synced. Until then a crash may keep any of these
  changes and lose any other, in any combination; a rename within a directory is one change, a rename between two
  directories is two that are lost or kept apart.

`after_crash` lists the states that a crash at this moment may leave.
"""

from __future__ import annotations

import errno
import itertools
import random
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from kafkats.hashes import SHA256, hash_bytes
from kafkats.logdir.disk import Disk
from kafkats.logdir.identity import Attributes, FileIdentity

SUBSETS = 8
"""Up to so many pending changes all subsets are tried; above, see `_subsets`."""


_PRIVATE = Attributes(0o600, 0, 0, ())


@dataclass(frozen=True)
class Content:
    data: bytes = b""
    mtime_ns: int = 0
    attributes: Attributes = _PRIVATE


@dataclass
class Inode:
    now: Content
    synced: Content | None = None
    ctime_ns: int = 0
    untouched: int = 0

    def copy(self) -> Inode:
        return Inode(self.now, self.synced, self.ctime_ns, self.untouched)


@dataclass
class Folder:
    """`pending`: changes of names since the last sync, each a dict of name -> inode number, None for gone."""

    now: dict[str, int] = field(default_factory=dict)
    synced: dict[str, int] = field(default_factory=dict)
    pending: list[dict[str, int | None]] = field(default_factory=list)

    def copy(self) -> Folder:
        return Folder(dict(self.now), dict(self.synced), list(self.pending))


Node = Inode | Folder
Hook = Callable[..., object]


class ForgetfulDisk(Disk):
    """`before_effect` is called with the name and the paths of each effect before it happens, and may raise."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {1: Folder()}
        self.found: dict[Path, int | None] = {}
        self.clock = 10**18
        self.before_effect: Hook = lambda *_: None

    def snapshot(self) -> ForgetfulDisk:
        other = ForgetfulDisk()
        other.nodes, other.clock = {n: node.copy() for n, node in self.nodes.items()}, self.clock
        return other

    # Looks

    def identify(self, path: Path) -> FileIdentity | None:
        number = self._number(path)
        if number is None:
            return None
        inode = self._inode(path)
        return FileIdentity(len(inode.now.data), inode.now.mtime_ns, inode.ctime_ns, number)

    def identities(self, directory: Path, names: Iterable[str]) -> dict[str, FileIdentity | None]:
        return {name: self.identify(directory / name) for name in names}

    def attributes(self, path: Path) -> Attributes:
        return self._inode(path).now.attributes

    def names(self, directory: Path) -> list[str]:
        return sorted(self._folder(directory).now) if self.is_dir(directory) else []

    def is_dir(self, path: Path) -> bool:
        number = self._number(path)
        return number is not None and isinstance(self.nodes[number], Folder)

    def inode(self, directory: Path) -> int:
        self._folder(directory)
        return self._number(directory) or 0

    def moves_whole(self, path: Path) -> bool:
        return False

    def read(self, path: Path) -> bytes:
        return self._inode(path).now.data

    def links(self, path: Path) -> int:
        number = self._number(path)
        folders = (node for node in self.nodes.values() if isinstance(node, Folder))
        return sum(list(folder.now.values()).count(number or 0) for folder in folders)

    def continues(self, path: Path, start: int, tail: Path) -> bool:
        data = self.read(path)[start:]
        return all(
            a in (0, b) for a, b in zip(data, self.read(tail).ljust(len(data), b"\0"), strict=False)
        )

    def hash(self, path: Path, algorithm: str) -> str:
        return hash_bytes(self.read(path), algorithm)

    # Effects

    def make_dir(self, path: Path) -> None:
        self.before_effect("make_dir", path)
        if not self.is_dir(path):
            self._name(path, self._new(Folder()))

    def write(self, path: Path, data: bytes) -> None:
        self.before_effect("write", path)
        if self._number(path) is not None:
            raise FileExistsError(errno.EEXIST, "exists", str(path))
        self._name(path, self._new(Inode(Content(data[: len(data) // 2], self._tick()))))
        self.before_effect("write the rest of", path)
        self._touch(path, data=data, mtime_ns=self._tick())

    def copy_tail(self, path: Path, start: int, end: int, target: Path) -> str:
        data = self.read(path)[start:end].rstrip(b"\0")
        self.write(target, data)
        return hash_bytes(data, SHA256)

    def truncate(self, path: Path, size: int) -> None:
        self.before_effect("truncate", path)
        self._keep(path, size)
        self._touch(path, data=self.read(path)[:size], mtime_ns=self._tick())

    def restore_tail(self, path: Path, start: int, tail: Path, size: int) -> None:
        head, data = self.read(path)[:start], self.read(tail)
        self.before_effect("restore the tail of", path)
        self._keep(path, start)
        self._touch(path, data=head + data[: len(data) // 2], mtime_ns=self._tick())
        self.before_effect("restore the rest of", path)
        self._touch(path, data=(head + data).ljust(size, b"\0"), mtime_ns=self._tick())

    def renew(self, path: Path) -> None:
        self.before_effect("renew", path)
        self._folder(path)

    def own(self, path: Path, mode: int, uid: int, gid: int) -> None:
        self.before_effect("own", path)
        if not self.is_dir(path):
            self._touch(path, attributes=Attributes(mode, uid, gid, self.attributes(path).xattrs))

    def set_xattrs(self, path: Path, xattrs: tuple[tuple[str, bytes], ...]) -> None:
        self.before_effect("set_xattrs", path)
        self._touch(path, attributes=self.attributes(path)._replace(xattrs=xattrs))

    def set_mtime(self, path: Path, mtime_ns: int) -> None:
        self.before_effect("set_mtime", path)
        self._touch(path, mtime_ns=mtime_ns)

    def link(self, source: Path, name: Path) -> None:
        self.before_effect("link", source, name)
        if self._number(name) is not None:
            raise FileExistsError(errno.EEXIST, "exists", str(name))
        self._inode(source).ctime_ns = self._tick()
        number = self._number(source)
        assert number is not None
        self._name(name, number)

    def rename(self, source: Path, name: Path) -> None:
        self.before_effect("rename", source, name)
        self._inode(source).ctime_ns = self._tick()
        number = self._number(source)
        assert number is not None
        if number == self._number(name):
            return  # POSIX: two names of one file stay
        if source.parent == name.parent:
            self._change(source.parent, {source.name: None, name.name: number})
        else:
            self._change(name.parent, {name.name: number})
            self._change(source.parent, {source.name: None})

    def unlink(self, path: Path) -> None:
        self.before_effect("unlink", path)
        if self._number(path) is not None:
            self._inode(path).ctime_ns = self._tick()
            self._change(path.parent, {path.name: None})

    def remove_dir(self, path: Path) -> None:
        self.before_effect("remove_dir", path)
        if self.is_dir(path):
            if self._folder(path).now:
                raise OSError(errno.ENOTEMPTY, "not empty", str(path))
            self._change(path.parent, {path.name: None})

    def sync_file(self, path: Path) -> None:
        self.before_effect("sync_file", path)
        inode = self._inode(path)
        inode.synced, inode.untouched = inode.now, len(inode.now.data)

    def sync_dir(self, path: Path) -> None:
        self.before_effect("sync_dir", path)
        folder = self._folder(path)
        folder.synced, folder.pending = dict(folder.now), []

    @contextmanager
    def hold_root(self, root: Path, owner_stopped: bool) -> Generator[None]:
        yield

    @contextmanager
    def lock(self, path: Path) -> Generator[None]:
        if self._number(path) is None:
            self._name(path, self._new(Inode(Content(), Content())))
        yield

    # Crashes

    def sync_all(self) -> None:
        for node in self.nodes.values():
            if isinstance(node, Folder):
                node.synced, node.pending = dict(node.now), []
            else:
                node.synced, node.untouched = node.now, len(node.now.data)

    def after_crash(self, chance: random.Random, seen: set[object]) -> Iterator[ForgetfulDisk]:
        """Every disk that a crash now may leave and that is not in `seen` yet, each with nothing pending."""
        for kept in _subsets(self._pending(), chance):
            names = self._names_after(kept)
            reachable = _reachable(names)
            files = [n for n in reachable if isinstance(self.nodes[n], Inode)]
            for contents in itertools.product(*(self._contents_after(n) for n in files)):
                key = (
                    tuple((n, tuple(sorted(names[n].items()))) for n in reachable if n in names),
                    contents,
                )
                if key not in seen:
                    seen.add(key)
                    yield self._remade(names, dict(zip(files, contents, strict=True)))

    def after_a_crash(self, chance: random.Random) -> ForgetfulDisk:
        """One of these disks, at random."""
        kept = frozenset(change for change in self._pending() if chance.random() < 0.5)
        names = self._names_after(kept)
        files = [n for n in _reachable(names) if isinstance(self.nodes[n], Inode)]
        return self._remade(names, {n: chance.choice(self._contents_after(n)) for n in files})

    def _pending(self) -> list[tuple[int, int]]:
        folders = ((n, node) for n, node in self.nodes.items() if isinstance(node, Folder))
        return [(n, i) for n, folder in folders for i in range(len(folder.pending))]

    def _names_after(self, kept: frozenset[tuple[int, int]]) -> dict[int, dict[str, int]]:
        after = {}
        for number, folder in self.nodes.items():
            if isinstance(folder, Folder):
                names: dict[str, int | None] = dict(folder.synced)
                for i, changes in enumerate(folder.pending):
                    names.update(changes if (number, i) in kept else {})
                after[number] = {name: n for name, n in names.items() if n is not None}
        return after

    def _contents_after(self, number: int) -> list[Content]:
        inode = self.nodes[number]
        assert isinstance(inode, Inode)
        now = inode.now
        if now == inode.synced:
            return [now]
        safe, new = now.data[: inode.untouched], now.data[inode.untouched :]
        lost = [
            replace(now, data=safe + data) for data in (b"", bytes(len(new)), new[: len(new) // 2])
        ]
        return list(dict.fromkeys([now, inode.synced or Content(), *lost]))

    def _remade(
        self, names: dict[int, dict[str, int]], contents: dict[int, Content]
    ) -> ForgetfulDisk:
        other = ForgetfulDisk()
        other.clock = self.clock + 10**9
        for n in _reachable(names):
            old = self.nodes[n]
            if isinstance(old, Folder):
                other.nodes[n] = Folder(dict(names[n]), dict(names[n]))
            else:
                other.nodes[n] = Inode(
                    contents[n], contents[n], old.ctime_ns, len(contents[n].data)
                )
        return other

    # Plumbing

    def _tick(self) -> int:
        self.clock += 1
        return self.clock

    def _new(self, node: Node) -> int:
        number = max(self.nodes) + 1
        self.nodes[number] = node
        return number

    def _number(self, path: Path) -> int | None:
        if path not in self.found:
            self.found[path] = self._walk(path)
        return self.found[path]

    def _walk(self, path: Path) -> int | None:
        number: int | None = 1
        for part in path.parts[1:]:
            folder = self.nodes.get(number or 0)
            number = folder.now.get(part) if isinstance(folder, Folder) else None
        return number

    def _node(self, path: Path) -> Node:
        number = self._number(path)
        if number is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
        return self.nodes[number]

    def _inode(self, path: Path) -> Inode:
        node = self._node(path)
        assert isinstance(node, Inode)
        return node

    def _folder(self, path: Path) -> Folder:
        node = self._node(path)
        assert isinstance(node, Folder)
        return node

    def _keep(self, path: Path, size: int) -> None:
        """From here on a crash may lose all but the first `size` bytes, if they were synced."""
        inode = self._inode(path)
        inode.untouched = min(size, inode.untouched)

    def _touch(self, path: Path, **changes: object) -> None:
        inode = self._inode(path)
        inode.now = replace(inode.now, **changes)  # type: ignore[arg-type]
        inode.ctime_ns = self._tick()

    def _name(self, path: Path, number: int) -> None:
        self._change(path.parent, {path.name: number})

    def _change(self, directory: Path, names: dict[str, int | None]) -> None:
        folder = self._folder(directory)
        folder.pending.append(names)
        self.found.clear()
        for name, number in names.items():
            if number is None:
                folder.now.pop(name, None)
            else:
                folder.now[name] = number


def _reachable(names: dict[int, dict[str, int]]) -> list[int]:
    found, todo = [], [1]
    while todo:
        number = todo.pop()
        if number not in found:
            found.append(number)
            todo.extend(names.get(number, {}).values())
    return found


def _subsets(
    pending: list[tuple[int, int]], chance: random.Random
) -> Iterator[frozenset[tuple[int, int]]]:
    """All subsets of a few; of many: all prefixes, all but one, only one, and sixty at random."""
    if len(pending) <= SUBSETS:
        for size in range(len(pending) + 1):
            yield from map(frozenset, itertools.combinations(pending, size))
        return
    for i in range(len(pending)):
        yield frozenset(pending[:i])
        yield frozenset(pending[:i] + pending[i + 1 :])
        yield frozenset([pending[i]])
    yield frozenset(pending)
    for _ in range(60):
        yield frozenset(p for p in pending if chance.random() < 0.5)
