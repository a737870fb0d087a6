"""Lists what a first command reads of the self-contained folder, for `read_ahead` of tools/start.c.

    FOLDER/python tools/read_ahead.py FOLDER LOG_DIR     writes FOLDER/lib/read-ahead

Lines of "offset length file": the pages of libraries that `kafkats verify LOG_DIR` has touched, and whole bytecode files. A third
of the libraries' bytes is touched, and page faults would read most of the rest, too.
"""

from __future__ import annotations

import atexit
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PAGE: Final = 4096
_PRESENT: Final = 1 << 63
_NEAR: Final = 16
"""Pages between two parts that are read as one."""


def touched(home: Path) -> Iterator[tuple[int, int, Path]]:
    """Yield the parts of mapped files in `home` whose pages this process has: offset, length, file."""
    with Path("/proc/self/pagemap").open("rb", buffering=0) as pages:
        for line in Path("/proc/self/maps").read_text().splitlines():
            addresses, _mode, offset, _device, _inode, *name = line.split(maxsplit=5)
            if not name or not name[0].startswith(f"{home}/"):
                continue
            begin, end = (int(address, 16) for address in addresses.split("-"))
            count = (end - begin) // _PAGE
            pages.seek(begin // _PAGE * 8)
            entries = struct.unpack(f"<{count}Q", pages.read(count * 8))
            present = [n for n, entry in enumerate(entries) if entry & _PRESENT]
            for first, last in _runs(present):
                at = int(offset, 16) + first * _PAGE
                yield at, (last - first + 1) * _PAGE, Path(name[0])


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of numbers that follow each other closely."""
    first = 0
    for n in range(1, len(numbers) + 1):
        if n == len(numbers) or numbers[n] - numbers[n - 1] > _NEAR:
            yield numbers[first], numbers[n - 1]
            first = n


def lines(home: Path) -> list[str]:
    """Return the lines for what this process has read in the folder `home`."""
    parts = [*touched(home)]
    modules = (getattr(module, "__cached__", None) for module in [*sys.modules.values()])
    parts += [(0, 0, path) for one in modules if one and (path := Path(one)).is_relative_to(home)]
    return [f"{offset} {length} {path.relative_to(home)}" for offset, length, path in parts]


def write(home: Path) -> None:
    """Write the list into the folder `home`."""
    (home / "lib" / "read-ahead").write_text("\n".join([*lines(home), ""]))


if __name__ == "__main__":
    from kafkats.__main__ import main

    atexit.register(write, Path(sys.argv[1]).resolve())
    sys.argv = ["kafkats", "verify", sys.argv[2]]
    main()
