"""How many bytes of files the kernel has in its page cache; make it read or forget them."""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def drop(files: Iterable[Path]) -> None:
    """Write files to the disk, and drop their pages."""
    for path in files:
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def fill(files: Iterable[Path]) -> None:
    """Read files into the page cache."""
    for path in files:
        with path.open("rb") as file, open(os.devnull, "wb") as nothing:
            shutil.copyfileobj(file, nothing, 1 << 20)


def cached(files: Iterable[Path]) -> int:
    """Return the bytes of files that are in the page cache (mincore). Raises OSError."""
    return sum(map(_cached, files))


def _cached(path: Path) -> int:
    size = path.stat().st_size
    if not size:
        return 0
    with path.open("rb") as file, mmap.mmap(file.fileno(), size, mmap.MAP_PRIVATE) as view:
        pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
        whole = (ctypes.c_char * size).from_buffer(view)
        try:
            address = ctypes.c_void_p(ctypes.addressof(whole))
            if _LIBC.mincore(address, ctypes.c_size_t(size), pages):
                raise OSError(ctypes.get_errno(), "mincore", str(path))
        finally:
            del whole, address
        return min(size, mmap.PAGESIZE * sum(page & 1 for page in pages))
