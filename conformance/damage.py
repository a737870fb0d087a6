"""Ways in which a hard failure, a full disk or a helping hand leaves index files, done to a copy of a real directory."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from pathlib import Path


def _remove(path: Path) -> None:
    path.unlink()


def _empty(path: Path) -> None:
    os.truncate(path, 0)


def _half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _odd(path: Path) -> None:
    os.truncate(path, max(path.stat().st_size - 5, 0))


def _padded(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 24 * 24 + 2400)


def _zeros(path: Path) -> None:
    size = path.stat().st_size
    os.truncate(path, 0)
    os.truncate(path, max(size, 240))


def _shifted(path: Path) -> None:
    path.write_bytes(path.read_bytes()[4:])


def _noise(path: Path) -> None:
    size = max(path.stat().st_size, 24)
    path.write_bytes((zlib.crc32(path.name.encode()).to_bytes(4, "big") * size)[:size])


WAYS: dict[str, Callable[[Path], None]] = {
    way.__name__.strip("_"): way
    for way in (_remove, _empty, _half, _odd, _padded, _zeros, _shifted, _noise)
}


def damage_indexes(partition: Path) -> dict[str, int]:
    """Damage every `.index` and `.timeindex` of a partition directory, each in a way that its name picks; counts per way.

    The same names are damaged alike in every run.
    """
    done: dict[str, int] = {}
    names = list(WAYS)
    for kind in ("index", "timeindex"):
        for path in sorted(partition.glob(f"*.{kind}")):
            way = names[zlib.crc32(f"{partition.name}/{path.name}".encode()) % len(names)]
            WAYS[way](path)
            done[way] = done.get(way, 0) + 1
    return done
