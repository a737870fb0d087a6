"""What a campaign does to a directory: one change to one file, drawn at random and written down in full.

A Change holds everything that is needed to repeat it, so that an input that once failed stays the same input when the
draw changes.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import crc32c

from tools.campaign.corpus import Root, kind_of, link_tree

Args = list[Any]
EXTREMES: Final = (
    0,
    1,
    -1,
    2**31 - 1,
    -(2**31),
    2**31,
    2**63 - 1,
    2**63 - 2,
    -(2**63),
    -2,
    127,
    255,
    65535,
)
_V2_FIELDS: Final = {
    "base_offset": (0, "q"),
    "length": (8, "i"),
    "leader_epoch": (12, "i"),
    "magic": (16, "b"),
    "attributes": (21, "h"),
    "last_offset_delta": (23, "i"),
    "base_timestamp": (27, "q"),
    "max_timestamp": (35, "q"),
    "producer_id": (43, "q"),
    "producer_epoch": (51, "h"),
    "base_sequence": (53, "i"),
    "record_count": (57, "i"),
}
_V1_FIELDS: Final = {
    "base_offset": (0, "q"),
    "length": (8, "i"),
    "magic": (16, "b"),
    "attributes": (17, "b"),
    "timestamp": (18, "q"),
    "key_length": (26, "i"),
}
_V0_FIELDS: Final = {
    "base_offset": (0, "q"),
    "length": (8, "i"),
    "magic": (16, "b"),
    "attributes": (17, "b"),
    "key_length": (18, "i"),
}
_SNAPSHOT_CRC: Final = (2, 6)
"""Where a producer snapshot has its checksum, and from where it counts."""
_NUMBER: Final = re.compile(rb"-?\d+")
SPECIAL: Final = ("fifo", "directory", "dangling link", "link to itself", "socket", "unreadable")


class Change(NamedTuple):
    """`mutation` of the file `file` (or the partition directory) of the small root `root`."""

    root: str
    file: str
    mutation: str
    args: Args

    @property
    def kind(self) -> str:
        return kind_of(self.file) or "partition directory"


Draw = Callable[[Random, Root, str], "Args | None"]
Do = Callable[[Path, Args], None]


def _bits(rng: Random, root: Root, file: str) -> Args | None:
    size = (root.path / file).stat().st_size
    if not size:
        return None
    used = _used(root.path / file)
    return [
        [rng.randrange(used), 1 << rng.randrange(8)] for _ in range(rng.choice((1, 1, 1, 2, 8)))
    ]


def _do_bits(path: Path, args: Args) -> None:
    data = bytearray(path.read_bytes())
    for position, mask in args:
        data[position] ^= mask
    _put(path, data)


def _cut(rng: Random, root: Root, file: str) -> Args | None:
    used = _used(root.path / file)
    if not used:
        return None
    ends = borders(root.path / file) if file.endswith(".log") and rng.random() < 0.4 else []
    return [rng.choice(ends) if ends else rng.randrange(used)]


def _do_cut(path: Path, args: Args) -> None:
    _put(path, path.read_bytes()[: args[0]])


def _zeros(rng: Random, root: Root, file: str) -> Args | None:
    used = _used(root.path / file)
    if not used:
        return None
    begin = rng.randrange(used)
    to_end = rng.random() < 0.5
    return [
        begin,
        used if to_end else min(used, begin + rng.choice((1, 4, 8, 12, 64, 512))),
        rng.choice((0, 0, 4096)),
    ]


def _do_zeros(path: Path, args: Args) -> None:
    begin, end, more = args
    data = bytearray(path.read_bytes())
    data[begin:end] = bytes(end - begin)
    _put(path, data + bytes(more))


def _field(rng: Random, root: Root, file: str) -> Args | None:
    """One field of the format set to an extreme value, with the checksum made right."""
    data = (root.path / file).read_bytes()
    if file.endswith(".log"):
        at = rng.choice(borders(root.path / file) or [0])
        if len(data) < at + 34:
            return None
        fields = {0: _V0_FIELDS, 1: _V1_FIELDS}.get(data[at + 16], _V2_FIELDS)
        name = rng.choice(sorted(fields))
        position, code = fields[name]
        if len(data) < at + position + struct.calcsize(code):
            return None
        value = _near(rng, struct.unpack_from(">" + code, data, at + position)[0])
        return [at, position, code, value]
    if file.endswith((".index", ".timeindex", ".txnindex", ".snapshot")):
        code = rng.choice("iq")
        used = _used(root.path / file)
        if used < struct.calcsize(code):
            return None
        position = rng.randrange(0, used - struct.calcsize(code) + 1, 2)
        return [-1, position, code, _near(rng, struct.unpack_from(">" + code, data, position)[0])]
    return _number(rng, data)


def _number(rng: Random, data: bytes) -> Args | None:
    """One number of a text file replaced by another one."""
    numbers = _NUMBER.findall(data)
    if not numbers:
        return None
    chosen = rng.randrange(len(numbers))
    return [-2, chosen, "", _near(rng, int(numbers[chosen]))]


def _do_field(path: Path, args: Args) -> None:
    at, position, code, value = args
    data = bytearray(path.read_bytes())
    if at == -2:
        begin, end = list(_NUMBER.finditer(data))[position].span()
        data[begin:end] = str(value).encode()
        return _put(path, data)
    bits = 8 * struct.calcsize(code)
    wrapped = (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
    struct.pack_into(">" + code, data, max(at, 0) + position, wrapped)
    if at >= 0:
        _seal(data, at)
    elif path.suffix == ".snapshot" and len(data) >= _SNAPSHOT_CRC[1]:
        crc, covered = _SNAPSHOT_CRC
        struct.pack_into(">I", data, crc, crc32c.crc32c(bytes(data[covered:])))
    return _put(path, data)


def _seal(data: bytearray, at: int) -> None:
    """Make the checksum of the frame at `at` right, if its length is still possible."""
    (size,) = struct.unpack_from(">i", data, at + 8)
    end = at + 12 + size
    if size < 14 or end > len(data):
        return
    if data[at + 16] >= 2:
        struct.pack_into(">I", data, at + 17, crc32c.crc32c(bytes(data[at + 21 : end])))
    else:
        struct.pack_into(">I", data, at + 12, zlib.crc32(bytes(data[at + 16 : end])))


def _swap(rng: Random, root: Root, file: str) -> Args | None:
    """The file of another partition in its place."""
    name = file.rpartition("/")[2]
    same = [other for other in root.files if other != file and kind_of(other) == kind_of(file)]
    exact = [other for other in same if other.rpartition("/")[2] == name]
    chosen = exact if exact and rng.random() < 0.7 else same
    return [rng.choice(chosen)] if chosen else None


def _special(rng: Random, root: Root, file: str) -> Args | None:
    return [rng.choice(SPECIAL)]


def _do_special(path: Path, args: Args) -> None:
    what = args[0]
    path.unlink()
    if what == "fifo":
        os.mkfifo(path)
    elif what == "directory":
        path.mkdir()
    elif what == "dangling link":
        path.symlink_to("nowhere")
    elif what == "link to itself":
        path.symlink_to(path.name)
    elif what == "socket":
        here = Path.cwd()
        os.chdir(path.parent)
        try:
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(path.name)
        finally:
            os.chdir(here)
    else:
        path.write_bytes(b"")
        path.chmod(0)


def _always(rng: Random, root: Root, file: str) -> Args | None:
    return []


def _garbage(rng: Random, root: Root, file: str) -> Args | None:
    return [rng.randbytes(rng.choice((1, 7, 12, 61, 300))).hex()]


def _do_garbage(path: Path, args: Args) -> None:
    _put(path, path.read_bytes() + bytes.fromhex(args[0]))


FILE_MUTATIONS: Final[dict[str, tuple[Draw, Do]]] = {
    "bits": (_bits, _do_bits),
    "cut": (_cut, _do_cut),
    "zeros": (_zeros, _do_zeros),
    "field": (_field, _do_field),
    "swap": (_swap, lambda path, args: _put(path, Path(args[0]).read_bytes())),
    "special file": (_special, _do_special),
    "removed": (_always, lambda path, args: path.unlink()),
    "emptied": (_always, lambda path, args: _put(path, b"")),
    "more bytes": (_garbage, _do_garbage),
}


def _files_of(path: Path) -> list[Path]:
    return sorted(p for p in path.rglob("*") if p.is_file())


def _empty_files(path: Path, args: Args) -> None:
    for file in _files_of(path):
        _put(file, b"")


def _remove_files(path: Path, args: Args) -> None:
    for file in _files_of(path):
        file.unlink()


def _remove_tree(path: Path, args: Args) -> None:
    _remove_files(path, args)
    for folder in sorted((p for p in path.rglob("*") if p.is_dir()), reverse=True):
        folder.rmdir()
    path.rmdir()


def _bases(root: Root, partition: str) -> list[str]:
    return sorted({
        Path(f).stem for f in root.files if f.startswith(f"{partition}/") and f.endswith(".log")
    })


def segments_of(root: Root, partition: str) -> int:
    """How many segments a partition directory of a root has."""
    return len(_bases(root, partition))


def _family(which: int) -> Draw:
    def draw(rng: Random, root: Root, file: str) -> Args | None:
        bases = _bases(root, file)
        return [bases[which]] if len(bases) > 1 else None

    return draw


def _middle(rng: Random, root: Root, file: str) -> Args | None:
    bases = _bases(root, file)[1:-1]
    return [rng.choice(bases)] if bases else None


def _remove_family(path: Path, args: Args) -> None:
    for file in _files_of(path):
        if file.stem == args[0]:
            file.unlink()


def _other_partition(rng: Random, root: Root, file: str) -> Args | None:
    others = [other for other in root.partitions if other != file]
    return [rng.choice(others)] if others else None


def _exchange(path: Path, args: Args) -> None:
    other, between = path.parent / args[0], path.parent / "between"
    path.rename(between)
    other.rename(path)
    between.rename(other)


def _file_in_place(path: Path, args: Args) -> None:
    _remove_tree(path, args)
    path.write_bytes(b"")


DIRECTORY_MUTATIONS: Final[dict[str, tuple[Draw, Do]]] = {
    "removed": (_always, _remove_tree),
    "emptied": (_always, _remove_files),
    "files emptied": (_always, _empty_files),
    "first segment removed": (_family(0), _remove_family),
    "middle segment removed": (_middle, _remove_family),
    "last segment removed": (_family(-1), _remove_family),
    "swap": (_other_partition, _exchange),
    "special file": (_always, _file_in_place),
}


def draw(rng: Random, root: Root, file: str, mutation: str) -> Change | None:
    """A change of that kind; None where it would change nothing."""
    table = FILE_MUTATIONS if kind_of(file) else DIRECTORY_MUTATIONS
    args = table[mutation][0](rng, root, file)
    return None if args is None else Change(root.name, file, mutation, args)


def make(change: Change, root: Root, to: Path) -> None:
    """The changed root at `to`, which does not exist yet. Unchanged files are hard links to the untouched ones."""
    link_tree(root.path, to)
    of_file = kind_of(change.file) is not None
    table = FILE_MUTATIONS if of_file else DIRECTORY_MUTATIONS
    args = [root.path / change.args[0]] if of_file and change.mutation == "swap" else change.args
    table[change.mutation][1](to / change.file, args)


def _put(path: Path, data: bytes | bytearray) -> None:
    """New content in a new file with the old one's times: the old one is everybody's."""
    stat = path.stat()
    path.unlink()
    path.write_bytes(data)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def _near(rng: Random, value: int) -> int:
    return rng.choice((value + 1, value - 1, value + rng.randrange(1, 1000), -value, *EXTREMES))


def _used(path: Path) -> int:
    """Bytes up to the last that is not zero: preallocated indexes are 10 MiB of nothing."""
    data = path.read_bytes()
    return min(len(data), len(data.rstrip(b"\0")) + 64)


def borders(path: Path) -> list[int]:
    """Where the frames of a log begin."""
    data, at, found = path.read_bytes(), 0, []
    while len(data) - at >= 18:
        found.append(at)
        (size,) = struct.unpack_from(">i", data, at + 8)
        if size < 14 or at + 12 + size > len(data):
            break
        at += 12 + size
    return found
